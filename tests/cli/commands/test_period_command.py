import pytest

from conftest import Evenbeat
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone

WORK = "monday-friday 09:00-17:00"


def test_json_has_exactly_the_promised_keys(evenbeat: Evenbeat) -> None:
    result = evenbeat("period", WORK, "--from", "2026-11-13T10:00", "--to", "2026-11-17T00:00", "--json")
    assert result.code == 0
    assert result.json == {
        "inside": True,
        "next_open": "2026-11-16T09:00:00+00:00",
        "next_close": "2026-11-13T17:00:00+00:00",
        "windows": [
            ["2026-11-13T10:00:00+00:00", "2026-11-13T17:00:00+00:00"],
            ["2026-11-16T09:00:00+00:00", "2026-11-16T17:00:00+00:00"],
        ],
    }


def test_outside_is_an_answer_like_any_other(evenbeat: Evenbeat) -> None:
    result = evenbeat("period", WORK, "--from", "2026-11-14T10:00", "--json")
    assert result.code == 0
    assert result.json["inside"] is False


def test_no_line_means_always(evenbeat: Evenbeat) -> None:
    found = evenbeat("period", "--from", "2026-11-14T10:00", "--to", "2026-11-15T10:00", "--json").json
    assert found == {
        "inside": True,
        "next_open": None,
        "next_close": None,
        "windows": [["2026-11-14T10:00:00+00:00", "2026-11-15T10:00:00+00:00"]],
    }


@pytest.mark.parametrize(("prefer", "inside"), [("include", True), ("exclude", False)])
def test_prefer_decides_between_include_and_exclude(evenbeat: Evenbeat, prefer: str, inside: bool) -> None:
    args = ("--exclude", "2026-11-16", "--include", "2026-11-16 12:00-13:00", "--prefer", prefer)
    found = evenbeat("period", WORK, *args, "--from", "2026-11-16T12:30", "--json").json
    assert found["inside"] is inside


def test_several_lines_are_a_union_in_the_given_zone(evenbeat: Evenbeat) -> None:
    args = ("--zone", "Europe/Paris", "--from", "2026-03-28T00:00", "--to", "2026-03-30T00:00", "--json")
    found = evenbeat("period", "saturday 10:00-11:00", "sunday 02:30-04:00", *args).json
    assert found["windows"] == [
        ["2026-03-28T10:00:00+01:00", "2026-03-28T11:00:00+01:00"],
        ["2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"],
    ]


def test_holidays_can_be_excluded(evenbeat: Evenbeat) -> None:
    args = ("--exclude", "holidays DE", "--from", "2026-12-25T10:00", "--zone", "Europe/Berlin", "--json")
    assert evenbeat("period", WORK, *args).json["next_open"] == "2026-12-28T09:00:00+01:00"


def test_people_see_the_state_and_the_windows(evenbeat: Evenbeat) -> None:
    out = evenbeat("period", WORK, "--from", "2026-11-14T10:00").out
    assert "closed at Sat 2026-11-14 10:00:00+00:00" in out
    assert "next opens Mon 2026-11-16 09:00:00+00:00   in 1 d 23 h" in out
    assert "Fri 2026-11-20 09:00:00+00:00  -  Fri 2026-11-20 17:00:00+00:00   8 h" in out


def test_never_is_said(evenbeat: Evenbeat) -> None:
    out = evenbeat("period", "2020-01-01", "--from", "2026-11-14T10:00").out
    assert "next opens not within 50 years" in out


def test_without_from_it_is_about_now_and_the_week_from_it(evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenbeat.cli.commands.period.now", lambda: parse_instant("2030-01-07T08:00", zone("UTC")))
    found = evenbeat("period", WORK, "--json").json
    assert found["next_open"] == "2030-01-07T09:00:00+00:00"
    assert len(found["windows"]) == 5


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["period", "monday-friday 9-17"], "column 15"),
        (["period", WORK, "--include", "foo"], "--include, ranges[0], column 1: 'foo' is not a day"),
        (
            ["period", WORK, "--from", "2026-01-02", "--to", "2026-01-01"],
            "--to: 2026-01-01T00:00:00+00:00: accepted is a time after --from",
        ),
        (["period", WORK, "--zone", "Mars"], "zone: 'Mars' is not a time zone"),
        (["period", "holidays ZZ"], "no holidays are known for 'ZZ'"),
    ],
)
def test_bad_input_exits_2(evenbeat: Evenbeat, argv: list[str], message: str) -> None:
    result = evenbeat(*argv)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
