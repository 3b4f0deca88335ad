"""Zones: local time as plain arithmetic, gaps and repeated hours, and names that do not exist."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, Invalid
from evenbeat.when.zone import Zone, zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = (
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Asia/Kolkata",
    "Pacific/Apia",
    "America/Havana",
    "Europe/Moscow",
    "America/Sao_Paulo",
)


def instant(text: str) -> Instant:
    return Instant((datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1))


def wall(text: str) -> int:
    """A local time without a zone, as microseconds of the wall clock."""
    return instant(text + "+00:00")


def offset_by_zoneinfo(t: int, name: str) -> int:
    offset = (EPOCH + timedelta(microseconds=t)).astimezone(ZoneInfo(name)).utcoffset()
    assert offset is not None
    return offset // timedelta(microseconds=1)


def fresh(name: str) -> Zone:
    """A zone whose table is still empty."""
    return Zone(name, ZoneInfo(name))


names = st.sampled_from(NAMES)
instants = st.integers(instant("1975-01-01T00:00+00:00"), instant("2080-01-01T00:00+00:00")).map(Instant)


@settings(max_examples=examples(500))
@given(names, instants)
def test_the_table_agrees_with_zoneinfo(name: str, t: Instant) -> None:
    assert zone(name).offset(t) == offset_by_zoneinfo(t, name)
    assert zone(name).local(t) == t + offset_by_zoneinfo(t, name)


@settings(max_examples=25, deadline=None)
@given(names, st.lists(instants, min_size=1, max_size=5))
def test_the_table_is_the_same_in_whatever_order_it_grows(name: str, asked: list[Instant]) -> None:
    grown = fresh(name)
    for t in asked:
        assert grown.offset(t) == offset_by_zoneinfo(t, name)
        assert grown.local(t) == zone(name).local(t)
    for t in asked:
        assert grown.utc(grown.local(t)) == zone(name).utc(zone(name).local(t))


@settings(max_examples=examples(300))
@given(names, instants)
def test_local_and_back_is_the_same_instant_or_the_first_of_two(name: str, t: Instant) -> None:
    here = zone(name)
    back = here.utc(here.local(t))
    assert back <= t
    assert here.local(back) == here.local(t)
    if not (EPOCH + timedelta(microseconds=t)).astimezone(ZoneInfo(name)).fold:
        assert back == t


@settings(max_examples=examples(300))
@given(names, instants.map(int))
def test_a_local_time_is_an_instant_with_that_time_or_the_change_that_skipped_it(name: str, local: int) -> None:
    here = zone(name)
    t = here.utc(local)
    if here.local(t) != local:
        assert here.local(t) > local  # skipped
        assert here.local(Instant(t - 1)) < local


GAPS = [
    ("Europe/Paris", "2026-03-29T02:00", "2026-03-29T03:00", "2026-03-29T03:00+02:00"),
    ("America/New_York", "2026-03-08T02:00", "2026-03-08T03:00", "2026-03-08T03:00-04:00"),
    ("Australia/Lord_Howe", "2026-10-04T02:00", "2026-10-04T02:30", "2026-10-04T02:30+11:00"),
    ("America/Havana", "2026-03-08T00:00", "2026-03-08T01:00", "2026-03-08T01:00-04:00"),
    ("Pacific/Apia", "2011-12-30T00:00", "2011-12-31T00:00", "2011-12-31T00:00+14:00"),
]


@pytest.mark.parametrize(("name", "first", "end", "change"), GAPS, ids=[g[0] for g in GAPS])
def test_a_skipped_time_is_the_instant_of_the_change(name: str, first: str, end: str, change: str) -> None:
    here = zone(name)
    for local in (wall(first), wall(first) + 1, (wall(first) + wall(end)) // 2, wall(end) - 1, wall(end)):
        assert here.utc(local) == instant(change)
    assert here.utc(wall(first) - 1) == instant(change) - 1
    assert here.utc(wall(end) + 1) == instant(change) + 1


TWICE = [
    ("Europe/Paris", "2026-10-25T02:00", "2026-10-25T02:00+02:00", HOUR),
    ("America/New_York", "2026-11-01T01:00", "2026-11-01T01:00-04:00", HOUR),
    ("Australia/Lord_Howe", "2026-04-05T01:30", "2026-04-05T01:30+11:00", 30 * MINUTE),
    ("America/Havana", "2026-11-01T00:00", "2026-11-01T00:00-04:00", HOUR),
]


@pytest.mark.parametrize(("name", "local", "first", "length"), TWICE, ids=[t[0] for t in TWICE])
def test_a_time_that_exists_twice_is_the_first(name: str, local: str, first: str, length: int) -> None:
    here, start = zone(name), instant(first)
    for offset in (0, 1, length // 2, length - 1):
        assert here.utc(wall(local) + offset) == start + offset
        assert here.local(Instant(start + offset + length)) == wall(local) + offset
    assert here.utc(wall(local) + length) == start + 2 * length


@settings(max_examples=examples(100), deadline=None)
@given(names, st.lists(instants.map(int), max_size=20))
def test_many_local_times_at_once_are_the_same_as_one_by_one(name: str, locals_: list[int]) -> None:
    here = zone(name)
    assert here.utc_many(np.array(locals_, dtype=np.int64)).tolist() == [here.utc(t) for t in locals_]


def test_many_local_times_make_the_table_grow_to_both_ends() -> None:
    locals_ = np.array([wall("2061-07-01T12:00"), wall("1981-07-01T12:00"), wall("2020-01-01T12:00")], dtype=np.int64)
    expected = [instant(t) for t in ("2061-07-01T12:00+02:00", "1981-07-01T12:00+02:00", "2020-01-01T12:00+01:00")]
    assert fresh("Europe/Paris").utc_many(locals_).tolist() == expected


def test_many_local_times_around_every_kind_of_change() -> None:
    for name, first, end, _ in GAPS:
        locals_ = np.arange(wall(first) - HOUR, wall(end) + HOUR, 5 * MINUTE, dtype=np.int64)
        assert zone(name).utc_many(locals_).tolist() == [zone(name).utc(t) for t in locals_.tolist()]
    for name, local, _, length in TWICE:
        locals_ = np.arange(wall(local) - HOUR, wall(local) + 2 * length, 5 * MINUTE, dtype=np.int64)
        assert zone(name).utc_many(locals_).tolist() == [zone(name).utc(t) for t in locals_.tolist()]


@settings(max_examples=examples(300))
@given(names, instants)
def test_a_stretch_holds_its_instant_and_has_one_offset(name: str, t: Instant) -> None:
    start, end, offset = zone(name).stretch(t)
    assert start <= t < end
    for inside in (start, t, (start + end) // 2, end - SECOND):
        assert offset_by_zoneinfo(inside, name) == offset


@pytest.mark.parametrize("name", NAMES)
def test_stretches_join_without_a_hole_in_both_directions(name: str) -> None:
    first, last = instant("1975-01-01T00:00+00:00"), instant("2080-01-01T00:00+00:00")

    def forwards() -> Iterator[tuple[int, int]]:
        here, t = fresh(name), first
        while t < last:
            start, t, offset = here.stretch(t)
            yield start, offset

    def backwards() -> Iterator[tuple[int, int]]:
        here, t = fresh(name), last
        while t > first:
            t, _, offset = here.stretch(Instant(t - 1))
            yield t, offset

    def changes(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Where the offset differs from the stretch before: ends of the table are no changes."""
        pairs = pairwise(stretches)
        return [b for a, b in pairs if a[1] != b[1] and first < b[0] < last]

    found = changes(list(forwards()))
    assert found == changes(list(backwards())[::-1])
    for start, offset in found:
        assert offset_by_zoneinfo(start, name) == offset
        assert offset_by_zoneinfo(start - SECOND, name) != offset


