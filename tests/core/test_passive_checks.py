"""Passive checks in the core: their nominal times bring no runs, and are settled by results."""

import numpy as np
import pytest
from virtual_node import START, Node

from evenbeat.core.clock_steps import clock_set_back
from evenbeat.core.columns import Ints
from evenbeat.core.lost_runs import repeat_lost_runs
from evenbeat.core.passive_results import (
    allowed_after,
    counts_from,
    missing_result_time,
    record_missed_results,
    result_was_missed,
    run_own_job_instead,
    settle_at,
    settle_due_results,
)
from evenbeat.core.task import Flag
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, RunKind, State
from evenbeat.when.cron import compile_cron
from evenbeat.when.windows import FOREVER, NEVER

PASSIVE = Flag.PASSIVE | Flag.NOTHING_TO_RUN | Flag.CHECK
WITH_COMMAND = Flag.PASSIVE | Flag.CHECK


def nightly(node: Node) -> Ints:
    return node.add_calendar(compile_cron("0 2 * * *", name="a", second=0), PASSIVE)


def all_at(rows: Ints, value: int) -> Ints:
    return np.full(len(rows), value, dtype=np.int64)


def test_it_never_arrives_whatever_is_asked_of_it() -> None:
    node = Node()
    rows = node.add(3, flags=PASSIVE)
    node.lifecycle.force(rows[:1])
    node.columns.off_grid_due[rows[1]] = START
    node.lifecycle.reset_due(rows)
    node.advance(HOUR)
    assert node.runs == []
    assert node.skips == []
    assert (node.lifecycle.idle, node.lifecycle.pending) == (3, 0)
    assert node.lifecycle.timetable.next_due() == FOREVER


def test_it_leaves_when_it_is_removed() -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    node.lifecycle.remove(rows, node.now)
    assert (node.lifecycle.idle, node.columns.in_use) == (0, 0)


@pytest.mark.parametrize(("reported", "fresh"), [(0, False), (1, True), (MINUTE, True), (NEVER - START, False)])
def test_of_an_interval_all_that_was_told_since_the_time_before_counts(reported: int, *, fresh: bool) -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    node.columns.result_at[rows] = START + reported
    seen = settle_due_results(node.lifecycle, rows, all_at(rows, 10 * SECOND), Instant(START + MINUTE + 10 * SECOND))
    assert (len(seen.fresh), len(seen.stale), len(seen.skips)) == (fresh, not fresh, 0)
    assert node.columns.nominal[rows] == START + 2 * MINUTE


def test_before_the_time_that_is_allowed_nothing_is_settled() -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    seen = settle_due_results(node.lifecycle, rows, all_at(rows, 10 * SECOND), Instant(START + MINUTE + 9 * SECOND))
    assert (len(seen.fresh), len(seen.stale)) == (0, 0)
    assert node.columns.nominal[rows] == START + MINUTE


def test_many_that_passed_are_one_look_at_the_last_of_them() -> None:
    node = Node()
    rows = node.add(2, flags=PASSIVE)
    node.columns.result_at[rows[0]] = START + 58 * MINUTE
    seen = settle_due_results(node.lifecycle, rows, np.array([0, 10 * SECOND]), Instant(START + HOUR + 10 * SECOND))
    assert sorted([*seen.stale, *seen.fresh]) == rows.tolist()
    assert seen.stale.tolist() == rows.tolist()
    assert seen.nominal.tolist() == [START + HOUR] * 2
    assert node.columns.nominal[rows].tolist() == [START + HOUR + MINUTE] * 2


def test_of_a_calendar_what_is_told_half_the_time_before_counts() -> None:
    node = Node()
    rows = nightly(node)
    at_two = all_at(rows, START + DAY + 2 * HOUR)
    assert counts_from(node.lifecycle, rows, at_two) == START + 14 * HOUR
    node.columns.tolerance[rows] = MINUTE
    assert counts_from(node.lifecycle, rows, at_two) == START + DAY + 2 * HOUR - MINUTE


def test_disabled_ones_are_skipped_with_the_reason() -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    node.lifecycle.set_flag(rows, Flag.ENABLED, on=False)
    seen = settle_due_results(node.lifecycle, rows, all_at(rows, 0), Instant(START + HOUR))
    assert (len(seen.fresh), len(seen.stale)) == (0, 0)
    node.record(seen.skips)
    assert [(skip.times, skip.reason) for skip in node.skips] == [(60, "disabled")]


