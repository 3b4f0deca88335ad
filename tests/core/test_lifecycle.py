"""The life of tasks, a sentence at a time, in virtual time."""

from collections import Counter

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_node import START, Node, Refusal, Skip, seconds

from evenbeat.core.changed_definitions import settle_past
from evenbeat.core.columns import Ints
from evenbeat.core.gate import Reason
from evenbeat.core.missed_times import resume
from evenbeat.core.task import Flag
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, RunKind, State


@pytest.mark.parametrize("lasts", [0, 1, 30 * SECOND, 59 * SECOND, MINUTE - 1])
def test_execution_time_never_stretches_the_period(lasts: int) -> None:
    node = Node()
    node.add(phase=7 * SECOND)
    node.lasts = lambda row: lasts
    node.advance(10 * MINUTE)
    assert node.started() == [7 * SECOND + k * MINUTE for k in range(10)]
    assert not node.skips


@pytest.mark.parametrize("lasts", [0, 17, HOUR, 23 * HOUR + 59 * MINUTE])
def test_a_daily_interval_is_due_every_86400_seconds_whatever_its_duration(lasts: int) -> None:
    node = Node()
    node.add(every=DAY, phase=5 * HOUR + 123_457)
    node.lasts = lambda row: lasts
    node.advance(30 * DAY)
    assert len(node.runs) == 30
    assert set(np.diff(node.started())) == {86_400 * SECOND}


def test_check_now_does_not_shift_the_phase() -> None:
    node = Node()
    row = node.add(phase=10 * SECOND)
    node.advance(90 * SECOND)
    node.lifecycle.force(row)
    node.advance(200 * SECOND)
    assert node.started() == seconds(10, 70, 90, 130, 190)
    assert node.kinds() == [RunKind.GRID, RunKind.GRID, RunKind.FORCED, RunKind.GRID, RunKind.GRID]


def test_a_forced_run_of_a_disabled_task_outside_its_period_runs() -> None:
    node = Node()
    row = node.add()
    node.period(row, "22:00-23:00")
    node.lifecycle.set_flag(row, Flag.ENABLED, on=False)
    node.advance(90 * SECOND)
    node.lifecycle.force(row)
    assert [run.kind for run in node.release()] == [RunKind.FORCED]


def test_a_forced_run_waits_for_a_slot_like_everybody_and_merges_with_a_second_force() -> None:
    node = Node(slots=1)
    busy, row = node.add(every=HOUR, phase=SECOND), node.add(every=HOUR, phase=30 * MINUTE)
    node.lasts = lambda r: 20 * SECOND
    node.advance(SECOND)
    node.lifecycle.force(row)
    node.advance(5 * SECOND)
    node.lifecycle.force(row)
    assert node.started(busy) == seconds(1)
    assert node.started(row) == []
    node.advance(5 * MINUTE)
    assert node.started(row) == seconds(21)


def test_a_force_of_what_runs_waits_for_its_end() -> None:
    node = Node()
    row = node.add(every=HOUR, phase=SECOND)
    node.lasts = lambda r: 20 * SECOND
    node.advance(5 * SECOND)
    node.lifecycle.force(row)
    node.advance(MINUTE)
    assert node.started() == seconds(1, 21)


