"""What a live node publishes: runs that ended and tasks that changed, as documents."""

from msgspec import Struct

from evenbeat.model import Instant, Outcome, RunKind, State
from evenbeat.wire.status import Status


class WaitingRetry(Struct, frozen=True):
    """A task whose run has failed tries again."""

    attempt: int
    """Which attempt that will be ..."""
    attempts: int
    """... of how many at most."""
    at: Instant


class RunEvent(Struct, frozen=True, tag="run"):
    """A run has ended."""

    task: str
    nominal: Instant
    kind: RunKind
    started: Instant
    ended: Instant
    outcome: Outcome
    status: int | None
    state: State | None
    """Of a check: its state after the run."""
    hard: bool
    attempt: int
    flapping: bool
    output: str
    """The line of it that says most."""
    notable: bool
    next: Instant | None = None
    """When its task is due next; None: it is paused, removed, or no time is left."""
    newest: bool = True
    """False if a newer result was known: outcome and output of the task stay those of that one."""
    number: int = 0
    """Of the task: another task may have had its name before."""
    retry: WaitingRetry | None = None
    """None if nothing is tried again."""


class TaskEvent(Struct, frozen=True, tag="task"):
    """A task was created, changed or removed, entered or left a downtime, or somebody acted on its problem."""

    name: str | None
    """None if many tasks changed at once."""
    change: str
    """created, changed, removed; downtime; acknowledged, unacknowledged, commented; many."""
    count: int = 1
    next: Instant | None = None
    """When it is due next, as in `RunEvent`; None also for many at once."""


Event = RunEvent | TaskEvent


class EventMessage(Struct):
    """What the node publishes at one time."""

    boot: str
    """A random word of this start of the node; another one begins to count anew."""
    seq: int
    """The number of the last event; they are numbered one by one. Where numbers are left out, events were."""
    events: list[Event] = []
    status: Status | None = None
    """Sent once a second."""
    started_last_second: int | None = None
    """Runs; sent with the status."""
