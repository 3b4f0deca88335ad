"""What passed without us: stops of every policy, the clock set forward and back, a sentence at a time."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from budget import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from virtual_node import START, Node, Skip, seconds

from evenbeat.core.clock_steps import clock_set_back
from evenbeat.core.columns import Ints
from evenbeat.core.gate import Reason
from evenbeat.core.missed_times import resume
from evenbeat.core.task import Flag
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, RunKind, State
from evenbeat.when.calendar import compile_calendar
from evenbeat.when.cron import compile_cron
from evenbeat.when.schedule import OnceSchedule
from evenbeat.when.windows import FOREVER

ALL = Flag.MISSED_ALL


def stop(node: Node, rows: Ints, length: int, catch_up: Ints | int = HOUR) -> None:
    """From now on, for so long."""
    node.now = Instant(node.now + length)
    node.record(resume(node.lifecycle, rows, node.now, catch_up))


def set_back(node: Node, rows: Ints, by: int) -> None:
    node.now = Instant(node.now - by)
    node.ends = {row: end - by for row, end in node.ends.items()}
    node.record(clock_set_back(node.lifecycle, rows, by, node.now))


# After a stop


def test_each_row_is_made_up_for_as_it_asks() -> None:
    node = Node()
    rows = np.concatenate([node.add(every=10 * MINUTE, flags=flag) for flag in (None, Flag.MISSED_SKIP, ALL)])
    stop(node, rows, 35 * MINUTE)
    node.advance(36 * MINUTE)
    assert Counter(run.row for run in node.runs) == {0: 1, 2: 3}
    assert {(s.row, s.times, s.reason) for s in node.skips} == {(0, 3, Reason.MISSED), (1, 3, Reason.MISSED)}


def test_missed_all_runs_each_nominal_time_in_order_and_then_follows_the_grid() -> None:
    node = Node()
    row = node.add(every=10 * MINUTE, flags=ALL)
    node.advance(10 * MINUTE)
    stop(node, row, 35 * MINUTE)
    node.advance(HOUR)
    nominal = [(run.nominal - START) // MINUTE for run in node.runs]
    assert nominal == [10, 20, 30, 40, 50, 60]
    assert node.kinds() == [RunKind.GRID, *[RunKind.CATCH_UP] * 3, RunKind.GRID, RunKind.GRID]
    assert node.started()[1:4] == [45 * MINUTE + i * SECOND // 10 for i in range(3)]
    assert not node.skips


def test_what_is_older_than_catch_up_is_recorded_as_missed() -> None:
    node = Node()
    rows = node.add(2, every=10 * MINUTE, phase=5 * MINUTE, flags=ALL)
    stop(node, rows, 3 * HOUR, catch_up=np.array([HOUR, 30 * MINUTE]))
    node.advance(3 * HOUR + MINUTE)
    assert node.skips == [
        Skip(1, START + 5 * MINUTE, START + 145 * MINUTE, 15, Reason.MISSED),
        Skip(0, START + 5 * MINUTE, START + 115 * MINUTE, 12, Reason.MISSED),
    ]
    assert Counter(run.row for run in node.runs) == {0: 6, 1: 3}


def test_catching_up_does_not_touch_the_last_start_so_the_grid_is_not_dropped() -> None:
    node = Node()
    row = node.add(flags=ALL)
    stop(node, row, 5 * MINUTE + 59 * SECOND)
    node.advance(6 * MINUTE)
    assert node.kinds() == [*[RunKind.CATCH_UP] * 5, RunKind.GRID]
    assert node.started()[-1] == 6 * MINUTE


def test_those_who_catch_up_never_overlap_and_what_comes_due_meanwhile_joins_the_queue() -> None:
    node = Node()
    row = node.add(flags=ALL)
    node.lasts = lambda r: 25 * SECOND
    stop(node, row, 5 * MINUTE + SECOND)
    node.advance(30 * MINUTE)
    assert all(b - a >= 25 * SECOND for a, b in pairwise(node.started()))
    assert [(run.nominal - START) // MINUTE for run in node.runs] == list(range(1, 31))
    caught_up = node.kinds().index(RunKind.GRID)
    assert set(node.kinds()[caught_up:]) == {RunKind.GRID}
    assert all(run.at == run.nominal for run in node.runs[caught_up + 1 :])
    assert not node.skips


def test_all_those_who_catch_up_together_add_at_most_the_mean_rate() -> None:
    node, n, every = Node(), 1_200, MINUTE
    rows = node.add(n, every=every, phase=np.arange(n) * every // n, flags=ALL)
    node.lifecycle.pace.mean_rate = mean = n / 60
    node.lasts = lambda r: SECOND // 10
    stop(node, rows, 3 * MINUTE)
    node.advance(8 * MINUTE)
    load = Counter((run.at - START) // SECOND for run in node.runs)
    assert max(load.values()) <= 2 * mean
    assert Counter(run.kind for run in node.runs)[RunKind.CATCH_UP] >= 3 * n
    assert set(Counter((run.row, run.nominal) for run in node.runs).values()) == {1}
    assert not node.skips


@pytest.mark.parametrize("flag", [Flag.MINE, Flag.REACHABLE])
def test_who_may_not_run_any_more_stops_catching_up_and_says_why(flag: Flag) -> None:
    node = Node()
    row = node.add(flags=ALL | Flag.SKIPS_UNREACHABLE)
    node.lasts = lambda r: 10 * SECOND
    stop(node, row, 10 * MINUTE + SECOND)
    node.advance(10 * MINUTE + 2 * SECOND)
    node.lifecycle.set_flag(row, flag, on=False)
    node.advance(10 * MINUTE + 20 * SECOND)
    node.lifecycle.set_flag(row, flag, on=True)
    node.advance(13 * MINUTE)
    assert [(run.nominal - START) // MINUTE for run in node.runs] == [1, 11, 12, 13]
    assert [s.times for s in node.skips] == [9]
    assert not node.refused


def test_a_force_or_a_start_at_while_catching_up_loses_nothing() -> None:
    node = Node()
    rows = node.add(2, flags=ALL)
    node.lasts = lambda r: 10 * SECOND
    stop(node, rows, 4 * MINUTE + SECOND)
    node.advance(4 * MINUTE + 5 * SECOND)
    node.lifecycle.force(rows[:1])
    node.record(node.lifecycle.postpone_until(1, Instant(START + 6 * MINUTE + SECOND), node.now))
    node.advance(10 * MINUTE)
    assert [run.kind for run in node.runs if run.row == 0].count(RunKind.FORCED) == 1
    assert [run.at - START for run in node.runs if run.kind is RunKind.START_AT] == [6 * MINUTE + SECOND]
    for i in range(2):
        node.must_have_accounted_for(rows[i : i + 1])


def test_a_second_stop_while_catching_up_is_caught_up_with_too() -> None:
    node = Node()
    row = node.add(flags=ALL)
    node.lasts = lambda r: 20 * SECOND
    stop(node, row, 5 * MINUTE)
    node.advance(5 * MINUTE + 30 * SECOND)
    stop(node, row, 5 * MINUTE)
    node.advance(HOUR)
    assert [(run.nominal - START) // MINUTE for run in node.runs] == list(range(1, 61))


def test_off_grid_runs_that_were_due_during_the_stop_are_not_released_in_a_burst() -> None:
    node = Node()
    rows = node.add(300, every=HOUR, phase=30 * MINUTE)
    node.lifecycle.plan_first_runs(rows, node.now)
    node.advance(5 * SECOND)
    stop(node, rows, 10 * MINUTE)
    node.advance(12 * MINUTE)
    assert len({run.row for run in node.runs}) == len(node.runs) == 300
    assert max(Counter((run.at - START) // SECOND for run in node.runs).values()) <= 10
    assert set(node.kinds()) == {RunKind.FIRST}


def test_who_waited_for_a_slot_when_the_clock_was_set_forward_is_made_up_for_once() -> None:
    node = Node(slots=0)
    row = node.add(every=10 * MINUTE)
    node.advance(11 * MINUTE)
    stop(node, row, 30 * MINUTE)
    node.set_slots(1)
    node.advance(45 * MINUTE)
    assert node.kinds() == [RunKind.CATCH_UP]
    assert [(s.times, s.reason) for s in node.skips] == [(4, Reason.MISSED)]


# The clock is set back


def real_starts(node: Node, row: Ints | int, steps: list[tuple[int, int]]) -> list[int]:
    """When it was started, in elapsed time; `steps` say after how many runs of all the clock went back how far."""
    starts = []
    for i, run in enumerate(node.runs):
        if run.row == row:
            starts.append(run.at - START + sum(by for count, by in steps if i >= count))
    return starts


@pytest.mark.parametrize("by", [HOUR, 7 * MINUTE, 61 * SECOND, 365 * DAY, 3 * HOUR + 17 * SECOND])
def test_no_interval_task_stops_or_bursts_when_the_clock_is_set_back(by: int) -> None:
    node = Node()
    intervals = [MINUTE, 7 * MINUTE, 10 * MINUTE, 13 * MINUTE, HOUR]
    rows = np.concatenate([node.add(5, every=e, phase=np.arange(5) * e // 5) for e in intervals])
    node.advance(2 * HOUR + 1)
    count = len(node.runs)
    set_back(node, rows, by)
    node.advance(4 * HOUR - by)
    for row in rows.tolist():
        every = intervals[row // 5]
        gaps = np.diff(real_starts(node, row, [(count, by)]))
        assert gaps.min() >= every // 2
        assert gaps.max() <= every * 3 // 2
        assert len(gaps) >= 2 * HOUR // every


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(st.integers(1, 40 * MINUTE), st.integers(2 * SECOND, 2 * DAY)), min_size=1, max_size=4),
    st.integers(SECOND, 20 * MINUTE),
    st.integers(0, 20 * MINUTE),
    st.sampled_from([-1, 5 * SECOND]),
    st.sampled_from([0, SECOND // 10]),
)
def test_whatever_the_steps_every_gap_is_between_half_an_interval_and_one_and_a_half(
    steps: list[tuple[int, int]], every: int, phase: int, tolerance: int, ahead: int
) -> None:
    node = Node(ahead=ahead)  # what is claimed ahead is started at the moment it was planned for, whatever the clock
    row = node.add(every=every, phase=phase % every)
    node.columns.tolerance[row] = min(tolerance, every // 2)
    done = []
    for wait, by in steps:
        # A step within a moment of the last one has no run in between to measure.
        node.advance(node.now - START + 3 * every + wait)
        done.append((len(node.runs), by))
        set_back(node, row, by)
    node.advance(node.now - START + 4 * every)
    gaps = np.diff(real_starts(node, 0, done))
    assert gaps.min() >= every // 2
    assert gaps.max() <= every * 3 // 2 + 1
    assert node.lifecycle.generation == len(steps)


@pytest.mark.parametrize("by", [1.5, 2, 3, 10])
@pytest.mark.parametrize("every", [1, 2, 3, 4, 5, 6, 60])
def test_a_run_that_is_claimed_when_the_clock_is_set_back_keeps_its_distance_from_the_next(
    every: int, by: float
) -> None:
    node = Node(ahead=SECOND // 10)
    row = node.add(every=every * SECOND)
    node.advance(10 * every * SECOND - SECOND // 20)
    count = len(node.runs)
    assert node.runs[-1].at > node.now
    set_back(node, row, round(by * SECOND))
    node.advance(node.now - START + 10 * every * SECOND)
    gaps = np.diff(real_starts(node, 0, [(count, round(by * SECOND))]))
    assert gaps.min() >= every * SECOND // 2
    assert gaps.max() <= every * SECOND * 3 // 2


def test_the_clock_set_back_starts_a_new_generation() -> None:
    node = Node()
    row = node.add()
    assert node.lifecycle.generation == 0
    set_back(node, row, HOUR)
    assert node.lifecycle.generation == 1


def test_a_fixed_cron_entry_does_not_run_twice_and_a_starred_one_goes_on() -> None:
    node = Node()
    fixed, starred = (
        node.add_calendar(compile_cron("30 1 * * *", second=0)),
        node.add_calendar(compile_cron("*/5 * * * *", second=0)),
    )
    node.advance(2 * HOUR + SECOND)
    set_back(node, np.concatenate((fixed, starred)), HOUR)
    seen = len(node.runs)
    node.advance(25 * HOUR + HOUR)
    assert node.started(fixed) == [90 * MINUTE, DAY + 90 * MINUTE]
    after = [run.at - START for run in node.runs[seen:] if run.row == starred]
    assert after[:3] == [65 * MINUTE, 70 * MINUTE, 75 * MINUTE]


def test_a_calendar_expression_with_fixed_times_does_not_repeat_and_one_for_every_hour_goes_on() -> None:
    assert compile_calendar("Mon..Fri 09:00").repeats_after == 3 * HOUR
    assert compile_calendar("hourly").repeats_after == 0
    assert compile_calendar("09:*").repeats_after == 0
    assert compile_calendar("daily").repeats_after == 3 * HOUR


@pytest.mark.parametrize(("by", "next_day"), [(3 * HOUR, 26), (20 * DAY, 6)])
def test_only_a_correction_of_more_than_three_hours_gives_cron_the_new_time(by: int, next_day: int) -> None:
    node = Node()
    row = node.add_calendar(compile_cron("30 1 * * *", second=0))
    node.advance(25 * DAY + 2 * HOUR)
    set_back(node, row, by)
    assert node.columns.nominal[row] == START + next_day * DAY + 90 * MINUTE


def test_a_task_for_once_never_happens_again() -> None:
    node = Node()
    past, coming = (
        node.add_calendar(OnceSchedule(Instant(START + HOUR))),
        node.add_calendar(OnceSchedule(Instant(START + 3 * HOUR))),
    )
    node.advance(2 * HOUR)
    set_back(node, np.concatenate((past, coming)), 10 * DAY)
    assert node.columns.nominal[past] == FOREVER
    assert node.columns.nominal[coming] == START + 3 * HOUR


def test_what_waited_is_recorded_and_made_up_for_once() -> None:
    node = Node(slots=0)
    merging, queueing = node.add(phase=10 * SECOND), node.add(flags=Flag.EACH)
    cron = node.add_calendar(compile_cron("0 2 * * *", second=0))
    node.advance(2 * HOUR + 30 * SECOND)
    set_back(node, np.concatenate((merging, queueing, cron)), HOUR)
    assert {(s.row, s.times, s.reason) for s in node.skips} == {
        (0, 121, Reason.CLOCK_SET_BACK),
        (1, 120, Reason.CLOCK_SET_BACK),
        (2, 1, Reason.CLOCK_SET_BACK),
    }
    assert not len(node.lifecycle.waiting)
    node.lifecycle.slots = 10
    node.advance(HOUR + 31 * SECOND)
    assert sorted(run.row for run in node.runs if run.kind is RunKind.CATCH_UP) == [0, 1, 2]


def test_who_was_catching_up_is_an_ordinary_task_after_one_more_run() -> None:
    node = Node()
    row = node.add(flags=ALL)
    node.lasts = lambda r: 20 * SECOND
    stop(node, row, 30 * MINUTE)
    node.advance(31 * MINUTE)
    before = len(node.runs)
    set_back(node, row, HOUR)
    node.advance(-27 * MINUTE)
    assert [run.kind for run in node.runs[before:]] == [RunKind.CATCH_UP, *[RunKind.GRID] * 2]
    assert [s.reason for s in node.skips] == [Reason.CLOCK_SET_BACK]


def test_off_grid_runs_move_with_the_clock_and_a_start_at_does_not() -> None:
    node = Node()
    rows = node.add(2, every=DAY, phase=12 * HOUR)
    c = node.columns
    c.off_grid_due[0], c.off_grid_kind[0] = START + 5 * MINUTE, RunKind.RETRY
    node.lifecycle.postpone_until(1, Instant(START + 10 * MINUTE), node.now)
    set_back(node, rows, HOUR)
    node.advance(11 * MINUTE)
    assert [(run.row, run.kind, run.at - START) for run in node.runs] == [
        (0, RunKind.RETRY, -55 * MINUTE),
        (1, RunKind.START_AT, 10 * MINUTE),
    ]


def test_nothing_runs_before_a_start_at_though_the_clock_brings_earlier_nominal_times() -> None:
    node = Node()
    row = node.add()
    node.record(node.lifecycle.postpone_until(0, Instant(START + 10 * MINUTE + SECOND), node.now))
    node.advance(5 * MINUTE)
    set_back(node, row, 30 * MINUTE)
    node.advance(12 * MINUTE)
    assert node.started() == seconds(601, 660, 720)
    assert {s.reason for s in node.skips} == {Reason.POSTPONED}


def test_the_turns_of_the_pace_move_with_the_clock() -> None:
    node = Node()
    rows = node.add(300, every=HOUR, phase=30 * MINUTE)
    node.lifecycle.plan_first_runs(rows, node.now)
    node.advance(10 * SECOND)
    set_back(node, rows, HOUR)
    new = node.add(5, every=HOUR, phase=30 * MINUTE)
    node.lifecycle.plan_first_runs(new, node.now)
    node.advance(-HOUR + MINUTE)
    assert Counter(run.row for run in node.runs) == dict.fromkeys(range(305), 1)
    assert node.runs[-1].row >= 300


def test_results_after_the_clock_was_set_back_are_accepted() -> None:
    node = Node()
    row = node.add(every=5 * MINUTE, flags=Flag.CHECK)
    node.columns.retry[row] = MINUTE
    node.lasts = lambda r: 20 * SECOND
    node.advance(10 * MINUTE + SECOND)
    node.state = lambda r: State.CRITICAL
    # One that started before the step ends after it; it is known by the old time.
    set_back(node, row, HOUR)
    node.advance(-50 * MINUTE + 25 * SECOND)
    assert (node.columns.state[0], node.columns.attempt[0]) == (State.CRITICAL, 1)
    node.advance(-40 * MINUTE)
    assert (node.columns.hard[0], node.columns.attempt[0]) == (True, 3)
    node.state = lambda r: State.OK
    node.advance(-30 * MINUTE)
    assert node.columns.state[0] == State.OK


@settings(max_examples=examples(150))
@example([("start_at", 1), ("advance", 1)], 1, None)  # `start_at` is a time of the grid
@example([("start_at", 2), ("force", 0), ("lasts", 10), ("advance", 30)], 2, None)  # it comes while a run lasts
@example([("force", 0), ("start_at", 1), ("lasts", 5), ("advance", 2), ("advance", 3)], 1, Flag.EACH)
@example([("start_at", 3), ("lasts", 30), ("force", 10), ("advance", 30)], 1, ALL)
@example([("force", 2), ("stop", 5), ("lasts", 5), ("start_at", 3), ("advance", 30)], 3, ALL)
@example([("force", 2), ("lasts", 10), ("back", 1), ("start_at", 1), ("advance", 30)], 2, ALL)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("advance"), st.integers(0, 90)),
            st.tuples(st.sampled_from(["back", "stop", "force", "start_at", "slots", "lasts"]), st.integers(0, 60)),
        ),
        max_size=20,
    ),
    st.integers(1, 30),
    st.sampled_from([None, Flag.EACH, ALL]),
)
def test_in_every_generation_each_nominal_time_is_accounted_for_once(
    steps: list[tuple[str, int]], every: int, flags: Flag | None
) -> None:
    node = Node(slots=1)
    row = node.add(every=every * SECOND, flags=flags)
    since, lasts = node.now, 0
    node.lasts = lambda r: lasts * SECOND
    for name, n in steps:
        match name:
            case "advance":
                node.advance(node.now - START + n * SECOND)
            case "back":
                # Up to the old time everything is accounted for in the old generation; a new one begins with now.
                next_nominal = max(node.columns.nominal[row], node.times.next_after(row, node.now))
                set_back(node, row, (n + 2) * SECOND)
                first, node.columns.nominal[row] = int(node.columns.nominal[0]), next_nominal
                node.must_have_accounted_for(row, since)
                node.columns.nominal[row] = first
                node.runs, node.skips, since = [], [], node.now
            case "stop":
                stop(node, row, n * SECOND, catch_up=20 * SECOND)
            case "force":
                node.lifecycle.force(row)
            case "start_at":
                node.record(node.lifecycle.postpone_until(0, Instant(node.now + n * SECOND), node.now))
            case "slots":
                node.set_slots(n % 2)
            case "lasts":
                lasts = n
    node.must_have_accounted_for(row, since)
