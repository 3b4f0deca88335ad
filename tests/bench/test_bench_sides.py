import pytest

from evenbeat.bench.segment import DENSE, MIDDLE, IntervalMix
from evenbeat.bench.segment_loops import EvenbeatWalker, HeapWalker, NumpyWalker, PackedHeapWalker, SegmentWalker
from evenbeat.model import SECOND

_CLOSE = IntervalMix("1s", (SECOND, 2 * SECOND), 1)


@pytest.mark.parametrize("baseline", [HeapWalker, PackedHeapWalker, NumpyWalker])
@pytest.mark.parametrize("mix", [_CLOSE, DENSE, MIDDLE])
def test_a_baseline_does_the_same_work_in_every_segment(baseline: type[SegmentWalker], mix: IntervalMix) -> None:
    ours, theirs = EvenbeatWalker(3_000, mix.intervals), baseline(3_000, mix.intervals)
    for _ in range(30):
        ours.walk(1)
        theirs.walk(1)
        assert theirs.runs == ours.runs
    assert ours.runs > 0


def test_the_gate_has_something_to_refuse() -> None:
    ours = EvenbeatWalker(1_000, [SECOND])
    ours.walk(1)
    assert ours.runs == 980
