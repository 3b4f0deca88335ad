"""Times of rows, whatever their schedule: the columns say what the schedules of `when` say one by one."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.task import TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, WEEK, Instant
from evenbeat.model import Period as PeriodNoun
from evenbeat.when.calendar import Calendar, compile_calendar
from evenbeat.when.cron import Cron, compile_cron
from evenbeat.when.inside_period import within_period
from evenbeat.when.instant import parse_instant
from evenbeat.when.interval import Interval
from evenbeat.when.nominal_times import ListedSchedule
from evenbeat.when.period import CompiledPeriod, compile_period, compile_periods
from evenbeat.when.period_line import parse_line
from evenbeat.when.schedule import OnceSchedule
from evenbeat.when.windows import FOREVER
from evenbeat.when.zone import zone


def instant(text: str) -> Instant:
    return parse_instant(text, zone("UTC"))


def period(*lines: str, zone_name: str = "UTC") -> CompiledPeriod:
    return compile_period(PeriodNoun(ranges=lines, zone=zone_name))


class Row(NamedTuple):
    """What a task's row is made from, and is compared with."""

    schedule: Interval | Cron | Calendar | OnceSchedule
    period: CompiledPeriod | None = None

    @property
    def nominals(self) -> ListedSchedule:
        return within_period(self.schedule, self.period)

    def next_after(self, t: int) -> int:
        found = self.nominals.next_after(Instant(t))
        return FOREVER if found is None else found

    def fill(self, times: ScheduleTimes, columns: TaskColumns, row: int) -> None:
        schedule = self.schedule
        if isinstance(schedule, Interval):
            columns.every[row], columns.phase[row] = schedule.every, schedule.phase
        elif isinstance(schedule, Cron):
            columns.calendar[row] = times.calendar_number(schedule.times)
            columns.second[row] = schedule.second
        else:
            columns.calendar[row] = times.calendar_number(schedule)
        if self.period is not None:
            columns.period[row] = times.period_number(self.period)


class Table(NamedTuple):
    times: ScheduleTimes
    rows: "np.ndarray[tuple[int], np.dtype[np.int64]]"


def table(*rows: Row) -> Table:
    """Rows somewhere in the columns, and not in their order, so that a place in a question is not a row."""
    columns = TaskColumns()
    numbers = columns.allocate(len(rows) + 3)[:2:-1]
    times = ScheduleTimes(columns)
    for row, number in zip(rows, numbers.tolist(), strict=True):
        row.fill(times, columns, number)
    return Table(times, numbers)


def ints(*values: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, dtype=np.int64)


START = instant("2026-03-20")
"""A few days before Europe's change of clocks and after America's."""

