"""Warnings about entries that work but pile up load or surprise; the entry each one names is the better one."""

import re

import pytest

from evenbeat.model import DAY, Days, Hash, Instant
from evenbeat.when.cron import compile_cron
from evenbeat.when.cron_entry import parse_cron_entry
from evenbeat.when.duration import parse_duration
from evenbeat.when.lint import cron_warnings

YEAR = Instant(1_767_225_600_000_000), Instant(1_798_761_600_000_000)  # 2026
NAMES = [f"task-{i}" for i in range(30)]
ENTRY = re.compile(r"'((?:TZ=\S+ )?\S+ \S+ \S+ \S+ \S+)'")
EVERY = re.compile(r'every = "(\w+)"')


def warnings(entry: str, days: Days = Days.OR) -> list[str]:
    return cron_warnings(parse_cron_entry(entry), days)


def one_warning(entry: str, fragment: str, days: Days = Days.OR) -> str:
    found = [w for w in warnings(entry, days) if fragment in w]
    assert len(found) == 1, warnings(entry, days)
    return found[0]


def better_entry(warning: str) -> str:
    """The last entry that a warning quotes: the one it proposes."""
    better = ENTRY.findall(warning)[-1]
    for name in NAMES:
        compile_cron(better, name=name)
    return str(better)


def runs_in_a_week(entry: str, name: str = "", hash_: Hash = Hash.STABLE) -> int:
    cron = compile_cron(entry, name=name, hash_=hash_, second=0)
    return sum(1 for _ in cron.between(YEAR[0], Instant(YEAR[0] + 7 * DAY)))


def runs_in_a_year(entry: str) -> int:
    return sum(1 for _ in compile_cron(entry).between(*YEAR))


@pytest.mark.parametrize(
    ("entry", "better"),
    [
        ("* * * * *", "H * * * *"),
        ("*/1 * * * *", "H * * * *"),
        ("0-59 * * * *", "H * * * *"),
        ("* 3 * * *", "H 3 * * *"),
        ("TZ=Europe/Paris * 3 1 * *", "TZ=Europe/Paris H 3 1 * *"),
    ],
)
def test_every_minute_is_perhaps_not_meant(entry: str, better: str) -> None:
    warning = one_warning(entry, "every minute")
    assert better_entry(warning) == better
    assert warnings(better) == []


def test_every_minute_of_one_hour_says_how_often_that_is() -> None:
    assert "every minute of hour 3, 60 times" in one_warning("* 3 * * *", "every minute")


