"""systemd's OnCalendar expressions: times forwards and backwards, DST, zones, refusals."""

from datetime import UTC, datetime, timedelta

import pytest
from budget import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oncalendar import TzIterator

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, TEXT_LIMIT, Instant, Invalid
from evenbeat.when.calendar import Calendar, compile_calendar
from evenbeat.when.instant import format_instant, to_datetime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(text: str) -> Instant:
    return Instant((datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1))


def shown(calendar: Calendar, start: str, end: str) -> list[str]:
    times = calendar.between(instant(start), instant(end))
    return [format_instant(t, calendar.zone) for t in times]


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("Mon..Fri 09:00", "2026-06-05T09:00+00:00", "2026-06-08T09:00+00:00"),
        ("Mon..Fri 09:00", "2026-06-05T08:59:59+00:00", "2026-06-05T09:00+00:00"),
        ("daily", "2026-06-05T09:00+00:00", "2026-06-06T00:00+00:00"),
        ("hourly", "2026-06-05T09:00+00:00", "2026-06-05T10:00+00:00"),
        ("weekly", "2026-06-05T09:00+00:00", "2026-06-08T00:00+00:00"),
        ("*-*-01 04:05:06", "2026-06-05T09:00+00:00", "2026-07-01T04:05:06+00:00"),
        ("*-*~1 10:00", "2028-02-01T00:00+00:00", "2028-02-29T10:00+00:00"),
        ("*-02-29", "2026-01-01T00:00+00:00", "2028-02-29T00:00+00:00"),
        ("Sat *-02-29 12:00", "2026-01-01T00:00+00:00", "2048-02-29T12:00+00:00"),
        ("*:0/15:30", "2026-06-05T09:16+00:00", "2026-06-05T09:30:30+00:00"),
        ("  Mon  09:00 ", "2026-06-05T09:00+00:00", "2026-06-08T09:00+00:00"),
        ("2030-01-01 00:00:00", "2026-06-05T09:00+00:00", "2030-01-01T00:00+00:00"),
    ],
)
def test_the_next_time_and_back(text: str, after: str, expected: str) -> None:
    calendar = compile_calendar(text)
    assert calendar.next_after(instant(after)) == instant(expected)
    assert calendar.previous_before(Instant(instant(expected) + 1)) == instant(expected)


def test_next_and_previous_are_strict_to_the_microsecond() -> None:
    calendar, due = compile_calendar("daily"), instant("2026-06-05T00:00+00:00")
    assert calendar.next_after(Instant(due - 1)) == due
    assert calendar.next_after(due) == due + DAY
    assert calendar.previous_before(Instant(due + 1)) == due
    assert calendar.previous_before(due) == due - DAY


def test_between_includes_its_start_and_not_its_end() -> None:
    assert shown(compile_calendar("*:0/30"), "2026-06-05T09:00+00:00", "2026-06-05T10:00+00:00") == [
        "2026-06-05T09:00:00+00:00",
        "2026-06-05T09:30:00+00:00",
    ]


def test_a_single_date_is_over_when_it_is_over() -> None:
    calendar = compile_calendar("2026-06-05 09:00")
    assert calendar.next_after(instant("2026-06-05T09:00+00:00")) is None
    assert calendar.previous_before(instant("2080-01-01T00:00+00:00")) == instant("2026-06-05T09:00+00:00")
    assert calendar.previous_before(instant("2026-06-05T09:00+00:00")) is None


def test_after_the_year_2199_there_is_nothing_as_in_systemd() -> None:
    assert compile_calendar("yearly").next_after(instant("2199-06-01T00:00+00:00")) is None


# --- Zones and DST


def test_its_own_zone_beats_the_task_s() -> None:
    due = instant("2026-06-05T09:00+09:00")
    for text in ("09:00 Asia/Tokyo", "Mon..Sun 09:00 Asia/Tokyo", "*-*-* 09:00:00 Asia/Tokyo "):
        calendar = compile_calendar(text, "Europe/Paris")
        assert calendar.zone.name == "Asia/Tokyo"
        assert calendar.next_after(Instant(due - 1)) == due
    assert compile_calendar("09:00 UTC", "Europe/Paris").zone.name == "UTC"


