"""The nominal times of a schedule inside a period: filtered, with substitutes for what a gap swallows, no stampede."""

from bisect import bisect_left
from collections import Counter
from datetime import date
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, WEEK, Instant
from evenbeat.model import Period as PeriodNoun
from evenbeat.when.cron import compile_cron
from evenbeat.when.inside_period import (
    CalendarWithinPeriod,
    IntervalWithinPeriod,
    nominal_after_within_period,
    substitutes_between,
    within_period,
)
from evenbeat.when.instant import parse_instant, to_datetime
from evenbeat.when.interval import Interval
from evenbeat.when.nominal_times import ForwardSchedule
from evenbeat.when.period import CompiledPeriod, compile_period, compile_periods
from evenbeat.when.schedule import OnceSchedule
from evenbeat.when.windows import FOREVER
from evenbeat.when.zone import zone


def instant(text: str, zone_name: str = "UTC") -> Instant:
    return parse_instant(text, zone(zone_name))


def period(*lines: str, zone_name: str = "UTC") -> CompiledPeriod:
    return compile_period(PeriodNoun(ranges=lines, zone=zone_name))


def never() -> CompiledPeriod:
    return compile_periods({"never": PeriodNoun(exclude=("always",)), "always": PeriodNoun()})["never"]


def runs(every: int, phase: int, p: CompiledPeriod, start: str, end: str) -> list[str]:
    """Nominal times as text, in UTC."""
    found = IntervalWithinPeriod(Interval(every, phase), p).between(instant(start), instant(end))
    return [to_datetime(t, zone("UTC")).strftime("%m-%d %H:%M:%S") for t in found]


def local_days(times: list[Instant], zone_name: str) -> list[date]:
    return [to_datetime(t, zone(zone_name)).date() for t in times]


phases_of_a_day = st.integers(0, DAY - 1) | st.integers(0, 1439).map(lambda m: m * MINUTE)
PERIODS = {
    "always": period(),
    "morning minute": period("09:00-09:01"),
    "working hours": period("monday-friday 09:00-17:00", zone_name="Europe/Paris"),
    "lunch and tea": period("12:00-12:30, 16:00-16:10", zone_name="America/New_York"),
    "nights": period("22:00-06:00", zone_name="Australia/Lord_Howe"),
    "weekend": period("saturday-sunday", zone_name="Asia/Kolkata"),
    "first of the month": period("day 1 03:00-04:00"),
    "seconds": period("00:00:00-00:00:02, 12:00:00-12:00:01"),
}
recurring = st.sampled_from(sorted(PERIODS))
START = instant("2026-03-02")


# --- Bergamot's case --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [0, 1, 30 * SECOND, MINUTE, 2 * MINUTE, 299 * SECOND, 5 * MINUTE - 1])
def test_a_five_minute_check_in_a_window_of_one_minute_runs_once_each_morning(phase: int) -> None:
    """Bergamot: "the scheduler will make no effort to ensure that the check is executed at 09:00"."""
    found = runs(5 * MINUTE, phase, period("09:00-09:01"), "2026-03-02", "2026-03-09")
    assert [text[:8] for text in found] == [f"03-{day:02} 09" for day in range(2, 9)]
    assert all(text[6:11] == "09:00" for text in found)


