"""What can be asked of a desk, as documents: the same from a terminal, a program or another process."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from evenbeat.model import Task
from evenbeat.node.desk import Changed, Desk
from evenbeat.node.moment import Moment
from evenbeat.node.status import Status
from evenbeat.store.contract import Filter


class Add(Struct, tag="add"):
    tasks: tuple[Task, ...]
    owner: str
    who: str


class Set(Struct, tag="set"):
    name: str
    task: Task
    who: str
    version: int | None = None


class Remove(Struct, tag="remove"):
    only: Filter
    who: str


class Pause(Struct, tag="pause"):
    only: Filter
    paused: bool
    who: str


class Force(Struct, tag="run"):
    names: tuple[str, ...]
    who: str
    wait: bool = False


class Apply(Struct, tag="apply"):
    files: tuple[str, ...]
    """None for those the node was started with."""
    who: str
    anew: bool = True


class Backup(Struct, tag="backup"):
    path: str


class AskStatus(Struct, tag="status"):
    pass


class AskMoment(Struct, tag="moment"):
    number: int


class Ended(Struct):
    """A forced run that was waited for."""

    task: str
    started: int
    ended: int
    outcome: str
    status: int | None
    output: str


class Reply(Struct, omit_defaults=True):
    """One of these, or what went wrong."""

    changed: Changed | None = None
    ended: list[Ended] | None = None
    status: Status | None = None
    moment: Moment | None = None
    problem: str = ""
    kind: str = ""
    """invalid, conflict, store: whose fault the problem is."""


Change = Add | Set | Remove | Pause | Apply
Request = Change | Force | Backup | AskStatus | AskMoment


def perform(desk: Desk, change: Change, files: Sequence[Path] = ()) -> Changed:
    """Do it at this desk; `files` are those of the node, for an `apply` that names none."""
    match change:
        case Add(tasks, owner, who):
            return desk.add(tasks, owner, who)
        case Set(name, task, who, version):
            return desk.set(name, task, who, version)
        case Remove(only, who):
            return desk.remove(only, who)
        case Pause(only, paused, who):
            return desk.pause(only, who, paused=paused)
        case Apply(named, who, anew):
            return desk.apply([Path(file) for file in named] or files, who, anew=anew)
