"""Periods over DST changes, both directions: a skipped local time is the change, one that exists twice is the first."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant
from evenbeat.model import Period as PeriodNoun
from evenbeat.when.instant import parse_instant, to_datetime
from evenbeat.when.period import CompiledPeriod, compile_period
from evenbeat.when.zone import zone

PARIS, NEW_YORK, LORD_HOWE = "Europe/Paris", "America/New_York", "Australia/Lord_Howe"
UTC_ZONE = zone("UTC")

# The changes of 2026, in UTC:
#   Paris      spring 2026-03-29T01:00 (02:00 -> 03:00)   autumn 2026-10-25T01:00 (03:00 -> 02:00)
#   New York   spring 2026-03-08T07:00 (02:00 -> 03:00)   autumn 2026-11-01T06:00 (02:00 -> 01:00)
#   Lord Howe  spring 2026-10-03T15:30 (02:00 -> 02:30)   autumn 2026-04-04T15:00 (02:00 -> 01:30)
SPRING = {PARIS: "2026-03-29T01:00", NEW_YORK: "2026-03-08T07:00", LORD_HOWE: "2026-10-03T15:30"}
AUTUMN = {PARIS: "2026-10-25T01:00", NEW_YORK: "2026-11-01T06:00", LORD_HOWE: "2026-04-04T15:00"}
CHANGED_DAYS = [
    (PARIS, "2026-03-29", 23 * HOUR),
    (PARIS, "2026-10-25", 25 * HOUR),
    (NEW_YORK, "2026-03-08", 23 * HOUR),
    (NEW_YORK, "2026-11-01", 25 * HOUR),
    (LORD_HOWE, "2026-10-04", 23 * HOUR + 30 * MINUTE),
    (LORD_HOWE, "2026-04-05", 24 * HOUR + 30 * MINUTE),
]


def instant(text: str) -> Instant:
    return parse_instant(text, UTC_ZONE)


def period(zone_name: str, *lines: str) -> CompiledPeriod:
    return compile_period(PeriodNoun(ranges=lines, zone=zone_name))


def shown(p: CompiledPeriod, start: str, end: str) -> list[str]:
    """The windows in UTC, as text."""
    found = p.windows(instant(start), instant(end))
    return [" - ".join(to_datetime(t, UTC_ZONE).strftime("%m-%dT%H:%M:%S") for t in w) for w in found]


@pytest.mark.parametrize("zone_name", [PARIS, NEW_YORK, LORD_HOWE])
def test_the_table_of_changes_is_right(zone_name: str) -> None:
    """All else here stands on it."""
    for text, sign in ((SPRING[zone_name], 1), (AUTUMN[zone_name], -1)):
        at = datetime.fromisoformat(text).replace(tzinfo=UTC)
        before = (at - timedelta(seconds=1)).astimezone(ZoneInfo(zone_name)).utcoffset()
        after = at.astimezone(ZoneInfo(zone_name)).utcoffset()
        assert before is not None
        assert after is not None
        assert (after - before) * sign == timedelta(minutes=30 if zone_name == LORD_HOWE else 60)


@pytest.mark.parametrize(("zone_name", "day", "length"), CHANGED_DAYS)
def test_a_day_with_a_change_is_as_long_as_it_really_is(zone_name: str, day: str, length: int) -> None:
    p = period(zone_name, day)
    ((opens, closes),) = p.windows(instant("2026-01-01"), instant("2027-01-01"))
    assert closes - opens == length
    assert to_datetime(opens, zone(zone_name)).strftime("%Y-%m-%d %H:%M") == f"{day} 00:00"


@pytest.mark.parametrize(("zone_name", "day", "length"), CHANGED_DAYS)
def test_a_day_with_a_change_leaves_no_crack_to_its_neighbours(zone_name: str, day: str, length: int) -> None:
    ((opens, closes),) = period(zone_name, day).windows(instant("2026-01-01"), instant("2027-01-01"))
    every_day = period(zone_name, "monday-wednesday", "thursday-sunday")
    assert every_day.windows(Instant(opens - DAY), Instant(closes + DAY)) == [(opens - DAY, closes + DAY)]


@pytest.mark.parametrize(
    ("zone_name", "line", "window"),
    [
        # spring: what is skipped maps to the instant of the change
        (PARIS, "2026-03-29 02:30-04:00", "03-29T01:00:00 - 03-29T02:00:00"),
        (PARIS, "2026-03-29 01:00-02:30", "03-29T00:00:00 - 03-29T01:00:00"),
        (PARIS, "2026-03-29 02:00-03:30", "03-29T01:00:00 - 03-29T01:30:00"),
        (PARIS, "2026-03-29 02:59:59-03:00:01", "03-29T01:00:00 - 03-29T01:00:01"),
        (NEW_YORK, "2026-03-08 02:30-04:00", "03-08T07:00:00 - 03-08T08:00:00"),
        (NEW_YORK, "2026-03-08 01:00-02:30", "03-08T06:00:00 - 03-08T07:00:00"),
        (LORD_HOWE, "2026-10-04 02:15-03:00", "10-03T15:30:00 - 10-03T16:00:00"),
        (LORD_HOWE, "2026-10-04 01:45-02:15", "10-03T15:15:00 - 10-03T15:30:00"),
        (LORD_HOWE, "2026-10-04 02:30-03:00", "10-03T15:30:00 - 10-03T16:00:00"),
        # autumn: what exists twice is the first
        (PARIS, "2026-10-25 02:15-02:45", "10-25T00:15:00 - 10-25T00:45:00"),
        (PARIS, "2026-10-25 01:00-02:30", "10-24T23:00:00 - 10-25T00:30:00"),
        (PARIS, "2026-10-25 02:30-03:30", "10-25T00:30:00 - 10-25T02:30:00"),
        (PARIS, "2026-10-25 02:00-03:00", "10-25T00:00:00 - 10-25T02:00:00"),
        (PARIS, "2026-10-25 03:00-04:00", "10-25T02:00:00 - 10-25T03:00:00"),
        (NEW_YORK, "2026-11-01 01:15-01:45", "11-01T05:15:00 - 11-01T05:45:00"),
        (NEW_YORK, "2026-11-01 01:30-02:30", "11-01T05:30:00 - 11-01T07:30:00"),
        (LORD_HOWE, "2026-04-05 01:40-01:50", "04-04T14:40:00 - 04-04T14:50:00"),
        (LORD_HOWE, "2026-04-05 01:45-02:15", "04-04T14:45:00 - 04-04T15:45:00"),
        (LORD_HOWE, "2026-04-05 01:00-01:30", "04-04T14:00:00 - 04-04T14:30:00"),
    ],
)
def test_hours_at_a_change(zone_name: str, line: str, window: str) -> None:
    assert shown(period(zone_name, line), "2026-01-01", "2027-01-01") == [window]


@pytest.mark.parametrize(
    ("zone_name", "line"),
    [
        (PARIS, "2026-03-29 02:00-03:00"),
        (PARIS, "2026-03-29 02:15-02:45"),
        (NEW_YORK, "2026-03-08 02:00-03:00"),
        (NEW_YORK, "2026-03-08 02:00:01-02:59:59"),
        (LORD_HOWE, "2026-10-04 02:00-02:30"),
        (LORD_HOWE, "2026-10-04 02:10-02:20"),
    ],
)
def test_hours_wholly_inside_a_gap_vanish(zone_name: str, line: str) -> None:
    p = period(zone_name, line)
    assert p.windows(instant("2026-01-01"), instant("2027-01-01")) == []
    assert not p.contains(instant(SPRING[zone_name]))
    assert p.next_open(instant("2026-01-01")) is None


def test_daily_hours_inside_the_gap_vanish_on_that_day_only() -> None:
    assert shown(period(PARIS, "02:15-02:45"), "2026-03-28", "2026-03-31") == [
        "03-28T01:15:00 - 03-28T01:45:00",
        "03-30T00:15:00 - 03-30T00:45:00",
    ]


def test_hours_in_a_repeated_hour_open_once() -> None:
    assert shown(period(PARIS, "02:15-02:45"), "2026-10-24", "2026-10-27") == [
        "10-24T00:15:00 - 10-24T00:45:00",
        "10-25T00:15:00 - 10-25T00:45:00",
        "10-26T01:15:00 - 10-26T01:45:00",
    ]


@pytest.mark.parametrize(
    ("zone_name", "day", "change"),
    [
        (PARIS, "2026-03-28", -60),
        (PARIS, "2026-10-24", 60),
        (NEW_YORK, "2026-03-07", -60),
        (NEW_YORK, "2026-10-31", 60),
        (LORD_HOWE, "2026-10-03", -30),
        (LORD_HOWE, "2026-04-04", 30),
        (PARIS, "2026-07-01", 0),
        ("Asia/Kolkata", "2026-03-28", 0),
    ],
)
def test_a_night_over_a_change_has_its_true_length(zone_name: str, day: str, change: int) -> None:
    ((opens, closes),) = period(zone_name, f"{day} 22:00-06:00").windows(instant("2026-01-01"), instant("2027-01-01"))
    assert closes - opens == 8 * HOUR + change * MINUTE
    assert to_datetime(opens, zone(zone_name)).strftime("%H:%M") == "22:00"
    assert to_datetime(closes, zone(zone_name)).strftime("%H:%M") == "06:00"


@pytest.mark.parametrize("zone_name", [PARIS, NEW_YORK, LORD_HOWE])
def test_hours_elsewhere_follow_the_wall_clock_through_the_year(zone_name: str) -> None:
    p = period(zone_name, "09:00-17:00")
    windows = p.windows(instant("2026-01-03"), instant("2026-12-29"))[1:-1]
    assert len(windows) >= 357
    assert {c - o for o, c in windows} == {8 * HOUR}
    assert {to_datetime(o, zone(zone_name)).strftime("%H:%M") for o, _ in windows} == {"09:00"}


def test_a_day_whose_midnight_is_skipped_begins_at_the_change() -> None:
    # São Paulo, 2018-11-04: 00:00 -> 01:00 at 03:00 UTC.
    p = period("America/Sao_Paulo", "2018-11-04")
    assert shown(p, "2018-01-01", "2019-01-01") == ["11-04T03:00:00 - 11-05T02:00:00"]


def test_a_day_that_a_zone_skips_whole_never_comes() -> None:
    # Apia crossed the date line: after 2011-12-29 came 2011-12-31.
    assert period("Pacific/Apia", "2011-12-30").next_open(instant("2011-01-01")) is None
    assert shown(period("Pacific/Apia", "2011-12-29 - 2011-12-31"), "2011-01-01", "2013-01-01") == [
        "12-29T10:00:00 - 12-31T10:00:00"
    ]


def test_an_exclude_over_a_change_leaves_what_it_should() -> None:
    """Open all day but at night: together exactly the day, whatever its length."""
    night = period(PARIS, "22:00-06:00")
    day = CompiledPeriod((), night.zone, exclude=(night,))
    start, end = instant("2026-03-28"), instant("2026-03-30")
    length = sum(c - o for p in (night, day) for o, c in p.windows(start, end))
    assert length == end - start
    assert shown(day, "2026-03-28T12:00", "2026-03-29T12:00") == [
        "03-28T12:00:00 - 03-28T21:00:00",
        "03-29T04:00:00 - 03-29T12:00:00",
    ]


def of_local(local: datetime, zone_name: str, change: Instant) -> Instant:
    """The rule by zoneinfo: fold 0 is the first of two; what does not come back unchanged was skipped."""
    there = local.replace(tzinfo=ZoneInfo(zone_name), fold=0).astimezone(UTC)
    if there.astimezone(ZoneInfo(zone_name)).replace(tzinfo=None) != local:
        return change
    return Instant((there - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))


@given(
    st.sampled_from([(z, table[z]) for table in (SPRING, AUTUMN) for z in (PARIS, NEW_YORK, LORD_HOWE)]),
    st.sets(st.integers(0, 5 * 3600), min_size=2, max_size=2),
)
def test_any_hours_around_a_change_have_the_edges_that_zoneinfo_gives(
    changed: tuple[str, str], seconds: set[int]
) -> None:
    zone_name, text = changed
    change = instant(text)
    midnight = to_datetime(change, zone(zone_name)).replace(hour=0, minute=0, second=0, tzinfo=None)
    start, end = sorted(seconds)
    hours = "-".join(f"{t // 3600:02}:{t // 60 % 60:02}:{t % 60:02}" for t in (start, end))
    opens = of_local(midnight + timedelta(seconds=start), zone_name, change)
    closes = of_local(midnight + timedelta(seconds=end), zone_name, change)
    found = period(zone_name, f"{midnight.date()} {hours}").windows(instant("2026-01-01"), instant("2027-01-01"))
    assert found == ([(opens, closes)] if opens < closes else [])


@pytest.mark.parametrize("zone_name", [PARIS, NEW_YORK, LORD_HOWE])
@pytest.mark.parametrize("table", [SPRING, AUTUMN], ids=["spring", "autumn"])
def test_contains_agrees_with_windows_second_by_second_around_a_change(zone_name: str, table: dict[str, str]) -> None:
    p = period(zone_name, "00:30-01:40, 01:45-02:10, 02:20-02:40, 02:50-03:10")
    change = instant(table[zone_name])
    windows = p.windows(Instant(change - 4 * HOUR), Instant(change + 4 * HOUR))
    assert windows
    for t in range(change - 3 * HOUR, change + 3 * HOUR, 30 * SECOND):
        assert p.contains(Instant(t)) == any(o <= t < c for o, c in windows)