def test_a_forced_run_does_not_starve_behind_ever_new_arrivals() -> None:
    node = Node(slots=1)
    node.add(20, every=10 * SECOND, phase=np.arange(20) * SECOND // 2)
    row = node.add(every=DAY, phase=DAY // 2)
    node.lasts = lambda r: SECOND
    node.advance(MINUTE)
    node.lifecycle.force(row)
    node.advance(3 * MINUTE)
    assert len(node.started(row)) == 1


def test_a_force_without_authority_is_refused_and_told() -> None:
    node = Node()
    row = node.add(every=HOUR, phase=MINUTE)
    node.lifecycle.set_flag(row, Flag.MINE, on=False)
    node.lifecycle.force(row)
    node.release()
    assert not node.runs
    assert node.refused == [Refusal(0, START, RunKind.FORCED, Reason.NOT_MINE)]
    assert node.lifecycle.timetable.next_due() == START + MINUTE


def test_nominal_times_that_pass_while_a_run_waits_are_coalesced() -> None:
    node = Node(slots=0)
    node.add(phase=10 * SECOND)
    node.advance(5 * MINUTE)
    node.set_slots(1)
    node.advance(6 * MINUTE)
    # It began at 5:00; what was due at 5:10 came too soon after it.
    assert [(run.at - START, run.nominal - START) for run in node.runs] == [(5 * MINUTE, 10 * SECOND)]
    assert node.skips == [
        Skip(0, START + 70 * SECOND, START + 250 * SECOND, 4, Reason.COALESCED),
        Skip(0, START + 310 * SECOND, START + 310 * SECOND, 1, Reason.TOO_SOON),
    ]


def test_nominal_times_that_pass_while_a_run_runs_are_coalesced_and_never_made_up_in_a_burst() -> None:
    node = Node()
    node.add(phase=10 * SECOND)
    node.lasts = lambda row: 3 * MINUTE + 20 * SECOND
    node.advance(9 * MINUTE)
    assert node.started() == seconds(10, 250, 490)
    assert {skip.reason for skip in node.skips} == {Reason.COALESCED}
    assert sum(skip.times for skip in node.skips) == 6


def test_a_backlog_is_queued_and_the_guard_drops_what_is_too_soon() -> None:
    node = Node()
    row = node.add(flags=Flag.EACH)
    node.columns.tolerance[row] = 5 * SECOND
    node.lasts = lambda r: 150 * SECOND if len(node.runs) < 2 else SECOND
    node.advance(6 * MINUTE)
    # The first runs from 1:00 to 3:30. Then the backlog, 2:00, may go; 3:00 comes too soon after it, and so does 4:00.
    assert [(r.at - START, r.nominal - START) for r in node.runs] == [
        (MINUTE, MINUTE),
        (210 * SECOND, 2 * MINUTE),
        (5 * MINUTE, 5 * MINUTE),
        (6 * MINUTE, 6 * MINUTE),
    ]
    assert [(s.first - START, s.times, s.reason) for s in node.skips] == [
        (3 * MINUTE, 1, Reason.TOO_SOON),
        (4 * MINUTE, 1, Reason.TOO_SOON),
    ]


def test_of_a_backlog_each_nominal_time_has_its_run_unless_a_tolerance_says_otherwise() -> None:
    node = Node()
    row = node.add(flags=Flag.EACH)
    node.lasts = lambda r: 210 * SECOND if len(node.runs) < 2 else SECOND
    node.advance(10 * MINUTE)
    assert [(run.nominal - START) // MINUTE for run in node.runs] == list(range(1, 11))
    assert not node.skips
    assert all(run.at == run.nominal for run in node.runs[-3:])
    node.must_have_accounted_for(row)


def test_a_deleted_pending_task_finishes_and_does_not_come_back() -> None:
    node = Node()
    row = node.add()
    node.lasts = lambda r: 10 * SECOND
    node.advance(MINUTE)
    node.record(node.lifecycle.remove(row, node.now))
    assert node.columns.used[row]
    assert node.lifecycle.pending == 1
    assert node.add(every=DAY, phase=DAY // 2) != row
    node.advance(MINUTE + 10 * SECOND)
    assert not node.columns.used[row]
    assert (node.lifecycle.pending, node.lifecycle.idle) == (0, 1)
    assert node.add(every=DAY, phase=DAY // 2) == row
    node.advance(10 * MINUTE)
    assert len(node.runs) == 1


def test_a_deleted_task_that_waits_is_gone_at_once() -> None:
    node = Node(slots=0)
    row = node.add()
    node.advance(MINUTE)
    node.record(node.lifecycle.remove(row, node.now))
    node.set_slots(1)
    node.advance(10 * MINUTE)
    assert not node.runs
    assert node.lifecycle.idle == 0


def test_a_deleted_task_leaves_no_nominal_time_unaccounted_for() -> None:
    node = Node(slots=0)
    merging, queueing = node.add(phase=10 * SECOND), node.add(flags=Flag.EACH)
    node.advance(3 * MINUTE + 30 * SECOND)
    node.record(node.lifecycle.remove(np.concatenate((merging, queueing)), node.now))
    assert node.skips == [
        Skip(0, START + 10 * SECOND, START + 190 * SECOND, 4, Reason.REMOVED),
        Skip(1, START + MINUTE, START + 3 * MINUTE, 3, Reason.REMOVED),
    ]


def test_a_limit_that_nobody_declared_does_not_limit() -> None:
    node = Node()
    rows = node.add(3, every=HOUR, phase=SECOND)
    node.columns.limit[rows] = 7
    node.lasts = lambda r: MINUTE
    node.advance(2 * SECOND)
    assert len(node.runs) == 3
    node.lifecycle.set_limit(7, 1)
    row = node.add(every=HOUR, phase=3 * SECOND)
    node.columns.limit[row] = 7
    node.advance(MINUTE)
    assert len(node.runs) == 3
    node.advance(2 * MINUTE)
    assert len(node.runs) == 4


def test_a_pending_task_whose_limit_changes_counts_for_the_new_one() -> None:
    node = Node()
    for key in (1, 2):
        node.lifecycle.set_limit(key, 1)
    first, second = node.add(every=HOUR, phase=SECOND), node.add(every=HOUR, phase=2 * SECOND)
    node.columns.limit[first], node.columns.limit[second] = 1, 2
    node.lasts = lambda r: MINUTE
    node.advance(SECOND)
    node.columns.limit[first] = 2
    node.lifecycle.recount_limits()
    node.advance(30 * SECOND)
    assert len(node.runs) == 1
    node.advance(2 * MINUTE)
    assert len(node.runs) == 2
    node.advance(10 * MINUTE)
    assert not node.lifecycle.pending_by_limit.any()


@pytest.mark.parametrize("limited", [False, True])
def test_lowering_slots_or_a_limit_drains_and_never_kills(limited: bool) -> None:
    node = Node()
    node.lifecycle.set_limit(1, 9)
    first, late = node.add(6, every=HOUR, phase=SECOND), node.add(3, every=HOUR, phase=2 * SECOND)
    node.columns.limit[np.concatenate((first, late))] = 1
    node.lasts = lambda r: (r + 1) * 10 * SECOND
    node.advance(SECOND)
    if limited:
        node.lifecycle.set_limit(1, 2)
    else:
        node.set_slots(2)
    assert node.lifecycle.pending == len(node.ends) == 6
    node.advance(45 * SECOND)
    assert len(node.runs) == 6
    node.advance(51 * SECOND)
    assert len(node.runs) == 7
    assert node.lifecycle.pending == 2


def test_a_run_that_waited_past_the_close_of_its_period_is_skipped() -> None:
    node = Node(slots=0)
    node.period(node.add(every=HOUR, phase=MINUTE), "00:00-00:30")
    node.advance(30 * MINUTE)
    assert [(s.first - START, s.reason) for s in node.skips] == [(MINUTE, Reason.PERIOD_CLOSED)]


def test_off_grid_runs_obey_the_period_and_their_refusal_is_told() -> None:
    node = Node()
    row = node.add(every=HOUR, phase=MINUTE)
    node.period(row, "12:00-13:00")
    node.lifecycle.plan_first_runs(row, node.now)
    node.advance(MINUTE)
    node.lifecycle.trigger_node_event(row, node.now)
    node.advance(DAY - 1)
    assert node.started() == [12 * HOUR + MINUTE]
    assert node.refused == [Refusal(0, START + MINUTE, RunKind.OCCASION, Reason.PERIOD_CLOSED)]


def test_what_is_skipped_on_the_grid_is_not_refused_as_well() -> None:
    node = Node()
    node.lifecycle.set_flag(node.add(), Flag.ENABLED, on=False)
    node.advance(3 * MINUTE)
    assert len(node.skips) == 3
    assert not node.refused


def test_start_at_holds_for_a_run_that_waits() -> None:
    node = Node(slots=0)
    row = node.add(every=HOUR, phase=MINUTE)
    node.advance(2 * MINUTE)
    node.record(node.lifecycle.postpone_until(int(row[0]), Instant(START + 10 * MINUTE), node.now))
    node.set_slots(1)
    node.advance(2 * HOUR)
    assert node.started() == [10 * MINUTE, HOUR + MINUTE]
    assert [s.reason for s in node.skips] == [Reason.POSTPONED]


def test_a_new_schedule_does_not_lose_the_run_that_waits() -> None:
    node = Node(slots=0)
    row = node.add(every=HOUR, phase=MINUTE)
    node.advance(2 * MINUTE)
    node.record(settle_past(node.lifecycle, row, node.now))
    node.columns.every[row], node.columns.phase[row] = 10 * MINUTE, 5 * MINUTE
    node.lifecycle.reschedule(row, node.now)
    node.set_slots(1)
    node.advance(16 * MINUTE)
    assert [(r.at - START, r.kind) for r in node.runs] == [
        (2 * MINUTE, RunKind.CATCH_UP),
        (5 * MINUTE, RunKind.GRID),
        (15 * MINUTE, RunKind.GRID),
    ]
    assert [(s.first - START, s.reason) for s in node.skips] == [(MINUTE, Reason.COALESCED)]


def test_a_reload_changes_no_phase_and_no_due_time() -> None:
    node = Node()
    rows = node.add(100, every=7 * MINUTE, phase=np.arange(100) * SECOND)
    node.advance(90 * SECOND)
    nominal, due = node.columns.nominal.copy(), node.columns.due.copy()
    node.lifecycle.reschedule(rows, node.now)
    assert (node.columns.nominal == nominal).all()
    assert (node.columns.due == due).all()


def test_a_reload_that_changes_one_interval_moves_that_task_only() -> None:
    node = Node()
    rows = node.add(3, every=7 * MINUTE, phase=np.arange(3) * MINUTE)
    node.advance(30 * SECOND)
    before = node.columns.due.tolist()
    node.columns.every[1], node.columns.phase[1] = 10 * MINUTE, 4 * MINUTE
    node.lifecycle.reschedule(rows, node.now)
    assert node.columns.due.tolist() == [before[0], START + 4 * MINUTE, before[2]]


def test_a_reload_neither_loses_nor_hurries_a_catch_up_a_retry_or_a_start_at() -> None:
    node = Node()
    rows = node.add(3, every=HOUR, phase=30 * MINUTE)
    node.lifecycle.postpone_until(0, Instant(START + 10 * MINUTE), node.now)
    node.columns.off_grid_due[1], node.columns.off_grid_kind[1] = START + 5 * MINUTE, RunKind.RETRY
    node.columns.off_grid_due[2], node.columns.off_grid_kind[2] = START + 6 * MINUTE, RunKind.CATCH_UP
    node.lifecycle.reschedule(rows, node.now)
    node.advance(15 * MINUTE)
    assert [run.kind for run in node.runs] == [RunKind.RETRY, RunKind.CATCH_UP, RunKind.START_AT]


def check(node: Node, *, retry: int, every: int = 5 * MINUTE) -> Ints:
    row = node.add(every=every, phase=10 * SECOND, flags=Flag.CHECK)
    node.columns.retry[row] = retry
    return row


def test_a_soft_problem_is_retried_at_nominal_plus_k_retry_and_then_the_phase_is_the_same() -> None:
    node = Node()
    check(node, retry=MINUTE)
    node.state = lambda row: State.CRITICAL
    node.lasts = lambda row: 70 * SECOND if len(node.runs) == 1 else SECOND
    node.advance(11 * MINUTE)
    # The first takes longer than a retry, the third result is HARD.
    assert node.started() == seconds(10, 130, 190, 310, 610)
    assert node.kinds() == [RunKind.GRID, RunKind.RETRY, RunKind.RETRY, RunKind.GRID, RunKind.GRID]


def test_a_retry_is_never_later_than_the_grid_which_then_is_it() -> None:
    node = Node()
    check(node, retry=7 * MINUTE)
    node.state = lambda row: State.CRITICAL
    node.advance(11 * MINUTE)
    assert node.started() == seconds(10, 310, 610)


def test_a_retry_does_not_take_the_place_of_a_start_that_was_asked_for() -> None:
    node = Node()
    row = check(node, retry=MINUTE)
    node.state = lambda r: State.CRITICAL
    node.lasts = lambda r: 5 * SECOND
    node.advance(12 * SECOND)
    node.lifecycle.postpone_until(int(row[0]), Instant(START + 3 * MINUTE), node.now)
    node.advance(3 * MINUTE)
    assert node.started() == seconds(10, 180)


def even_phases(n: int, every: int) -> Ints:
    return np.random.default_rng(1).permutation(n) * every // n


@pytest.mark.parametrize("missed", [None, Flag.MISSED_SKIP])
def test_after_two_minutes_of_stop_all_is_made_up_for_within_a_minute_and_no_faster_than_that_needs(
    missed: Flag | None,
) -> None:
    node, n, every = Node(), 10_000, 5 * MINUTE
    rows = node.add(n, every=every, phase=even_phases(n, every), flags=missed)
    node.lifecycle.pace.mean_rate = mean = n / (every / SECOND)
    node.now = Instant(START + 2 * MINUTE)
    node.record(resume(node.lifecycle, rows, node.now))
    assert {s.reason for s in node.skips} == {Reason.MISSED}
    while node.now < START + 8 * MINUTE:
        node.now = Instant(node.now + SECOND // 4)
        for run in node.release():
            node.complete(run.row)
    load = Counter((run.at - 1) // SECOND for run in node.runs)
    missed_runs = sum(skip.times for skip in node.skips)
    assert max(load.values()) <= mean + max(mean, missed_runs / 60) + 2
    made_up = [run.at for run in node.runs if run.kind is RunKind.CATCH_UP]
    assert max(made_up, default=0) <= START + 3 * MINUTE + SECOND
    assert len({run.row for run in node.runs if run.at <= START + 7 * MINUTE}) == n
    assert (RunKind.CATCH_UP in node.kinds()) == (missed is None)


def test_600_new_checks_all_start_within_about_a_minute_evenly() -> None:
    node, every = Node(), 5 * MINUTE
    rows = node.add(600, every=every, phase=even_phases(600, every))
    node.lifecycle.pace.mean_rate = 600 / 300
    node.lifecycle.plan_first_runs(rows, node.now)
    node.advance(70 * SECOND)
    first = {run.row: run.at for run in reversed(node.runs)}
    assert len(first) == 600
    assert max(first.values()) <= START + 65 * SECOND
    load = Counter((at - START) // SECOND for at in first.values())
    assert max(load.values()) <= 13
    # Those whose grid is near have their first run there, so the last seconds have few.
    assert all(load[second] >= 8 for second in range(45))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(0, 90)),
        st.tuples(st.sampled_from(["enable", "disable", "force", "start_at", "resume", "first"]), st.integers(0, 40)),
        st.tuples(st.just("slots"), st.integers(0, 1)),
        st.tuples(st.just("lasts"), st.integers(0, 60)),
    ),
    max_size=25,
)


@settings(max_examples=examples(200))
@given(st.integers(1, 30), st.integers(0, 29), STEPS, st.booleans(), st.booleans())
def test_every_nominal_time_is_accounted_for_exactly_once(
    every: int, phase: int, steps: list[tuple[str, int]], each: bool, filtered: bool
) -> None:
    node = Node(slots=1)
    row = node.add(every=every * SECOND, phase=phase % every * SECOND, flags=Flag.EACH if each else None)
    if filtered:
        node.period(row, "00:00:10-00:00:55", "00:02-00:05:03", "00:07-00:07:01")
    lasts = 0
    node.lasts = lambda r: lasts * SECOND
    life = node.lifecycle
    for name, n in steps:
        match name:
            case "advance":
                node.advance(node.now - START + n * SECOND)
            case "enable" | "disable":
                life.set_flag(row, Flag.ENABLED, on=name == "enable")
            case "force":
                life.force(row)
            case "start_at":
                node.record(life.postpone_until(0, Instant(node.now + n * SECOND), node.now))
            case "resume":
                node.now = Instant(node.now + n * SECOND)
                for flag in (Flag.MISSED_SKIP, Flag.MISSED_ALL):
                    life.set_flag(row, flag, on=flag == (0, Flag.MISSED_SKIP, Flag.MISSED_ALL)[n % 3])
                node.record(resume(life, row, node.now, catch_up=20 * SECOND))
            case "first":
                life.plan_first_runs(row, node.now)
            case "slots":
                node.set_slots(n)
            case "lasts":
                lasts = n
    node.must_have_accounted_for(row)