def test_without_a_zone_of_its_own_it_takes_the_task_s() -> None:
    calendar = compile_calendar("09:00", "Europe/Paris")
    assert calendar.next_after(instant("2026-06-05T00:00+02:00")) == instant("2026-06-05T09:00+02:00")
    assert calendar.next_after(instant("2026-12-05T00:00+01:00")) == instant("2026-12-05T09:00+01:00")


DST = {
    "Paris, spring: a skipped time does not happen": (
        "02:30 Europe/Paris",
        "2026-03-28T00:00+01:00",
        "2026-03-31T00:00+02:00",
        ["2026-03-28T02:30:00+01:00", "2026-03-30T02:30:00+02:00"],
    ),
    "Paris, spring: the hours around the gap": (
        "*:30 Europe/Paris",
        "2026-03-29T01:00+01:00",
        "2026-03-29T05:00+02:00",
        ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-29T04:30:00+02:00"],
    ),
    "Paris, autumn: a repeated time happens once, the first time": (
        "02:30 Europe/Paris",
        "2026-10-24T00:00+02:00",
        "2026-10-27T00:00+01:00",
        ["2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
    ),
    "New York, autumn: hourly has a longer pause": (
        "hourly America/New_York",
        "2026-11-01T00:00-04:00",
        "2026-11-01T03:00-05:00",
        ["2026-11-01T00:00:00-04:00", "2026-11-01T01:00:00-04:00", "2026-11-01T02:00:00-05:00"],
    ),
    "Lord Howe, spring: half an hour is skipped": (
        "02:15,45 Australia/Lord_Howe",
        "2026-10-04T00:00+10:30",
        "2026-10-05T00:00+11:00",
        ["2026-10-04T02:45:00+11:00"],
    ),
    "Lord Howe, autumn: half an hour repeats": (
        "01:15,45 Australia/Lord_Howe",
        "2026-04-05T00:00+11:00",
        "2026-04-06T00:00+10:30",
        ["2026-04-05T01:15:00+11:00", "2026-04-05T01:45:00+11:00"],
    ),
    "Havana, spring: midnight is skipped": (
        "daily America/Havana",
        "2026-03-07T00:00-05:00",
        "2026-03-10T00:00-04:00",
        ["2026-03-07T00:00:00-05:00", "2026-03-09T00:00:00-04:00"],
    ),
}


@pytest.mark.parametrize(("text", "start", "end", "expected"), DST.values(), ids=DST.keys())
def test_dst_as_systemd_does(text: str, start: str, end: str, expected: list[str]) -> None:
    calendar = compile_calendar(text)
    assert shown(calendar, start, end) == expected
    back = []
    t = calendar.previous_before(instant(end))
    while t is not None and t >= instant(start):
        back.append(format_instant(t, calendar.zone))
        t = calendar.previous_before(t)
    assert back[::-1] == expected


def test_started_in_the_second_pass_a_repeated_time_is_over() -> None:
    calendar = compile_calendar("02:45 Europe/Paris")
    assert calendar.next_after(instant("2026-10-25T02:30+01:00")) == instant("2026-10-26T02:45+01:00")
    assert calendar.previous_before(instant("2026-10-25T02:30+01:00")) == instant("2026-10-25T02:45+02:00")


# --- Properties

expressions = st.sampled_from(
    ["*:0/7", "Mon..Fri 09:00", "02:30", "*-*-01,15 12:00", "hourly", "*:*:0/20", "Sun *-*~7/1 03:00", "00:00:59"]
)
zones = st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata"])
instants = st.integers(instant("2026-01-01T00:00+00:00"), instant("2028-01-01T00:00+00:00")).map(Instant)


@settings(max_examples=examples(150), deadline=None)
@given(expressions, zones, instants)
def test_next_is_strictly_later_and_previous_is_its_inverse(text: str, zone: str, t: Instant) -> None:
    calendar = compile_calendar(text, zone)
    after = calendar.next_after(t)
    assert after is not None
    assert after > t
    before = calendar.previous_before(after)
    assert before is not None
    assert before <= t
    assert calendar.next_after(before) == after


@settings(max_examples=examples(100), deadline=None)
@given(expressions, zones, instants)
def test_we_agree_with_the_library(text: str, zone: str, t: Instant) -> None:
    calendar = compile_calendar(text, zone)
    start = to_datetime(t, calendar.zone)
    if not start.fold:  # in the second pass the library's naive clock goes back in time
        expected = next(TzIterator(text, start)).astimezone(UTC)
        assert calendar.next_after(t) == (expected - EPOCH) // timedelta(microseconds=1)


@settings(max_examples=examples(50), deadline=None)
@given(expressions, zones, instants, st.integers(0, 6 * HOUR), st.integers(0, 6 * HOUR))
def test_iterating_in_two_halves_equals_iterating_once(text: str, zone: str, start: Instant, a: int, b: int) -> None:
    calendar = compile_calendar(text, zone)
    middle, end = Instant(start + a), Instant(start + a + b)
    once = list(calendar.between(start, end))
    assert [*calendar.between(start, middle), *calendar.between(middle, end)] == once
    assert once == sorted(set(once))


def test_every_second_of_a_minute() -> None:
    start = instant("2026-06-05T09:00+00:00")
    times = list(compile_calendar("*:*:*").between(start, Instant(start + MINUTE)))
    assert times == list(range(start, start + MINUTE, SECOND))


# --- Refusals


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", "'' is not an OnCalendar expression"),
        ("   ", "'' is not an OnCalendar expression"),
        (
            "Foo 09:00",
            "'Foo 09:00' is not an OnCalendar expression (Bad day-of-week), accepted: such as Mon..Fri 09:00",
        ),
        ("25:00", "(Bad hour)"),
        ("Mon..Fri 09:60", "(Bad minute)"),
        ("09:00:61", "(Bad second)"),
        ("*-13-01", "(Bad month)"),
        ("*-01-32", "(Bad day-of-month)"),
        ("2300-01-01", "(Bad year)"),
        ("Fri..Mon 09:00", "(Bad day-of-week)"),
        ("1/0:00", "(Bad hour)"),
        ("1:2:3:4", "(Bad time)"),
        ("1-2-3-4", "(Bad date)"),
        ("Mon 09:00 10:00", "is not an OnCalendar expression"),
        ("*/5 * * * *", "is not an OnCalendar expression"),
        ("09:00 Europe/Pari", "'Europe/Pari' is not a time zone, did you mean Europe/Paris"),
        ("x" * (TEXT_LIMIT + 1), "an expression of 1001 characters, accepted: at most 1000"),
    ],
)
def test_a_malformed_expression_is_refused(text: str, fragment: str) -> None:
    with pytest.raises(Invalid) as refusal:
        compile_calendar(text)
    assert fragment in refusal.value.problem


