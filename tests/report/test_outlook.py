from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from evenbeat.core.placement import place_on_wheel
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, RunKind, Schedule, Spread, Task
from evenbeat.model import Period as PeriodNoun
from evenbeat.report.outlook.calendar_walk import CalendarWalk
from evenbeat.report.outlook.columns import outlook_columns
from evenbeat.report.outlook.outlook import Outlook, rounded_counts, sum_in_steps
from evenbeat.sim.engine import Simulation
from evenbeat.when.curve import Stretch, summarize
from evenbeat.when.inside_period import within_period
from evenbeat.when.instant import format_instant, parse_instant
from evenbeat.when.interval import Interval
from evenbeat.when.period import compile_periods
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.wheel import LoadWheel
from evenbeat.when.zone import zone

UTC = zone("UTC")
T0 = parse_instant("2026-03-29T00:00", UTC)  # a change of DST lies in the night
LONG_AGO = Instant(0)
PERIODS = compile_periods(
    {
        "work": PeriodNoun(ranges=("monday-friday 09:00-17:00",), zone="Europe/Paris"),
        "night": PeriodNoun(ranges=("00:30-01:10", "22:00-03:00")),
        "blink": PeriodNoun(ranges=("00:20-00:21", "01:20-01:21")),
    }
)


def outlook(*tasks: tuple[Task, Instant]) -> Outlook:
    return Outlook(outlook_columns(sorted(tasks, key=lambda t: t[0].name), PERIODS))


def slowly(task: Task, created: Instant, start: Instant, end: Instant) -> Iterator[tuple[Instant, RunKind]]:
    """What one task is planned for, asked of its schedule alone."""
    if not task.enabled or task.paused:
        return
    period = None if task.period is None else PERIODS[task.period]
    since: int = created
    if task.start_at is not None and (asked := parse_instant(task.start_at, zone(task.schedule.zone))) > created:
        since = asked + 1
        if start <= asked < end and (period is None or period.contains(asked)):
            yield asked, RunKind.START_AT
    times = compile_schedule(task.schedule, task.name)
    # Of calendars a period leaves what is inside; grids get substitutes too.
    listed = within_period(times, period if isinstance(times, Interval) else None)
    for t in listed.between(start, end):
        if t >= since and (period is None or period.contains(t)):
            yield t, RunKind.GRID


instants = st.integers(-HOUR, 5 * HOUR).map(lambda offset: Instant(T0 + offset))
intervals = st.sampled_from([SECOND, 7 * SECOND, 2_500_000, MINUTE, 5 * MINUTE, 50 * MINUTE, HOUR, DAY])
schedules = st.one_of(
    intervals.flatmap(lambda every: st.builds(Schedule, every=st.just(every), phase=st.integers(0, every - 1))),
    st.builds(Schedule, every=intervals, spread=st.sampled_from([Spread.HASH, Spread.ALIGNED])),
    st.builds(
        Schedule,
        cron=st.sampled_from(["H/5 * * * *", "* * * * *", "H H * * *", "30 2 * * *", "TZ=Asia/Kolkata H * * * *"]),
        zone=st.sampled_from(["UTC", "Europe/Paris"]),
        second=st.none() | st.integers(0, 59),
    ),
    st.builds(Schedule, calendar=st.sampled_from(["*:0/7:30", "Mon..Sun 01:30 Europe/Paris"])),
    st.builds(Schedule, at=instants.map(lambda t: format_instant(t, UTC))),
    st.builds(Schedule, cron=st.just("@reboot")),
)
tasks = st.lists(
    st.tuples(
        st.builds(
            Task,
            name=st.text("abcé/", min_size=1, max_size=6),
            schedule=schedules,
            period=st.sampled_from([None, None, *PERIODS]),
            start_at=st.none() | instants.map(lambda t: format_instant(t, UTC)),
            paused=st.sampled_from([False, False, False, True]),
        ),
        st.just(LONG_AGO) | instants,
    ),
    max_size=8,
    unique_by=lambda pair: pair[0].name,
)