def test_a_stale_result_is_just_newer_than_the_last_one_and_no_sign_of_life() -> None:
    node = Node()
    rows = node.add(2, flags=PASSIVE)
    node.columns.result_at[rows] = [START - 5, NEVER]
    nominal = all_at(rows, START + MINUTE)
    known = missing_result_time(node.lifecycle, rows, nominal)
    assert known.tolist() == [START - 4, START]
    assert (known <= counts_from(node.lifecycle, rows, nominal)).all()


def test_it_is_looked_at_when_the_result_must_be_there_or_later() -> None:
    node = Node()
    rows = node.add(2, flags=PASSIVE)
    found = settle_at(node.lifecycle, rows, all_at(rows, 15 * SECOND), np.array([NEVER, START + HOUR]))
    assert found.tolist() == [START + 75 * SECOND, START + HOUR]


def test_after_a_stop_what_can_still_come_is_still_expected() -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    node.record(
        record_missed_results(
            node.lifecycle, rows, all_at(rows, 30 * SECOND), Instant(START + 10 * MINUTE + 20 * SECOND)
        )
    )
    assert [(skip.times, skip.reason) for skip in node.skips] == [(9, "missed while stopped")]
    assert node.columns.nominal[rows] == START + 10 * MINUTE


@pytest.mark.parametrize(
    ("reported", "stopped", "length", "missed"),
    [
        (0, 20, 10, False),  # the next comes after the stop
        (0, 50, 20, True),  # it came at 60, while nobody listened
        (0, 70, 20, True),  # it may have been 15 s late
        (0, 80, 20, False),  # it was late already, and the next comes at 120
        (0, 600, 100, True),
        (0, 605, 10, True),
    ],
)
def test_whose_sender_told_in_vain(reported: int, stopped: int, length: int, *, missed: bool) -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    node.columns.result_at[rows] = START + reported * SECOND
    since, now = Instant(START + stopped * SECOND), Instant(START + (stopped + length) * SECOND)
    assert result_was_missed(node.lifecycle, rows, all_at(rows, 15 * SECOND), since, now).tolist() == [missed]


def test_of_a_calendar_or_without_any_result_nobody_told_in_vain() -> None:
    node = Node()
    rows = np.concatenate([nightly(node), node.add(flags=PASSIVE)])
    node.columns.result_at[rows] = [START, NEVER]
    assert not result_was_missed(node.lifecycle, rows, all_at(rows, 0), START, Instant(START + 3 * DAY)).any()


# With something to run, if a result is missing


def test_what_it_has_to_run_does_not_run_by_its_schedule() -> None:
    node = Node()
    rows = node.add(flags=WITH_COMMAND)
    node.advance(HOUR)
    assert (node.runs, node.skips) == ([], [])
    node.lifecycle.force(rows)
    node.advance(HOUR)
    assert [(run.kind, run.settles) for run in node.runs] == [(RunKind.FORCED, False)]
    assert node.columns.nominal[rows] == START + MINUTE, "its nominal times are settled by results"


def test_it_runs_off_the_grid_when_its_result_is_missing() -> None:
    node = Node()
    rows = node.add(2, flags=WITH_COMMAND)
    node.lifecycle.set_flag(rows[1:], Flag.NOTHING_TO_RUN, on=True)
    node.advance(90 * SECOND)
    assert run_own_job_instead(node.lifecycle, rows, node.now).tolist() == [True, False]
    node.advance(90 * SECOND)
    assert [(run.row, run.kind, run.at, run.settles) for run in node.runs] == [
        (rows[0], RunKind.FRESHNESS, START + 90 * SECOND, False)
    ]
    assert (node.skips, node.columns.result_at[rows[0]]) == ([], START + 90 * SECOND)


def test_one_run_is_enough_and_it_may_wait_for_a_slot() -> None:
    node = Node(slots=1)
    other, rows = node.add(every=HOUR), node.add(flags=WITH_COMMAND)
    node.lasts = lambda row: 10 * SECOND
    node.lifecycle.force(other)
    node.advance(SECOND)
    for _ in range(3):
        assert run_own_job_instead(node.lifecycle, rows, node.now).tolist() == [True]
        node.advance(node.now - START + SECOND)
    assert node.lifecycle.pending == 1
    node.advance(MINUTE)
    assert [run.kind for run in node.runs] == [RunKind.FORCED, RunKind.FRESHNESS]


