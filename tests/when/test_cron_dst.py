"""Cron entries on the days the clocks change, with every expected time written out.

Entries for fixed times (neither minute nor hour begins with a star) follow the wall clock: a skipped time happens at
the change, a repeated one happens once, the first time. The others follow elapsed time. Both are Debian's rules.
"""

from datetime import UTC, datetime, timedelta

import pytest

from evenbeat.model import MINUTE, Instant
from evenbeat.when.cron import compile_cron
from evenbeat.when.instant import format_instant

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(text: str) -> Instant:
    return Instant((datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1))


# zone, entry, first instant, end, every nominal time between
CASES = {
    "Paris, spring, a skipped time happens at the change": (
        "Europe/Paris",
        "30 2 * * *",
        "2026-03-28T00:00+01:00",
        "2026-03-31T00:00+02:00",
        ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
    ),
    "Paris, spring, several skipped times are one run": (
        "Europe/Paris",
        "0,20,40 2 * * *",
        "2026-03-29T00:00+01:00",
        "2026-03-30T00:00+02:00",
        ["2026-03-29T03:00:00+02:00"],
    ),
    "Paris, spring, a skipped time and the time of the change are one run": (
        "Europe/Paris",
        "0 2,3 * * *",
        "2026-03-29T00:00+01:00",
        "2026-03-30T00:00+02:00",
        ["2026-03-29T03:00:00+02:00"],
    ),
    "Paris, spring, times around the gap keep their places": (
        "Europe/Paris",
        "30 1-3 * * *",
        "2026-03-29T00:00+01:00",
        "2026-03-30T00:00+02:00",
        ["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"],
    ),
    "Paris, spring, a weekday that is not the day of the change": (
        "Europe/Paris",
        "30 2 * * MON",
        "2026-03-28T00:00+01:00",
        "2026-03-31T00:00+02:00",
        ["2026-03-30T02:30:00+02:00"],
    ),
    "Paris, spring, every half hour of elapsed time": (
        "Europe/Paris",
        "*/30 * * * *",
        "2026-03-29T01:00+01:00",
        "2026-03-29T04:00+02:00",
        [
            "2026-03-29T01:00:00+01:00",
            "2026-03-29T01:30:00+01:00",
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T03:30:00+02:00",
        ],
    ),
    "Paris, spring, a wildcard minute within the skipped hour does not happen": (
        "Europe/Paris",
        "*/30 2 * * *",
        "2026-03-29T00:00+01:00",
        "2026-03-31T00:00+02:00",
        ["2026-03-30T02:00:00+02:00", "2026-03-30T02:30:00+02:00"],
    ),
    "Paris, spring, a wildcard hour skips what is skipped": (
        "Europe/Paris",
        "15 */2 * * *",
        "2026-03-29T00:00+01:00",
        "2026-03-29T05:00+02:00",
        ["2026-03-29T00:15:00+01:00", "2026-03-29T04:15:00+02:00"],
    ),
    "Paris, autumn, a repeated time happens once, the first time": (
        "Europe/Paris",
        "30 2 * * *",
        "2026-10-24T00:00+02:00",
        "2026-10-27T00:00+01:00",
        ["2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
    ),
    "Paris, autumn, several repeated times happen once each": (
        "Europe/Paris",
        "0,40 1-3 * * *",
        "2026-10-25T00:00+02:00",
        "2026-10-26T00:00+01:00",
        [
            "2026-10-25T01:00:00+02:00",
            "2026-10-25T01:40:00+02:00",
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:40:00+02:00",
            "2026-10-25T03:00:00+01:00",
            "2026-10-25T03:40:00+01:00",
        ],
    ),
    "Paris, autumn, every half hour of elapsed time": (
        "Europe/Paris",
        "*/30 * * * *",
        "2026-10-25T02:00+02:00",
        "2026-10-25T03:30+01:00",
        [
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00",
            "2026-10-25T03:00:00+01:00",
        ],
    ),
    "Paris, autumn, a wildcard hour happens in both passes": (
        "Europe/Paris",
        "15 */2 * * *",
        "2026-10-25T00:00+02:00",
        "2026-10-25T05:00+01:00",
        [
            "2026-10-25T00:15:00+02:00",
            "2026-10-25T02:15:00+02:00",
            "2026-10-25T02:15:00+01:00",
            "2026-10-25T04:15:00+01:00",
        ],
    ),
    "New York, spring, a skipped time happens at the change": (
        "America/New_York",
        "15 2 * * *",
        "2026-03-07T00:00-05:00",
        "2026-03-10T00:00-04:00",
        ["2026-03-07T02:15:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-09T02:15:00-04:00"],
    ),
    "New York, spring, hourly by elapsed time": (
        "America/New_York",
        "0 * * * *",
        "2026-03-08T00:30-05:00",
        "2026-03-08T04:30-04:00",
        ["2026-03-08T01:00:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-08T04:00:00-04:00"],
    ),
    "New York, autumn, a repeated time happens once": (
        "America/New_York",
        "30 1 * * *",
        "2026-10-31T00:00-04:00",
        "2026-11-03T00:00-05:00",
        ["2026-10-31T01:30:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"],
    ),
    "New York, autumn, hourly by elapsed time": (
        "America/New_York",
        "0 * * * *",
        "2026-11-01T00:30-04:00",
        "2026-11-01T02:30-05:00",
        ["2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"],
    ),
    "Lord Howe, spring, the skipped half hour happens at the change": (
        "Australia/Lord_Howe",
        "15 2 * * *",
        "2026-10-03T00:00+10:30",
        "2026-10-06T00:00+11:00",
        ["2026-10-03T02:15:00+10:30", "2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"],
    ),
    "Lord Howe, spring, the half hour that is not skipped is itself": (
        "Australia/Lord_Howe",
        "45 2 * * *",
        "2026-10-04T00:00+10:30",
        "2026-10-05T00:00+11:00",
        ["2026-10-04T02:45:00+11:00"],
    ),
    "Lord Howe, spring, every twenty minutes of the clock that runs": (
        "Australia/Lord_Howe",
        "*/20 * * * *",
        "2026-10-04T01:00+10:30",
        "2026-10-04T03:30+11:00",
        [
            "2026-10-04T01:00:00+10:30",
            "2026-10-04T01:20:00+10:30",
            "2026-10-04T01:40:00+10:30",
            "2026-10-04T02:40:00+11:00",
            "2026-10-04T03:00:00+11:00",
            "2026-10-04T03:20:00+11:00",
        ],
    ),
    "Lord Howe, autumn, the repeated half hour happens once": (
        "Australia/Lord_Howe",
        "15,45 1 * * *",
        "2026-04-05T00:00+11:00",
        "2026-04-06T00:00+10:30",
        ["2026-04-05T01:15:00+11:00", "2026-04-05T01:45:00+11:00"],
    ),
    "Lord Howe, autumn, every twenty minutes of the clock that runs": (
        "Australia/Lord_Howe",
        "*/20 * * * *",
        "2026-04-05T01:00+11:00",
        "2026-04-05T02:30+10:30",
        [
            "2026-04-05T01:00:00+11:00",
            "2026-04-05T01:20:00+11:00",
            "2026-04-05T01:40:00+11:00",
            "2026-04-05T01:40:00+10:30",
            "2026-04-05T02:00:00+10:30",
            "2026-04-05T02:20:00+10:30",
        ],
    ),
    "Kolkata, no DST, an offset of half an hour": (
        "Asia/Kolkata",
        "0 */6 * * *",
        "2026-03-29T00:00+05:30",
        "2026-03-30T00:00+05:30",
        [
            "2026-03-29T00:00:00+05:30",
            "2026-03-29T06:00:00+05:30",
            "2026-03-29T12:00:00+05:30",
            "2026-03-29T18:00:00+05:30",
        ],
    ),
    "Havana, spring at midnight, the skipped midnight happens at one o'clock": (
        "America/Havana",
        "0 0 * * *",
        "2026-03-07T00:00-05:00",
        "2026-03-10T00:00-04:00",
        ["2026-03-07T00:00:00-05:00", "2026-03-08T01:00:00-04:00", "2026-03-09T00:00:00-04:00"],
    ),
    "Havana, spring at midnight, the skipped hour belongs to the new day": (
        "America/Havana",
        "30 0 * * SUN",
        "2026-03-07T00:00-05:00",
        "2026-03-10T00:00-04:00",
        ["2026-03-08T01:00:00-04:00"],
    ),
    "Havana, spring at midnight, nothing of the old day moves": (
        "America/Havana",
        "30 23 * * *",
        "2026-03-07T12:00-05:00",
        "2026-03-09T00:00-04:00",
        ["2026-03-07T23:30:00-05:00", "2026-03-08T23:30:00-04:00"],
    ),
    "Havana, autumn, the hour after midnight repeats and happens once": (
        "America/Havana",
        "30 0 * * *",
        "2026-10-31T00:00-04:00",
        "2026-11-03T00:00-05:00",
        ["2026-10-31T00:30:00-04:00", "2026-11-01T00:30:00-04:00", "2026-11-02T00:30:00-05:00"],
    ),
    "Havana, autumn, by elapsed time it happens twice": (
        "America/Havana",
        "30 * * * *",
        "2026-11-01T00:00-04:00",
        "2026-11-01T02:00-05:00",
        ["2026-11-01T00:30:00-04:00", "2026-11-01T00:30:00-05:00", "2026-11-01T01:30:00-05:00"],
    ),
    "Cairo, autumn at midnight, the last hour of a day repeats and happens once": (
        "Africa/Cairo",
        "30 23 * * *",
        "2026-10-29T00:00+03:00",
        "2026-10-31T00:00+02:00",
        ["2026-10-29T23:30:00+03:00", "2026-10-30T23:30:00+02:00"],
    ),
    "Cairo, spring at midnight on a Friday": (
        "Africa/Cairo",
        "15 0 * * FRI",
        "2026-04-23T00:00+02:00",
        "2026-04-26T00:00+03:00",
        ["2026-04-24T01:00:00+03:00"],
    ),
}


@pytest.mark.parametrize(("zone", "entry", "start", "end", "expected"), CASES.values(), ids=CASES.keys())
def test_forwards(zone: str, entry: str, start: str, end: str, expected: list[str]) -> None:
    cron = compile_cron(entry, zone_name=zone, second=0)
    times = cron.between(instant(start), instant(end))
    assert [format_instant(t, cron.zone) for t in times] == expected


@pytest.mark.parametrize(("zone", "entry", "start", "end", "expected"), CASES.values(), ids=CASES.keys())
def test_backwards(zone: str, entry: str, start: str, end: str, expected: list[str]) -> None:
    cron = compile_cron(entry, zone_name=zone, second=0)
    times = []
    t = cron.previous_before(instant(end))
    while t is not None and t >= instant(start):
        times.append(format_instant(t, cron.zone))
        t = cron.previous_before(t)
    assert times[::-1] == expected


@pytest.mark.parametrize(("zone", "entry", "start", "end", "expected"), CASES.values(), ids=CASES.keys())
def test_asked_from_any_minute_the_answer_is_the_same(
    zone: str, entry: str, start: str, end: str, expected: list[str]
) -> None:
    cron = compile_cron(entry, zone_name=zone, second=0)
    due = [instant(t) for t in expected]
    for t in range(instant(start), due[-1], 7 * MINUTE):
        assert cron.next_after(Instant(t)) == next(d for d in due if d > t)
    for t in range(due[0] + 1, instant(end), 7 * MINUTE):
        assert cron.previous_before(Instant(t)) == max(d for d in due if d < t)


def test_started_in_the_second_pass_a_fixed_time_is_over_for_today() -> None:
    cron = compile_cron("45 2 * * *", zone_name="Europe/Paris", second=0)
    second_pass = instant("2026-10-25T02:30+01:00")
    assert cron.next_after(second_pass) == instant("2026-10-26T02:45+01:00")
    assert cron.previous_before(second_pass) == instant("2026-10-25T02:45+02:00")


def test_started_in_the_second_pass_a_wildcard_still_happens_in_it() -> None:
    cron = compile_cron("45 * * * *", zone_name="Europe/Paris", second=0)
    second_pass = instant("2026-10-25T02:30+01:00")
    assert cron.next_after(second_pass) == instant("2026-10-25T02:45+01:00")
    assert cron.previous_before(second_pass) == instant("2026-10-25T02:45+02:00")


def test_the_second_moves_with_the_change() -> None:
    cron = compile_cron("30 2 * * *", zone_name="Europe/Paris", second=17)
    assert cron.next_after(instant("2026-03-29T00:00+01:00")) == instant("2026-03-29T03:00:17+02:00")


def test_a_hashed_hour_is_a_fixed_time_and_a_star_is_not() -> None:
    day = instant("2026-10-25T00:00+02:00"), instant("2026-10-26T00:00+01:00")
    hashed = compile_cron("0 H/1 * * *", zone_name="Europe/Paris", second=0)
    star = compile_cron("0 * * * *", zone_name="Europe/Paris", second=0)
    assert len(list(hashed.between(*day))) == 24
    assert len(list(star.between(*day))) == 25


def test_a_whole_day_that_a_zone_skips_happens_once_at_the_change() -> None:
    # Samoa went straight from 29 to 31 December 2011.
    cron = compile_cron("0 12 * * *", zone_name="Pacific/Apia", second=0)
    times = cron.between(instant("2011-12-29T00:00-10:00"), instant("2012-01-01T00:00+14:00"))
    assert [format_instant(t, cron.zone) for t in times] == [
        "2011-12-29T12:00:00-10:00",
        "2011-12-31T00:00:00+14:00",
        "2011-12-31T12:00:00+14:00",
    ]


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Havana"])
def test_a_daily_entry_happens_once_on_every_day_of_ten_years(zone: str) -> None:
    for entry in ("0 0 * * *", "15 1 * * *", "30 2 * * *", "59 23 * * *"):
        cron = compile_cron(entry, zone_name=zone, second=0)
        start, end = instant("2020-01-01T12:00+00:00"), instant("2030-01-01T12:00+00:00")
        days = [format_instant(t, cron.zone)[:10] for t in cron.between(start, end)]
        assert len(days) == len(set(days)) == 3_653
