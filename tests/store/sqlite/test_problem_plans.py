"""How SQLite finds problems: to list open ones, or those of a task, it reads neither all tasks nor closed problems."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from evenbeat.model import State
from evenbeat.store.contract import Filter, ProblemFilter
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.store.sqlite.statements import query, query_of_rows, row_width


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "x.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as opened:
        yield opened


def plan(connection: sqlite3.Connection, statement: str, values: Sequence[str | int]) -> list[str]:
    return [words for *_, words in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


def plan_of(connection: sqlite3.Connection, tmp_path: Path, only: ProblemFilter, name: str) -> list[str]:
    with closing(SqliteStore(tmp_path / "x.db", read_only=True)) as store:
        statement, values = store._about_problems(name, only)
    return plan(connection, statement, [*values, *([9, 9] if name == "problems" else [])])


@pytest.mark.parametrize("name", ["problems", "count_problems"])
@pytest.mark.parametrize(
    "only",
    [
        ProblemFilter(),
        ProblemFilter(cause="state", state=State.CRITICAL),
        ProblemFilter(Filter(owner="me", labels={"a": "b"}, contains="x")),
        ProblemFilter(Filter(names=("a*",))),
        ProblemFilter(Filter(names=("a*", "b"))),
    ],
)
def test_open_problems_are_found_by_their_index(
    connection: sqlite3.Connection, tmp_path: Path, only: ProblemFilter, name: str
) -> None:
    steps = plan_of(connection, tmp_path, only, name)
    assert any("problems_open" in step and step.startswith(("SCAN p", "SEARCH p")) for step in steps), steps
    assert not [step for step in steps if step.startswith(("SCAN t", "SCAN tasks", "SCAN r"))], steps
    assert not [step for step in steps if "TEMP B-TREE FOR ORDER" in step], steps


@pytest.mark.parametrize("is_open", [True, False, None])
@pytest.mark.parametrize("only", [Filter(names=("a", "b"))])
def test_those_of_a_task_are_found_by_its_number(
    connection: sqlite3.Connection, tmp_path: Path, only: Filter, is_open: bool | None
) -> None:
    steps = plan_of(connection, tmp_path, ProblemFilter(only, is_open=is_open), "problems")
    assert any("problems_by_task (task=?)" in step for step in steps), steps
    assert not [step for step in steps if step.startswith(("SCAN p", "SCAN t", "SCAN tasks"))], steps


def test_problems_are_found_by_their_ids(connection: sqlite3.Connection, tmp_path: Path) -> None:
    steps = plan_of(connection, tmp_path, ProblemFilter(ids=(1, 2), is_open=None), "problems")
    assert any(step.startswith("SEARCH p USING INTEGER PRIMARY KEY") for step in steps), steps


def test_a_starting_node_reads_only_open_problems(connection: sqlite3.Connection) -> None:
    steps = plan(connection, query("open_problems"), ())
    assert any("problems_open" in step for step in steps), steps
    assert not [step for step in steps if step.startswith(("SCAN t", "SCAN p ")) and "problems_open" not in step], steps


@pytest.mark.parametrize("name", ["supersede_problems", "change_problems", "add_problems"])
def test_recording_reads_only_the_problems_that_change(connection: sqlite3.Connection, name: str) -> None:
    steps = plan(connection, query_of_rows(name, 64), [0] * 64 * row_width(name))
    assert any("problems" in step and step.startswith("SEARCH") for step in steps), steps
    assert not [step for step in steps if step.startswith(("SCAN p", "SCAN problems", "SCAN tasks"))], steps