@given(st.integers(0, 5 * MINUTE - 1))
def test_it_does_so_whatever_the_phase(phase: int) -> None:
    inside = IntervalWithinPeriod(Interval(5 * MINUTE, phase), PERIODS["morning minute"])
    found = list(inside.between(START, Instant(START + 14 * DAY)))
    assert [(t - START) // DAY for t in found] == list(range(14))
    assert all(9 * HOUR <= (t - START) % DAY < 9 * HOUR + MINUTE for t in found)


def test_a_check_whose_grid_meets_the_minute_runs_on_its_grid() -> None:
    assert runs(5 * MINUTE, 30 * SECOND, period("09:00-09:01"), "2026-03-02", "2026-03-04") == [
        "03-02 09:00:30",
        "03-03 09:00:30",
    ]


def test_a_check_whose_grid_misses_the_minute_runs_at_its_fraction_of_it() -> None:
    # 3 of 5 minutes: three fifths into the window.
    assert runs(5 * MINUTE, 3 * MINUTE, period("09:00-09:01"), "2026-03-02", "2026-03-04") == [
        "03-02 09:00:36",
        "03-03 09:00:36",
    ]


# --- daily and weekly tasks in working hours --------------------------------------------------------------------------


@given(phases_of_a_day, st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata"]))
@settings(deadline=None)
def test_a_daily_check_in_working_hours_runs_every_working_day_exactly_once(phase: int, zone_name: str) -> None:
    p = period("monday-friday 09:00-17:00", zone_name=zone_name)
    start, end = instant("2026-03-02", zone_name), instant("2026-04-13", zone_name)
    found = list(IntervalWithinPeriod(Interval(DAY, phase), p).between(start, end))
    working_days = [date.fromordinal(d) for d in range(date(2026, 3, 2).toordinal(), date(2026, 4, 13).toordinal())]
    assert local_days(found, zone_name) == [day for day in working_days if day.weekday() < 5]
    assert all(p.contains(t) for t in found)


def test_a_daily_check_keeps_its_time_in_working_hours_and_else_moves_by_its_fraction() -> None:
    p = period("monday-friday 09:00-17:00")
    # 2026-03-06 is a Friday.
    assert runs(DAY, 10 * HOUR, p, "2026-03-05", "2026-03-11") == [
        "03-05 10:00:00",
        "03-06 10:00:00",
        "03-09 10:00:00",
        "03-10 10:00:00",
    ]
    assert runs(DAY, 18 * HOUR, p, "2026-03-05", "2026-03-11") == [
        "03-05 15:00:00",
        "03-06 15:00:00",
        "03-09 15:00:00",
        "03-10 15:00:00",
    ]


@given(st.integers(0, WEEK - 1) | st.integers(0, 7 * 24 - 1).map(lambda h: h * HOUR))
@settings(deadline=None)
def test_a_weekly_check_in_working_hours_runs_once_a_week_in_the_long_run(phase: int) -> None:
    inside = IntervalWithinPeriod(Interval(WEEK, phase), PERIODS["working hours"])
    found = list(inside.between(START, Instant(START + 52 * WEEK)))
    assert 51 <= len(found) <= 53
    # A grid point waits at most for the opening after a weekend, and then for its place in the window.
    grid = list(Interval(WEEK, phase).between(Instant(START - WEEK), Instant(START + 52 * WEEK)))
    for t in found:
        own = grid[bisect_left(grid, t + 1) - 1]
        assert 0 <= t - own < 3 * DAY
    assert len({bisect_left(grid, t + 1) for t in found}) == len(found), "two runs for one grid point"


def test_a_weekly_check_on_a_saturday_moves_to_monday() -> None:
    # The epoch was a Thursday, so Saturday 12:00 is two and a half days into the week of the grid.
    phase = 2 * DAY + 12 * HOUR
    assert runs(WEEK, phase, period("monday-friday 09:00-16:00"), "2026-03-02", "2026-03-20") == [
        "03-02 11:30:00",
        "03-09 11:30:00",
        "03-16 11:30:00",
    ]


def test_a_check_every_third_day_runs_only_for_gaps_that_hold_a_grid_point() -> None:
    phase = (START + 2 * DAY) % (3 * DAY)
    p = period("12:00-13:00")
    grid = [to_datetime(t, zone("UTC")) for t in Interval(3 * DAY, phase).between(START, Instant(START + 9 * DAY))]
    assert [f"{t:%m-%d}" for t in grid] == ["03-04", "03-07", "03-10"]
    found = runs(3 * DAY, phase, p, "2026-03-02", "2026-03-11")
    assert [text[:8] for text in found] == ["03-04 12", "03-07 12", "03-10 12"]


# --- the rule, piece by piece -----------------------------------------------------------------------------------------


def test_a_window_with_grid_points_of_its_own_gets_no_substitute() -> None:
    assert runs(HOUR, 0, period("09:30-12:30"), "2026-03-02", "2026-03-03") == [
        "03-02 10:00:00",
        "03-02 11:00:00",
        "03-02 12:00:00",
    ]


def test_many_grid_points_of_one_gap_merge_into_one_run() -> None:
    # 96 a day, and none from 09:01 to 09:11.
    assert runs(15 * MINUTE, 0, period("09:01-09:11"), "2026-03-02", "2026-03-04") == [
        "03-02 09:01:00",
        "03-03 09:01:00",
    ]


def test_a_gap_without_a_grid_point_gives_no_substitute() -> None:
    p = period("00:00-12:00, 12:30-12:40, 12:50-24:00")
    found = runs(HOUR, 15 * MINUTE, p, "2026-03-02T10:00", "2026-03-02T14:00")
    # 12:15 falls into the first gap and moves to 12:30-12:40; the gap 12:40-12:50 holds none.
    assert found == ["03-02 10:15:00", "03-02 11:15:00", "03-02 12:32:30", "03-02 13:15:00"]


def test_a_grid_point_at_the_opening_counts_as_inside_and_at_the_close_as_outside() -> None:
    assert runs(DAY, 9 * HOUR, period("09:00-17:00"), "2026-03-02", "2026-03-03") == ["03-02 09:00:00"]
    # 17:00 is in the gap: its substitute comes the next day, 17/24 into the window.
    assert runs(DAY, 17 * HOUR, period("09:00-17:00"), "2026-03-02", "2026-03-03") == ["03-02 14:40:00"]


def test_the_grid_alone_counts_in_a_period_that_is_always_open() -> None:
    grid = Interval(7 * MINUTE, 3 * MINUTE)
    end = Instant(START + DAY)
    assert list(IntervalWithinPeriod(grid, period()).between(START, end)) == list(grid.between(START, end))


def test_a_period_open_once_in_its_life_gets_its_one_run() -> None:
    p = period("2026-06-06 10:00-11:00")
    inside = IntervalWithinPeriod(Interval(WEEK, WEEK // 2), p)
    only = inside.next_after(START)
    assert only == instant("2026-06-06T10:30")
    assert inside.next_after(only) is None


@pytest.mark.parametrize("every", [SECOND, DAY, 3_653 * DAY])
def test_a_period_that_never_opens_gives_none(every: int) -> None:
    p = never()
    assert IntervalWithinPeriod(Interval(every, 0), p).next_after(START) is None
    assert list(IntervalWithinPeriod(Interval(every, 0), p).between(START, Instant(START + WEEK))) == []
    columns = np.array([0, 0], dtype=np.int64), np.array([every, every], dtype=np.int64)
    assert nominal_after_within_period(*columns, p, START).tolist() == [FOREVER, FOREVER]


def test_a_period_that_has_closed_for_good_gives_none() -> None:
    p = period("2022-06-06")
    assert IntervalWithinPeriod(Interval(HOUR, 0), p).next_after(START) is None
    columns = np.array([0], dtype=np.int64), np.array([HOUR], dtype=np.int64)
    assert nominal_after_within_period(*columns, p, START).tolist() == [FOREVER]


# --- no stampede ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "opens", "length"),
    [("09:00-09:10", 9 * HOUR, 10 * MINUTE), ("00:00-00:01", 0, MINUTE), ("23:00-23:00:10", 23 * HOUR, 10 * SECOND)],
)
def test_substitutes_of_many_tasks_are_spread_flat_over_the_window(line: str, opens: int, length: int) -> None:
    p = period(line)
    found = [
        IntervalWithinPeriod(Interval(DAY, k * DAY // 1000), p).next_after(Instant(START - 1)) for k in range(1000)
    ]
    places = Counter((t - START - opens) * 10 // length for t in found if t is not None)
    assert sorted(places) == list(range(10))
    # The few whose own grid point is in the window stay on it.
    assert 90 <= min(places.values()) <= max(places.values()) <= 110


def test_daily_tasks_of_all_phases_do_not_crowd_the_opening_of_working_hours() -> None:
    p = period("monday-friday 09:00-17:00")
    found = [IntervalWithinPeriod(Interval(DAY, k * DAY // 1000), p).next_after(START) for k in range(1000)]
    minutes = Counter((t - START) // MINUTE for t in found if t is not None)
    assert sum(minutes.values()) == 1000
    # A third stays on its grid, the rest moves: with 480 minutes to share, 1000 / 480 is the mean.
    assert max(minutes.values()) <= 4


# --- properties -------------------------------------------------------------------------------------------------------

minute_or_more = st.one_of(
    st.integers(20 * MINUTE, 3 * DAY),
    st.sampled_from([30 * MINUTE, HOUR, 6 * HOUR, DAY, WEEK, 10 * DAY, 45 * DAY]),
)


@st.composite
def grids(draw: st.DrawFn, every: st.SearchStrategy[int] = minute_or_more) -> Interval:
    interval = draw(every)
    return Interval(interval, draw(st.integers(0, interval - 1) | st.just(0)))


def by_the_rule(grid: Interval, p: CompiledPeriod, start: Instant, end: Instant) -> list[int]:
    """The oracle: list all grid points and all windows with a wide margin, and apply the rule literally."""
    margin = 100 * DAY
    windows = p.windows(Instant(start - margin), Instant(end + margin))
    before = (start - margin) // grid.every * grid.every
    points = [t for t in range(before + grid.phase, end + margin, grid.every) if t >= start - margin]

    def within(a: int, b: int) -> list[int]:
        return points[bisect_left(points, a) : bisect_left(points, b)]

    found: list[int] = []
    closed_since = start - margin
    for opens, closes in windows:
        own = within(opens, closes)
        if own:
            found += own
        elif within(closed_since, opens):
            found.append(opens + int(Fraction(grid.phase, grid.every) * (closes - opens)))
        closed_since = closes
    return [t for t in found if start <= t < end]


@given(grids(), recurring, st.integers(0, 300 * DAY), st.integers(HOUR, 30 * DAY))
@settings(deadline=None)
def test_an_interval_inside_is_what_the_rule_says(grid: Interval, name: str, offset: int, length: int) -> None:
    start, end = Instant(START + offset), Instant(START + offset + length)
    assert list(IntervalWithinPeriod(grid, PERIODS[name]).between(start, end)) == by_the_rule(
        grid, PERIODS[name], start, end
    )


@given(
    grids(),
    st.lists(st.tuples(st.integers(0, 1439), st.integers(1, 1440)), min_size=1, max_size=4),
    st.sampled_from(["", "monday-friday", "friday-monday", "day 1 - 20 / 3"]),
    st.sampled_from(["UTC", "Europe/Paris", "Australia/Lord_Howe"]),
)
@settings(deadline=None)
def test_an_interval_inside_any_hours_is_what_the_rule_says(
    grid: Interval, hours: list[tuple[int, int]], days: str, zone_name: str
) -> None:
    spelled = ", ".join(f"{o // 60:02}:{o % 60:02}-{(o + n) // 60 % 24:02}:{(o + n) % 60:02}" for o, n in hours)
    p = period(f"{days} {spelled}", zone_name=zone_name)
    start, end = instant("2026-03-20"), instant("2026-04-10")
    assert list(IntervalWithinPeriod(grid, p).between(start, end)) == by_the_rule(grid, p, start, end)


@given(grids(), recurring, st.integers(0, 300 * DAY))
@settings(deadline=None)
def test_all_times_lie_inside_and_are_strictly_increasing(grid: Interval, name: str, offset: int) -> None:
    p = PERIODS[name]
    start = Instant(START + offset)
    found = list(IntervalWithinPeriod(grid, p).between(start, Instant(start + 10 * DAY)))
    assert all(p.contains(t) for t in found)
    assert all(a < b for a, b in pairwise(found))


@given(grids(), recurring, st.integers(0, 300 * DAY), st.integers(0, 10 * DAY), st.integers(0, 10 * DAY))
@settings(deadline=None)
def test_iterating_in_two_halves_equals_iterating_once(
    grid: Interval, name: str, offset: int, left: int, right: int
) -> None:
    inside = IntervalWithinPeriod(grid, PERIODS[name])
    a, b, c = Instant(START + offset), Instant(START + offset + left), Instant(START + offset + left + right)
    assert [*inside.between(a, b), *inside.between(b, c)] == list(inside.between(a, c))


any_interval = st.one_of(
    st.integers(SECOND, HOUR),
    st.integers(SECOND, 400 * DAY),
    st.sampled_from([SECOND, MINUTE, HOUR, DAY, WEEK, 30 * DAY, 3_653 * DAY]),
)
column_periods = st.sampled_from(
    [*PERIODS.values(), never(), period("2026-06-06"), period("2022-06-06"), period("2026-01-01 - 2026-04-01")]
)


@given(
    st.lists(grids(any_interval), max_size=12),
    column_periods,
    st.integers(0, 300 * DAY),
    st.integers(0, 20),
    st.sampled_from([-1, 0, 1]),
    st.sampled_from(["anywhere", "opening", "closing"]),
)
@settings(deadline=None)
def test_columns_of_tasks_get_the_answers_of_each_task(
    tasks: list[Interval], p: CompiledPeriod, offset: int, windows_on: int, nudge: int, where: str
) -> None:
    t = Instant(START + offset)
    if where != "anywhere":
        step = p.next_open if where == "opening" else p.next_close
        for _ in range(windows_on):
            t = step(t) or t
        t = Instant(t + nudge)
    phase = np.array([task.phase for task in tasks], dtype=np.int64)
    every = np.array([task.every for task in tasks], dtype=np.int64)
    alone = [IntervalWithinPeriod(task, p).next_after(t) for task in tasks]
    found = nominal_after_within_period(phase, every, p, t).tolist()
    assert found == [FOREVER if one is None else one for one in alone]


@given(st.lists(grids(), max_size=6), column_periods, st.integers(0, 300 * DAY), st.integers(0, 10 * DAY))
@settings(deadline=None)
def test_substitutes_between_are_the_runs_off_the_grid(
    tasks: list[Interval], p: CompiledPeriod, offset: int, length: int
) -> None:
    start, end = Instant(START + offset), Instant(START + offset + length)
    phase = np.array([task.phase for task in tasks], dtype=np.int64)
    every = np.array([task.every for task in tasks], dtype=np.int64)
    found: dict[int, list[int]] = {row: [] for row in range(len(tasks))}
    for rows, at in substitutes_between(phase, every, p, start, end):
        for row, t in zip(rows.tolist(), at.tolist(), strict=True):
            found[row].append(t)
    for row, task in enumerate(tasks):
        runs_inside = IntervalWithinPeriod(task, p).between(start, end)
        assert found[row] == [t for t in runs_inside if (t - task.phase) % task.every]


def test_columns_are_not_changed_by_being_asked() -> None:
    phase = np.array([0, HOUR, 20 * HOUR], dtype=np.int64)
    every = np.array([DAY, DAY, DAY], dtype=np.int64)
    nominal_after_within_period(phase, every, PERIODS["morning minute"], START)
    assert phase.tolist() == [0, HOUR, 20 * HOUR]
    assert every.tolist() == [DAY, DAY, DAY]


def test_a_column_of_an_interval_much_longer_than_many_windows_is_found_far_ahead() -> None:
    every = 200 * DAY
    phase = (START + 150 * DAY + 12 * HOUR) % every
    columns = np.array([phase], dtype=np.int64), np.array([every], dtype=np.int64)
    (found,) = nominal_after_within_period(*columns, PERIODS["morning minute"], START).tolist()
    opening = START + 151 * DAY + 9 * HOUR
    assert opening <= found < opening + MINUTE


# --- calendar schedules -----------------------------------------------------------------------------------------------


class Counting:
    """A schedule that counts how often it is asked."""

    def __init__(self, schedule: ForwardSchedule) -> None:
        self.schedule = schedule
        self.asked = 0

    def next_after(self, t: Instant) -> Instant | None:
        self.asked += 1
        return self.schedule.next_after(t)


def test_a_cron_entry_inside_a_period_is_filtered() -> None:
    inside = CalendarWithinPeriod(compile_cron("0 */4 * * *", second=0), period("monday-friday 08:00-17:00"))
    found = list(inside.between(instant("2026-03-06"), instant("2026-03-10")))
    assert found == [
        instant(text)
        for text in (
            "2026-03-06T08:00",
            "2026-03-06T12:00",
            "2026-03-06T16:00",
            "2026-03-09T08:00",
            "2026-03-09T12:00",
            "2026-03-09T16:00",
        )
    ]


@given(
    st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * 1", "0 */3 * * *", "0-10/5 * * * 6,0"]),
    recurring.filter(lambda name: name != "seconds"),
    st.integers(0, 300 * DAY),
)
@settings(deadline=None, max_examples=examples(50))
def test_a_cron_entry_inside_has_exactly_its_times_that_lie_inside(entry: str, name: str, offset: int) -> None:
    cron, p = compile_cron(entry, second=0), PERIODS[name]
    start, end = Instant(START + offset), Instant(START + offset + DAY)
    assert list(CalendarWithinPeriod(cron, p).between(start, end)) == [
        t for t in cron.between(start, end) if p.contains(t)
    ]


def test_a_cron_entry_jumps_over_the_closed_time_without_polling() -> None:
    every_minute = Counting(compile_cron("* * * * *", second=0))
    inside = CalendarWithinPeriod(every_minute, period("monday-friday 09:00-17:00"))
    friday_evening = instant("2026-03-06T16:59")
    assert inside.next_after(friday_evening) == instant("2026-03-09T09:00")
    assert every_minute.asked == 2, "once to see that it is closed, once from the opening"


def test_a_cron_entry_jumps_over_years() -> None:
    every_minute = Counting(compile_cron("* * * * *", second=30))
    inside = CalendarWithinPeriod(every_minute, period("2041-06-06"))
    assert inside.next_after(START) == instant("2041-06-06T00:00:30")
    assert every_minute.asked == 2


def test_a_cron_entry_that_meets_its_period_at_the_very_opening_is_not_passed_over() -> None:
    inside = CalendarWithinPeriod(compile_cron("0 9 * * *", second=0), period("monday 09:00-09:01"))
    assert inside.next_after(START) == instant("2026-03-02T09:00")
    assert inside.next_after(instant("2026-03-02T09:00")) == instant("2026-03-09T09:00")


def test_a_cron_entry_that_never_meets_its_period_gives_none_after_a_bounded_search() -> None:
    weekly = Counting(compile_cron("0 8 * * 1", second=0))
    assert CalendarWithinPeriod(weekly, period("monday-friday 09:00-17:00")).next_after(START) is None
    assert weekly.asked <= 51 * 53 * 2, "at most one look per opening of half a century that a nominal time precedes"


def test_a_cron_entry_in_a_period_that_never_opens_is_asked_once() -> None:
    schedule = Counting(compile_cron("* * * * *", second=0))
    assert CalendarWithinPeriod(schedule, never()).next_after(START) is None
    assert schedule.asked == 1


def test_a_cron_entry_gets_no_substitute() -> None:
    inside = CalendarWithinPeriod(compile_cron("0 12 * * 6", second=0), period("monday-friday"))
    assert list(inside.between(START, Instant(START + 4 * WEEK))) == []


def test_a_one_shot_inside_its_period_runs_and_one_outside_does_not() -> None:
    p = period("monday-friday 09:00-17:00")
    monday, sunday = instant("2026-03-09T10:00"), instant("2026-03-08T10:00")
    assert CalendarWithinPeriod(OnceSchedule(monday), p).next_after(START) == monday
    assert CalendarWithinPeriod(OnceSchedule(monday), p).next_after(monday) is None
    assert CalendarWithinPeriod(OnceSchedule(sunday), p).next_after(START) is None
    assert list(CalendarWithinPeriod(OnceSchedule(sunday), p).between(START, Instant(START + WEEK))) == []


def test_a_search_that_found_nothing_is_not_repeated_all_year() -> None:
    class Asked:
        count = 0

        def next_after(self, t: Instant) -> Instant | None:
            self.count += 1
            return cron.next_after(t)

    cron, asked = compile_cron("0 3 * * *"), Asked()
    inside = CalendarWithinPeriod(asked, period("09:00-17:00"))
    assert inside.next_after(START) is None
    searched = asked.count
    assert inside.next_after(Instant(START + 300 * DAY)) is None
    assert asked.count == searched
    assert inside.next_after(Instant(START - 1)) is None
    assert asked.count > searched


def test_a_far_window_is_found_alike_whatever_was_asked_before() -> None:
    def fresh() -> CalendarWithinPeriod:
        return CalendarWithinPeriod(compile_cron("0 0 * * *"), period("2076-06-01"))

    asked = fresh()
    for day in ("2026-01-01", "2026-11-01", "2025-06-01", "2027-03-01"):
        assert asked.next_after(instant(day)) == fresh().next_after(instant(day))


def test_any_schedule_is_put_inside_a_period_or_left_as_it_is() -> None:
    cron, grid = compile_cron("0 9 * * *"), Interval(DAY, 0)
    assert within_period(cron, None) is cron
    assert isinstance(within_period(cron, period("monday")), CalendarWithinPeriod)
    assert isinstance(within_period(grid, period("monday")), IntervalWithinPeriod)
