"""What can be asked of a desk, as documents: the same from a terminal, a program or another process."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from evenbeat.admin.command_permission import Forbidden, must_not_be_forged
from evenbeat.admin.file_owner import files_of
from evenbeat.admin.page_sessions import end_session, keep_session
from evenbeat.admin.sign_in_links import NewLink, add_link, use_link
from evenbeat.admin.task_admin import Changed, Desk
from evenbeat.admin.tokens import Token, add_token, remove_token
from evenbeat.core.scope import Scope
from evenbeat.load.config import Config
from evenbeat.model import MAX_EVERY, NAME_LIMIT, OUTPUT_LIMIT, Entry, Instant, Invalid, Name, Period, State, Task
from evenbeat.node.cluster.node_info import ClusterView
from evenbeat.report.metrics import Numbers
from evenbeat.report.status import Identity, Status
from evenbeat.report.task_now import Moment, Running
from evenbeat.store.contract import Conflict, Filter, StoreError

HERE: Final = "this machine"
"""Where something comes from that comes through the control socket."""
NAMED: Final = 100
"""Tasks whose names a short answer tells, unless more are asked for."""


class Add(Struct, tag="add"):
    tasks: tuple[Task, ...]
    owner: str
    who: str
    scope: Scope | None = None
    """To what the one who asks is limited."""


class Set(Struct, tag="set"):
    name: str
    task: Task
    who: str
    version: int | None = None


class Remove(Struct, tag="remove"):
    only: Filter
    who: str
    briefly: bool = False
    """Answer with `touched`, not with every task ..."""
    named: int = NAMED
    """... and name so many at most."""


class Pause(Struct, tag="pause"):
    only: Filter
    paused: bool
    who: str
    briefly: bool = False
    named: int = NAMED


class Force(Struct, tag="run"):
    names: tuple[str, ...]
    who: str
    wait: bool = False
    only: Filter | None = None
    """All that fit, beside those that are named."""
    named: int = NAMED
    """Of how many the answer tells the names."""
    is_passed_on: bool = False
    """By another node of the cluster: the audit knows of it already."""


class SetPeriods(Struct, tag="set-periods"):
    """New or other definitions; of those that are there, the owner stays."""

    periods: dict[Name, Period]
    who: str
    owner: str = "api"


class RemovePeriod(Struct, tag="remove-period"):
    """Refused with Conflict while a task or another period uses it."""

    name: str
    who: str


class SetSlots(Struct, tag="set-slots"):
    """So many runs at the same time, in a cluster of all nodes; None for what the command line or files say."""

    most: Annotated[int, Meta(ge=1, le=1_000_000)] | None
    who: str


class SetLimit(Struct, tag="set-limit"):
    """The same for a limit; refused if none has this name."""

    name: str
    most: Annotated[int, Meta(ge=1, le=1_000_000)] | None
    who: str


class SetToken(Struct, tag="set-token"):
    """A new token for the API; refused with Conflict if its name is taken."""

    id: Annotated[str, Meta(pattern=r"^[\w-]{8}\Z")]
    token: Token
    who: str


class RemoveToken(Struct, tag="remove-token"):
    name: str
    who: str


class MakeLink(Struct, tag="make-link"):
    """A link to sign in with; `Reply.link` says what it is good for. Whoever asks has drawn the code."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    who: str
    name: str | None = None
    """Of its token; None for the one that the node has made."""


class NoteSignIn(Struct, tag="note-sign-in"):
    """Somebody has begun a session with a token: for the audit."""

    name: str
    """Of the token."""
    who: str
    """From which address."""


class UseLink(Struct, tag="use-link"):
    """Somebody signs in; `Reply.token` has the id of the token, or nothing if the link is not good any more."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    who: str


class KeepSession(Struct, tag="keep-session"):
    """A session of the page has begun; it stands for the token with this id, in this life of a node or in all."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    token: str
    life: str = ""