PERIODS = [
    period(),
    period("09:00-09:01"),
    period("monday-friday 09:00-17:00", zone_name="Europe/Paris"),
    period("12:00-12:30, 16:00-16:10", zone_name="America/New_York"),
    period("22:00-06:00", zone_name="Australia/Lord_Howe"),
    period("00:00:00-00:00:02, 12:00:00-12:00:01"),
    period("2026-03-22 - 2026-03-29"),
    compile_periods({"never": PeriodNoun(exclude=("always",)), "always": PeriodNoun()})["never"],
]
# A calendar time that no window ever meets is looked for through half a century: right, but too slow for every example.
ROOMY = [
    PERIODS[0],
    period("monday-thursday", zone_name="Europe/Paris"),
    period("tuesday 06:00-24:00", "thursday-sunday 00:00-18:00", zone_name="America/New_York"),
    *PERIODS[-2:],
]
CRON = ["*/7 * * * *", "30 9 * * MON-FRI", "15 2 * * *", "0 */4 * * *", "0 0 1 * *", "H H(9-16) * * *"]
CALENDARS = ["Mon..Fri 09:00", "*-*-* 02:30", "*:0/20", "hourly", "2026-03-25 12:00:30"]
zones = st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe"])
lengths = st.sampled_from([MINUTE, 5 * MINUTE, 7 * MINUTE, HOUR, 8 * HOUR, DAY, WEEK]) | st.integers(MINUTE, 2 * DAY)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    every = draw(lengths)
    return Interval(every, draw(st.integers(0, every - 1) | st.integers(0, every // SECOND - 1).map(SECOND.__mul__)))


crons = st.builds(
    lambda text, name, zone_name, second: compile_cron(text, name=name, zone_name=zone_name, second=second),
    st.sampled_from(CRON),
    st.sampled_from(["a", "b"]),
    zones,
    st.integers(0, 59) | st.none(),
)
moments = st.integers(0, 14 * DAY // MINUTE).map(lambda m: Instant(START + m * MINUTE)) | st.integers(
    START, START + 14 * DAY
).map(Instant)
calendars = st.builds(compile_calendar, st.sampled_from(CALENDARS), zones)
any_row = (
    st.builds(Row, intervals(), st.none())
    | st.builds(Row, intervals(), st.sampled_from(PERIODS))
    | st.builds(Row, crons | calendars | st.builds(OnceSchedule, moments), st.none())
    | st.builds(Row, crons | calendars | st.builds(OnceSchedule, moments), st.sampled_from(ROOMY))
)
some_rows = st.lists(any_row, min_size=1, max_size=6)


@given(some_rows, moments)
def test_the_next_nominal_time_is_that_of_each_schedule_alone(rows: list[Row], t: Instant) -> None:
    times, numbers = table(*rows)
    assert times.next_after(numbers, t).tolist() == [row.next_after(t) for row in rows]


@given(some_rows, moments)
def test_asking_again_later_or_earlier_gives_the_same_answers(rows: list[Row], t: Instant) -> None:
    times, numbers = table(*rows)
    first = times.next_after(numbers, t).tolist()
    times.next_after(numbers, Instant(t + 3 * DAY))
    times.next_after(numbers, Instant(t - 3 * DAY))
    assert times.next_after(numbers, t).tolist() == first


@given(some_rows, moments, st.integers(-DAY, DAY) | st.just(0))
def test_what_follows_a_nominal_time_is_the_next_one_however_late_it_is_asked(
    rows: list[Row], t: Instant, late: int
) -> None:
    rows = [row for row in rows if row.next_after(t) != FOREVER]
    times, numbers = table(*rows)
    nominal = [row.next_after(t) for row in rows]
    now = Instant(max(nominal, default=t) + late)
    following = times.following(numbers, ints(*nominal), now).tolist()
    assert following == [row.next_after(at) for row, at in zip(rows, nominal, strict=True)]


@given(any_row, moments)
def test_each_nominal_time_leads_to_the_next(row: Row, t: Instant) -> None:
    times, number = table(row)
    expected = row.next_after(t)
    found = int(times.next_after(number, t)[0])
    for _ in range(5):
        assert found == expected
        if found == FOREVER:
            break
        expected = row.next_after(expected)
        found = int(times.following(number, ints(found), Instant(found))[0])


@given(some_rows, moments, st.integers(0, 6 * HOUR))
def test_nominal_times_that_passed_are_counted_as_by_listing_them(rows: list[Row], start: Instant, span: int) -> None:
    times, numbers = table(*rows)
    first = [row.next_after(start) for row in rows]
    end = Instant(start + span)
    count, last = times.count_between(numbers, ints(*first), end)
    for i, row in enumerate(rows):
        listed = list(row.nominals.between(Instant(start + 1), Instant(end + 1)))
        assert count[i] == len(listed)
        if listed:
            assert last[i] == listed[-1]


@given(some_rows, moments)
def test_the_guards_interval_is_that_of_the_grid_or_the_distance_to_the_time_before(
    rows: list[Row], t: Instant
) -> None:
    rows = [row for row in rows if row.next_after(t) != FOREVER]
    times, numbers = table(*rows)
    nominal = [row.next_after(t) for row in rows]
    expected = []
    for row, at in zip(rows, nominal, strict=True):
        before = row.schedule.previous_before(Instant(at))
        grid = isinstance(row.schedule, Interval)
        expected.append(row.schedule.every if grid else 0 if before is None else at - before)  # type: ignore[union-attr]
    assert times.interval(numbers, ints(*nominal)).tolist() == expected


@given(some_rows, moments)
def test_a_row_is_open_when_its_period_is_or_when_it_has_none(rows: list[Row], t: Instant) -> None:
    times, numbers = table(*rows)
    assert times.is_open(numbers, t).tolist() == [row.period is None or row.period.contains(t) for row in rows]


def test_nobody_is_no_question() -> None:
    times, nobody = table()
    assert len(times.next_after(nobody, START)) == 0
    assert len(times.following(nobody, ints(), START)) == 0
    assert len(times.interval(nobody, ints())) == 0
    assert len(times.is_open(nobody, START)) == 0
    assert [len(answer) for answer in times.count_between(nobody, ints(), START)] == [0, 0]


def test_asking_for_the_interval_leaves_the_columns_as_they_are() -> None:
    times, rows = table(Row(compile_cron("0 * * * *", second=0)), Row(Interval(MINUTE, 0)))
    nominal = times.next_after(rows, START)
    times.interval(rows, nominal)
    assert times.interval(rows, nominal).tolist() == [HOUR, MINUTE]
    assert times.next_after(rows, START).tolist() == nominal.tolist()


def test_a_one_shot_is_over_once_it_was_and_has_no_guard() -> None:
    times, row = table(Row(OnceSchedule(START)))
    assert times.next_after(row, Instant(START - 1))[0] == START
    assert times.next_after(row, START)[0] == FOREVER
    assert times.following(row, ints(START), START)[0] == FOREVER
    assert times.interval(row, ints(START))[0] == 0


def test_a_row_without_a_next_time_has_none_to_count() -> None:
    times, row = table(Row(OnceSchedule(START)))
    assert times.count_between(row, ints(FOREVER), Instant(START + DAY))[0].tolist() == [0]


def test_a_substitute_is_followed_by_the_grid_or_by_the_next_substitute() -> None:
    # Midnight, 05:00, 10:00, 15:00, 20:00 of this day; the window from 11:00 to 12:00 has no point of its own.
    grid = Interval(5 * HOUR, START % (5 * HOUR))
    narrow, wide = period("11:00-12:00"), period("11:00-12:00, 14:00-16:00")
    times, rows = table(Row(grid, narrow), Row(grid, wide))
    substitute = times.next_after(rows, START)
    assert (substitute >= START + 11 * HOUR).all()
    assert (substitute < START + 12 * HOUR).all()
    following = times.following(rows, substitute, Instant(int(substitute[0])))
    assert START + 35 * HOUR <= following[0] < START + 36 * HOUR
    assert following[1] == START + 15 * HOUR


def test_the_second_of_a_task_counts_when_its_period_closes_within_the_minute() -> None:
    half_a_minute = period("2026-03-20 09:00:00-09:00:30")
    early, late = (Row(compile_cron("*/30 * * * *", second=s), half_a_minute) for s in (29, 30))
    times, rows = table(early, late)
    assert times.next_after(rows, START).tolist() == [START + 9 * HOUR + 29 * SECOND, FOREVER]


class Asked(CompiledPeriod):
    """A period that counts how often it is asked."""

    asked = 0

    def contains(self, t: Instant) -> bool:
        self.asked += 1
        return super().contains(t)


def asked(line: str) -> Asked:
    return Asked((parse_line(line),), zone("UTC"))


def test_each_distinct_period_is_asked_once_however_many_rows_it_has() -> None:
    morning, evening, unused = asked("06:00-12:00"), asked("18:00-22:00"), asked("12:00-13:00")
    grid = Interval(MINUTE, 0)
    times, rows = table(*[Row(grid, morning), Row(grid, evening), Row(grid)] * 20, Row(grid, unused))
    is_open = times.is_open(rows[:-1], Instant(START + 7 * HOUR))
    assert is_open.tolist() == [True, False, True] * 20
    assert (morning.asked, evening.asked, unused.asked) == (1, 1, 0)


def test_what_is_shared_has_one_number_and_what_is_not_has_its_own() -> None:
    times = ScheduleTimes(TaskColumns())
    first, second = (compile_cron("5 4 * * *", name=name) for name in ("a", "b"))
    other = compile_cron("6 4 * * *")
    numbers = [times.calendar_number(cron.times) for cron in (first, second, other, first)]
    assert numbers == [0, 0, 1, 0]
    assert [times.period_number(p) for p in (PERIODS[0], PERIODS[1], PERIODS[0])] == [0, 1, 0]


def test_a_thing_nobody_else_holds_keeps_its_number_for_itself() -> None:
    times = ScheduleTimes(TaskColumns())
    assert [times.calendar_number(OnceSchedule(Instant(t))) for t in range(100)] == list(range(100))
