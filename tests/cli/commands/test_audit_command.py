"""`evenbeat audit` on a database without a node; tests/client/test_http.py asks a live node, and by its URL."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Evenbeat


@pytest.fixture
def changed(evenbeat: Evenbeat, tmp_path: Path) -> str:
    """A task that was added, changed by another, and removed."""
    database = str(tmp_path / "a.db")
    added = ["add", "job", "--every", "5m", "--env", "PASSWORD=hunter2", "--db", database, "--", "echo", "hi"]
    for argv in (
        added,
        ["set", "job", "every=10m", "labels.team=web", "--db", database],
        ["rm", "job", "--db", database],
    ):
        assert evenbeat(*argv).code == 0
    return database


def changes(evenbeat: Evenbeat, *argv: str) -> list[dict[str, Any]]:
    result = evenbeat("audit", "--json", *argv)
    assert result.code == 0, result.err
    document = json.loads(result.out)
    assert list(document) == ["changes"]
    found: list[dict[str, Any]] = document["changes"]
    assert all(list(change) == ["at", "who", "action", "name", "detail", "fields"] for change in found)
    return found


def test_of_a_task_that_is_gone_too(evenbeat: Evenbeat, changed: str) -> None:
    removed, edited, created = changes(evenbeat, "job", "--db", changed)
    assert [change["action"] for change in (removed, edited, created)] == ["removed", "changed", "created"]
    assert {"key": "every", "old": "5m", "new": "10m"} in edited["fields"]
    assert {"key": "labels.team", "old": None, "new": "web"} in edited["fields"]
    assert {"key": "command", "old": None, "new": ["echo", "hi"]} in created["fields"]
    assert {"key": "env.PASSWORD", "old": "***hidden***", "new": None} in removed["fields"]


def test_people_read_lines(evenbeat: Evenbeat, changed: str) -> None:
    result = evenbeat("audit", "job", "--db", changed)
    lines = result.out.splitlines()
    assert any(line.endswith("changed job  schedule, labels") for line in lines)
    assert "    every: 5m -> 10m" in lines
    assert "    labels.team: - -> web" in lines
    assert "hunter2" not in result.out


def test_by_person_time_and_number(evenbeat: Evenbeat, changed: str) -> None:
    everything = changes(evenbeat, "--db", changed)
    who = everything[0]["who"]
    assert changes(evenbeat, "--who", who, "--since", "1h", "--db", changed) == everything
    assert changes(evenbeat, "--who", "nobody", "--db", changed) == []
    assert changes(evenbeat, "--since", "2199-01-01", "--db", changed) == []
    assert changes(evenbeat, "--limit", "2", "--db", changed) == everything[:2]
    assert evenbeat("audit", "never", "--db", changed).out == "nothing yet\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--since", "soon"], "'soon' is neither a duration nor a time, accepted: how long ago, such as 1d, or a time"),
        (["--limit", "0"], "--limit: 0 is out of range, accepted: 1 to 100000"),
    ],
)
def test_bad_input_is_refused(evenbeat: Evenbeat, changed: str, argv: list[str], said: str) -> None:
    result = evenbeat("audit", *argv, "--db", changed)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_a_name_that_commands_the_terminal_is_shown_as_text(evenbeat: Evenbeat, tmp_path: Path) -> None:
    database = str(tmp_path / "a.db")
    evenbeat("add", "job", "--every", "5m", "--db", database, "--", "printf", "\x1b[2J")
    result = evenbeat("audit", "--db", database)
    assert "\x1b" not in result.out
    assert "[2J" in result.out
