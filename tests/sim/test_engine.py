"""The simulator: the production core over hours and weeks of virtual time."""

from datetime import date
from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from evenbeat.core.columns import Ints
from evenbeat.core.task import Small
from evenbeat.model import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    WEEK,
    Instant,
    RunKind,
    Schedule,
    Spread,
    State,
    Task,
    WhenUnreachable,
)
from evenbeat.model import Period as PeriodNoun
from evenbeat.sim.engine import Outage, SimulatedStart, Simulation
from evenbeat.when.icinga import icinga_after
from evenbeat.when.instant import parse_instant, to_datetime
from evenbeat.when.period import compile_periods
from evenbeat.when.zone import zone

START = parse_instant("2026-11-16T00:00", zone("UTC"))
WORK = compile_periods({"work": PeriodNoun(ranges=("monday-friday 09:00-17:00",), zone="Europe/Paris")})


def lasting(duration: int):  # type: ignore[no-untyped-def]
    def durations(rows: Ints, _: Instant) -> Ints:
        return np.full(len(rows), duration, dtype=np.int64)

    return durations


def every(interval: int, count: int, **fields: object) -> list[Task]:
    schedule = Schedule(every=interval, **{k: v for k, v in fields.items() if k == "phase"})  # type: ignore[arg-type]
    rest = {k: v for k, v in fields.items() if k != "phase"}
    return [Task(name=f"t{i}", schedule=schedule, **rest) for i in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize("duration", [SECOND, 3 * HOUR, 11 * HOUR])
def test_a_daily_interval_runs_every_86400_seconds_exactly_whatever_its_duration(duration: int) -> None:
    simulation = Simulation(every(DAY, 1), {}, 10, START)
    report = simulation.run(10 * DAY, lasting(duration), keep_history=True)
    starts = [start.at for start in report.history]
    assert len(starts) == 9  # strictly after the start, whose own nominal time has passed
    assert {b - a for a, b in pairwise(starts)} == {DAY}


def test_a_daily_check_in_working_hours_runs_every_working_day() -> None:
    simulation = Simulation(every(DAY, 20, period="work"), WORK, 100, START)
    report = simulation.run(2 * WEEK, lasting(SECOND), keep_history=True)
    for row in simulation.rows.tolist():
        days = [to_datetime(start.at, zone("Europe/Paris")).date() for start in report.history if start.row == row]
        assert days == [date(2026, 11, d) for d in (16, 17, 18, 19, 20, 23, 24, 25, 26, 27)]


def test_a_weekly_check_in_working_hours_runs_once_a_week() -> None:
    simulation = Simulation(every(WEEK, 20, period="work"), WORK, 100, START)
    report = simulation.run(8 * WEEK, lasting(SECOND), keep_history=True)
    counts = np.bincount([start.row for start in report.history])
    assert set(counts.tolist()) <= {7, 8, 9}
    assert report.runs == pytest.approx(20 * 8, abs=20)


def test_every_second_starts_as_many_as_every_other() -> None:
    tasks = [*every(10 * SECOND, 300), *every(MINUTE, 600), *every(5 * MINUTE, 900)]
    tasks = [Task(name=f"t{i}", schedule=task.schedule) for i, task in enumerate(tasks)]
    report = Simulation(tasks, {}, 1_000, START).run(10 * MINUTE, lasting(SECOND // 5))
    assert report.runs == pytest.approx(300 * 60 + 600 * 10 + 900 * 2, abs=3)
    assert report.skipped == {}
    assert report.starts.max() / report.starts.mean() < 1.1
    assert report.lateness.max() <= 0.05


def test_after_a_stop_of_two_minutes_all_is_made_up_for_within_the_start_window() -> None:
    simulation = Simulation(every(5 * MINUTE, 10_000), {}, 10_000, START)
    outage = Outage(Instant(START + 2 * MINUTE), Instant(START + 4 * MINUTE))
    report = simulation.run(12 * MINUTE, lasting(SECOND // 5), [outage])
    mean = 10_000 / 300
    assert report.starts[125:235].sum() == 0
    assert report.starts.max() <= mean + 4_050 / 60 + 2
    assert report.starts[302:].max() <= mean + 2
    assert report.skipped == {"missed while stopped": pytest.approx(4_000, abs=50)}
    slow = Simulation(every(5 * MINUTE, 10_000), {}, 10_000, START, start_window=5 * MINUTE, start_rate=20)
    assert slow.run(12 * MINUTE, lasting(SECOND // 5), [outage]).starts.max() <= mean + 20 + 2
    caught_up = report.runs - 10_000 * (12 - 2) / 5
    assert caught_up == pytest.approx(4_000, abs=60)


def test_at_saturation_everything_waits_in_order_and_passed_times_are_coalesced() -> None:
    simulation = Simulation(every(10 * SECOND, 10), {}, 1, START)
    report = simulation.run(10 * MINUTE, lasting(2 * SECOND), keep_history=True)
    assert 250 <= report.runs <= 300
    assert report.skipped["coalesced"] > 200
    counts = np.bincount([start.row for start in report.history])
    assert counts.max() - counts.min() <= 2
    starts = [start.at for start in report.history]
    assert all(b - a >= 2 * SECOND for a, b in pairwise(starts))


def test_execution_time_never_stretches_the_period() -> None:
    simulation = Simulation(every(MINUTE, 3), {}, 10, START)
    report = simulation.run(HOUR, lasting(29 * SECOND), keep_history=True)
    for row in simulation.rows.tolist():
        starts = [start.at for start in report.history if start.row == row]
        assert len(starts) >= 59
        assert {b - a for a, b in pairwise(starts)} == {MINUTE}


def test_cron_calendar_and_one_shot_tasks_run_at_their_times() -> None:
    tasks = [
        Task(name="cron", schedule=Schedule(cron="*/15 * * * *", second=7)),
        Task(name="calendar", schedule=Schedule(calendar="*:30:05")),
        Task(name="once", schedule=Schedule(at="2026-11-16T01:02:03")),
        Task(name="start", schedule=Schedule(cron="@reboot")),
    ]
    report = Simulation(tasks, {}, 10, START).run(2 * HOUR, lasting(SECOND), keep_history=True)
    counts = np.bincount([start.row for start in report.history], minlength=4).tolist()
    assert counts == [8, 2, 1, 0]
    assert report.lateness.max() <= 0.05


def test_the_same_simulation_gives_the_same_history() -> None:
    def history() -> list[SimulatedStart]:
        simulation = Simulation(every(30 * SECOND, 40), {}, 3, START)
        return simulation.run(20 * MINUTE, lasting(3 * SECOND), keep_history=True).history

    assert history() == history()


def test_a_simulated_task_obeys_all_that_its_definition_says() -> None:
    limited = [Task(f"limited {i}", Schedule(every=10 * SECOND, phase=0), limit="one") for i in range(3)]
    paused = Task("paused", Schedule(every=SECOND), paused=True)
    simulation = Simulation([*limited, paused], {}, 10, START, {"one": 1})
    report = simulation.run(MINUTE, lasting(SECOND), keep_history=True)
    assert paused.name not in {(*limited, paused)[start.row].name for start in report.history}
    assert report.skipped["disabled"] >= 59
    starts = [start.at for start in report.history]
    assert len(starts) >= 15
    assert min(later - sooner for sooner, later in pairwise(starts)) >= SECOND


def peak_to_mean(spread: Spread) -> float:
    tasks = [Task(name=f"t{i}", schedule=Schedule(every=MINUTE, spread=spread)) for i in range(600)]
    starts = Simulation(tasks, {}, 10_000, START, seed=7).run(5 * MINUTE, lasting(SECOND // 5)).starts
    return float(starts.max() / starts.mean())


def test_tasks_are_placed_by_their_strategy() -> None:
    found = {spread: peak_to_mean(spread) for spread in Spread}
    assert found[Spread.EVEN] < 1.2
    assert found[Spread.ALIGNED] > 50
    lots = (found[Spread.HASH], found[Spread.BERGAMOT], found[Spread.ICINGA])
    assert len({*found.values()}) == len(Spread)
    assert all(1.5 < of < 10 for of in lots)


def test_under_icinga_every_execution_sets_the_next_nominal_time() -> None:
    tasks = [Task(name=f"t{i}", schedule=Schedule(every=MINUTE, spread=Spread.ICINGA)) for i in range(50)]
    simulation = Simulation(tasks, {}, 10_000, START, seed=7)
    report = simulation.run(3 * HOUR, lasting(SECOND // 5), keep_history=True)
    every, phase = simulation.columns.every, simulation.columns.phase
    moved = 0
    for row in range(50):
        nominal = np.array([start.nominal for start in report.history if start.row == row])
        expected = icinga_after(nominal[:-1], every[row : row + 1], phase[row : row + 1])
        assert nominal[1:].tolist() == expected.tolist()
        moved += int((np.diff(nominal) < MINUTE).any())
        # At last it is on a grid of its own.
        assert (nominal[-1] - phase[row]) % MINUTE == 0
    assert moved > 25


def test_a_simulated_task_is_skipped_while_a_check_that_it_depends_on_fails() -> None:
    (check,) = every(10 * MINUTE, 1, phase=0)
    gateway = replace(check, name="gateway", check=True, attempts=1)
    tasks = [
        gateway,
        *(replace(one, depends=("gateway",), when_unreachable=WhenUnreachable.SKIP) for one in every(MINUTE, 5)),
    ]

    def outcomes(rows: Ints, started: Instant) -> Small:
        fails = START + 30 * MINUTE <= started < START + 60 * MINUTE
        return np.full(len(rows), State.CRITICAL if fails else State.OK, dtype=np.uint8)

    simulation = Simulation(tasks, {}, 10, START)
    report = simulation.run(2 * HOUR, lasting(0), outcomes=outcomes, keep_history=True)
    inside = [run for run in report.history if START + 31 * MINUTE < run.at < START + 60 * MINUTE]
    assert {run.row for run in inside} == {int(simulation.rows[0])}
    assert report.skipped["unreachable"] == pytest.approx(5 * 30, abs=10)


def test_tasks_that_follow_others_run_when_these_have_ended_with_their_nominal_times() -> None:
    tasks = [
        Task("backup", Schedule(every=HOUR, phase=10 * MINUTE)),
        Task("dump", Schedule(every=HOUR, phase=20 * MINUTE)),
        Task("upload", Schedule(after=("backup", "dump"))),
        Task("report", Schedule(after=("upload",))),
    ]
    simulation = Simulation(tasks, {}, 10, START)
    report = simulation.run(3 * HOUR, lambda rows, _: np.full(len(rows), MINUTE, dtype=np.int64), keep_history=True)
    following = [(run.at - START, run.nominal - START, run.kind) for run in report.history if run.row >= 2]
    assert following == [
        (k * HOUR + length * MINUTE, k * HOUR + 10 * MINUTE, RunKind.CHAIN) for k in range(3) for length in (21, 22)
    ]
    assert max(report.lateness) < 1
    assert report.skipped == {}
