from itertools import pairwise

import pytest

from conftest import Evenbeat
from evenbeat.model import Days, Hash
from evenbeat.when.cron import compile_cron
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone

FROM = ("--from", "2026-03-27T12:00")


def test_json_has_exactly_the_promised_keys(evenbeat: Evenbeat) -> None:
    result = evenbeat("next", "H/15 * * * *", "--name", "report", *FROM, "--json")
    assert result.code == 0
    assert result.err == ""
    assert list(result.json) == ["schedule", "resolved", "zone", "next", "warnings"]
    assert result.out.count("\n") == 1


def test_a_cron_entry_lists_its_next_times_in_its_zone(evenbeat: Evenbeat) -> None:
    result = evenbeat("next", "0 9 * * 1-5", "--second", "0", "--zone", "Europe/Paris", *FROM, "-n", "2", "--json")
    assert result.json["next"] == ["2026-03-30T09:00:00+02:00", "2026-03-31T09:00:00+02:00"]
    assert result.json["resolved"] == "0 9 * * 1-5"
    assert result.json["zone"] == "Europe/Paris"


def test_a_zone_in_the_entry_beats_the_option(evenbeat: Evenbeat) -> None:
    result = evenbeat("next", "TZ=Asia/Tokyo 0 9 * * *", "--second", "0", "--zone", "UTC", *FROM, "-n", "1", "--json")
    assert result.json["zone"] == "Asia/Tokyo"
    assert result.json["next"] == ["2026-03-28T09:00:00+09:00"]


def test_times_are_strictly_after_from(evenbeat: Evenbeat) -> None:
    result = evenbeat("next", "0 12 * * *", "--second", "0", "--from", "2026-03-27T12:00", "-n", "1", "--json")
    assert result.json["next"] == ["2026-03-28T12:00:00+00:00"]


def test_from_with_an_offset_is_that_instant_whatever_the_zone(evenbeat: Evenbeat) -> None:
    args = ("next", "--every", "1h", "-n", "1", "--zone", "Europe/Paris", "--json")
    with_offset = evenbeat(*args, "--from", "2026-03-27T12:30:00+00:00")
    assert with_offset.json["next"] == ["2026-03-27T14:00:00+01:00"]


def test_the_name_decides_h_and_the_second(evenbeat: Evenbeat) -> None:
    found = evenbeat("next", "H H * * *", "--name", "backup", *FROM, "-n", "1", "--json").json
    expected = compile_cron("H H * * *", name="backup")
    t = expected.next_after(parse_instant("2026-03-27T12:00", zone("UTC")))
    assert found["resolved"] == expected.resolved
    assert parse_instant(found["next"][0], zone("UTC")) == t


def test_jenkins_hash_and_days_and_are_passed_on(evenbeat: Evenbeat) -> None:
    args = ("--hash", "jenkins", "--days", "and", "--second", "0", *FROM, "-n", "3", "--json")
    found = evenbeat("next", "H 0 13 * 5", "--name", "team/job", *args).json
    expected = compile_cron("H 0 13 * 5", name="team/job", hash_=Hash.JENKINS, days=Days.AND, second=0)
    assert found["resolved"] == expected.resolved
    assert [t[:10] for t in found["next"]] == ["2026-11-13", "2027-08-13", "2028-10-13"]


def test_an_interval_has_no_resolved_form_and_lies_on_its_grid(evenbeat: Evenbeat) -> None:
    found = evenbeat("next", "--every", "5m", "--phase", "90s", *FROM, "-n", "3", "--json").json
    assert found["resolved"] is None
    assert found["schedule"] == "every 5m"
    assert found["next"] == [f"2026-03-27T12:{m}:30+00:00" for m in ("01", "06", "11")]


def test_an_interval_with_a_name_takes_its_phase_from_the_name(evenbeat: Evenbeat) -> None:
    one = evenbeat("next", "--every", "1h", "--name", "a", *FROM, "-n", "1", "--json").json["next"]
    other = evenbeat("next", "--every", "1h", "--name", "b", *FROM, "-n", "1", "--json").json["next"]
    again = evenbeat("next", "--every", "1h", "--name", "a", *FROM, "-n", "1", "--json").json["next"]
    assert one == again
    assert one != other


def test_a_period_moves_interval_runs_into_its_windows(evenbeat: Evenbeat) -> None:
    args = ("--period", "09:00-09:01", "--phase", "2m", *FROM, "-n", "3", "--json")
    found = evenbeat("next", "--every", "5m", *args).json
    assert found["next"] == [f"2026-03-{day}T09:00:24+00:00" for day in (28, 29, 30)]


def test_an_excluded_day_is_passed_over(evenbeat: Evenbeat) -> None:
    args = ("--exclude", "2026-03-28", "--exclude", "sunday", "--second", "0", *FROM, "-n", "1", "--json")
    assert evenbeat("next", "0 9 * * *", *args).json["next"] == ["2026-03-30T09:00:00+00:00"]


def test_a_schedule_that_never_meets_its_period_says_so(evenbeat: Evenbeat) -> None:
    found = evenbeat("next", "0 3 * * *", "--period", "09:00-17:00", *FROM, "--json").json
    assert found["next"] == []
    assert "no nominal time inside within 50 years" in found["warnings"]


