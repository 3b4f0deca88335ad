"""Segments, measured: one second of the timetable beside heapq loops and bare numpy doing the same work."""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from evenbeat.bench.measure import Comparison, Contender, compare_in_pairs
from evenbeat.bench.segment_loops import EvenbeatWalker, HeapWalker, NumpyWalker, PackedHeapWalker, SegmentWalker
from evenbeat.model import HOUR, MINUTE, SECOND

_TASKS: Final = 1_000_000
_WARM_UP: Final = 10
"""Segments until the timetable has found how far to look ahead."""


class IntervalMix(NamedTuple):
    """Intervals that tasks have in turn, and over how many segments they are measured."""

    name: str
    intervals: tuple[int, ...]
    segments: int


DENSE: Final = IntervalMix("10s_1h", (10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR), 20)
MIDDLE: Final = IntervalMix("5m_1h", (5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR), 100)
SPARSE: Final = IntervalMix("1h", (HOUR,), 450)
"""Long enough for two scans of the whole column, or their cost would be missed."""

_BASELINES: Final[dict[str, tuple[str, type[SegmentWalker]]]] = {
    "heapq": ("heapq loop", HeapWalker),
    "packed_heapq": ("heapq loop, packed keys", PackedHeapWalker),
    "numpy": ("bare numpy", NumpyWalker),
}


def comparisons(pairs: int) -> Iterator[tuple[str, Comparison]]:
    """Every mix beside every baseline."""
    for mix in (DENSE, MIDDLE, SPARSE):
        for key, (label, baseline) in _BASELINES.items():
            yield f"segment_{mix.name}_{key}", compare_with(mix, _TASKS, label, baseline, pairs)


def compare_with(mix: IntervalMix, tasks: int, label: str, baseline: type[SegmentWalker], pairs: int) -> Comparison:
    """Segments per second, ours and theirs; both walk through the same ones."""
    title = f"Segment: a second of {tasks:,} tasks, intervals {mix.name.replace('_', ' to ')}"
    sides = [(name, side(tasks, mix.intervals)) for name, side in (("evenbeat", EvenbeatWalker), (label, baseline))]
    for _, walker in sides:
        walker.walk(_WARM_UP)
    ours, theirs = (Contender(name, partial(walker.walk, mix.segments), mix.segments) for name, walker in sides)
    return compare_in_pairs(title, ours, theirs, pairs)
