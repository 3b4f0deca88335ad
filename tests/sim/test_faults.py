"""Faults in the simulator: clocks that are set, nodes that stop, workers that slow down, checks that fail."""

from collections import Counter
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.core.columns import Ints
from evenbeat.core.task import Flag, Small
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, RunKind, Schedule, State, Task
from evenbeat.sim.engine import BATCH, ClockStep, Outage, Simulation, SimulationReport
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone

START = parse_instant("2026-11-16T00:00", zone("UTC"))
INTERVALS = (MINUTE, 5 * MINUTE, 7 * MINUTE, 13 * MINUTE)


def shortly(rows: Ints, _: Instant) -> Ints:
    return np.full(len(rows), SECOND // 5, dtype=np.int64)


def mixed(count: int) -> list[Task]:
    return [Task(name=f"t{i}", schedule=Schedule(every=INTERVALS[i % len(INTERVALS)])) for i in range(count)]


def five_minutes(count: int) -> list[Task]:
    return [Task(name=f"t{i}", schedule=Schedule(every=5 * MINUTE)) for i in range(count)]


def starts_of(report: SimulationReport, row: int) -> list[Instant]:
    return [start.at for start in report.history if start.row == row]


def must_have_kept_their_pace(simulation: Simulation, report: SimulationReport) -> None:
    """No gap of elapsed time between two starts is under half an interval, or over one and a half."""
    by_row: dict[int, list[int]] = {row: [] for row in simulation.rows.tolist()}
    for start in report.history:
        by_row[start.row].append(start.at)
    for row, starts in by_row.items():
        every = int(simulation.columns.every[row])
        gaps = np.diff(starts)
        assert gaps.min() >= every // 2 - BATCH
        assert gaps.max() <= every * 3 // 2 + 2 * BATCH


@pytest.mark.parametrize("by", [HOUR, 20 * MINUTE + 7 * SECOND, 365 * DAY])
def test_when_the_clock_is_set_back_no_task_stops_and_none_bursts(by: int) -> None:
    simulation = Simulation(mixed(200), {}, 1_000, START)
    report = simulation.run(HOUR, shortly, [ClockStep(Instant(START + 30 * MINUTE), -by)], keep_history=True)
    must_have_kept_their_pace(simulation, report)
    assert report.starts.max() <= 2 * ceil(simulation.mean_rate)
    assert report.runs == pytest.approx(HOUR / SECOND * simulation.mean_rate, rel=0.1)
    assert simulation.lifecycle.generation == 1


def test_when_the_clock_of_ten_thousand_tasks_is_set_back_the_load_stays_as_even_as_it_was() -> None:
    simulation = Simulation(five_minutes(10_000), {}, 10_000, START)
    report = simulation.run(6 * MINUTE, shortly, [ClockStep(Instant(START + 3 * MINUTE), -HOUR)])
    assert report.starts.max() <= 1.1 * simulation.mean_rate
    assert report.starts.min() >= 0.9 * simulation.mean_rate


def test_the_clock_set_forward_counts_as_a_stop_made_up_for_once_and_evenly() -> None:
    simulation = Simulation(five_minutes(6_000), {}, 10_000, START)
    report = simulation.run(8 * MINUTE, shortly, [ClockStep(Instant(START + 2 * MINUTE), HOUR)], keep_history=True)
    assert report.skipped["missed while stopped"] == pytest.approx(6_000 * 12, abs=60)
    kinds = Counter(start.kind for start in report.history)
    assert 2_000 <= kinds[RunKind.CATCH_UP] <= 6_000
    assert max(Counter(start.row for start in report.history if start.kind is RunKind.CATCH_UP).values()) == 1
    assert report.starts.max() <= simulation.mean_rate + 6_000 / 60 + 2
    assert simulation.lifecycle.generation == 0


def test_a_fixed_cron_entry_runs_once_though_its_hour_comes_twice_and_a_starred_one_goes_on() -> None:
    tasks = [
        Task(name="fixed", schedule=Schedule(cron="30 1 * * *", second=0)),
        Task(name="starred", schedule=Schedule(cron="*/5 * * * *", second=0)),
        Task(name="calendar", schedule=Schedule(calendar="01:30:00")),
        Task(name="once", schedule=Schedule(at="2026-11-16T01:30:00")),
    ]
    simulation = Simulation(tasks, {}, 10, START)
    report = simulation.run(30 * HOUR, shortly, [ClockStep(Instant(START + 2 * HOUR), -HOUR)], keep_history=True)
    # By a clock that nobody set, the second day of the node begins an hour later.
    for row in (0, 2):
        assert starts_of(report, row) == [START + 90 * MINUTE, START + DAY + 150 * MINUTE]
    assert starts_of(report, 3) == [START + 90 * MINUTE]
    assert set(np.diff(starts_of(report, 1))) == {5 * MINUTE}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60 * MINUTE), st.integers(2 * SECOND, 400 * DAY)), min_size=1, max_size=2))
