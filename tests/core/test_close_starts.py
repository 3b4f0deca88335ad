"""A first or catch-up run and the run on the grid that follows it closely are one."""

from itertools import pairwise

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_node import START, Node

from evenbeat.core.first_run_pace import START_WINDOW
from evenbeat.core.gate import Reason
from evenbeat.core.lost_runs import repeat_lost_runs
from evenbeat.core.missed_times import resume
from evenbeat.core.task import Flag
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, RunKind
from evenbeat.when.cron import compile_cron

MOMENT = SECOND // 50


def restarted(before_grid: int, *, every: int = 4 * SECOND, flags: Flag | None = None) -> Node:
    """A node that comes up so long before a nominal time of its task, after it has missed some."""
    node = Node()
    row = node.add(every=every, flags=flags)
    node.advance(10 * every)
    node.now = Instant(node.now + 5 * every - before_grid)
    node.record(resume(node.lifecycle, row, node.now))
    return node


def test_after_a_restart_just_before_a_nominal_time_one_run_is_made() -> None:
    node = restarted(MOMENT)
    node.advance(20 * 4 * SECOND)
    assert min(b - a for a, b in pairwise(node.started())) >= 2 * SECOND
    assert set(node.kinds()) == {RunKind.GRID}
    assert [(s.times, s.reason) for s in node.skips] == [(4, Reason.MISSED)]
    node.must_have_accounted_for(np.array([0]))


def test_after_a_restart_well_before_a_nominal_time_the_catch_up_is_made_at_once() -> None:
    node = restarted(3 * SECOND)
    up = node.now
    node.advance(20 * 4 * SECOND)
    (catch_up,) = [run for run in node.runs if run.kind is RunKind.CATCH_UP]
    assert catch_up.at == up


def test_a_run_that_was_lost_just_before_the_next_nominal_time_is_made_up_for_by_that() -> None:
    node = Node()
    row = node.add(every=4 * SECOND)
    node.lasts = lambda _: 4 * SECOND - MOMENT
    node.advance(8 * SECOND - MOMENT)
    assert not node.ends
    repeat_lost_runs(node.lifecycle, row, node.now)
    node.lasts = lambda _: 0
    node.advance(60 * SECOND)
    assert set(np.diff(node.started())) == {4 * SECOND}
    node.must_have_accounted_for(row)


def test_a_catch_up_that_had_to_wait_for_a_slot_until_the_grid_is_near_merges_into_it() -> None:
    node = restarted(3 * SECOND)
    node.set_slots(0)
    seen = len(node.runs)
    node.advance(node.now - START + 3 * SECOND - MOMENT)
    node.set_slots(1)
    node.advance(node.now - START + SECOND)
    assert [(run.kind, run.at == run.nominal) for run in node.runs[seen:]] == [(RunKind.GRID, True)]
    assert not node.refused
    assert not len(node.lifecycle.waiting)
    node.must_have_accounted_for(np.array([0]))


def test_a_new_check_whose_grid_is_near_has_its_first_run_there() -> None:
    node = Node()
    row = node.add(every=4 * SECOND, phase=SECOND)
    node.lifecycle.plan_first_runs(row, node.now)
    node.advance(20 * SECOND)
    assert node.started()[:2] == [SECOND, 5 * SECOND]


@pytest.mark.parametrize("flags", [Flag.MISSED_ALL, Flag.EACH | Flag.MISSED_ALL])
def test_where_each_nominal_time_is_to_be_run_none_is_merged_however_close(flags: Flag) -> None:
    node = restarted(MOMENT, flags=flags)
    node.advance(20 * 4 * SECOND)
    assert [(run.nominal - START) // (4 * SECOND) for run in node.runs] == list(range(1, 21))
    assert not node.skips
    node.must_have_accounted_for(np.array([0]))


def test_what_is_missed_once_a_day_is_made_up_for_long_before_the_next_day() -> None:
    node = Node()
    cron = node.add_calendar(compile_cron("0 3 * * *", second=0))
    node.now = Instant(START + DAY + 16 * HOUR)
    node.record(resume(node.lifecycle, cron, node.now))
    node.advance(2 * DAY + 4 * HOUR)
    assert node.started() == [DAY + 16 * HOUR, 2 * DAY + 3 * HOUR]


def test_a_run_under_way_when_the_clock_is_set_forward_and_its_catch_up_are_apart() -> None:
    node = Node()
    row = node.add(every=10 * SECOND)
    node.lasts = lambda _: SECOND // 10
    node.advance(20 * SECOND)
    node.now = Instant(node.now + HOUR + SECOND)
    node.ends = {r: end + HOUR + SECOND for r, end in node.ends.items()}
    node.record(resume(node.lifecycle, row, node.now))
    node.advance(node.now - START + MINUTE)
    after = [t for t in node.started() if t > 20 * SECOND]
    assert after[0] >= HOUR + 21 * SECOND + 5 * SECOND
    assert min(b - a for a, b in pairwise(after)) >= 5 * SECOND


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(1, 900)),
        st.tuples(st.just("stop"), st.integers(1, 900)),
        st.tuples(st.just("lose"), st.just(0)),
        st.tuples(st.just("first"), st.just(0)),
        st.tuples(st.just("slots"), st.integers(0, 1)),
    ),
    max_size=20,
)


@settings(max_examples=examples(200))
@given(
    st.integers(1, 300), st.integers(0, 299), st.none() | st.integers(0, 300), STEPS, st.sampled_from([0, SECOND // 10])
)
def test_whatever_happens_no_grid_run_follows_closely_and_every_nominal_time_is_accounted_for_once(
    every: int, phase: int, said: int | None, steps: list[tuple[str, int]], ahead: int
) -> None:
    tick = SECOND // 10
    node = Node(slots=1, ahead=ahead)
    row = node.add(every=every * tick, phase=phase % every * tick)
    tolerance = every * tick // 2 if said is None else said * tick
    if said is not None:
        node.columns.tolerance[row] = tolerance
    life = node.lifecycle
    for name, n in steps:
        match name:
            case "advance":
                node.advance(node.now - START + n * tick)
            case "stop":
                node.now = Instant(node.now + n * tick)
                node.record(resume(life, row, node.now))
            case "lose" if not node.ends:
                repeat_lost_runs(life, row, node.now)
            case "first":
                life.plan_first_runs(row, node.now)
            case "slots":
                node.set_slots(n)
    node.set_slots(1)
    node.advance(node.now - START + 3 * every * tick)
    node.must_have_accounted_for(row)
    gap = max(min(every * tick - tolerance, every * tick // 2, START_WINDOW // 2), 0)
    for run, following in pairwise(sorted(node.runs, key=lambda run: run.at)):
        if run.kind in (RunKind.FIRST, RunKind.CATCH_UP) and following.kind is RunKind.GRID:
            assert following.at - run.at >= gap
