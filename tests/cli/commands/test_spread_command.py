import re
from pathlib import Path

import pytest

from conftest import Evenbeat

MIX = "10s,30s,1m,5m,15m,1h"
STRATEGIES = ["even", "hash", "icinga", "bergamot", "aligned"]
FROM = ("--from", "2026-11-16T00:00")


def test_a_hundred_thousand_tasks_are_spread_to_within_one_percent(evenbeat: Evenbeat) -> None:
    found = evenbeat("spread", "--tasks", "100000", "--every", MIX, "--strategy", "all", "--json").json["strategies"]
    assert list(found) == STRATEGIES
    assert all(list(numbers) == ["mean", "peak", "min", "peak_to_mean", "least_peak"] for numbers in found.values())
    assert found["even"]["peak_to_mean"] <= 1.01
    assert all(found[other]["peak_to_mean"] > found["even"]["peak_to_mean"] for other in STRATEGIES[1:])


def test_few_tasks_have_the_smallest_possible_peak(evenbeat: Evenbeat) -> None:
    even = evenbeat("spread", "--tasks", "500", "--every", MIX, "--json").json["strategies"]["even"]
    assert even["peak"] - even["mean"] < 1


def test_the_same_seed_gives_the_same_curves_and_another_seed_others(evenbeat: Evenbeat) -> None:
    args = ("spread", "--tasks", "300", "--every", "1m", "--strategy", "bergamot", *FROM, "--json")
    assert evenbeat(*args, "--seed", "7").out == evenbeat(*args, "--seed", "7").out
    assert evenbeat(*args, "--seed", "7").out != evenbeat(*args, "--seed", "8").out


def test_only_the_asked_strategy_is_shown(evenbeat: Evenbeat) -> None:
    assert list(evenbeat("spread", "--tasks", "9", "--every", "1m", "--json").json["strategies"]) == ["even"]


def test_the_stretch_can_be_chosen(evenbeat: Evenbeat) -> None:
    found = evenbeat("spread", "--tasks", "1", "--every", "1m", "--for", "10m", "--strategy", "aligned", "--json").json
    assert found["strategies"]["aligned"]["mean"] == pytest.approx(1 / 60)


