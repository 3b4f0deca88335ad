"""What is due soon is claimed before it is: that changes nothing of what runs, and when."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_node import START, Node

from evenbeat.core.gate import Reason
from evenbeat.core.task import Flag
from evenbeat.model import MINUTE, SECOND, Instant, RunKind, State
from evenbeat.when.cron import compile_cron
from evenbeat.when.windows import FOREVER

AHEAD = 50_000


class Sort(NamedTuple):
    """What a task is like."""

    every: int
    phase: int
    lasts: int
    is_check: bool
    is_limited: bool
    is_each: bool
    is_enabled: bool
    period: str


def ticks(most: int) -> st.SearchStrategy[int]:
    """Times that often come close to each other, and to what is ahead."""
    return st.builds(lambda a, b: a * 10_000 + b, st.integers(0, most // 10_000 - 1), st.integers(-1, 1)).map(abs)


sorts = st.builds(
    Sort,
    every=st.sampled_from([SECOND, 1_030_000, 2 * SECOND, 7 * SECOND]),
    phase=ticks(SECOND),
    lasts=ticks(3 * SECOND),
    is_check=st.booleans(),
    is_limited=st.booleans(),
    is_each=st.booleans(),
    is_enabled=st.sampled_from([True, True, True, False]),
    period=st.sampled_from(["", "", "00:00:00-00:00:04", "00:00:03-00:00:07"]),
)


def lived(sorts: list[Sort], slots: int, ahead: int) -> Node:
    node = Node(slots, ahead=ahead)
    node.lifecycle.set_limit(1, 2)
    for sort in sorts:
        flags = (Flag.CHECK if sort.is_check else Flag(0)) | (Flag.EACH if sort.is_each else Flag(0))
        row = node.add(every=sort.every, phase=sort.phase, flags=flags)
        node.columns.limit[row] = sort.is_limited
        node.columns.retry[row] = SECOND
        node.lifecycle.set_flag(row, Flag.ENABLED, on=sort.is_enabled)
        if sort.period:
            node.period(row, sort.period)
    node.lasts = lambda row: sorts[row].lasts
    node.state = lambda row: State.CRITICAL if row % 2 else State.OK
    node.advance(10 * SECOND)
    return node


@given(st.lists(sorts, min_size=1, max_size=6))
def test_what_runs_and_when_is_the_same_with_and_without(sorts: list[Sort]) -> None:
    plain, ahead = lived(sorts, 100, 0), lived(sorts, 100, AHEAD)
    end = START + 10 * SECOND
    assert sorted(run for run in ahead.runs if run.at <= end) == sorted(plain.runs)
    assert sorted(ahead.skips) == sorted(plain.skips)
    assert sorted(ahead.refused) == sorted(plain.refused)


@given(st.lists(sorts, min_size=1, max_size=12), st.integers(1, 6))
def test_with_few_slots_nothing_is_early_nothing_overlaps_and_all_is_accounted_for(
    sorts: list[Sort], slots: int
) -> None:
    node = lived(sorts, slots, AHEAD)
    assert all(run.at >= run.nominal for run in node.runs)
    for row, sort in enumerate(sorts):
        starts = node.started(row)
        assert all(b - a >= sort.lasts for a, b in pairwise(starts))
        node.must_have_accounted_for(np.array([row]))
    events = [(run.at, 1) for run in node.runs] + [(run.at + sorts[run.row].lasts, -1) for run in node.runs]
    pending = 0
    for _, change in sorted(events):
        pending += change
        assert pending <= slots


def test_it_is_claimed_so_much_before_it_is_due_and_no_sooner() -> None:
    node = Node(ahead=AHEAD)
    node.add(phase=10 * SECOND)
    node.now = Instant(START + 10 * SECOND - AHEAD - 1)
    assert node.release() == []
    node.now = Instant(START + 10 * SECOND - AHEAD)
    (run,) = node.release()
    assert (run.at, run.nominal) == (START + 10 * SECOND, START + 10 * SECOND)
    assert node.lifecycle.pending == 1


@pytest.mark.parametrize("why", ["running", "disabled", "limit", "each", "too soon", "slots", "someone waits"])
def test_what_cannot_be_known_yet_is_decided_when_it_is_due(why: str) -> None:
    node = Node(slots=1 if why == "slots" else 10, ahead=AHEAD)
    row = node.add(phase=10 * SECOND)
    life = node.lifecycle
    if why == "running":
        life.force(row)
        node.lasts = lambda _: 10 * SECOND
        node.release()
    if why == "disabled":
        life.set_flag(row, Flag.ENABLED, on=False)
    if why == "limit":
        node.columns.limit[row] = 1
        life.set_limit(1, 5)
    if why == "each":
        life.set_flag(row, Flag.EACH, on=True)
    if why == "too soon":
        node.columns.tolerance[row] = 0
        node.columns.last_start[row] = START + 10 * SECOND - MINUTE
    if why == "someone waits":
        other = node.add(phase=5 * SECOND)
        life.set_limit(1, 0)
        node.columns.limit[other] = 1
    node.now = Instant(START + 10 * SECOND - AHEAD)
    assert node.release() == []
    assert node.skips == []
    node.now = Instant(START + 10 * SECOND)
    begun, skipped = node.release(), [skip for skip in node.skips if skip.row == row[0]]
    assert len(begun) + len(skipped) == 1
    assert bool(skipped) == (why in {"running", "disabled"})


@pytest.mark.parametrize("edge", ["closes", "opens"])
def test_a_period_that_is_closed_when_an_off_grid_run_is_due_is_seen_then(edge: str) -> None:
    node = Node(ahead=AHEAD)
    row = node.add(phase=10 * SECOND)
    node.period(row, "00:00:00-00:00:30" if edge == "closes" else "00:00:30-00:01:00")
    due = START + 30 * SECOND + (10_000 if edge == "closes" else -10_000)
    node.lifecycle.postpone_until(int(row[0]), Instant(due), Instant(START))
    node.now = Instant(due - 20_000 if edge == "closes" else due - AHEAD + 20_000)
    assert (node.release(), node.refused) == ([], [])
    node.now = Instant(due)
    assert node.release() == []
    assert [(refused.due, refused.reason) for refused in node.refused] == [(due, Reason.PERIOD_CLOSED)]


def test_of_two_at_once_the_first_is_not_merged_into_the_second_before_its_time() -> None:
    node = Node(ahead=AHEAD)
    row = node.add(phase=10 * SECOND)
    node.columns.off_grid_due[row], node.columns.off_grid_kind[row] = START + 10 * SECOND - 20_000, RunKind.RETRY
    node.lifecycle.reset_due(row)
    node.now = Instant(START + 10 * SECOND - AHEAD)
    assert node.release() == []
    node.now = Instant(START + 10 * SECOND - 20_000)
    assert node.kinds() == []
    node.release()
    assert node.kinds() == [RunKind.RETRY]


def test_a_cron_entry_and_an_off_grid_run_are_claimed_ahead_too() -> None:
    node = Node(ahead=AHEAD)
    cron = node.add_calendar(compile_cron("* * * * *", second=0))
    asked = node.add(every=MINUTE, phase=30 * SECOND)
    node.lifecycle.postpone_until(int(asked[0]), Instant(START + 40 * SECOND), node.now)
    node.now = Instant(START + 40 * SECOND - AHEAD // 2)
    assert [(run.row, run.kind, run.at) for run in node.release()] == [
        (asked[0], RunKind.START_AT, START + 40 * SECOND)
    ]
    assert node.columns.off_grid_due[asked[0]] == FOREVER
    node.now = Instant(START + MINUTE - AHEAD // 2)
    assert [(run.row, run.at) for run in node.release()] == [(cron[0], START + MINUTE)]
