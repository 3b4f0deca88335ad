"""Dates of timeperiods: which one counts where several meet, compared with Nagios' own rule day by day."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.importers.nagios import import_nagios
from evenbeat.load.importers.report import ImportResult
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document
from evenbeat.model import HOUR, SECOND, Instant
from evenbeat.when.period import compile_periods

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FIRST = date(2026, 11, 20)
DAYS = [FIRST + timedelta(days=i) for i in range(40)]


def imported(*lines: str, more: str = "") -> ImportResult:
    text = "\n".join(("define timeperiod {", "timeperiod_name p", *lines, "}", more))
    return import_nagios([(text, "x.cfg")], "UTC")


def hours_of_days(found: ImportResult, name: str = "p") -> list[tuple[int, ...]]:
    """The hours at which the period is open, of each day."""
    config = parse_toml(write_document(found.document), "x.toml")
    period = compile_periods(config.periods)[name]
    starts = [int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * SECOND for day in DAYS]
    return [tuple(hour for hour in range(24) if period.contains(Instant(start + hour * HOUR))) for start in starts]


def is_weekday(which: int, day: date) -> bool:
    return day.weekday() == which


HOURS: dict[str, tuple[int, ...]] = {
    "00:00-24:00": tuple(range(24)),
    "00:00-00:00": (),
    "09:00-11:00": (9, 10),
    "08:00-09:00,20:00-21:00": (8, 20),
}
DATES: list[dict[str, Callable[[date], bool]]] = [
    # The most exact kind first, as Nagios looks for them; each with the days that it means.
    {"2026-12-05": lambda d: d == date(2026, 12, 5), "2026-12-01 - 2026-12-08": lambda d: d.month == 12 and d.day <= 8},
    {
        "december 5": lambda d: (d.month, d.day) == (12, 5),
        "december 4 - 12": lambda d: d.month == 12 and 4 <= d.day <= 12,
    },
    {"day 5": lambda d: d.day == 5, "day 1 - 15": lambda d: d.day <= 15},
    {"saturday 1 december": lambda d: d.month == 12 and d.weekday() == 5 and d.day <= 7},
    {
        "saturday 1": lambda d: d.weekday() == 5 and d.day <= 7,
        "monday 2": lambda d: d.weekday() == 0 and 7 < d.day <= 14,
    },
    {name: partial(is_weekday, i) for i, name in enumerate(WEEKDAYS)},
]


def by_the_rule(day: date, said: list[tuple[str, str]]) -> tuple[int, ...]:
    """Of the most exact kind that has this day the line that was read first."""
    for kind in DATES:
        for days, hours in said:
            if days in kind and kind[days](day):
                return HOURS[hours]
    return ()


LINES = st.dictionaries(
    st.sampled_from([days for kind in DATES for days in kind]), st.sampled_from([*HOURS]), min_size=1
)


@given(LINES.map(lambda lines: list(lines.items())))
def test_a_day_has_the_hours_that_it_has_in_nagios_or_a_warning_says_that_they_add_up(
    said: list[tuple[str, str]],
) -> None:
    found = imported(*(f"{days} {hours}" for days, hours in said))
    expected = [by_the_rule(day, said) for day in DAYS]
    if any("it is never open" in one.why for one in found.omissions):
        assert all(hours == "00:00-00:00" for _, hours in said)
        return
    actual = hours_of_days(found)
    if any("their hours add up" in warning.message for warning in found.warnings):
        assert all(set(some) <= set(hours) for some, hours in zip(expected, actual, strict=True))
    else:
        assert actual == expected


def test_a_closed_date_is_closed_in_a_period_without_weekdays() -> None:
    hours = hours_of_days(imported("day 1 - 15 00:00-24:00", "december 5 00:00-00:00"))
    assert hours[DAYS.index(date(2026, 12, 4))] == tuple(range(24))
    assert hours[DAYS.index(date(2026, 12, 5))] == ()


def test_what_is_excluded_is_so_from_all_dates_and_names_of_others_stay_theirs() -> None:
    other = "define timeperiod {\ntimeperiod_name p dates\n2026-12-05 00:00-24:00\n}\n"
    lines = ("monday 09:00-11:00", "day 1 - 15 00:00-24:00", "december 4 - 12 09:00-11:00", "exclude p dates")
    found = imported(*lines, more=other)
    hours = hours_of_days(found)
    assert [hours[DAYS.index(date(2026, 12, day))] for day in (3, 4, 5)] == [tuple(range(24)), (9, 10), ()]
    assert hours_of_days(found, "p dates")[DAYS.index(date(2026, 12, 5))] == tuple(range(24))


@pytest.mark.parametrize("line", ["moonday 09:00-17:00", "december 5", "day 32 09:00-10:00"])
def test_a_line_that_cannot_be_converted_is_named_with_its_place(line: str) -> None:
    (one,) = imported("monday 09:00-11:00", line).omissions
    assert (one.place and one.place.line, line in one.what) == (4, True)
