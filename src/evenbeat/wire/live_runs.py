"""What only a live node knows, as documents: which runs are claimed or running, and what one task waits for."""

from msgspec import Struct

from evenbeat.model import Instant, Outcome, RunKind


class LiveTaskState(Struct):
    """One task in a live node."""

    due: Instant | None
    """When its next run is due, or since when it waits; None if nothing is planned."""
    kind: RunKind
    waiting: str
    """What it waits for, in the words of `Reason`; empty if it does not wait."""
    pending: int
    slots: int
    is_untaken: bool = False
    """Its run is with the queue, and no worker has reported its start."""
    without_worker_for: float | None = None
    """Seconds for which its pool has had no worker; None if it has one."""
    is_claimed: bool = False
    """The node has claimed a run of it, even if the claim is not committed yet."""
    obstacles: list[str] = []
    """What keeps the node from executing any task."""
    deaths: int | None = None
    """How many workers in a row have died with its runs; None from a node that does not say."""
    stopping: str = ""
    """Who has asked to stop its run, and why: "stopped by ana"; empty if nobody has."""


class RunningRun(Struct, frozen=True):
    """A run that is claimed or running."""

    task: str
    nominal: Instant
    kind: RunKind
    claimed: Instant
    started: Instant | None
    """None until a worker reports its start: it was claimed a moment ago, or waits for a worker."""
    timebox: int | None
    """None: nothing ends it."""
    """Microseconds."""
    number: int = 0
    """The number of its task."""
    stopping: str = ""
    """As in `LiveTaskState`."""


class OutputPart(Struct, frozen=True):
    """What a run has written from a position on, and how it is."""

    now: Instant
    """By the clock of the node."""
    claimed: Instant | None
    """Identifies the run; None if there is none yet."""
    nominal: Instant | None = None
    kind: RunKind = RunKind.GRID
    started: Instant | None = None
    position: int = 0
    """Where the next part begins: bytes that the run has written up to here."""
    left_out: int = 0
    """Bytes between the position that was asked for and this text that are not kept."""
    text: str = ""
    ended: Instant | None = None
    """The run has ended, that is stored, and there is no further part."""
    outcome: Outcome | None = None
    status: int | None = None
    waiting: str = ""
    """Of a run that is waited for: what it waits for."""


class RunningRuns(Struct, frozen=True):
    """The runs of this moment, at most as many as were asked for, the oldest first."""

    runs: list[RunningRun]
    total: int