def test_whatever_the_steps_back_no_task_stops_and_none_bursts(steps: list[tuple[int, int]]) -> None:
    tasks = mixed(12)
    simulation = Simulation(tasks, {}, 100, START)
    # Half an hour apart, so that every task has had a run since the step before.
    faults = [ClockStep(Instant(START + i * HOUR + 30 * MINUTE + at // 2), -by) for i, (at, by) in enumerate(steps)]
    report = simulation.run((len(steps) + 1) * HOUR, shortly, faults, keep_history=True)
    must_have_kept_their_pace(simulation, report)
    assert report.starts.max() <= 2 * ceil(simulation.mean_rate) + 1


def test_all_that_was_missed_is_made_up_for_in_order_at_no_more_than_twice_the_mean() -> None:
    tasks = [Task(name=f"t{i}", schedule=Schedule(every=MINUTE)) for i in range(1_200)]
    simulation = Simulation(tasks, {}, 10_000, START)
    simulation.lifecycle.set_flag(simulation.rows, Flag.MISSED_ALL, on=True)
    outage = Outage(Instant(START + 2 * MINUTE), Instant(START + 4 * MINUTE))
    report = simulation.run(10 * MINUTE, shortly, [outage], keep_history=True)
    assert report.skipped == {}
    assert report.starts.max() <= 2 * simulation.mean_rate + 1
    for row in range(0, 1_200, 100):
        nominal = [start.nominal for start in report.history if start.row == row]
        assert set(np.diff(nominal)) == {MINUTE}
        assert len(nominal) in (9, 10)
    assert {start.kind for start in report.history if start.at > START + 8 * MINUTE} == {RunKind.GRID}


def test_a_check_now_does_not_shift_the_phase() -> None:
    simulation = Simulation(five_minutes(3), {}, 10, START)
    simulation.run(12 * MINUTE, shortly)
    simulation.lifecycle.force(simulation.rows)
    report = simulation.run(20 * MINUTE, shortly, keep_history=True)
    assert [start.kind for start in report.history[:3]] == [RunKind.FORCED] * 3
    for row in range(3):
        on_grid = [start.nominal for start in report.history if start.row == row and start.kind is RunKind.GRID]
        assert set(np.diff(on_grid)) == {5 * MINUTE}
        assert on_grid[0] % (5 * MINUTE) == simulation.columns.phase[row]


def test_slow_workers_make_runs_wait_and_are_forgotten_when_they_are_fast_again() -> None:
    def slow_for_a_while(rows: Ints, now: Instant) -> Ints:
        slow = START + 10 * MINUTE <= now < START + 20 * MINUTE
        return np.full(len(rows), 2 * MINUTE if slow else SECOND // 5, dtype=np.int64)

    simulation = Simulation(five_minutes(300), {}, 10, START)
    report = simulation.run(40 * MINUTE, slow_for_a_while, keep_history=True)
    late = [start for start in report.history if start.at - start.nominal > SECOND]
    assert late
    assert all(START + 10 * MINUTE <= start.at <= START + 23 * MINUTE for start in late)
    assert set(report.skipped) <= {"coalesced", "dropped: too soon after the last start"}
    assert len({start.row for start in report.history if start.at > START + 34 * MINUTE}) == 300


def failing(share: float, seed: int):  # type: ignore[no-untyped-def]
    random = np.random.default_rng(seed)

    def outcomes(rows: Ints, _: Instant) -> Small:
        return np.where(random.random(len(rows)) < share, State.CRITICAL, State.OK).astype(np.uint8)

    return outcomes


def checks(count: int) -> Simulation:
    tasks = [Task(name=f"c{i}", schedule=Schedule(every=5 * MINUTE), check=True) for i in range(count)]
    simulation = Simulation(tasks, {}, 1_000, START)
    simulation.columns.retry[simulation.rows] = MINUTE
    return simulation


def test_checks_that_fail_are_retried_until_the_problem_is_hard_and_keep_their_phase() -> None:
    simulation = checks(20)
    report = simulation.run(20 * MINUTE, shortly, outcomes=failing(1.0, 1), keep_history=True)
    for row in simulation.rows.tolist():
        kinds = [start.kind for start in report.history if start.row == row]
        assert kinds == [RunKind.GRID, RunKind.RETRY, RunKind.RETRY, *[RunKind.GRID] * (len(kinds) - 3)]
        on_grid = [start.nominal for start in report.history if start.row == row and start.kind is RunKind.GRID]
        assert set(np.diff(on_grid)) == {5 * MINUTE}
    assert simulation.columns.hard[simulation.rows].all()
    assert set(simulation.columns.state[simulation.rows].tolist()) == {State.CRITICAL}


def test_checks_that_fail_by_chance_are_retried_as_often_as_chance_has_it_and_the_same_each_time() -> None:
    def history() -> SimulationReport:
        return checks(100).run(2 * HOUR, shortly, outcomes=failing(0.1, 7), keep_history=True)

    report = history()
    retries = sum(start.kind is RunKind.RETRY for start in report.history)
    # A first failure is retried, and a second one again: 0.1 + 0.01 for each run on the grid.
    assert retries / (report.runs - retries) == pytest.approx(0.11, abs=0.03)
    assert report.history == history().history


def test_results_are_accepted_after_the_clock_was_set_back() -> None:
    simulation = checks(50)
    back = ClockStep(Instant(START + 10 * MINUTE), -HOUR)
    simulation.run(20 * MINUTE, shortly, [back], outcomes=failing(1.0, 1))
    assert set(simulation.columns.state[simulation.rows].tolist()) == {State.CRITICAL}
    simulation.run(6 * MINUTE, shortly, outcomes=failing(0.0, 1))
    assert set(simulation.columns.state[simulation.rows].tolist()) == {State.OK}
