"""A cron entry as a sentence a colleague would say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import Days, Invalid
from evenbeat.when.cron import compile_cron
from evenbeat.when.explain import explain_cron, explain_occasion


def said(entry: str, *, days: Days = Days.OR, second: int = 0, zone: str = "UTC", name: str = "report") -> str:
    return explain_cron(compile_cron(entry, name=name, days=days, second=second, zone_name=zone))


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("* * * * *", "Every minute, UTC time."),
        ("0 * * * *", "At the start of every hour, UTC time."),
        ("30 9 * * *", "At 09:30 every day, UTC time."),
        (
            "45 9-16/2 * * 1-5",
            "At minute 45 past every second hour from 9 through 16 on Monday through Friday, UTC time.",
        ),
        ("0 9 1,15 * *", "At 09:00 on the first and the 15th day of month, UTC time."),
        ("0 0 L * *", "At 00:00 on the last day of every month, UTC time."),
        ("0 0 LW * *", "At 00:00 on the last weekday of every month, UTC time."),
        ("0 0 * * MON#2", "At 00:00 on the second Monday of the month, UTC time."),
        ("0 0 * * 5L", "At 00:00 on the last Friday of the month, UTC time."),
        ("0 0 1 JAN *", "At 00:00 on January 1, UTC time."),
    ],
)
def test_plain_entries(entry: str, sentence: str) -> None:
    assert said(entry) == sentence


@pytest.mark.parametrize(
    ("day", "ordinal"),
    [
        (10, "10th"),
        (11, "11th"),
        (12, "12th"),
        (13, "13th"),
        (21, "21st"),
        (22, "22nd"),
        (23, "23rd"),
        (24, "24th"),
        (31, "31st"),
    ],
)
def test_ordinals_are_english(day: int, ordinal: str) -> None:
    assert said(f"0 0 {day} * *") == f"At 00:00 on the {ordinal} day of every month, UTC time."


def test_h_is_told_as_what_it_resolved_to() -> None:
    for name in ("report", "backup", "Grüße"):
        cron = compile_cron("H H * * *", name=name, second=0)
        minute, hour = map(int, cron.resolved.split()[:2])
        assert explain_cron(cron) == f"At {hour:02}:{minute:02} every day, UTC time."


def test_a_step_that_leaves_one_value_is_told_as_that_value() -> None:
    assert said("*/90 * * * *") == said("0 * * * *")
    assert said("0 */24 * * *") == said("0 0 * * *")
    assert said("30-30/5 9 * * *") == said("30 9 * * *")


def test_the_second_is_told_unless_it_is_zero() -> None:
    assert said("30 9 * * *", second=17) == "At 09:30 every day, 17 s past the minute, UTC time."
    assert "past the minute" not in said("30 9 * * *", second=0)


def test_the_zone_is_told() -> None:
    assert said("30 9 * * *", zone="Europe/Paris") == "At 09:30 every day, Europe/Paris time."
    assert said("TZ=Asia/Tokyo 30 9 * * *", zone="Europe/Paris") == "At 09:30 every day, Asia/Tokyo time."


def test_either_day_is_told_with_or() -> None:
    sentence = "At 09:00 on the 13th day of month or on Friday (whichever matches), UTC time."
    assert said("0 9 13 * FRI") == said("0 9 13 * 5") == sentence
    assert "or on Monday and Wednesday (whichever matches)" in said("0 0 1,2 * MON,WED")


def test_either_of_all_days_and_some_days_is_every_day() -> None:
    assert said("0 9 1-31 * FRI") == said("0 9 13 * 0-6") == said("0 9 13 * 1-7") == "At 09:00 every day, UTC time."
    assert said("0 9 1-31 * FRI", days=Days.AND) == "At 09:00 on Friday, UTC time."


def test_both_days_are_told_as_a_condition() -> None:
    sentence = "At 09:00 on the 13th day of month if it's on Friday, UTC time."
    assert said("0 9 13 * FRI", days=Days.AND) == sentence
    assert "if it's on Monday through Friday" in said("0 0 */2 * 1-5")


@pytest.mark.parametrize("event", ["@reboot", "@shutdown"])
def test_events_have_their_own_sentence(event: str) -> None:
    expected = {"@reboot": "At every start of the node.", "@shutdown": "At every orderly stop of the node."}
    assert explain_occasion(event) == expected[event]
    assert explain_occasion(f"TZ=UTC {event}") == expected[event]


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(Invalid, match="'@daily' is not an event"):
        explain_occasion("@daily")


parts = st.sampled_from(
    ["*", "H", "*/5", "1-5", "H/3", "H(1-5)", "3", "1,4", "1-7/2", "H(1-6)/2", "*/70", "2-2/9", "1,*/2"]
)
months = st.sampled_from(["*", "H", "JAN", "1-6", "*/2", "FEB,JUN", "H/6"])
weekdays = st.sampled_from(["*", "H", "MON", "1-5", "7", "0", "SUN#2", "5L", "MON,FRI", "*/2", "5-7"])
days = st.one_of(parts, st.sampled_from(["L", "LW", "L,1", "1-31"]))


@given(parts, parts, days, months, weekdays, st.sampled_from(Days))
def test_every_entry_has_one_sentence(minute: str, hour: str, day: str, month: str, weekday: str, rule: Days) -> None:
    try:
        cron = compile_cron(f"{minute} {hour} {day} {month} {weekday}", name="x", days=rule)
    except Invalid as refusal:
        assert "no date ever" in refusal.problem
        return
    sentence = explain_cron(cron)
    assert sentence.endswith(" UTC time.")
    assert sentence[0].isupper()
    assert "H" not in cron.resolved
    every_day = day == "1-31"
    assert ("whichever matches" in sentence) == (not cron.times.day_and and not every_day)


def test_a_step_that_does_not_fit_is_told_by_its_values() -> None:
    assert said("*/31 * * * *") == "At minutes 0 and 31 of every hour, UTC time."
    assert said("*/20 * * * *") == "Every 20th minute of every hour, UTC time."


def test_a_stepped_range_with_few_values_is_told_by_them() -> None:
    assert said("10-20/15 * * * *") == "At minute 10 of every hour, UTC time."
    assert said("0 0 * * */7") == "At 00:00 on Sunday, UTC time."
