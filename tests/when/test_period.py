"""Periods: the windows of every form of line, include and exclude, and what can be asked of a period at an instant."""

import sys
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, WEEK, Instant, Invalid, Prefer
from evenbeat.model import Period as PeriodNoun
from evenbeat.when.instant import parse_instant, to_datetime
from evenbeat.when.period import CompiledPeriod, PeriodState, compile_period, compile_periods
from evenbeat.when.windows import FOREVER, NEVER, union
from evenbeat.when.zone import zone

UTC_ZONE = zone("UTC")
ZONES = ["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]
YEAR = 366 * DAY


def instant(text: str, zone_name: str = "UTC") -> Instant:
    return parse_instant(text, zone(zone_name))


def period(*lines: str, zone_name: str = "UTC") -> CompiledPeriod:
    return compile_period(PeriodNoun(ranges=lines, zone=zone_name))


def shown(p: CompiledPeriod, start: str, end: str) -> list[str]:
    """The windows as text, "2026-03-02 09:00 - 2026-03-02 17:00"."""
    found = p.windows(instant(start), instant(end))
    return [" - ".join(to_datetime(t, UTC_ZONE).strftime("%Y-%m-%d %H:%M:%S") for t in w) for w in found]


def whole_days(p: CompiledPeriod, start: str, end: str) -> list[str]:
    """The days the windows cover; each window must begin and end at midnight."""
    found = []
    for o, c in p.windows(instant(start), instant(end)):
        assert o % DAY == c % DAY == 0
        found += [to_datetime(Instant(t), UTC_ZONE).date().isoformat() for t in range(o, c, DAY)]
    return found


def listed(text: str) -> list[str]:
    """ "2026-03-02 04 05" -> the three dates: a year and month, then days; a new prefix may follow."""
    found: list[str] = []
    prefix = ""
    for word in text.split():
        prefix = word[:8] if "-" in word else prefix
        found.append(prefix + word[-2:])
    return found


@pytest.mark.parametrize(
    ("line", "start", "end", "days"),
    [
        # weekdays: 2026-03-01 is a Sunday
        ("monday", "2026-03-01", "2026-04-01", "2026-03-02 09 16 23 30"),
        ("monday-friday", "2026-03-01", "2026-03-15", "2026-03-02 03 04 05 06 09 10 11 12 13"),
        ("friday-monday", "2026-03-01", "2026-03-15", "2026-03-01 02 06 07 08 09 13 14"),
        ("friday-monday", "2026-12-31", "2027-01-08", "2027-01-01 02 03 04"),
        ("saturday-monday", "2027-12-30", "2028-01-05", "2028-01-01 02 03"),
        ("monday-sunday", "2026-03-01", "2026-03-04", "2026-03-01 02 03"),
        ("MON - Wed", "2026-03-01", "2026-03-08", "2026-03-02 03 04"),
        # days of the month
        ("day 15", "2026-01-01", "2026-05-01", "2026-01-15 2026-02-15 2026-03-15 2026-04-15"),
        ("day 31", "2026-01-01", "2026-06-01", "2026-01-31 2026-03-31 2026-05-31"),
        ("day -1", "2027-12-01", "2028-04-01", "2027-12-31 2028-01-31 2028-02-29 2028-03-31"),
        ("day -31", "2026-01-01", "2026-04-01", "2026-01-01 2026-03-01"),
        ("day 1 - 5", "2026-01-03", "2026-02-04", "2026-01-03 04 05 2026-02-01 02 03"),
        ("day -3 - -1", "2026-02-01", "2026-04-01", "2026-02-26 27 28 2026-03-29 30 31"),
        ("day 26 - 31", "2026-02-01", "2026-03-10", "2026-02-26 27 28"),
        ("day 30 - 2", "2026-03-20", "2026-04-20", "2026-03-30 31 2026-04-01 02"),
        ("day 30 - 2", "2026-12-20", "2027-01-20", "2026-12-30 31 2027-01-01 02"),
        ("day 30 - 2", "2027-01-01", "2027-01-20", "2027-01-01 02"),
        # days of a month
        ("december 25", "2026-01-01", "2028-01-01", "2026-12-25 2027-12-25"),
        ("december -1", "2026-01-01", "2027-01-01", "2026-12-31"),
        ("december 24 - 26", "2026-01-01", "2027-01-01", "2026-12-24 25 26"),
        ("february 29", "2026-01-01", "2033-01-01", "2028-02-29 2032-02-29"),
        ("february 27 - february 29", "2027-01-01", "2029-01-01", "2027-02-27 28 2028-02-27 28 29"),
        ("december 30 - january 2", "2026-01-01", "2027-12-01", "2026-01-01 02 2026-12-30 31 2027-01-01 02"),
        (
            "december 24 - january 2",
            "2026-12-01",
            "2027-01-31",
            "2026-12-24 25 26 27 28 29 30 31 2027-01-01 02",
        ),
        ("april 29 - may 2", "2026-01-01", "2027-01-01", "2026-04-29 30 2026-05-01 02"),
        # the nth weekday
        ("monday 2", "2026-03-01", "2026-05-01", "2026-03-09 2026-04-13"),
        ("monday 5", "2026-01-01", "2026-07-01", "2026-03-30 2026-06-29"),
        ("monday -1", "2026-03-01", "2026-06-01", "2026-03-30 2026-04-27 2026-05-25"),
        ("monday -5", "2026-01-01", "2026-07-01", "2026-03-02 2026-06-01"),
        ("monday -1 may", "2026-01-01", "2028-01-01", "2026-05-25 2027-05-31"),
        ("thursday 4 november", "2026-01-01", "2028-01-01", "2026-11-26 2027-11-25"),
        ("thursday 4 november - friday 4 november", "2026-01-01", "2027-01-01", "2026-11-26 27"),
        ("monday 1 - wednesday 1", "2026-03-01", "2026-04-01", "2026-03-02 03 04"),
        ("saturday 5 - sunday 5", "2026-01-25", "2026-02-10", "2026-01-31"),
        ("saturday 5 - sunday 1", "2026-01-25", "2026-02-10", "2026-01-31 2026-02-01"),
        ("monday 1 - monday -5", "2026-02-01", "2026-04-01", "2026-03-02"),
        # dates
        ("2026-12-24", "2026-01-01", "2028-01-01", "2026-12-24"),
        ("2026-12-30 - 2027-01-02", "2020-01-01", "2030-01-01", "2026-12-30 31 2027-01-01 02"),
        ("2024-02-28 - 2024-03-01", "2020-01-01", "2030-01-01", "2024-02-28 29 2024-03-01"),
        # every Nth day
        ("monday-friday / 2", "2026-03-01", "2026-03-15", "2026-03-02 04 06 09 11 13"),
        ("friday-monday / 3", "2026-03-01", "2026-03-15", "2026-03-02 06 09 13"),
        ("day 1 - 10 / 3", "2026-03-01", "2026-04-01", "2026-03-01 04 07 10"),
        ("day 30 - 3 / 2", "2026-12-20", "2027-01-20", "2026-12-30 2027-01-01 03"),
        ("december 24 - january 2 / 3", "2026-12-01", "2027-02-01", "2026-12-24 27 30 2027-01-02"),
        ("december 24 - january 2 / 3", "2027-01-01", "2027-02-01", "2027-01-02"),
        ("2026-12-24 - 2027-01-02 / 4", "2026-01-01", "2030-01-01", "2026-12-24 28 2027-01-01"),
        ("2026-12-24 - 2027-01-02 / 1", "2026-12-30", "2030-01-01", "2026-12-30 31 2027-01-01 02"),
        ("2026-01-05 / 14", "2025-01-01", "2026-03-01", "2026-01-05 19 2026-02-02 16"),
        ("2026-01-05 - 2026-01-05 / 14", "2025-01-01", "2030-01-01", "2026-01-05"),
        ("/ 2", "1970-01-01", "1970-01-06", "1970-01-01 03 05"),
        ("/ 7", "2026-03-01", "2026-03-15", "2026-03-05 12"),
    ],
)
def test_a_line_without_hours_covers_whole_days(line: str, start: str, end: str, days: str) -> None:
    assert whole_days(period(line), start, end) == listed(days)


@pytest.mark.parametrize(
    ("line", "start", "end", "windows"),
    [
        (
            "09:00-17:00",
            "2026-03-02",
            "2026-03-04",
            ["2026-03-02 09:00:00 - 2026-03-02 17:00:00", "2026-03-03 09:00:00 - 2026-03-03 17:00:00"],
        ),
        (
            "monday 09:00-12:00, 13:00-17:00",
            "2026-03-01",
            "2026-03-08",
            ["2026-03-02 09:00:00 - 2026-03-02 12:00:00", "2026-03-02 13:00:00 - 2026-03-02 17:00:00"],
        ),
        ("friday 22:00-24:00", "2026-03-01", "2026-03-08", ["2026-03-06 22:00:00 - 2026-03-07 00:00:00"]),
        ("friday 22:00-00:00", "2026-03-01", "2026-03-08", ["2026-03-06 22:00:00 - 2026-03-07 00:00:00"]),
        ("friday 22:00-06:00", "2026-03-01", "2026-03-08", ["2026-03-06 22:00:00 - 2026-03-07 06:00:00"]),
        ("friday 12:00-12:00", "2026-03-01", "2026-03-08", ["2026-03-06 12:00:00 - 2026-03-07 12:00:00"]),
        ("friday 00:00-00:00", "2026-03-01", "2026-03-08", ["2026-03-06 00:00:00 - 2026-03-07 00:00:00"]),
        ("friday 09:00:30-09:00:45", "2026-03-01", "2026-03-08", ["2026-03-06 09:00:30 - 2026-03-06 09:00:45"]),
        ("2026-12-31 22:00-06:00", "2026-01-01", "2028-01-01", ["2026-12-31 22:00:00 - 2027-01-01 06:00:00"]),
        ("2026-12-31 22:00-06:00", "2027-01-01", "2028-01-01", ["2027-01-01 00:00:00 - 2027-01-01 06:00:00"]),
        ("friday 08:00-12:00,10:00-14:00", "2026-03-01", "2026-03-08", ["2026-03-06 08:00:00 - 2026-03-06 14:00:00"]),
        ("friday 08:00-10:00,10:00-14:00", "2026-03-01", "2026-03-08", ["2026-03-06 08:00:00 - 2026-03-06 14:00:00"]),
        ("22:00-06:00,06:00-22:00", "2026-03-01", "2026-03-08", ["2026-03-01 00:00:00 - 2026-03-08 00:00:00"]),
        ("00:00-24:00", "2026-03-01", "2026-03-08", ["2026-03-01 00:00:00 - 2026-03-08 00:00:00"]),
        ("monday-tuesday", "2026-03-01", "2026-03-08", ["2026-03-02 00:00:00 - 2026-03-04 00:00:00"]),
        (
            "monday-friday / 4 22:00-02:00",
            "2026-03-01",
            "2026-03-08",
            ["2026-03-02 22:00:00 - 2026-03-03 02:00:00", "2026-03-06 22:00:00 - 2026-03-07 02:00:00"],
        ),
        (
            "Dec 31 - JAN 1 23:00-01:00",
            "2026-12-30",
            "2027-01-05",
            ["2026-12-31 23:00:00 - 2027-01-01 01:00:00", "2027-01-01 23:00:00 - 2027-01-02 01:00:00"],
        ),
    ],
)
def test_hours_open_windows_on_their_days(line: str, start: str, end: str, windows: list[str]) -> None:
    assert shown(period(line), start, end) == windows


def test_windows_are_cut_at_both_ends_of_what_is_asked() -> None:
    assert shown(period("09:00-17:00"), "2026-03-02T10:00", "2026-03-02T11:00") == [
        "2026-03-02 10:00:00 - 2026-03-02 11:00:00"
    ]


def test_an_empty_or_backward_stretch_has_no_windows() -> None:
    noon = instant("2026-03-02T12:00")
    assert period().windows(noon, noon) == []
    assert period().windows(noon, Instant(noon - 1)) == []


def test_start_is_inclusive_and_end_exclusive() -> None:
    p = period("09:00-17:00")
    opens, closes = instant("2026-03-02T09:00"), instant("2026-03-02T17:00")
    inside = [p.contains(Instant(t)) for t in (opens - 1, opens, closes - 1, closes)]
    assert inside == [False, True, True, False]


def test_a_single_date_with_a_step_goes_on_for_decades_in_its_own_beat() -> None:
    p = period("2026-01-05 / 14")
    found = whole_days(p, "2065-01-01", "2066-01-01")
    assert len(found) == 26
    assert all((date.fromisoformat(day) - date(2026, 1, 5)).days % 14 == 0 for day in found)


def test_several_lines_are_a_union() -> None:
    p = period("monday", "tuesday 00:00-12:00", "wednesday 06:00-07:00")
    assert shown(p, "2026-03-01", "2026-03-08") == [
        "2026-03-02 00:00:00 - 2026-03-03 12:00:00",
        "2026-03-04 06:00:00 - 2026-03-04 07:00:00",
    ]


def test_a_period_for_one_date_is_closed_on_the_next_day() -> None:
    """Icinga 2 keeps a period for 2022-06-06 active on 2022-06-07."""
    p = period("2022-06-06")
    assert shown(p, "2022-01-01", "2023-01-01") == ["2022-06-06 00:00:00 - 2022-06-07 00:00:00"]
    assert p.contains(instant("2022-06-06T23:59:59"))
    assert not p.contains(instant("2022-06-07"))
    assert not p.contains(instant("2022-06-07T12:00"))
    assert p.next_open(instant("2022-06-06T12:00")) is None


def test_a_period_for_one_date_with_hours_is_open_in_these_only() -> None:
    p = period("2022-06-06 09:00-10:00", zone_name="Europe/Paris")
    assert shown(p, "2022-01-01", "2023-01-01") == ["2022-06-06 07:00:00 - 2022-06-06 08:00:00"]


# --- always, never, and far away --------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [period(), period("00:00-24:00"), period("monday", "00:00-00:00")])
def test_a_period_that_is_always_open_never_opens_or_closes(p: CompiledPeriod) -> None:
    now = instant("2026-03-02T12:00")
    assert p.state(now) == PeriodState(inside=True, since=NEVER, until=FOREVER)
    assert p.next_open(now) is None
    assert p.next_close(now) is None


def test_a_week_spelled_day_by_day_is_always_open_too() -> None:
    p = period("monday-friday", "saturday-sunday", zone_name="Europe/Paris")
    assert p.state(instant("2026-03-02")) == PeriodState(inside=True, since=NEVER, until=FOREVER)


def test_a_period_excluded_by_its_own_ranges_never_opens() -> None:
    periods = compile_periods(
        {
            "closed": PeriodNoun(ranges=("monday-friday 09:00-17:00",), exclude=("day",)),
            "day": PeriodNoun(ranges=("09:00-17:00",)),
        }
    )
    now = instant("2026-03-02T12:00")
    assert periods["closed"].state(now) == PeriodState(inside=False, since=NEVER, until=FOREVER)
    assert periods["closed"].next_open(now) is None
    assert periods["closed"].next_close(now) is None
    assert periods["closed"].windows(now, Instant(now + YEAR)) == []


def test_the_rarest_recurring_day_is_found() -> None:
    # 29 February on a Monday: after 2024 (a Thursday) the next is in 2044.
    nouns = {"rare": PeriodNoun(ranges=("monday",), exclude=("other",)), "other": PeriodNoun(exclude=("leap",))}
    periods = compile_periods(nouns | {"leap": PeriodNoun(ranges=("february 29",))})
    assert periods["rare"].next_open(instant("2024-03-01")) == instant("2044-02-29")


def test_an_opening_more_than_fifty_years_ahead_is_seen_from_nearer_by() -> None:
    p = period("2026-06-06")
    assert p.next_open(Instant(0)) is None
    assert not p.contains(Instant(0))
    assert p.contains(instant("2026-06-06T12:00"))
    assert p.next_open(instant("2026-01-01")) == instant("2026-06-06")


def test_an_end_more_than_fifty_years_ahead_is_seen_from_nearer_by() -> None:
    p = period("2000-01-01 - 2099-12-31")
    assert p.next_close(instant("2026-01-01")) is None
    assert not p.contains(instant("2110-01-01"))
    assert p.next_close(instant("2090-01-01")) == instant("2100-01-01")


def test_a_window_more_than_fifty_years_back_is_seen_from_nearer_by() -> None:
    p = period("2026-06-06")
    assert p.state(instant("2110-01-01")) == PeriodState(inside=False, since=NEVER, until=FOREVER)
    assert p.contains(instant("2026-06-06T12:00"))
    assert p.state(instant("2027-01-01")).since == instant("2026-06-07")


# --- include, exclude, prefer -----------------------------------------------------------------------------------------

SHIFTS = {
    "day": PeriodNoun(ranges=("08:00-18:00",)),
    "lunch": PeriodNoun(ranges=("12:00-13:00",)),
    "coffee": PeriodNoun(ranges=("12:30-12:45", "20:00-20:30")),
}


def shift(
    prefer: Prefer, include: tuple[str, ...] = ("coffee",), exclude: tuple[str, ...] = ("lunch",)
) -> CompiledPeriod:
    mine = PeriodNoun(ranges=("08:00-18:00",), include=include, exclude=exclude, prefer=prefer)
    return compile_periods(SHIFTS | {"mine": mine})["mine"]


def test_by_default_what_is_included_wins() -> None:
    assert PeriodNoun().prefer is Prefer.INCLUDE
    assert shown(shift(Prefer.INCLUDE), "2026-03-02", "2026-03-03") == [
        "2026-03-02 08:00:00 - 2026-03-02 12:00:00",
        "2026-03-02 12:30:00 - 2026-03-02 12:45:00",
        "2026-03-02 13:00:00 - 2026-03-02 18:00:00",
        "2026-03-02 20:00:00 - 2026-03-02 20:30:00",
    ]


def test_with_prefer_exclude_what_is_excluded_wins() -> None:
    assert shown(shift(Prefer.EXCLUDE), "2026-03-02", "2026-03-03") == [
        "2026-03-02 08:00:00 - 2026-03-02 12:00:00",
        "2026-03-02 13:00:00 - 2026-03-02 18:00:00",
        "2026-03-02 20:00:00 - 2026-03-02 20:30:00",
    ]


@pytest.mark.parametrize("prefer", list(Prefer))
def test_without_a_conflict_preference_changes_nothing(prefer: Prefer) -> None:
    assert shown(shift(prefer, exclude=()), "2026-03-02", "2026-03-03") == [
        "2026-03-02 08:00:00 - 2026-03-02 18:00:00",
        "2026-03-02 20:00:00 - 2026-03-02 20:30:00",
    ]
    assert shown(shift(prefer, include=()), "2026-03-02", "2026-03-03") == [
        "2026-03-02 08:00:00 - 2026-03-02 12:00:00",
        "2026-03-02 13:00:00 - 2026-03-02 18:00:00",
    ]


def test_several_excluded_periods_are_all_excluded() -> None:
    assert (
        shown(shift(Prefer.EXCLUDE, include=(), exclude=("lunch", "coffee", "day")), "2026-03-02", "2026-03-03") == []
    )


def test_included_and_excluded_periods_keep_their_own_zones() -> None:
    nouns = {
        "tokyo": PeriodNoun(ranges=("09:00-17:00",), zone="Asia/Tokyo"),
        "paris": PeriodNoun(ranges=("09:00-17:00",), zone="Europe/Paris", include=("tokyo",)),
        "quiet": PeriodNoun(ranges=("04:00-05:00",), zone="America/New_York"),
        "all": PeriodNoun(
            ranges=("monday 20:00-21:00",),
            include=("paris",),
            exclude=("quiet",),
            prefer=Prefer.EXCLUDE,
            zone="Asia/Kolkata",
        ),
    }
    # In UTC on 2 March: Tokyo 00-08, Paris 08-16, Kolkata 14:30-15:30, New York's hole 09-10.
    assert shown(compile_periods(nouns)["all"], "2026-03-02", "2026-03-03") == [
        "2026-03-02 00:00:00 - 2026-03-02 09:00:00",
        "2026-03-02 10:00:00 - 2026-03-02 16:00:00",
    ]


def test_an_own_zone_shifts_the_local_day() -> None:
    assert shown(period("monday", zone_name="Asia/Kolkata"), "2026-03-01", "2026-03-08") == [
        "2026-03-01 18:30:00 - 2026-03-02 18:30:00"
    ]


def test_new_year_is_local_too() -> None:
    p = period("january 1", zone_name="Pacific/Kiritimati")
    assert shown(p, "2026-06-01", "2027-06-01") == ["2026-12-31 10:00:00 - 2027-01-01 10:00:00"]
    assert p.contains(instant("2026-12-31T12:00"))


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nouns", "message"),
    [
        ({"a": PeriodNoun(include=("a",))}, "periods.a: periods refer to each other in a circle: a -> a"),
        (
            {
                "a": PeriodNoun(include=("b",)),
                "b": PeriodNoun(exclude=("c",)),
                "c": PeriodNoun(include=("a",)),
            },
            "periods.c: periods refer to each other in a circle: a -> b -> c -> a",
        ),
        (
            # The way into the circle is no part of it.
            {"start": PeriodNoun(exclude=("x",)), "x": PeriodNoun(include=("y",)), "y": PeriodNoun(exclude=("x",))},
            "periods.y: periods refer to each other in a circle: x -> y -> x",
        ),
    ],
)
def test_a_circle_is_refused_and_named(nouns: dict[str, PeriodNoun], message: str) -> None:
    with pytest.raises(Invalid) as refused:
        compile_periods(nouns)
    assert str(refused.value) == message


