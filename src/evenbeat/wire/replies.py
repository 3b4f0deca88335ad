"""Replies: what a node, or a database without one, answers to a request, and the errors that a reply can stand for."""

from typing import Final

from msgspec import Struct

from evenbeat.model import Entry, Instant, Invalid, State
from evenbeat.store.contract import Conflict, StoreError
from evenbeat.wire.cluster_view import ClusterView
from evenbeat.wire.live_runs import LiveTaskState, RunningRuns
from evenbeat.wire.metrics import NodeMetrics
from evenbeat.wire.status import NodeIdentity, Status


class NotFound(Invalid):
    """There is no such task, period or heartbeat token."""


class Forbidden(Invalid):
    """An action that is refused to every caller, whatever their role."""


class HeldByOtherNode(Exception):
    """Another node of the cluster holds this task: the request must go there."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class ChangeResult(Struct):
    """What a change has changed: a live node takes it over, and people are told of it."""

    created: list[Entry] = []
    changed: list[Entry] = []
    removed: list[Entry] = []
    unchanged: int = 0
    settings: bool = False
    """Were periods, limits or settings of the node changed ..."""
    settings_at: Instant = Instant(0)
    """... and when?"""
    notices: list[str] = []
    """Further sentences for people."""


class Names(Struct):
    """What a change has changed, by name."""

    created: list[str] = []
    changed: list[str] = []
    removed: list[str] = []
    unchanged: int = 0
    settings: bool = False
    """Were periods, limits or settings of the node changed?"""
    files: list[str] = []
    """Files that own some of the removed tasks: each recreates them when it is next applied."""
    notices: list[str] = []
    """Further sentences for people."""


class AffectedTasks(Struct):
    """The tasks that an action by filter changed, removed or forced."""

    count: int
    names: list[str]
    """Of the first of them."""
    unchanged: int = 0
    """Tasks that match the filter and were in that state already."""
    files: list[str] = []
    """Files that own some of the tasks: each undoes the change when it is next applied."""


class ProblemsChanged(Struct):
    """The problems that were acknowledged or commented on."""

    ids: list[int]
    tasks: list[str]
    """The names of their tasks, each once."""


class EndedRun(Struct):
    """A forced run whose end the caller waited for."""

    task: str
    started: int
    ended: int
    outcome: str
    status: int | None
    output: str


class AcceptedResult(Struct):
    """The state of a check after a submitted result."""

    task: str
    state: State
    hard: bool
    attempt: int
    is_newest: bool
    """False if the node knew a newer result: then this one has changed nothing."""


class NewSignInLink(Struct, frozen=True):
    """A sign-in link that was just made."""

    token: str
    """The name of its token."""
    role: str
    expires: Instant
    page: str = ""
    """The URL that the link opens."""


class Reply(Struct, omit_defaults=True):
    """The one field that belongs to the request, or `problem` and `kind`."""

    changed: ChangeResult | None = None
    names: Names | None = None
    ended: list[EndedRun] | None = None
    waiting: dict[str, str] | None = None
    """Forced tasks that cannot start at once: what each waits for, by task name."""
    status: Status | None = None
    moment: LiveTaskState | None = None
    touched: AffectedTasks | None = None
    running: RunningRuns | None = None
    node: NodeIdentity | None = None
    numbers: NodeMetrics | None = None
    taken: AcceptedResult | None = None
    cluster: ClusterView | None = None
    link: NewSignInLink | None = None
    problems: ProblemsChanged | None = None
    token: str = ""
    problem: str = ""
    """Why the request was refused or failed."""
    kind: str = ""
    """invalid, conflict, missing, forbidden or store: which error `problem` stands for."""


_ERROR_OF_KIND: Final[dict[str, type[Exception]]] = {
    "conflict": Conflict,
    "missing": NotFound,
    "store": StoreError,
    "forbidden": Forbidden,
}


def raise_if_refused(reply: Reply) -> None:
    """Raise the error that the reply stands for, if it stands for one."""
    if reply.problem:
        raise _ERROR_OF_KIND.get(reply.kind, Invalid)(reply.problem)
