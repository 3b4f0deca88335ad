"""Instants: ISO 8601 there and back, always with a zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import DAY, Instant, Invalid
from evenbeat.when.instant import YEARS, format_instant, parse_instant, to_datetime
from evenbeat.when.zone import Zone, zone

UTC_ZONE = zone("UTC")
PARIS = zone("Europe/Paris")


def micros(year: int, month: int, day: int, *clock: int) -> int:
    hour, minute, second, microsecond = (*clock, 0, 0, 0, 0)[:4]
    moment = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("1969-12-31", -DAY),
        ("2026-12-01", micros(2026, 12, 1)),
        ("2026-12-01T09:00", micros(2026, 12, 1, 9)),
        ("2026-12-01 09:00", micros(2026, 12, 1, 9)),
        ("2026-12-01T09:00:30.000001", micros(2026, 12, 1, 9, 0, 30, 1)),
        ("2026-12-01T09:00Z", micros(2026, 12, 1, 9)),
        ("2026-12-01T09:00:00+01:00", micros(2026, 12, 1, 8)),
        ("2026-12-01T09:00-05:30", micros(2026, 12, 1, 14, 30)),
        ("  2026-12-01T09:00\n", micros(2026, 12, 1, 9)),
    ],
)
def test_iso_times_are_read(text: str, expected: int) -> None:
    assert parse_instant(text, UTC_ZONE) == expected


def test_without_an_offset_it_is_a_local_time_of_the_zone() -> None:
    assert parse_instant("2026-12-01T09:00", PARIS) == micros(2026, 12, 1, 8)
    assert parse_instant("2026-07-01T09:00", PARIS) == micros(2026, 7, 1, 7)
    assert parse_instant("2026-07-01T09:00", zone("Asia/Kolkata")) == micros(2026, 7, 1, 3, 30)


def test_with_an_offset_the_zone_does_not_matter() -> None:
    assert parse_instant("2026-12-01T09:00Z", PARIS) == parse_instant("2026-12-01T09:00Z", UTC_ZONE)


def test_a_skipped_local_time_is_the_change_and_a_repeated_one_the_first() -> None:
    assert parse_instant("2026-03-29T02:30", PARIS) == micros(2026, 3, 29, 1)
    assert parse_instant("2026-10-25T02:30", PARIS) == micros(2026, 10, 25, 0, 30)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", "'' is not a time"),
        ("soon", "'soon' is not a time"),
        ("2026-13-01", "month must be in 1..12"),
        ("2026-02-30", "day is out of range for month"),
        ("2026-12-01T25:00", "hour must be in 0..23"),
        ("2026-12-01T09:00+25:00", "is not a time"),
        ("1/12/2026", "accepted: 2026-12-01, 2026-12-01T09:00, 2026-12-01T09:00:00+01:00"),
        ("1899-12-31", "the year 1899 is out of range, accepted: 1900 to 2199"),
        ("2200-01-01", "the year 2200 is out of range"),
        ("x" * 100, "xxx...' is not a time (too long)"),
    ],
)
def test_what_is_no_time_is_refused(text: str, fragment: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_instant(text, PARIS)
    assert fragment in refusal.value.problem
    assert len(refusal.value.problem) < 300


names = st.sampled_from(["UTC", "Europe/Paris", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"])
# Offsets before 1973 have odd seconds in some zones, which ISO text keeps too; these are the years people use.
instants = st.integers(micros(1973, 1, 1), micros(2100, 1, 1)).map(Instant)


@given(names, instants)
def test_what_is_written_is_read_back(name: str, t: Instant) -> None:
    here = zone(name)
    assert parse_instant(format_instant(t, here), zone("America/New_York")) == t


@given(names, instants)
def test_the_datetime_is_the_same_instant_with_the_zone_s_own_clock(name: str, t: Instant) -> None:
    moment = to_datetime(t, zone(name))
    assert moment.tzinfo is zone(name).info
    assert micros(*moment.astimezone(UTC).timetuple()[:6]) == t - t % 1_000_000


def test_the_fraction_is_written_only_where_there_is_one() -> None:
    t = Instant(micros(2026, 7, 1, 7))
    assert format_instant(t, PARIS) == "2026-07-01T09:00:00+02:00"
    assert format_instant(Instant(t + 1), PARIS) == "2026-07-01T09:00:00.000001+02:00"
    assert format_instant(t, UTC_ZONE) == "2026-07-01T07:00:00+00:00"


def test_both_passes_of_a_repeated_hour_are_told_apart() -> None:
    first = parse_instant("2026-10-25T02:30", PARIS)
    assert format_instant(first, PARIS) == "2026-10-25T02:30:00+02:00"
    assert format_instant(Instant(first + DAY // 24), PARIS) == "2026-10-25T02:30:00+01:00"


@pytest.mark.parametrize("name", ["UTC", "Europe/Paris", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_first_and_the_last_accepted_times_are_read_and_written(name: str) -> None:
    for text in (f"{YEARS.start}-01-01T00:00:00", f"{YEARS.stop - 1}-12-31T23:59:59"):
        here = Zone(name, ZoneInfo(name))  # its own: a table of all seven thousand years takes a while
        assert format_instant(parse_instant(text, here), here).startswith(text)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_instant(text, PARIS)
    except Invalid as refusal:
        assert refusal.problem