def test_two_ways_to_one_period_are_no_circle() -> None:
    nouns = {
        "top": PeriodNoun(include=("left", "right")),
        "left": PeriodNoun(include=("base",)),
        "right": PeriodNoun(exclude=("base",)),
        "base": PeriodNoun(ranges=("monday",)),
    }
    periods = compile_periods(nouns)
    assert periods["left"].include[0] is periods["right"].exclude[0] is periods["base"]


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(Invalid) as refused:
        compile_periods({"work": PeriodNoun(exclude=("hollidays",)), "holidays": PeriodNoun()})
    assert str(refused.value) == "periods.work.exclude: there is no period 'hollidays', did you mean 'holidays'?"


def test_an_unknown_name_unlike_any_other_lists_what_there_is() -> None:
    with pytest.raises(Invalid) as refused:
        compile_periods({"work": PeriodNoun(include=("zzz",)), "lunch": PeriodNoun()})
    assert str(refused.value) == "periods.work.include: there is no period 'zzz', known: lunch, work"


def test_a_bad_line_names_its_place_and_column() -> None:
    with pytest.raises(Invalid) as refused:
        compile_periods({"work": PeriodNoun(ranges=("monday", "tuesday 9-17"))})
    assert str(refused.value).startswith("periods.work.ranges[1], column 9: ")