class EndSession(Struct, tag="end-session"):
    """Somebody has signed out."""

    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Tell(Struct, tag="tell"):
    """The result of a check, passive or not. Refused: with Missing if there is no such task, with Conflict if it is no
    check.
    """

    name: str
    """Or its id."""
    status: Annotated[int, Meta(ge=0, le=3)]
    who: str
    output: Annotated[str, Meta(max_length=OUTPUT_LIMIT)] = ""
    perfdata: Annotated[str, Meta(max_length=OUTPUT_LIMIT)] = ""
    ttl: Annotated[int, Meta(ge=1, le=MAX_EVERY)] | None = None
    """Microseconds for which it is good: after them, without a newer one, the check is UNKNOWN."""
    at: Instant | None = None
    """When it was so, if not just now."""
    source: Annotated[str, Meta(max_length=NAME_LIMIT)] = HERE
    """From which address, for the audit."""


class Signal(StrEnum):
    """What a heartbeat says."""

    START = "start"
    SUCCESS = "success"
    FAIL = "fail"


class Beat(Struct, tag="beat"):
    """A heartbeat; refused with Missing if nobody has this token."""

    token: Annotated[str, Meta(max_length=NAME_LIMIT)]
    signal: Signal
    who: str
    output: Annotated[str, Meta(max_length=OUTPUT_LIMIT)] = ""
    source: Annotated[str, Meta(max_length=NAME_LIMIT)] = HERE


class NewBeat(Struct, tag="new-beat"):
    """A token for the heartbeat of a passive check, in place of the one it had; `Reply.token` has it, once."""

    name: str
    who: str


class DropBeat(Struct, tag="drop-beat"):
    """Refused with Missing if there is none."""

    name: str
    who: str


class Apply(Struct, tag="apply"):
    files: tuple[str, ...]
    """None for those the node was started with."""
    who: str
    anew: bool = True


class Declare(Struct, tag="declare"):
    """Make the tasks of these owners be what was read elsewhere, as `Apply` does for files of this machine."""

    configs: dict[str, Config]
    who: str


class Backup(Struct, tag="backup"):
    path: str


class AskStatus(Struct, tag="status"):
    pass


class AskMoment(Struct, tag="moment"):
    number: int


class AskRunning(Struct, tag="running"):
    most: Annotated[int, Meta(ge=0, le=10_000)] = 100


class AskNode(Struct, tag="node"):
    pass


class AskNumbers(Struct, tag="numbers"):
    pass


class AskCluster(Struct, tag="cluster"):
    """`Reply.cluster` has it; None from a node that is alone."""


class Watch(Struct, tag="watch"):
    """Not answered with a Reply: from now on the connection is a stream of `Feed` documents, one per line."""


class Ended(Struct):
    """A forced run that was waited for."""

    task: str
    started: int
    ended: int
    outcome: str
    status: int | None
    output: str


class Taken(Struct):
    """A result was told: how the check is now."""

    task: str
    state: State
    hard: bool
    attempt: int
    is_newest: bool
    """False if a newer one was known: then it has changed nothing."""


class Missing(Invalid):
    """Something is not there: no such task, nobody's token."""