def test_a_one_shot_in_the_past_has_no_next_time(evenbeat: Evenbeat) -> None:
    found = evenbeat("next", "--at", "2026-01-01T00:00", *FROM, "--json").json
    assert found["next"] == []
    assert found["warnings"] == ["no nominal time is left"]


def test_a_one_shot_in_the_future_has_one(evenbeat: Evenbeat) -> None:
    found = evenbeat("next", "--at", "2026-12-01T09:00", "--zone", "Europe/Paris", *FROM, "--json").json
    assert found["next"] == ["2026-12-01T09:00:00+01:00"]


def test_a_systemd_expression_works_the_same(evenbeat: Evenbeat) -> None:
    found = evenbeat("next", "--calendar", "Mon..Fri 09:00", "--zone", "Europe/Paris", *FROM, "-n", "1", "--json").json
    assert found["next"] == ["2026-03-30T09:00:00+02:00"]
    assert found["resolved"] is None


def test_events_of_the_node_have_no_times_and_no_complaint(evenbeat: Evenbeat) -> None:
    found = evenbeat("next", "@reboot", "--json")
    assert found.code == 0
    assert found.json["next"] == []
    assert found.json["warnings"] == []
    assert "At every start" in evenbeat("next", "@reboot").out


def test_without_from_it_starts_now(evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenbeat.cli.commands.next.now", lambda: parse_instant("2030-01-01T00:00", zone("UTC")))
    found = evenbeat("next", "--every", "1d", "-n", "1", "--json").json
    assert found["next"] == ["2030-01-02T00:00:00+00:00"]


def test_people_see_the_sentence_the_resolved_entry_the_times_and_the_warnings(evenbeat: Evenbeat) -> None:
    out = evenbeat("next", "0 H(9-10) * * *", "--name", "x", *FROM, "-n", "2").out
    assert "every day" in out
    assert "resolved: 0 " in out
    assert "Sat 2026-03-28" in out
    assert "in 2" in out
    assert "! '0' pins the minute" in out


def test_many_times_are_in_order(evenbeat: Evenbeat) -> None:
    found = evenbeat("next", "*/7 * * * *", *FROM, "-n", "500", "--json").json["next"]
    assert len(found) == 500
    assert all(a < b for a, b in pairwise(found))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["next"], "give one of CRON, --every, --calendar, --at; found none"),
        (["next", "* * * * *", "--every", "5m"], "found cron and every"),
        (["next", "61 * * * *"], "cron, field 1, column 1: 61 is out of range"),
        (["next", "* * 30 2 *"], "field 3, column 5: no date ever has"),
        (
            ["next", "* * * * *", "--zone", "Europe/Pari"],
            "zone: 'Europe/Pari' is not a time zone, did you mean Europe/Paris",
        ),
        (["next", "* * * * *", "--second", "60"], "--second: '60' is not a second, accepted: 0-59, or spread"),
        (["next", "--every", "5x"], "--every, column 2: 'x' is not a unit"),
        (["next", "--every", "100ms"], "every: 0.1 s is out of range, accepted: 1s to 3653d"),
        (
            ["next", "--every", "5m", "--phase", "5m"],
            "phase: 300 s of 300 s: a phase belongs to `every`, from 0 to less than it",
        ),
        (["next", "--at", "tomorrow"], "at: 'tomorrow' is not a time"),
        (["next", "* * * * *", "--from", "noon"], "--from: 'noon' is not a time"),
        (["next", "* * * * *", "-n", "0"], "-n: 0 is out of range"),
        (["next", "--calendar", "Foo 9"], "calendar: 'Foo 9' is not an OnCalendar expression"),
        (
            ["next", "--every", "5m", "--period", "moonday"],
            "ranges[0], column 1: 'moonday' is not a day, did you mean monday?",
        ),
        (["next", "--every", "5m", "--exclude", "day 40"], "--exclude, ranges[0], column 5: 40 is not a day"),
    ],
)
def test_bad_input_exits_2_with_a_message_on_stderr_and_nothing_on_stdout(
    evenbeat: Evenbeat, argv: list[str], message: str
) -> None:
    result = evenbeat(*argv, "--json")
    assert result.code == 2
    assert result.out == ""
    assert message in result.err


def test_periods_and_from_are_in_the_zone_of_the_entry(evenbeat: Evenbeat) -> None:
    args = ("--second", "0", "--period", "monday 09:00-10:00", "--from", "2026-11-16T08:00", "-n", "1", "--json")
    found = evenbeat("next", "TZ=Asia/Tokyo 0 9 * * *", *args).json
    assert found["next"] == ["2026-11-16T09:00:00+09:00"]


@pytest.mark.parametrize(
    "schedule",
    [("0 0 29 2 *",), ("0 0 1 1 *", "--zone", "Europe/Paris"), ("--calendar", "yearly"), ("--every", "3653d")],
)
def test_the_calendar_ends_with_the_year_2199(evenbeat: Evenbeat, schedule: tuple[str, ...]) -> None:
    found = evenbeat("next", *schedule, "--from", "2150-01-01", "-n", "1000", "--json").json["next"]
    assert 0 < len(found) <= 50
    assert max(found) < "2200"


def test_a_narrow_terminal_hides_nothing(evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert "2026-03-27 13:00:00" in evenbeat("next", "--every", "1h", *FROM, "-n", "1").out
