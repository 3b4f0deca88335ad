"""Blocks of summaries hold what was packed, to the last bit of each number."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import HOUR
from evenbeat.store.common.int_columns import DamagedBlock
from evenbeat.store.common.summary_blocks import SummaryBlock, pack_summaries
from evenbeat.store.history_contract import PerfSummary, RunSummary, Spread
from evenbeat.testing.samples import T0

int64s = st.integers(-(1 << 63), (1 << 63) - 1)
numbers = st.integers(0, 1 << 40) | int64s
floats = st.floats() | st.integers(-500, 500).map(lambda n: n / 100)
spreads = st.builds(Spread, numbers, numbers, numbers)
series = st.builds(
    PerfSummary, st.sampled_from(["load1", "", "é"]), st.sampled_from(["", "s", "%"]), numbers, *[floats] * 3
)
summaries = st.builds(
    RunSummary,
    st.integers(1, 5),
    st.integers(0, 9).map(lambda n: T0 + n * HOUR) | int64s,
    st.integers(0, 9),
    st.dictionaries(st.sampled_from(["succeeded", "failed"]), st.integers(0, 9)),
    st.dictionaries(st.integers(0, 3), st.integers(0, 9)),
    spreads,
    spreads,
    st.lists(series, max_size=3).map(tuple),
)


def in_order(some: list[RunSummary]) -> list[RunSummary]:
    return sorted(some, key=lambda summary: summary[:2])


def exactly(some: list[RunSummary]) -> list[str]:
    """With -0.0 and not-a-number, which compare otherwise."""
    return [repr(summary) for summary in some]


@given(st.lists(summaries, max_size=20).map(in_order))
def test_they_hold_what_was_packed(some: list[RunSummary]) -> None:
    found = [summary for block in pack_summaries(some) for summary in SummaryBlock(block.body).summaries()]
    assert exactly(found) == exactly(some)


@given(st.lists(summaries, min_size=1, max_size=20).map(in_order), st.integers(-1, 9), st.integers(0, 9))
def test_those_of_a_task_and_a_time_are_read_from_them(some: list[RunSummary], first: int, last: int) -> None:
    (block,) = pack_summaries(some)
    since, until = T0 + first * HOUR, T0 + last * HOUR
    found = SummaryBlock(block.body).summaries_of(some[0].task, since, until)
    wanted = [summary for summary in some if summary.task == some[0].task and since <= summary.since < until]
    assert exactly(found) == exactly(wanted)
    assert (block.first_claimed, block.last_claimed) == (min(s.since for s in some), max(s.since for s in some))


def test_many_series_are_cut_into_several_blocks() -> None:
    random_ = random.Random(3)
    perf = [PerfSummary("x", "", 60, 0.0, random_.random(), 1.0) for _ in range(8)]
    some = [RunSummary(i, T0, 60, {}, {}, Spread(1, 2, 3), Spread(1, 2, 3), tuple(perf)) for i in range(1_500)]
    blocks = list(pack_summaries(some))
    assert max(block.rows for block in blocks) <= 500
    assert [s for block in blocks for s in SummaryBlock(block.body).summaries()] == some


def test_a_changed_byte_is_noticed() -> None:
    (block,) = pack_summaries([RunSummary(1, T0, 60, {}, {}, Spread(1, 2, 3), Spread(1, 2, 3))])
    for place in range(len(block.body)):
        changed = bytearray(block.body)
        changed[place] ^= 16
        with pytest.raises(DamagedBlock):
            SummaryBlock(bytes(changed)).summaries()