def test_a_file_counts_cron_calendar_periods_and_weights(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "checks.toml"
    file.write_text(
        """
        [periods.work]
        ranges = ["monday-friday 09:00-17:00"]
        [checks.a]
        every = "1m"
        phase = "5s"
        period = "work"
        weight = 2.0
        [tasks.b]
        cron = "0 12 * * *"
        second = 0
        weight = 7.0
        [tasks.c]
        calendar = "12:00"
        [checks.d]
        every = "1d"
        phase = "20h"
        period = "work"
        """
    )
    even = evenbeat("spread", str(file), *FROM, "--json").json["strategies"]["even"]
    assert even["peak"] == 8.0
    assert even["mean"] * 86_400 == pytest.approx(480 * 2 + 7 + 1 + 1)


def test_a_plot_is_a_picture(evenbeat: Evenbeat, tmp_path: Path) -> None:
    picture = tmp_path / "spread.png"
    result = evenbeat("spread", "--tasks", "60", "--every", "1m", "--strategy", "all", "--plot", str(picture), "--json")
    assert result.code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(result.json["strategies"]) == STRATEGIES


def test_of_a_few_tasks_the_peak_stands_beside_the_smallest_possible_one(evenbeat: Evenbeat) -> None:
    shown = evenbeat("spread", "--tasks", "6", "--every", "1m", "--strategy", "all").out
    heading, *rows = (re.split("  +", line) for line in shown.splitlines()[2:])
    assert heading[:4] == ["strategy", "mean", "peak", "smallest possible peak"]
    assert "peak/mean" not in shown
    found = {row[0]: row[1:4] for row in rows}
    assert found["even"] == ["0.10", "1.00", "1.00"]
    assert found["aligned"] == ["0.10", "6.00", "1.00"]


def test_nothing_can_be_evener_than_the_smallest_possible_peak(evenbeat: Evenbeat) -> None:
    many = evenbeat("spread", "--tasks", "500", "--every", MIX, "--strategy", "all", "--json").json["strategies"]
    assert many["even"]["peak"] == many["even"]["least_peak"]
    assert all(numbers["peak"] >= numbers["least_peak"] for numbers in many.values())


def test_people_see_a_line_per_strategy_with_a_curve(evenbeat: Evenbeat) -> None:
    out = evenbeat("spread", "--tasks", "6000", "--every", "1m", "--strategy", "all").out
    lines = {line.split()[0]: line for line in out.splitlines() if line.split() and line.split()[0] in STRATEGIES}
    assert list(lines) == STRATEGIES
    assert "1.000" in lines["even"]
    assert set(lines["even"].split()[-1]) == {"▃"}
    assert "█" in lines["aligned"]


def test_every_problem_of_a_file_is_reported_with_its_place(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('[checks.a]\nevery = "5x"\n[tasks.b]\ncron = "1 2 3 4 99"\n')
    result = evenbeat("spread", str(file))
    assert result.code == 2
    assert f"{file}:2:11: checks.a.every: 'x' is not a unit" in result.err
    assert f"{file}:4:17: tasks.b.cron, field 5: 99 is out of range" in result.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["spread"], "give a FILE, or both --tasks N and --every"),
        (["spread", "--tasks", "5"], "give a FILE, or both"),
        (["spread", "f.toml", "--tasks", "5"], "not both"),
        (["spread", "/nowhere/f.toml"], "/nowhere/f.toml: No such file"),
        (["spread", "--tasks", "0", "--every", "1m"], "--tasks: 0 is out of range"),
        (["spread", "--tasks", "1", "--every", "1m,2x"], "--every, column 5: 'x' is not a unit"),
        (["spread", "--tasks", "1", "--every", "1m,10ms"], "--every, column 4: 10ms is out of range"),
        (["spread", "--tasks", "1", "--every", "1m", "--for", "8d"], "--for: 8d is out of range, accepted: 1s to 1w"),
        (["spread", "--tasks", "1", "--every", "1m", "--seed", "-1"], "--seed: -1 is out of range"),
        (["spread", "--tasks", "1", "--every", "1m", "--for", ""], "--for: an empty duration"),
        (["spread", "--tasks", "1", "--every", "1m", "--strategy", "x"], "'even', 'hash', 'icinga', 'bergamot'"),
        (["spread", "--tasks", "1", "--every", "1m", "--plot", "x.gif"], "--plot: 'x.gif' is not a .png file"),
        (["spread", "--tasks", "1", "--every", "1m", "--plot", "/nowhere/x.png"], "--plot: /nowhere/x.png: No such"),
    ],
)
def test_bad_input_exits_2(evenbeat: Evenbeat, argv: list[str], message: str) -> None:
    result = evenbeat(*argv)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err


def test_a_task_that_says_how_it_is_spread_is_left_so(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "aligned.toml"
    file.write_text('[tasks.a]\nevery = "1m"\nspread = "aligned"\n[tasks.b]\nevery = "1m"\nspread = "aligned"\n')
    result = evenbeat("spread", str(file), *FROM, "--json")
    assert result.json["strategies"]["even"]["peak"] == 2.0
    assert "2 of them keep the phase" in evenbeat("spread", str(file), *FROM).out


@pytest.mark.parametrize("kind", ['cron = "* * * * *"\nsecond = 0', 'calendar = "*:*:00"'])
def test_a_new_task_avoids_the_second_of_calendar_tasks(evenbeat: Evenbeat, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "calendar.toml"
    file.write_text(f'[tasks.a]\n{kind}\nweight = 50\n[tasks.b]\nevery = "1m"\nweight = 50\n')
    assert evenbeat("spread", str(file), *FROM, "--for", "1h", "--json").json["strategies"]["even"]["peak"] == 50.0


def test_a_file_in_which_nothing_starts_says_so(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "quiet.toml"
    file.write_text('[tasks.a]\ncron = "@reboot"\n')
    assert "nothing starts in this time" in evenbeat("spread", str(file), *FROM).out


def test_broken_and_very_long_intervals_are_counted(evenbeat: Evenbeat) -> None:
    args = ("spread", "--tasks", "300", "--every", "1.5s,7s,3653d", "--strategy", "all", "--for", "2h", "--json")
    found = evenbeat(*args).json["strategies"]
    for strategy in ("even", "hash", "bergamot", "aligned"):
        assert found[strategy]["mean"] == pytest.approx(100 / 1.5 + 100 / 7, rel=0.01)
