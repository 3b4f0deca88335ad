"""What is kept of runs that ended long ago: packed runs, and summaries of the runs of a task in an hour or a day."""

from typing import Final, NamedTuple

PLAIN_OUTPUT_LENGTH: Final = 200
"""Characters of output that history keeps of a plain success. Other runs, and the latest one, keep all their output."""


class PackedRun(NamedTuple):
    """A run that has ended. Parts hold runs in the order of (task, claimed, ended)."""

    task: int
    claimed: int
    ended: int
    nominal: int
    generation: int
    kind: int
    started: int
    outcome: str
    status: int | None
    state: int
    """The state that this run gave its check; -1 if it gave none."""
    hard: bool
    attempt: int
    output: str
    notable: bool
    """Whether the run is more than a plain success: see `Finish`."""
    rare: bool = False
    """Whether its task ran so seldom in that hour that its last runs are kept, however old: see `core.retention`."""


class PerfSummary(NamedTuple):
    """One series of performance data."""

    label: str
    unit: str
    count: int  # type: ignore[assignment] # tuples have a method of this name
    min: float
    mean: float
    max: float


class Spread(NamedTuple):
    """Durations or latenesses, in microseconds."""

    p50: int
    p99: int
    max: int


class RunSummary(NamedTuple):
    """The runs of a task that ended in an hour or a day, added up. Parts hold them in the order of (task, since)."""

    task: int
    since: int
    """The beginning of the hour or day, in UTC."""
    runs: int
    outcomes: dict[str, int]
    """How many ended with each outcome."""
    states: dict[int, int]
    """How many results gave the check each state."""
    duration: Spread
    """Of runs that started."""
    lateness: Spread
    """Of runs on the grid: from the nominal time to the start."""
    series: tuple[PerfSummary, ...] = ()
