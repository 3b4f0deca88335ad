"""What a run may do when it is claimed, and what its outcome means afterwards."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_node import START, Node

from evenbeat.core.columns import Ints
from evenbeat.core.run_plan import (
    SUCCESS,
    RunPlans,
    are_lost,
    give_results,
    outcome_meanings,
    plan_runs,
    result_states,
    set_last_start,
    timebox_of,
    timeboxes_within,
)
from evenbeat.core.task import ClaimColumns, Flag
from evenbeat.core.timebox import NO_TIMEBOX, default_timebox
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, Outcome, RunKind, Schedule, State, Task
from evenbeat.when.cron import compile_cron
from evenbeat.when.windows import FOREVER, NEVER


def plan(node: Node, row: Ints, at: int, kind: RunKind = RunKind.GRID, timebox: int = 0) -> RunPlans:
    claims = ClaimColumns(row, np.array([START + at]), np.array([kind], dtype=np.uint8))
    return plan_runs(node.columns, node.times, claims, np.array([timebox]), node.now)


def four_hourly() -> tuple[Node, Ints]:
    """A cron task at 1:00, 5:00, ..., whose run of 1:00 is claimed."""
    node = Node()
    row = node.add_calendar(compile_cron("0 1,5,9 * * *", second=0))
    node.advance(HOUR)
    return node, row


def test_a_share_is_one_of_the_time_to_the_next_nominal_time() -> None:
    node, row = four_hourly()
    assert plan(node, row, HOUR, timebox=-100).timebox == 4 * HOUR
    assert plan(node, row, HOUR, timebox=-50).timebox == 2 * HOUR
    assert plan(node, row, HOUR, timebox=SECOND).timebox == SECOND
    assert plan(node, row, HOUR, timebox=NO_TIMEBOX).timebox == NO_TIMEBOX


def test_a_share_of_a_run_off_the_grid_just_before_a_nominal_time_is_not_short() -> None:
    node, row = four_hourly()
    assert plan(node, row, 5 * HOUR - SECOND, RunKind.FORCED, timebox=-100).timebox == 4 * HOUR


def test_the_last_run_of_all_has_nothing_to_be_a_share_of() -> None:
    node, row = four_hourly()
    node.columns.nominal[row] = FOREVER
    assert plan(node, row, 9 * HOUR, timebox=-100).timebox == NO_TIMEBOX
    assert plan(node, row, 9 * HOUR).timebox == MINUTE, "a check has a minute"


def test_a_check_by_the_calendar_is_gone_before_the_next_is_due() -> None:
    node = Node()
    row = node.add_calendar(compile_cron("* * * * *", second=0))
    node.advance(MINUTE)
    assert plan(node, row, MINUTE).timebox == 55 * SECOND


@given(st.integers(-100, 10 * DAY), st.integers(1, 10 * DAY))
def test_for_one_definition_and_for_columns_the_rule_is_the_same(said: int, every: int) -> None:
    said = said or -1
    every = max(every, SECOND)
    task = Task("t", Schedule(every=every, phase=0), timebox=said)
    whole = timebox_of(task, 0)
    assert whole == (said if said > 0 else max(every * -said // 100, 1))
    found = timeboxes_within(np.array([said, 0]), np.array([every, every]))
    assert found.tolist() == [whole, default_timebox(every, check=True)]


def test_the_timeboxes_that_are_given_stay_as_they_are() -> None:
    node, row = four_hourly()
    claims = ClaimColumns(row, np.array([START + HOUR]), np.array([RunKind.GRID], dtype=np.uint8))
    given = np.array([0])
    plan_runs(node.columns, node.times, claims, given, node.now)
    assert given == 0


def test_no_run_starts_after_its_period_has_closed_unless_it_is_forced() -> None:
    node = Node()
    row = node.add(every=10 * MINUTE)
    assert plan(node, row, MINUTE).latest_start == FOREVER
    node.period(row, "00:00-00:30")
    assert plan(node, row, MINUTE).latest_start == START + 30 * MINUTE
    assert plan(node, row, MINUTE, RunKind.FORCED).latest_start == FOREVER


@pytest.mark.parametrize("kind", [RunKind.FORCED, RunKind.FIRST, RunKind.RETRY, RunKind.START_AT])
def test_the_guard_concerns_only_runs_on_the_grid(kind: RunKind) -> None:
    node = Node()
    row = node.add()
    node.lifecycle.record_starts(row, np.array([START]))
    on_grid, off_grid = plan(node, row, MINUTE), plan(node, row, MINUTE, kind)
    assert [int(on_grid.last_start[0]), int(on_grid.interval[0]), int(on_grid.tolerance[0])] == [
        START,
        MINUTE,
        MINUTE // 2,
    ]
    assert [int(off_grid.last_start[0]), int(off_grid.interval[0])] == [NEVER, 0]


@pytest.mark.parametrize(("hard", "attempt", "expected"), [(True, 1, 1), (False, 1, 2), (False, 2, 3), (True, 3, 3)])
def test_while_a_problem_is_soft_each_run_is_one_attempt_more(hard: bool, attempt: int, expected: int) -> None:
    node = Node()
    row = node.add(flags=Flag.CHECK)
    node.columns.hard[row], node.columns.attempt[row] = hard, attempt
    assert plan(node, row, MINUTE).attempt == expected


CHECK = int(Flag.CHECK)


@pytest.mark.parametrize(
    ("outcome", "is_success", "counts_for_guard", "gives_result", "is_lost"),
    [
        (Outcome.SUCCEEDED, True, True, True, False),
        (Outcome.FAILED, False, True, True, False),
        (Outcome.KILLED, False, True, True, False),
        (Outcome.TIMEBOXED, False, True, True, False),
        (Outcome.BROKEN, False, False, True, False),
        (Outcome.DROPPED, False, False, False, False),
        (Outcome.LOST, False, True, False, True),
        (Outcome.CANCELLED, False, True, False, False),
        (Outcome.INTERRUPTED, False, True, False, True),
    ],
)
def test_what_each_outcome_means(
    outcome: Outcome, is_success: bool, counts_for_guard: bool, gives_result: bool, is_lost: bool
) -> None:
    meaning, flags = outcome_meanings([outcome.value]), np.array([CHECK], dtype=np.uint32)
    assert bool(meaning[0] & SUCCESS) is is_success
    assert set_last_start(meaning, np.array([RunKind.GRID])).tolist() == [counts_for_guard]
    assert set_last_start(meaning, np.array([RunKind.RETRY])).tolist() == [False]
    assert give_results(meaning, flags).tolist() == [gives_result]
    assert are_lost(meaning, flags).tolist() == [is_lost]


def test_every_outcome_means_something() -> None:
    assert len(outcome_meanings(list(Outcome))) == len(Outcome)


def test_the_end_of_a_removed_task_is_no_result_and_nothing_is_owed_for_it() -> None:
    flags: Any = np.array([CHECK | Flag.REMOVED, CHECK | Flag.REMOVED], dtype=np.uint32)
    meaning = outcome_meanings([Outcome.SUCCEEDED, Outcome.LOST])
    assert not give_results(meaning, flags).any()
    assert not are_lost(meaning, flags).any()


def test_a_task_that_is_no_check_gives_no_result() -> None:
    assert not give_results(outcome_meanings([Outcome.SUCCEEDED]), np.array([0], dtype=np.uint32)).any()


@pytest.mark.parametrize(
    ("outcome", "status", "state"),
    [
        (Outcome.SUCCEEDED, 0, State.OK),
        (Outcome.FAILED, 1, State.WARNING),
        (Outcome.FAILED, 2, State.CRITICAL),
        (Outcome.FAILED, 77, State.UNKNOWN),
        (Outcome.TIMEBOXED, 0, State.UNKNOWN),
        (Outcome.KILLED, -1, State.UNKNOWN),
        (Outcome.BROKEN, -1, State.UNKNOWN),
    ],
)
def test_the_state_is_the_exit_status_of_a_run_that_ended_by_itself(
    outcome: Outcome, status: int, state: State
) -> None:
    assert result_states(outcome_meanings([outcome]), np.array([status])).tolist() == [state]


def test_the_latest_start_is_the_end_of_the_window_that_is_open_now() -> None:
    node = Node()
    row = node.add(every=10 * MINUTE)
    node.period(row, "00:00-00:30", "02:00-02:30")
    node.now = Instant(START + 2 * HOUR)
    assert plan(node, row, 2 * HOUR).latest_start == START + 2 * HOUR + 30 * MINUTE