def test_an_unknown_zone_names_its_place_and_the_nearest() -> None:
    with pytest.raises(Invalid) as refused:
        compile_periods({"work": PeriodNoun(zone="Europe/Pariss")})
    assert str(refused.value).startswith("periods.work.zone: 'Europe/Pariss' is not a time zone, did you mean Europe/P")


def test_no_periods_compile_to_none() -> None:
    assert compile_periods({}) == {}


# --- properties over generated periods --------------------------------------------------------------------------------


class Spoken(NamedTuple):
    """A generated line, and the plain predicate on local days it stands for."""

    days: str
    on: Callable[[date], bool]
    hours: tuple[tuple[int, int], ...]

    @property
    def text(self) -> str:
        return f"{self.days} {', '.join(f'{clock(s)}-{clock(e)}' for s, e in self.hours)}".strip()


def clock(second: int) -> str:
    text = f"{second // 3600:02}:{second // 60 % 60:02}"
    return f"{text}:{second % 60:02}" if second % 60 else text


WEEKDAY_NAMES = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
MONTH_NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
EPOCH_DAY = date(1970, 1, 1)


def month_length(day: date) -> int:
    return (date(day.year + day.month // 12, day.month % 12 + 1, 1) - timedelta(days=1)).day


def weekdays(first: int, last: int, step: int) -> tuple[str, Callable[[date], bool]]:
    length = (last - first) % 7
    text = WEEKDAY_NAMES[first] if not length else f"{WEEKDAY_NAMES[first]}-{WEEKDAY_NAMES[last]}"
    step = step if length else 1
    return f"{text} / {step}", lambda d: (at := (d.weekday() - first) % 7) <= length and at % step == 0


def day_of_month(n: int) -> tuple[str, Callable[[date], bool]]:
    return f"day {n}", lambda d: d.day == (n if n > 0 else month_length(d) + 1 + n)


def days_of_month(a: int, b: int, step: int) -> tuple[str, Callable[[date], bool]]:
    a, b = sorted((a, b))
    step = step if a != b else 1
    return f"day {a} - {b} / {step}", lambda d: a <= d.day <= b and (d.day - a) % step == 0


def days_of_year(a: tuple[int, int], b: tuple[int, int]) -> tuple[str, Callable[[date], bool]]:
    def on(d: date) -> bool:
        now = (d.month, d.day)
        return a <= now <= b if a <= b else now >= a or now <= b

    return f"{MONTH_NAMES[a[0] - 1]} {a[1]} - {MONTH_NAMES[b[0] - 1]} {b[1]}", on


def nth_weekday(weekday: int, nth: int, month: int | None) -> tuple[str, Callable[[date], bool]]:
    def on(d: date) -> bool:
        week = (d.day - 1) // 7 + 1 if nth > 0 else -((month_length(d) - d.day) // 7 + 1)
        return d.weekday() == weekday and week == nth and month in (None, d.month)

    return f"{WEEKDAY_NAMES[weekday]} {nth} {MONTH_NAMES[month - 1] if month else ''}".strip(), on


def dates(first: date, length: int, step: int) -> tuple[str, Callable[[date], bool]]:
    last = first + timedelta(days=length)
    return f"{first} - {last} / {step}", lambda d: first <= d <= last and (d - first).days % step == 0


def dates_from(first: date, step: int) -> tuple[str, Callable[[date], bool]]:
    return f"{first} / {step}", lambda d: d >= first and (d - first).days % step == 0


def every_nth(step: int) -> tuple[str, Callable[[date], bool]]:
    return (f"/ {step}" if step > 1 else ""), lambda d: (d - EPOCH_DAY).days % step == 0


weekday = st.integers(0, 6)
step = st.integers(1, 5)
month_day = st.tuples(st.integers(1, 12), st.integers(1, 28))
some_date = st.dates(date(2024, 1, 1), date(2028, 12, 31))
spoken_days = st.one_of(
    st.builds(weekdays, weekday, weekday, step),
    st.builds(day_of_month, st.integers(-31, 31).filter(bool)),
    st.builds(days_of_month, st.integers(1, 31), st.integers(1, 31), step),
    st.builds(days_of_year, month_day, month_day),
    st.builds(nth_weekday, weekday, st.integers(-5, 5).filter(bool), st.none() | st.integers(1, 12)),
    st.builds(dates, some_date, st.integers(0, 500), step),
    st.builds(dates_from, some_date, st.integers(2, 20)),
    st.builds(every_nth, step),
)
second_of_day = st.one_of(st.integers(0, 23).map(lambda h: h * 3600), st.integers(0, 86_399))
spoken_hours = st.lists(st.tuples(second_of_day, second_of_day | st.just(86_400)), max_size=3).map(tuple)


def say(days: tuple[str, Callable[[date], bool]], hours: tuple[tuple[int, int], ...]) -> Spoken:
    text, on = days
    return Spoken(text, on, hours if hours or text else ((0, 86_400),))


spoken = st.builds(say, spoken_days, spoken_hours)


@st.composite
def generated(draw: st.DrawFn) -> CompiledPeriod:
    """A period that includes and excludes others, in different zones, up to three deep."""
    nouns: dict[str, PeriodNoun] = {}
    for name in "abcd"[: draw(st.integers(1, 4))]:
        others = st.lists(st.sampled_from(sorted(nouns)), max_size=2, unique=True) if nouns else st.just([])
        nouns[name] = PeriodNoun(
            ranges=tuple(s.text for s in draw(st.lists(spoken, max_size=3))),
            include=tuple(draw(others)),
            exclude=tuple(draw(others)),
            prefer=draw(st.sampled_from(Prefer)),
            zone=draw(st.sampled_from(ZONES)),
        )
    return compile_periods(nouns)[max(nouns)]


times = st.one_of(
    st.integers(instant("2024-06-01"), instant("2028-06-01")),
    st.integers(instant("2024-06-01") // MINUTE, instant("2028-06-01") // MINUTE).map(lambda m: m * MINUTE),
).map(Instant)


@given(generated(), times, st.integers(1, 60 * DAY))
@settings(deadline=None)
def test_windows_are_disjoint_ordered_and_do_not_touch(p: CompiledPeriod, start: Instant, length: int) -> None:
    end = Instant(start + length)
    edges = [edge for window in p.windows(start, end) for edge in window]
    assert edges == sorted(set(edges))
    assert all(start <= edge <= end for edge in edges)


@given(generated(), times, st.integers(0, 30 * DAY), st.integers(0, 30 * DAY))
@settings(deadline=None)
def test_windows_of_two_halves_merge_into_those_of_the_whole(
    p: CompiledPeriod, a: Instant, left: int, right: int
) -> None:
    b, c = Instant(a + left), Instant(a + left + right)
    assert union(p.windows(a, b), p.windows(b, c)) == p.windows(a, c)


@given(generated(), times, st.integers(1, 30 * DAY))
@settings(deadline=None, max_examples=examples(60))
def test_contains_agrees_with_windows_at_and_around_every_edge(p: CompiledPeriod, start: Instant, length: int) -> None:
    end = Instant(start + length)
    windows = p.windows(start, end)
    assert p.contains(start) == any(o == start for o, _ in windows)
    assert p.contains(Instant(end - 1)) == any(c == end for _, c in windows)
    for o, c in windows:
        assert p.contains(o)
        assert p.contains(Instant(c - 1))
        assert p.contains(Instant((o + c) // 2))
        assert o == start or not p.contains(Instant(o - 1))
        assert c == end or not p.contains(c)


@given(generated(), st.lists(times, max_size=20), times, st.integers(1, 10 * DAY))
@settings(deadline=None)
def test_contains_many_agrees_with_contains(
    p: CompiledPeriod, asked: list[Instant], start: Instant, length: int
) -> None:
    edges = [edge for window in p.windows(start, Instant(start + length)) for edge in window]
    asked += [Instant(edge + d) for edge in edges for d in (-1, 0, 1)]
    inside = p.contains_many(np.array(asked, dtype=np.int64))
    assert inside.tolist() == [p.contains(t) for t in asked]


def test_contains_many_of_none_is_empty() -> None:
    assert period("monday").contains_many(np.array([], dtype=np.int64)).tolist() == []


@given(generated(), times)
@settings(deadline=None, max_examples=examples(60))
def test_next_open_and_next_close_are_the_first_edges_of_the_windows_ahead(p: CompiledPeriod, t: Instant) -> None:
    end = Instant(t + 2 * YEAR)
    windows = p.windows(t, end)
    opening = next((o for o, _ in windows if o > t), None)
    closing = next((c for _, c in windows if c < end), None)
    for found, expected in ((p.next_open(t), opening), (p.next_close(t), closing)):
        if expected is not None:
            assert found == expected > t
        else:
            assert found is None or found >= end


@given(generated(), times)
@settings(deadline=None)
def test_a_state_holds_from_since_until_its_change(p: CompiledPeriod, t: Instant) -> None:
    inside, since, until = p.state(t)
    assert since <= t < until
    start, end = Instant(max(since, t - 2 * YEAR)), Instant(min(until, t + 2 * YEAR))
    assert p.windows(start, end) == ([(start, end)] if inside else [])
    # Just beyond its edges it is the other way round.
    if since != NEVER:
        assert bool(p.windows(Instant(since - 1), since)) is not inside
    if until != FOREVER:
        assert bool(p.windows(until, Instant(until + 1))) is not inside


def soon(found: Instant | None, t: Instant) -> Instant | None:
    """Well within the horizon, which is counted from where a search began."""
    return found if found is not None and found < t + 20 * YEAR else None


@given(generated(), st.lists(times, min_size=1, max_size=4))
@settings(deadline=None, max_examples=25)
def test_answers_do_not_depend_on_what_was_asked_before(p: CompiledPeriod, asked: list[Instant]) -> None:
    for t in asked:
        fresh = CompiledPeriod(p.lines, p.zone, include=p.include, exclude=p.exclude, prefer=p.prefer)
        assert p.contains(t) == fresh.contains(t) == bool(fresh.windows(t, Instant(t + 1)))
        assert soon(p.next_open(t), t) == soon(fresh.next_open(t), t)
        assert soon(p.next_close(t), t) == soon(fresh.next_close(t), t)


def open_by_the_calendar(lines: list[Spoken], local: datetime) -> bool:
    """The oracle: look at the local date and time of day, and at yesterday for hours that pass midnight."""
    second = local.hour * 3600 + local.minute * 60 + local.second
    today, yesterday = local.date(), local.date() - timedelta(days=1)
    for line in lines:
        for start, end in line.hours or ((0, 86_400),):
            if end > start:
                if line.on(today) and start <= second < end:
                    return True
            elif (line.on(today) and second >= start) or (line.on(yesterday) and second < end):
                return True
    return False


@given(st.lists(spoken, min_size=1, max_size=3), st.sampled_from(ZONES), st.lists(times, min_size=1, max_size=40))
@settings(deadline=None, max_examples=examples(300))
def test_contains_is_what_the_local_date_and_time_of_day_say(
    lines: list[Spoken], zone_name: str, asked: list[Instant]
) -> None:
    p = compile_period(PeriodNoun(ranges=tuple(line.text for line in lines), zone=zone_name))
    info = ZoneInfo(zone_name)
    for t in asked:
        local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=t)).astimezone(info)
        around = {(local + timedelta(days=d)).utcoffset() for d in (-2, 0, 2)}
        if len(around) == 1:
            assert p.contains(t) == open_by_the_calendar(lines, local)


@given(spoken)
@settings(deadline=None)
def test_the_days_of_a_line_are_those_its_words_say_over_two_years(line: Spoken) -> None:
    p = compile_period(PeriodNoun(ranges=(line._replace(hours=()).text or "00:00-24:00",)))
    start = date(2027, 1, 1)
    noons = [instant(f"{start + timedelta(days=i)}T12:00") for i in range(731)]
    expected = [line.on(start + timedelta(days=i)) for i in range(731)]
    assert p.contains_many(np.array(noons, dtype=np.int64)).tolist() == expected


def test_a_working_week_is_forty_hours_long() -> None:
    p = period("monday-friday 09:00-17:00", zone_name="Asia/Kolkata")
    start = instant("2026-03-02")
    assert sum(c - o for o, c in p.windows(start, Instant(start + WEEK))) == 40 * HOUR
    assert all((c - o) % SECOND == 0 for o, c in p.windows(start, Instant(start + WEEK)))


def test_a_period_without_lines_of_its_own_is_what_it_includes() -> None:
    nouns = {
        "both": PeriodNoun(include=("monday", "tuesday")),
        "monday": PeriodNoun(ranges=("monday",)),
        "tuesday": PeriodNoun(ranges=("tuesday 09:00-10:00",)),
        "all but monday": PeriodNoun(exclude=("monday",)),
    }
    compiled = compile_periods(nouns)
    assert shown(compiled["both"], "2026-03-01", "2026-03-08") == [
        "2026-03-02 00:00:00 - 2026-03-03 00:00:00",
        "2026-03-03 09:00:00 - 2026-03-03 10:00:00",
    ]
    assert whole_days(compiled["all but monday"], "2026-03-01", "2026-03-04") == listed("2026-03-01 03")


def test_periods_nested_too_deep_are_refused() -> None:
    nouns = {f"p{i}": PeriodNoun(include=(f"p{i + 1}",)) for i in range(3_000)}
    nouns["p3000"] = PeriodNoun()
    with pytest.raises(Invalid, match="nested more than 32 deep"):
        compile_periods(nouns)


def test_periods_that_meet_again_and_again_are_worked_out_once_each() -> None:
    nouns = {f"p{i}": PeriodNoun(include=(f"p{i + 1}", f"q{i + 1}")) for i in range(30)}
    nouns |= {f"q{i}": PeriodNoun(include=(f"p{i + 1}", f"q{i + 1}")) for i in range(1, 30)}
    nouns |= {"p30": PeriodNoun(ranges=("monday",)), "q30": PeriodNoun(ranges=("tuesday",))}
    diamonds = compile_periods(nouns)["p0"]
    assert whole_days(diamonds, "2026-03-01", "2026-03-08") == listed("2026-03-02 03")


def test_the_windows_handed_out_are_the_callers_to_change() -> None:
    p = period("monday")
    start, end = instant("2026-03-01"), instant("2026-03-08")
    p.windows(start, end).clear()
    assert len(p.windows(start, end)) == 1


def test_what_is_seen_does_not_depend_on_what_was_asked_before() -> None:
    asked = period("2080-01-01")
    assert asked.next_open(instant("2026-01-01")) is None
    assert asked.next_open(instant("2032-06-01")) == period("2080-01-01").next_open(instant("2032-06-01"))


@settings(max_examples=examples(60))
@given(st.integers(2000, 2120), st.lists(st.integers(1990, 2150), min_size=1, max_size=4))
def test_far_dates_are_seen_alike_by_all(year: int, asked_from: list[int]) -> None:
    one = period(f"{year}-07-01")
    for start in asked_from:
        t = instant(f"{start}-03-01")
        assert one.state(t) == period(f"{year}-07-01").state(t)


def test_threads_that_share_a_period_get_its_answers() -> None:
    p = period("monday-friday 09:00-17:00")
    times = [Instant(instant("2026-03-01") + i * 7 * HOUR) for i in range(400)]
    expected = [period("monday-friday 09:00-17:00").contains(t) for t in times]
    switch, wrong = sys.getswitchinterval(), []

    def ask(start: int) -> None:
        for round_ in range(20):
            for i in range(start, len(times), 4):
                k = (i * 7 + round_) % len(times)
                if p.contains(times[k]) != expected[k]:
                    wrong.append(times[k])

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert wrong == []


def test_a_period_of_too_many_hours_is_refused() -> None:
    with pytest.raises(Invalid, match="more than 500 hours"):
        period(*["09:00-10:00"] * 501)
