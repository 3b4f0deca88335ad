"""`evenbeat downtime` and `pause --for` on a database: what they print, their JSON, and what they refuse."""

import json
from pathlib import Path

import pytest

from evenbeat.cli.main import main

FIELDS = [
    *("id", "names", "owner", "labels", "from", "until", "period", "dependents", "comment", "who", "created"),
    *("active", "over", "next_change", "declared", "ended_by", "limited_to"),
]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.setenv("EVENBEAT_DB", str(tmp_path / "evenbeat.db"))
    for name in ("web1", "web2"):
        assert main(["add", name, "--every", "1h", "--", "true"]) == 0
    capsys.readouterr()
    return tmp_path / "evenbeat.db"


def test_one_is_set_listed_and_ended(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["downtime", "add", "web*", "--for", "2h", "--reason", "new disks", "--no-dependents"]) == 0
    printed = capsys.readouterr().out
    id_ = printed.split(": ", 1)[0].removeprefix("set ")
    assert printed.startswith(f"set {id_}: web*, without dependents: from ")
    assert printed.endswith(": new disks\n")
    assert main(["downtime", "list"]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["id", "state", "until", "tasks", "by", "reason"]
    assert line.startswith(f"{id_}  ")
    assert line.endswith("new disks")
    assert main(["ls", "--state", "downtime"]) == 0
    assert capsys.readouterr().out.count("new, in downtime") == 2
    assert main(["show", "web1"]) == 0
    assert f"  in downtime {id_} until " in capsys.readouterr().out
    assert main(["downtime", "end", id_]) == 0
    assert capsys.readouterr().out.startswith(f"ended {id_}: ")
    assert main(["downtime", "end", id_]) == 1
    assert capsys.readouterr().err == f"evenbeat downtime: the downtime {id_} is over already\n"
    assert main(["downtime", "list"]) == 0
    assert capsys.readouterr().out == "no downtimes; --all also shows those that are over\n"
    assert main(["downtime", "list", "--all"]) == 0
    assert "over, ended by " in capsys.readouterr().out


def test_its_json(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--from", "2150-01-01", "--until", "2150-02-01", "--label", "a=b", "--owner", "ops", "--json"]
    assert main(["downtime", "add", *arguments]) == 0
    made = json.loads(capsys.readouterr().out)
    assert list(made) == FIELDS
    assert (made["names"], made["owner"], made["labels"], made["active"]) == ([], "ops", {"a": "b"}, False)
    assert (made["from"], made["next_change"]) == ("2150-01-01T00:00:00+00:00",) * 2
    assert main(["downtime", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"downtimes": [made]}
    assert main(["downtime", "end", made["id"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == made["id"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["add", "--for", "2h"], "which tasks? Give names or patterns, --owner or --label"),
        (["add", "web1"], "until when? Give --for D or --to T, at most a year"),
        (["add", "web1", "--for", "0s"], "--for: 0s is no time at all"),
        (["add", "web1", "--until", "soon"], "--until: 'soon' is not a time"),
        (["add", "wbe1", "--for", "2h"], "there is no task 'wbe1'; did you mean 'web1'?"),
        (["add", "web1", "--for", "2h", "--all"], "--all: belongs to `evenbeat downtime ls`"),
        (["list", "web1"], "`evenbeat downtime list` lists all downtimes"),
        (["list", "--for", "2h"], "--for: belongs to `evenbeat downtime add`"),
        (["end"], "which one? `evenbeat downtime rm ID`"),
        (["end", "d123"], "there is no downtime 'd123'"),
    ],
)
def test_what_is_refused(
    database: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert main(["downtime", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_a_pause_with_an_end_is_shown_with_its_reason(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pause", "web1", "--for", "2h", "--reason", "it moves"]) == 0
    capsys.readouterr()
    main(["ls", "web1"])
    assert "paused until " in capsys.readouterr().out
    main(["show", "web1"])
    shown = capsys.readouterr().out
    assert "  paused by " in shown
    assert ": it moves\n" in shown
    assert main(["pause", "web1", "--until", "2020-01-01"]) == 2
    assert "until: accepted: a time in the future" in capsys.readouterr().err
    assert main(["resume", "web1"]) == 0
    capsys.readouterr()
    main(["show", "web1", "--json"])
    assert json.loads(capsys.readouterr().out)["pause"] is None