class Elsewhere(Exception):
    """Another node of the cluster has this task, and is to be asked."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class Touched(Struct):
    """Which tasks an action by filter was about."""

    count: int
    """Of those that were changed, removed or forced ..."""
    names: list[str]
    """... and the names of the first of them."""
    unchanged: int = 0
    """Those that fit and were so already."""
    files: list[str] = []
    """That own some of them: each undoes the change when it is next applied."""


class Names(Struct):
    """What is different now, by name."""

    created: list[str] = []
    changed: list[str] = []
    removed: list[str] = []
    unchanged: int = 0
    settings: bool = False
    """Periods, limits or settings of the node."""
    files: list[str] = []
    """That own some of what was removed: each brings it back when it is next applied."""
    notices: list[str] = []
    """What people should know beside it."""


class Reply(Struct, omit_defaults=True):
    """One of these, or what went wrong."""

    changed: Changed | None = None
    names: Names | None = None
    ended: list[Ended] | None = None
    waiting: dict[str, str] | None = None
    """Of the forced tasks that cannot start at once: what each waits for, by its name."""
    status: Status | None = None
    moment: Moment | None = None
    touched: Touched | None = None
    running: Running | None = None
    node: Identity | None = None
    numbers: Numbers | None = None
    taken: Taken | None = None
    cluster: ClusterView | None = None
    link: NewLink | None = None
    token: str = ""
    problem: str = ""
    kind: str = ""
    """invalid, conflict, missing, forbidden, store: whose fault the problem is."""


Change = (
    Add
    | Set
    | Remove
    | Pause
    | SetPeriods
    | RemovePeriod
    | SetSlots
    | SetLimit
    | SetToken
    | RemoveToken
    | Apply
    | Declare
)
Ask = AskStatus | AskMoment | AskRunning | AskNode | AskNumbers | AskCluster
"""What only a live node can tell."""
Telling = Tell | Beat | NewBeat | DropBeat
"""What others tell a live node of checks."""
SignIn = MakeLink | UseLink | NoteSignIn | KeepSession | EndSession
"""What has to do with signing in to the page, which only a live node has."""
Request = Change | Force | Telling | SignIn | Backup | Ask | Watch


_REFUSALS: Final[dict[str, type[Exception]]] = {
    "conflict": Conflict,
    "missing": Missing,
    "store": StoreError,
    "forbidden": Forbidden,
}


def must_be_done(reply: Reply) -> None:
    """Raise what a node refused."""
    if reply.problem:
        raise _REFUSALS.get(reply.kind, Invalid)(reply.problem)


def touched(entries: Sequence[Entry], unchanged: int = 0, named: int = NAMED) -> Touched:
    """These, in a few words."""
    return Touched(len(entries), names_of(entries[:named]), unchanged, files_of(entries))


def signed_in(desk: Desk, request: SignIn, page: str) -> Reply:
    """Make or use a link to sign in with; begin or end a session."""
    match request:
        case MakeLink(digest, who, name):
            return Reply(link=add_link(desk, digest, name, who, page))
        case UseLink(digest, who):
            return Reply(token=use_link(desk, digest, who))
        case NoteSignIn(name, who):
            desk.note(f"token {name}", "signed in", who)
        case KeepSession(digest, token, life):
            keep_session(desk, digest, token, life)
        case EndSession(digest):
            end_session(desk, digest)
    return Reply()


def names_of(entries: Sequence[Entry]) -> list[str]:
    """What they are called."""
    return [entry.task.name for entry in entries]


def done(change: Change, changed: Changed) -> Reply:
    """The answer to a change, as long as was asked for."""
    match change:
        case Remove(briefly=True, named=named) | Pause(briefly=True, named=named):
            return Reply(touched=touched(changed.changed + changed.removed, changed.unchanged, named))
        case Declare():
            new, other, gone = (names_of(some) for some in (changed.created, changed.changed, changed.removed))
            names = Names(new, other, gone, changed.unchanged, changed.settings, notices=changed.notices)
            return Reply(names=names)
    return Reply(changed=changed)


def _owners_in(change: Change) -> Iterable[str]:
    """Whose tasks or periods it makes, as whoever asks says it."""
    match change:
        case Add(owner=owner) | SetPeriods(owner=owner):
            return (owner,)
        case Declare(configs):
            return configs
    return ()


def perform(desk: Desk, change: Change, files: Sequence[Path] = ()) -> Changed:
    """Do it at this desk; `files` are those of the node, for an `apply` that names none."""
    must_not_be_forged(*_owners_in(change))
    match change:
        case Add(tasks, owner, who, scope):
            return desk.add(tasks, owner, who, scope)
        case Set(name, task, who, version):
            return desk.set(name, task, who, version)
        case Remove(only, who):
            return desk.remove(only, who)
        case Pause(only, paused, who):
            return desk.pause(only, who, paused=paused)
        case SetPeriods(periods, who, owner):
            return desk.set_periods(periods, owner, who)
        case RemovePeriod(name, who):
            return desk.remove_period(name, who)
        case SetSlots(most, who):
            return desk.set_slots(most, who)
        case SetLimit(name, most, who):
            return desk.set_limit(name, most, who)
        case SetToken(id_, token, who):
            add_token(desk, id_, token, who)
            return Changed()
        case RemoveToken(name, who):
            remove_token(desk, name, who)
            return Changed()
        case Apply(named, who, anew):
            return desk.apply([Path(file) for file in named] or files, who, anew=anew)
        case Declare(configs, who):
            return desk.declare_together(configs, who)
