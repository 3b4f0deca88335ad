"""One-off times: relative ones where they make sense, and none that has passed, except in files."""

from pathlib import Path

import pytest

from conftest import Evenbeat
from evenbeat.app import App
from evenbeat.load.config import BadFileError
from evenbeat.load.one_off import require_future_at, resolve_relative_at
from evenbeat.load.task_tables import task_from_table
from evenbeat.load.toml import parse_toml
from evenbeat.model import DAY, SECOND, Instant, Invalid

NOW = Instant(20_000 * DAY + 1)


def test_a_relative_time_is_resolved_where_it_was_typed() -> None:
    assert resolve_relative_at({"at": "+10m", "x": 1}, NOW) == {"at": "2024-10-04T00:10:01+00:00", "x": 1}
    assert resolve_relative_at({"every": "10m"}, NOW) == {"every": "10m"}
    with pytest.raises(Invalid, match="at: "):
        resolve_relative_at({"at": "+soon"}, NOW)


def test_a_time_that_has_passed_is_refused_unless_the_task_had_it() -> None:
    at = task_from_table("x", {"at": "2024-10-04T00:00", "command": ["x"]}, check=False)
    require_future_at(at, Instant(20_000 * DAY - SECOND))
    with pytest.raises(Invalid, match=r"at: 2024-10-04T00:00 is in the past, so the task never runs; .* \+10m"):
        require_future_at(at, NOW)
    require_future_at(at, NOW, at)


def test_a_file_may_not_say_a_relative_one() -> None:
    with pytest.raises(BadFileError, match=r"a\.toml:2:7: tasks\.x\.at: a relative time would be another one"):
        parse_toml('[tasks.x]\nat = "+10m"\ncommand = ["x"]\n', "a.toml")


def test_the_command_line_and_python_agree(evenbeat: Evenbeat, tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    db = ("--db", str(database))
    assert evenbeat("add", "soon", "--at", "+10m", *db, "--", "true").code == 0
    assert evenbeat("add", "late", "--at", "2020-01-01", *db, "--", "true").err.startswith(
        "evenbeat add: at: 2020-01-01 is in the past, so the task never runs"
    )
    assert evenbeat("set", "soon", "at=2020-01-01", *db).code == 2
    assert evenbeat("set", "soon", "at=+20m", *db).out == "changed soon\n"
    app = App(database)
    app.create("later", at="+1h", command=["true"])
    with pytest.raises(Invalid, match="is in the past"):
        app.create("late", at="2020-01-01", command=["true"])
    with pytest.raises(Invalid, match="is in the past"):
        app.update("later", at="2020-01-01")


def test_in_a_file_it_is_a_warning(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[tasks.x]\nat = "2020-01-01"\ncommand = ["true"]\n')
    words = "2020-01-01 is in the past, so the task never runs"
    assert evenbeat("check-config", str(file), "--json").json["warnings"] == [f"{file}:2:7: {words}"]
    applied = evenbeat("apply", str(file), "--db", str(tmp_path / "a.db"))
    assert (applied.code, applied.out, applied.err) == (0, "created x\n", f"evenbeat apply: x: {words}\n")
