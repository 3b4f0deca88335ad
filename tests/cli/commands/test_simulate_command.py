from pathlib import Path

import pytest

from conftest import Evenbeat

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "checks.toml")
FROM = ("--from", "2026-11-16T00:00")


def test_json_has_exactly_the_promised_keys(evenbeat: Evenbeat) -> None:
    result = evenbeat("simulate", EXAMPLE, *FROM, "--json")
    assert result.code == 0
    assert list(result.json) == ["runs", "skipped", "peak_to_mean", "lateness"]
    assert list(result.json["lateness"]) == ["p50", "p99", "max"]
    assert result.json["runs"] > 360


def test_the_same_seed_gives_the_same_answer(evenbeat: Evenbeat) -> None:
    args = ("simulate", EXAMPLE, *FROM, "--slots", "1", "--json")
    assert evenbeat(*args, "--seed", "3").out == evenbeat(*args, "--seed", "3").out


def test_too_few_slots_make_runs_late_and_nothing_is_lost_silently(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "busy.toml"
    file.write_text("".join(f'[tasks.t{i}]\nevery = "10s"\nweight = 3.0\n' for i in range(10)))
    found = evenbeat("simulate", str(file), *FROM, "--for", "10m", "--slots", "1", "--json").json
    assert found["lateness"]["p50"] > 1
    assert found["runs"] + sum(found["skipped"].values()) == pytest.approx(600, abs=20)


def test_people_see_runs_load_lateness_and_skips(evenbeat: Evenbeat) -> None:
    out = evenbeat("simulate", EXAMPLE, *FROM, "--for", "2h").out
    assert "runs of 7 tasks in 2h" in out
    assert "mean 0.10, peak 1" in out
    assert "lateness: p50" in out


@pytest.mark.parametrize("command", ["simulate", "spread"])
def test_a_file_without_tasks_is_refused(evenbeat: Evenbeat, tmp_path: Path, command: str) -> None:
    file = tmp_path / "empty.toml"
    file.write_text("")
    result = evenbeat(command, str(file))
    assert result.code == 2
    assert "has no tasks: add [checks.NAME] or [tasks.NAME]" in result.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["simulate", "/nowhere.toml"], "/nowhere.toml: No such file"),
        (["simulate", EXAMPLE, "--slots", "0"], "--slots: 0 is out of range"),
        (["simulate", EXAMPLE, "--for", "8d"], "--for: 8d is out of range"),
        (["simulate", EXAMPLE, "--seed", "-1"], "--seed: -1 is out of range"),
        (["simulate", EXAMPLE, "--from", "x"], "--from: 'x' is not a time"),
    ],
)
def test_bad_input_exits_2(evenbeat: Evenbeat, argv: list[str], message: str) -> None:
    result = evenbeat(*argv)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
