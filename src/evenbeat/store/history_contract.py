"""The part of the store contract that bounds the size of history: packed runs, and summaries of hours and days.

A run that has ended is first kept as `Store.record` does it: as a row, or in a log. A node then packs such runs into
*parts*: many runs in the order of tasks, compressed. Later parts are merged into fewer, runs are left out as
`core.retention` says, and summaries take their place. A store decides nothing of that: it keeps what it is given, each
step as a whole or not at all, so that a crash at any moment neither loses a run nor shows one twice.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from evenbeat.model import Instant
from evenbeat.past_runs import PackedRun as PackedRun  # noqa: PLC0414 - part of the contract
from evenbeat.past_runs import PerfSummary as PerfSummary  # noqa: PLC0414
from evenbeat.past_runs import RunSummary as RunSummary  # noqa: PLC0414
from evenbeat.past_runs import Spread as Spread  # noqa: PLC0414


class Layer(StrEnum):
    """What a part holds."""

    RECENT = "recent"
    """All runs that ended within some minutes."""
    RUNS = "runs"
    """All runs that ended within an hour."""
    KEPT = "kept"
    """Of older runs, those kept for longer: changes of state, failures, forced ones, the last of rare tasks."""
    HOURS = "hours"
    """A summary per task and hour."""
    DAYS = "days"
    """A summary per task and day."""


RUN_LAYERS = (Layer.RECENT, Layer.RUNS, Layer.KEPT)
SUMMARY_LAYERS = (Layer.HOURS, Layer.DAYS)


class Part(NamedTuple):
    """One part of a layer, which readers see from the moment when it is complete until it is replaced."""

    number: int
    layer: Layer
    since: int
    """The beginning of the time that the part is about: an hour or a day; of a recent part, the hour in which its runs
    ended."""
    rows: int
    size: int
    """Bytes of its blocks."""
    first_claimed: int
    last_claimed: int
    """Of its runs; of summaries, the same as `since`."""
    is_merged: bool = False
    """Whether the part holds the runs or summaries of a whole day, and not those of an hour."""


class UnpackedRuns(NamedTuple):
    """The oldest runs that are not packed."""

    runs: Sequence[PackedRun]
    plain: int
    notable: int
    """The ids of the last row in each of the two tables; 0 for none."""
    ids: tuple[Sequence[int], Sequence[int]] = ((), ())
    """The ids of all of them, in each table, for a store whose ids are not in the order of commits."""
    records: Sequence[int] = ()
    """The ids of the records that hold them, for a store that logs runs together."""


class LayerSize(NamedTuple):
    """What a layer takes."""

    parts: int
    rows: int
    size: int


class StoreSize(NamedTuple):
    """What the database takes, in bytes."""

    size: int
    """All of it, free pages included."""
    free: int
    """Free pages within it."""
    unpacked: int
    """How many runs are not packed, about."""
    layers: dict[Layer, LayerSize]


class PartGone(Exception):
    """The step was made already, or by another node: its parts or rows are no longer there. Nothing was changed."""


@runtime_checkable
class LayeredHistory(Protocol):
    """A store whose history has layers. Optional: of another store, `Store.prune` alone bounds the history.

    `Store.runs`, `Store.starts`, `Store.whole_output` and `task_snapshot` read packed runs and others alike: packing
    changes no answer.
    """

    # Packing: each of these is one commit

    def unpacked(self, most: int) -> UnpackedRuns:
        """The oldest runs that ended and are not packed, in no order: `most`, or all if there are fewer.

        There may be more if some of them were recorded together.
        """

    def pack(self, unpacked: UnpackedRuns, since: Sequence[tuple[int, Sequence[PackedRun]]]) -> None:
        """Replace these runs by one part of the layer RECENT per given hour; all runs of `unpacked` are in one of them.

        Raise PartGone if some of them are gone.
        """

    # Parts

    def parts(self, layer: Layer) -> list[Part]:
        """The complete parts of a layer, oldest first by `since`, then by number."""

    def part_runs(self, part: int) -> Iterator[Sequence[PackedRun]]:
        """The runs of a part in their order, a block at a time; raise PartGone if there is no such part."""

    def part_summaries(self, part: int) -> Iterator[Sequence[RunSummary]]:
        """The summaries of a part in their order, a block at a time; raise PartGone if there is no such part."""

    def begin_part(self, layer: Layer, since: int, *, is_merged: bool = False) -> int:
        """Begin a part, which nobody reads until it is complete; return its number."""

    def add_runs(self, part: int, runs: Sequence[PackedRun]) -> None:
        """Add runs to a part that was begun, after all that it has; raise PartGone if it is gone."""

    def add_summaries(self, part: int, summaries: Sequence[RunSummary]) -> None:
        """Add summaries to a part that was begun, after all that it has; raise PartGone if it is gone."""

    def complete(self, parts: Sequence[int], instead_of: Sequence[int], gone: Sequence[tuple[int, int]] = ()) -> None:
        """In one commit: let these parts be read, and no longer those. A completed part without rows is dropped.

        `gone`: tasks and times of claims of runs that are in none of the layers any more; their whole outputs go too.

        Raise PartGone if one of the parts is gone.
        """

    def whole_outputs_between(self, since: int, until: int) -> list[tuple[int, int]]:
        """Of which runs, claimed from `since` to `until` inclusive, there are whole outputs: task and claim."""

    def discard_unfinished(self) -> None:
        """Drop parts that were begun and are not complete: those of a node that died."""

    def sweep(self, most: int) -> int:
        """Delete up to `most` blocks of parts that were dropped; return how many were deleted."""

    # Answers

    def summaries(self, task: int, layer: Layer, since: Instant, until: Instant) -> list[RunSummary]:
        """The summaries of a task for the hours or days that begin from `since` to before `until`, oldest first.

        There may be two for the same hour, if a clock was set back.
        """

    def size(self) -> StoreSize:
        """What the database takes now."""

    def give_back(self, most: int) -> int:
        """Return up to `most` bytes of free pages to the file system, as far as the database can; return how many."""