def test_every_minute_names_the_interval_that_spreads_it() -> None:
    every = EVERY.findall(one_warning("* * * * *", "every minute"))
    assert [parse_duration(e) for e in every] == [DAY // 1_440]


@pytest.mark.parametrize(
    ("entry", "better"),
    [
        ("0 * * * *", "H * * * *"),
        ("0 3 * * *", "H 3 * * *"),
        ("*/15 * * * *", "H/15 * * * *"),
        ("0,20,40 * * * *", "H/20 * * * *"),
        ("5-59/10 * * * *", "H/10 * * * *"),
        ("0,30 9-17 * * MON-FRI", "H/30 9-17 * * MON-FRI"),
        ("5 */2 * * *", "H H/2 * * *"),
        ("0 */12 * * *", "H H/12 * * *"),
        ("0 */5 * * *", "H */5 * * *"),
        ("0 */1 * * *", "H */1 * * *"),
        ("TZ=Asia/Tokyo 0 3 * * *", "TZ=Asia/Tokyo H 3 * * *"),
    ],
)
def test_a_pinned_minute_could_be_h_and_runs_as_often(entry: str, better: str) -> None:
    warning = one_warning(entry, "pins the minute")
    assert better_entry(warning) == better
    assert not [w for w in warnings(better) if "pins the minute" in w]
    for hash_ in Hash:
        counts = {runs_in_a_week(better, name, hash_) for name in NAMES[:12]}
        assert counts == {runs_in_a_week(entry)}
    assert len({compile_cron(better, name=name).resolved for name in NAMES}) > 5


@pytest.mark.parametrize(
    ("entry", "value", "every"),
    [
        ("*/90 * * * *", "minute field only ever matches 0", "90m"),
        ("H */30 * * *", "hour field only ever matches 0", "30h"),
        ("H 3 */40 * *", "day of month field only ever matches 1", "40d"),
    ],
)
def test_a_step_beyond_its_range_names_the_interval_that_was_meant(entry: str, value: str, every: str) -> None:
    warning = one_warning(entry, value)
    assert EVERY.findall(warning) == [every]
    assert parse_duration(every) > 0


@pytest.mark.parametrize(
    ("entry", "value"),
    [("H H * */13 *", "month field only ever matches 1"), ("H H * * */8", "day of week field only ever matches 0")],
)
def test_a_step_beyond_months_or_weekdays_says_what_it_is(entry: str, value: str) -> None:
    assert value in one_warning(entry, "only ever matches")


@pytest.mark.parametrize(
    ("entry", "fragment", "every"),
    [
        ("*/7 * * * *", "7 does not divide 60, so the last gap before the hour ends is shorter", "7m"),
        ("H/7 * * * *", "7 does not divide 60", "7m"),
        ("H */5 * * *", "5 does not divide 24, so the last gap before the day ends is shorter", "5h"),
        ("H H/9 * * *", "9 does not divide 24", "9h"),
        ("H H */2 * *", "starts over every month, so the distance at its end is not 2 days", "2d"),
        ("H H H/10 * *", "starts over every month, so the distance at its end is not 10 days", "10d"),
    ],
)
def test_an_uneven_cycle_names_the_interval_that_keeps_its_distance(entry: str, fragment: str, every: str) -> None:
    assert EVERY.findall(one_warning(entry, fragment)) == [every]


@pytest.mark.parametrize(
    ("entry", "day", "better"),
    [
        ("H H 31 * *", 31, "H H L * *"),
        ("H H 30 * *", 30, "H H L * *"),
        ("H H 31 4,5 *", 31, "H H L 4,5 *"),
    ],
)
def test_a_day_that_some_months_lack_names_the_last_day(entry: str, day: int, better: str) -> None:
    warning = one_warning(entry, f"not every month has day {day}")
    assert better_entry(warning) == better
    assert warnings(better) == []
    assert runs_in_a_year(better) > runs_in_a_year(entry)


def test_two_restricted_day_fields_say_that_either_matches() -> None:
    warning = one_warning("H H 13 * 5", "either matches")
    assert 'days = "and" asks for both' in warning
    assert not [w for w in warnings("H H 13 * 5", Days.AND) if "match" in w]


@pytest.mark.parametrize("entry", ["H H */9 * 1-5", "H H 1-7 * */2"])
def test_a_leading_star_in_a_day_field_says_that_both_must_match(entry: str) -> None:
    warning = one_warning(entry, "both must match (Debian's rule)")
    assert 'days = "and" says the same' in warning
    ours = [list(compile_cron(entry, name="x", days=days).between(*YEAR)) for days in Days]
    assert ours[0] == ours[1]


@pytest.mark.parametrize(
    "entry",
    [
        "H * * * *",
        "H H * * *",
        "H/15 * * * *",
        "H(0-29)/10 * * * *",
        "H H(9-16)/2 * * 1-5",
        "H H 1,15 1-11 *",
        "H H/6 * * *",
        "H H L * *",
        "H H LW * *",
        "H H 29 * *",
        "H H 31 1,3,5 *",
        "H H * * MON#2",
        "H H H * *",
        "TZ=Europe/Paris H H * * *",
        "1,2,40 H * * *",
        "@yearly",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
        "@reboot",
        "@shutdown",
    ],
)
def test_a_good_entry_has_no_warning(entry: str) -> None:
    assert warnings(entry) == []


def test_several_warnings_come_with_the_most_useful_first() -> None:
    found = warnings("*/90 * 31 * 5")
    assert ["only ever matches" in found[0], "pins the minute" in found[1]] == [True, True]
    assert [w for w in found if "either matches" in w] == [found[-1]]


def test_a_range_that_is_the_whole_field_is_treated_like_a_star() -> None:
    assert "starts over every month" in one_warning("H H 1-31/3 * *", "day-of-month")
    assert "does not divide 60" in one_warning("0-59/7 * * * *", "divide")


def test_two_late_days_are_not_told_to_become_one() -> None:
    assert warnings("H H 30,31 * *") == []