@given(tasks, st.integers(0, 4 * HOUR), st.integers(1, 3_600))
@settings(max_examples=examples(80))
def test_the_plan_is_the_sum_of_what_each_task_is_planned_for(
    some: list[tuple[Task, Instant]], offset: int, seconds: int
) -> None:
    stretch = Stretch(Instant((T0 + offset) // SECOND * SECOND), seconds)
    expected = sorted(
        (t, task.name, kind) for task, created in some for t, kind in slowly(task, created, stretch.start, stretch.end)
    )
    whole = outlook(*some)
    curve = whole.planned(stretch)
    assert Counter({i: int(n) for i, n in enumerate(curve) if n}) == Counter(
        (t - stretch.start) // SECOND for t, _, _ in expected
    )
    listed = [(run.at, run.task, run.kind) for run in whole.upcoming(stretch.start, stretch.end, len(expected) + 1)]
    assert listed == expected
    first = whole.upcoming(stretch.start, stretch.end, 5)
    assert [run.at for run in first] == [t for t, _, _ in expected[:5]]


def a_crowd() -> list[Task]:
    crons = [Task(name=f"cron-{i}", schedule=Schedule(cron="H/5 * * * *")) for i in range(10)]
    grids = [Task(name=f"grid-{i:03}", schedule=Schedule(every=(30 + i % 4 * 30) * SECOND)) for i in range(24)]
    closed = [replace(task, name=f"{task.name}-night", period="night") for task in grids[:8]]
    return place_on_wheel(LoadWheel(), [*crons, *grids, *closed], Random(7).random)


def test_it_agrees_with_the_simulation_of_the_same_tasks() -> None:
    crowd = a_crowd()
    simulation = Simulation(crowd, PERIODS, 1_000, Instant(T0 - MINUTE))
    report = simulation.run(50 * MINUTE, lambda rows, _: np.full(len(rows), 1, dtype=np.int64), keep_history=True)
    stretch = Stretch(T0, 2_700)
    nominal = Counter((start.nominal - T0) // SECOND for start in report.history if T0 <= start.nominal < stretch.end)
    assert set(report.skipped) == set()
    curve = outlook(*((task, LONG_AGO) for task in crowd)).planned(stretch)
    assert {i: int(n) for i, n in enumerate(curve) if n} == nominal


def test_a_start_within_a_second_is_found_from_within_that_second() -> None:
    whole = outlook((Task(name="a", schedule=Schedule(every=SECOND, phase=700_000)), LONG_AGO))
    found = whole.upcoming(Instant(T0 + 700_001), Instant(T0 + 2 * SECOND), 10)
    assert [run.at - T0 for run in found] == [1_700_000]
    assert whole.upcoming(Instant(T0 + 700_000), Instant(T0 + 700_001), 10)[0].at == T0 + 700_000
    assert whole.upcoming(T0, T0, 10) == []


def test_nothing_is_planned_where_there_is_nobody() -> None:
    empty = outlook()
    assert empty.planned(Stretch(T0, 10)).tolist() == [0] * 10
    assert empty.upcoming(T0, Instant(T0 + DAY), 10) == []
    assert len(empty) == 0


def test_steps_put_seconds_together() -> None:
    curve = np.array([1.0, 2, 3, 4, 5])
    assert rounded_counts(sum_in_steps(curve, 2)) == [3, 7, 5]
    assert rounded_counts(sum_in_steps(curve, 1)) == [1, 2, 3, 4, 5]
    assert rounded_counts(sum_in_steps(curve, 9)) == [15]


def minutely(count: int, first: int = 0) -> list[Task]:
    return [Task(name=f"t-{i:04}", schedule=Schedule(every=MINUTE)) for i in range(first, first + count)]


def test_a_forecast_places_new_tasks_where_there_is_room() -> None:
    there = place_on_wheel(LoadWheel(), minutely(60), Random(7).random)
    whole = outlook(*((task, LONG_AGO) for task in there))
    before, after = whole.forecast(minutely(120, 60), Stretch(T0, 3_600), PERIODS)
    assert summarize(before)[:3] == (1, 1, 1)
    assert summarize(after)[:3] == (3, 3, 3)
    crowd = [Task(name=f"x-{i}", schedule=Schedule(cron="0 * * * *", second=0)) for i in range(50)]
    assert whole.forecast(crowd, Stretch(T0, 3_600), PERIODS).after.max() == 51


def test_a_forecast_of_a_change_takes_the_old_task_away() -> None:
    there = place_on_wheel(LoadWheel(), minutely(60), Random(7).random)
    whole = outlook(*((task, LONG_AGO) for task in there))
    slower = [replace(task, schedule=Schedule(every=2 * MINUTE)) for task in there]
    before, after = whole.forecast(slower, Stretch(T0, 3_600), PERIODS, old=there)
    assert (before.sum(), after.sum()) == (3_600, 1_800)
    unchanged = [replace(task, schedule=Schedule(every=MINUTE)) for task in there[:10]]
    same = whole.forecast(unchanged, Stretch(T0, 3_600), PERIODS, old=there[:10])
    assert same.before.tolist() == same.after.tolist()


def test_a_task_is_placed_as_a_node_would_beside_calendars_and_the_paused() -> None:
    paused = [replace(task, paused=True) for task in place_on_wheel(LoadWheel(), minutely(30), Random(7).random)]
    crons = [Task(name=f"c-{s}", schedule=Schedule(cron="* * * * *", second=s)) for s in range(30, 59)]
    # The paused may come back, so their places are taken: of sixty seconds one is left.
    taken = {(task.schedule.phase or 0) // SECOND for task in paused}
    free = sorted(set(range(60)) - taken)
    crons = [replace(task, schedule=replace(task.schedule, second=s)) for task, s in zip(crons, free[1:], strict=True)]
    whole = outlook(*((task, LONG_AGO) for task in [*paused, *crons]))
    for _ in range(2):  # asking leaves no trace
        (placed,) = whole.place([Task(name="new", schedule=Schedule(every=MINUTE))])
        assert (placed.schedule.phase or 0) // SECOND == free[0]


class Ticks:
    """Every ten minutes; counts how often it is asked."""

    repeats_after = 0

    def __init__(self) -> None:
        self.asked = 0

    def next_after(self, t: Instant) -> Instant | None:
        self.asked += 1
        return Instant((t // (10 * MINUTE) + 1) * 10 * MINUTE)

    def previous_before(self, t: Instant) -> Instant | None:
        raise NotImplementedError


def test_a_walk_goes_each_way_once() -> None:
    ticks = Ticks()
    walk = CalendarWalk([ticks])
    times, numbers = walk.between(T0, Instant(T0 + HOUR))
    assert times.tolist() == list(range(T0, T0 + HOUR, 10 * MINUTE))
    assert numbers.tolist() == [0] * 6
    asked = ticks.asked
    for start in range(T0 - HOUR, T0 + HOUR, 7 * MINUTE):
        walk.between(Instant(start), Instant(T0 + HOUR))
    assert ticks.asked == asked
    walk.between(Instant(T0 + HOUR), Instant(T0 + 2 * HOUR))
    assert ticks.asked == asked + 6


@pytest.mark.parametrize("jump", [-3 * HOUR, 30 * DAY])
def test_a_walk_begins_anew_far_away(jump: int) -> None:
    ticks = Ticks()
    walk = CalendarWalk([ticks])
    walk.between(T0, Instant(T0 + HOUR))
    start = Instant(T0 + jump)
    before = ticks.asked
    assert walk.between(start, Instant(start + HOUR))[0].tolist() == list(range(start, start + HOUR, 10 * MINUTE))
    assert ticks.asked - before < 20


def test_names_are_found_by_their_order() -> None:
    columns = outlook_columns(
        ((Task(name=name, schedule=Schedule(every=MINUTE, phase=0)), LONG_AGO) for name in ("a", "é", "ü")), {}
    )
    find: Callable[[str], int | None] = columns.names.find
    assert [find(name) for name in ("a", "é", "ü", "b", "", "z\U0001f989")] == [0, 1, 2, None, None, None]
    rows: Sequence[str] = [columns.names[i] for i in range(3)]
    assert rows == ["a", "é", "ü"]


@pytest.mark.parametrize("schedule", [Schedule(every=MINUTE, phase=0), Schedule(cron="* * * * *")])
def test_a_passive_check_makes_no_load(schedule: Schedule) -> None:
    passive = Task("told", schedule, check=True, passive=True)
    assert outlook((passive, LONG_AGO)).planned(Stretch(T0, HOUR // SECOND)).sum() == 0
