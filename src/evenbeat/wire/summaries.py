"""The summaries of a task's runs, as documents."""

from typing import Literal

from msgspec import Struct

from evenbeat.wire.documents import TimestampText

SummaryLength = Literal["hour", "day"]


class SpreadDocument(Struct, frozen=True):
    """Durations or latenesses, in seconds. Of a day, p50 and p99 are estimates from those of its hours."""

    p50: float
    p99: float
    max: float


class SeriesDocument(Struct, frozen=True):
    """One series of performance data."""

    label: str
    unit: str
    count: int
    min: float
    mean: float
    max: float


class SummaryDocument(Struct, frozen=True):
    """The runs that ended within an hour or a day."""

    since: TimestampText
    """The beginning of the hour or day, in UTC."""
    runs: int
    outcomes: dict[str, int]
    """How many ended with each outcome."""
    states: dict[str, int]
    """How many results gave the check each state."""
    duration: SpreadDocument
    lateness: SpreadDocument
    """From the nominal time to the start, of runs on the grid."""
    series: list[SeriesDocument]
    """Up to 8 series of performance data."""
    complete: bool = True
    """False for the present hour or day."""


class Summaries(Struct, frozen=True):
    """The summaries of a task, oldest first; hours and days without runs are left out."""

    task: str
    by: SummaryLength
    layer: str
    """Where the older ones come from: hours or days, or runs if nothing is summarized."""
    runs_since: TimestampText
    """Every run is kept that ended since then; of older ones there are these summaries, and some of the runs."""
    summaries: list[SummaryDocument]