@settings(max_examples=examples(200))
@given(names, instants)
def test_the_latest_local_time_is_what_the_clock_shows_or_has_shown_within_the_day(name: str, t: Instant) -> None:
    here = zone(name)
    latest = here.latest_local(t)
    assert latest >= here.local(t)
    shown = [here.local(Instant(t - i * 10 * MINUTE)) for i in range(20)]
    assert latest >= max(shown)
    assert latest - max(shown) < 10 * MINUTE


def test_in_a_repeated_hour_the_latest_local_time_is_its_end() -> None:
    paris = zone("Europe/Paris")
    assert paris.latest_local(instant("2026-10-25T02:10+01:00")) == wall("2026-10-25T03:00") - 1
    assert paris.latest_local(instant("2026-10-25T02:10+02:00")) == wall("2026-10-25T02:10")
    assert paris.latest_local(instant("2026-10-25T03:10+01:00")) == wall("2026-10-25T03:10")


def test_utc_is_itself() -> None:
    utc = zone("UTC")
    for t in (Instant(0), Instant(-DAY), instant("2026-10-25T02:10+01:00")):
        assert utc.offset(t) == 0
        assert utc.local(t) == utc.utc(t) == t


def test_the_first_and_last_years_are_answered() -> None:
    for text in ("1900-06-01T00:00+00:00", "8999-07-01T00:00+00:00"):
        t = instant(text)
        assert fresh("Europe/Paris").offset(t) == offset_by_zoneinfo(t, "Europe/Paris")


def test_a_zone_is_one_object_and_shows_its_name() -> None:
    assert zone("Europe/Paris") is zone("Europe/Paris")
    assert repr(zone("Europe/Paris")) == "Zone('Europe/Paris')"


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("Europe/Pariss", "did you mean Europe/Paris"),
        ("europe/paris", "did you mean Europe/Paris"),
        ("paris", "did you mean Europe/Paris"),
        ("new_york", "did you mean America/New_York"),
        ("Lord Howe", "did you mean Australia/Lord_Howe"),
        ("UTC+1", "did you mean UTC"),
        ("Europe", "did you mean Europe/"),
        ("Nowhere/At/All", "accepted: an IANA name such as Europe/Paris, or UTC"),
        ("", "'' is not a time zone, accepted"),
        ("../etc/passwd", "is not a time zone"),
        ("/etc/passwd", "is not a time zone"),
        ("Europe/../../etc/passwd", "is not a time zone"),
        ("a\0b", "is not a time zone"),
        ("\ud800", "is not a time zone"),
        ("x" * 1_000, f"'{'x' * 64}' is not a time zone"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest_names(name: str, fragment: str) -> None:
    with pytest.raises(Invalid) as refusal:
        zone(name)
    assert fragment in refusal.value.problem


@settings(max_examples=examples(50), deadline=None)
@given(st.text(max_size=20))
def test_any_name_is_a_zone_or_refused(name: str) -> None:
    try:
        assert zone(name).name == name
    except Invalid as refusal:
        assert "is not a time zone" in refusal.problem
