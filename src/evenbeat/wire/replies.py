"""Replies: what a node, or a database without one, answers to a request, and the errors that a reply can stand for."""

from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

from evenbeat.model import ArgumentValue, Downtime, Entry, Instant, Invalid, State
from evenbeat.store.contract import Conflict, StoreError
from evenbeat.wire.cluster_view import ClusterView
from evenbeat.wire.live_runs import LiveTaskState, OutputPart, RunningRuns
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
    downtime: Downtime | None = None
    """The downtime that was set or ended."""


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
    number: int = 0
    """The number of its task ..."""
    claimed: int = 0
    """... and when the run was claimed; 0 from a node of before."""


class StopFound(StrEnum):
    """What a request to stop a task has found."""

    RUN = "run"
    """A run under way, which ends now."""
    FORCED = "forced"
    """A forced run that waited, which was withdrawn."""
    RETRY = "retry"
    """A retry that was planned, which was withdrawn."""
    NOTHING = "nothing"


class StoppedRun(Struct):
    """What became of one task that was to be stopped."""

    task: str
    found: StopFound
    run: EndedRun | None = None
    """How the run has ended, if the caller waited for that."""


class ChangedCursor(Struct):
    """Where the next run of a task goes on, and where it would have gone on before."""

    task: str
    before: ArgumentValue
    cursor: ArgumentValue


class AcceptedResult(Struct):
    """The state of a check after a submitted result."""

    task: str
    state: State
    hard: bool
    attempt: int
    is_newest: bool
    """False if the node knew a newer result: then this one has changed nothing."""


class ContactTestOutcome(Struct, frozen=True):
    """What became of the test message to one place of a contact."""

    kind: Literal["send", "webhook", "command", "email"]
    shown: str
    """The place, without secrets."""
    is_delivered: bool
    error: str = ""
    """Why it was not delivered, without secrets."""
    detail: str = ""
    """What the receiver answered."""


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
    tested: list[ContactTestOutcome] | None = None
    """Of each place of a contact."""
    output: OutputPart | None = None
    stopped: list[StoppedRun] | None = None
    token: str = ""
    problem: str = ""
    """Why the request was refused or failed."""
    kind: str = ""
    """invalid, conflict, missing, forbidden or store: which error `problem` stands for."""
    page: str = ""
    """Beside `token`: the URL at which a node serves the API, empty if none does."""
    cursor: ChangedCursor | None = None
    unable: list[int] | None = None
    """The numbers of checks that cannot run now."""


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