@pytest.mark.parametrize("text", ["*-02-30", "*-04-31 12:00", "Mon 2025-02-29", "*-02~29", "Tue 2026-06-05"])
def test_a_date_that_never_comes_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        compile_calendar(text)
    if "~" not in text:
        with pytest.raises(Invalid, match="never happens: no such date"):
            compile_calendar(text, "Europe/Paris")


@settings(max_examples=examples(300), deadline=None)
@given(st.one_of(st.text(max_size=40), st.text(alphabet="0123456789*/-~.,: MonFriUTC", max_size=40)))
@example("Mon" + "," * 990)
@example("~" * 1_000)
@example("0" * 1_000 + ":00")
@example("9" * 900 + ":00")
@example("*-*-1/" + "9" * 900)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        calendar = compile_calendar(text)
    except Invalid as refusal:
        assert refusal.problem
    else:
        assert calendar.next_after(Instant(0)) is not None


@pytest.mark.parametrize("suffix", ["CET", "Japan", "UTC", "Europe/Riga"])
def test_any_zone_may_end_an_expression(suffix: str) -> None:
    assert compile_calendar(f"Mon 09:00 {suffix}").zone.name == suffix


def test_a_mistyped_zone_is_refused_as_one() -> None:
    with pytest.raises(Invalid, match="did you mean Europe/Riga"):
        compile_calendar("Mon 09:00 Europe/Rigga")


def test_the_very_first_second_of_the_epoch_is_a_time() -> None:
    assert compile_calendar("1970-01-01").next_after(Instant(-1)) == 0