def test_a_running_one_is_not_run_again() -> None:
    node = Node()
    rows = node.add(flags=WITH_COMMAND)
    node.lasts = lambda row: MINUTE
    node.lifecycle.force(rows)
    node.advance(SECOND)
    assert run_own_job_instead(node.lifecycle, rows, node.now).tolist() == [True]
    node.advance(HOUR)
    assert [run.kind for run in node.runs] == [RunKind.FORCED]


def test_outside_its_period_it_does_not_run_and_its_result_is_missing() -> None:
    node = Node()
    rows = node.add(flags=WITH_COMMAND)
    node.period(rows, "00:00-00:30")
    node.advance(HOUR)
    assert run_own_job_instead(node.lifecycle, rows, node.now).tolist() == [False]
    node.advance(2 * HOUR)
    assert node.runs == []


def test_a_refusal_settles_none_of_its_nominal_times() -> None:
    node = Node()
    rows = node.add(flags=WITH_COMMAND | Flag.EACH)
    node.advance(2 * MINUTE)
    run_own_job_instead(node.lifecycle, rows, node.now)
    node.lifecycle.set_flag(rows, Flag.ENABLED, on=False)
    node.advance(3 * MINUTE)
    assert [(refusal.kind, refusal.reason) for refusal in node.refused] == [(RunKind.FRESHNESS, "disabled")]
    assert (node.skips, node.columns.nominal[rows].tolist()) == ([], [START + MINUTE])


def test_one_that_was_lost_is_made_up_for_whatever_its_nominal_time() -> None:
    node = Node()
    rows = node.add(flags=WITH_COMMAND)
    node.advance(5 * MINUTE)
    repeat_lost_runs(node.lifecycle, rows, node.now)
    node.advance(6 * MINUTE)
    assert [run.kind for run in node.runs] == [RunKind.CATCH_UP]


def test_a_soft_problem_is_retried_if_that_was_asked_for() -> None:
    node = Node()
    rows = node.add(flags=WITH_COMMAND)
    node.columns.retry[rows] = 20 * SECOND
    node.columns.attempts[rows] = 2
    node.state = lambda row: State.CRITICAL
    node.advance(90 * SECOND)
    run_own_job_instead(node.lifecycle, rows, node.now)
    node.advance(HOUR)
    assert [(run.kind, run.at - START) for run in node.runs] == [
        (RunKind.FRESHNESS, 90 * SECOND),
        (RunKind.RETRY, 110 * SECOND),
    ]
    assert node.columns.hard[rows]


def test_a_clock_that_is_set_back_runs_nothing() -> None:
    node = Node()
    rows = node.add(flags=WITH_COMMAND)
    node.advance(10 * MINUTE)
    node.now = Instant(node.now - 5 * MINUTE)
    clock_set_back(node.lifecycle, rows, 5 * MINUTE, node.now)
    node.advance(HOUR)
    assert node.runs == []


# How long a result may take


@pytest.mark.parametrize(
    ("every", "grace", "allowed"),
    [
        (MINUTE, -1, 40 * SECOND),
        (DAY, -1, HOUR + 10 * SECOND),
        (DAY, 0, 10 * SECOND),
        (MINUTE, HOUR, HOUR + 10 * SECOND),
    ],
)
def test_by_default_the_grace_is_half_the_interval_and_at_most_an_hour(every: int, grace: int, allowed: int) -> None:
    node = Node()
    rows = node.add(every=every, flags=PASSIVE)
    timebox, said = all_at(rows, 10 * SECOND), all_at(rows, grace)
    nominal = node.columns.nominal[rows]
    assert allowed_after(node.lifecycle, rows, nominal, timebox, said).tolist() == [allowed]


def test_of_a_calendar_it_is_half_of_the_time_since_the_nominal_time_before() -> None:
    node = Node()
    rows = node.add_calendar(compile_cron("0,10 2 * * *", name="a", second=0), PASSIVE)
    nothing, unsaid = all_at(rows, 0), all_at(rows, -1)
    for minute, grace in ((0, HOUR), (10, 5 * MINUTE)):
        nominal = all_at(rows, START + 2 * HOUR + minute * MINUTE)
        assert allowed_after(node.lifecycle, rows, nominal, nothing, unsaid).tolist() == [grace]
    assert allowed_after(node.lifecycle, rows, all_at(rows, FOREVER), nothing, unsaid).tolist() == [HOUR]
