from pathlib import Path

import pytest

from conftest import Evenbeat

GOOD = '[checks.a]\nevery = "1m"\ncommand = ["a"]\n[tasks.b]\ncron = "H 3 * * *"\ncommand = ["b"]\n'
BAD = '[checks.a]\nevery = "5x"\n[tasks.b]\ncron = "0 25 * * *"\ncommand = ["b"]\n'


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("good.toml").write_text(GOOD)
    Path("bad.toml").write_text(BAD)
    Path("crontab").write_text("MAILTO=me\n0 3 * * * c\n")
    return tmp_path


@pytest.mark.usefixtures("files")
def test_json_has_exactly_the_promised_keys(evenbeat: Evenbeat) -> None:
    result = evenbeat("check-config", "good.toml", "--json")
    assert result.code == 0
    assert result.json == {"errors": [], "warnings": [], "tasks": 2}


@pytest.mark.usefixtures("files")
def test_every_error_of_every_file_is_told_with_its_place(evenbeat: Evenbeat) -> None:
    result = evenbeat("check-config", "bad.toml", "good.toml", "none.toml", "--json")
    assert result.code == 2
    assert result.json["tasks"] == 0
    assert [error.split(": ")[0] for error in result.json["errors"]] == ["bad.toml:2:11", "bad.toml:4:11", "none.toml"]


@pytest.mark.usefixtures("files")
def test_people_read_errors_on_stderr(evenbeat: Evenbeat) -> None:
    result = evenbeat("check-config", "bad.toml")
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("bad.toml:2:11: checks.a.every: 'x' is not a unit")


@pytest.mark.usefixtures("files")
def test_warnings_do_not_fail(evenbeat: Evenbeat) -> None:
    result = evenbeat("check-config", "good.toml", "crontab")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].startswith("crontab:1:8: a run that fails is mailed")
    assert lines[1].startswith("crontab:2:1: '0' pins the minute")
    assert lines[2] == "3 tasks in 2 files, no problem"


@pytest.mark.usefixtures("files")
def test_files_are_checked_together(evenbeat: Evenbeat) -> None:
    Path("more.toml").write_text('[tasks.b]\nevery = "1h"\ncommand = ["b"]\n')
    found = evenbeat("check-config", "good.toml", "more.toml", "--json").json
    assert found["errors"] == ["more.toml:1:2: the name 'b' is taken by a task of good.toml; names are unique"]


def test_very_many_warnings_are_counted(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("".join(f"0 3 * * * c{i}\n" for i in range(1_200)))
    found = evenbeat("check-config", str(file), "--json").json
    assert len(found["warnings"]) == 1_001
    assert found["warnings"][-1] == "... and 200 more"


def test_files_are_needed(evenbeat: Evenbeat) -> None:
    assert evenbeat("check-config").code == 2
