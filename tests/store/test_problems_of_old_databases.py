"""A database of the schema before problems has, once it is opened, the problems that are open now."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import psycopg
import pytest

from evenbeat.model import MINUTE, Cause, State
from evenbeat.store.common.rows import as_text
from evenbeat.store.contract import NEVER, Batch, ProblemFilter, Store
from evenbeat.store.postgres import statements as postgres
from evenbeat.store.postgres.copy_from_sqlite import copy_sqlite
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.postgres.task_changes import is_off, labels_of
from evenbeat.store.problem_records import OpenProblem
from evenbeat.store.sqlite import statements as sqlite
from evenbeat.store.sqlite.connect import APPLICATION_ID, migrate
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.postgres_server import PostgresServer
from evenbeat.testing.samples import T0, a_problem_change, a_task

SCHEMA_BEFORE: Final = 4


class OldTask(NamedTuple):
    """A task with its latest result, as columns of the old schema."""

    name: str
    is_check: bool = True
    is_enabled: bool = True
    state: int = 2
    hard: bool = True
    result_at: int = T0
    outcome: str | None = "failed"
    ended: int | None = T0 + MINUTE
    removed: int | None = None


OLD: Final = (
    OldTask("critical", result_at=T0 + 3),
    OldTask("warning and disabled", is_enabled=False, state=1, result_at=T0 + 2),
    OldTask("unknown", state=3, result_at=T0 + 1),
    OldTask("soft", hard=False),
    OldTask("ok", state=0, outcome="succeeded"),
    OldTask("never checked", result_at=NEVER, outcome=None, ended=None),
    OldTask("removed", removed=T0 + 9),
    *(OldTask(outcome, is_check=False, state=0, outcome=outcome, ended=T0 + 9) for outcome in ("failed", "killed")),
    *(OldTask(outcome, is_check=False, state=0, outcome=outcome, ended=T0 + 5) for outcome in ("broken", "lost")),
    OldTask("timeboxed", is_check=False, outcome="timeboxed", ended=T0 + 4),
    *(OldTask(outcome, is_check=False, outcome=outcome) for outcome in ("succeeded", "cancelled", "dropped")),
    OldTask("never run", is_check=False, outcome=None, ended=None),
    OldTask("removed failure", is_check=False, removed=T0 + 9),
)
HAS_NOW: Final = [
    ("killed", "failed", T0 + 9, State.CRITICAL),
    ("failed", "failed", T0 + 9, State.CRITICAL),
    ("lost", "failed", T0 + 5, State.CRITICAL),
    ("broken", "failed", T0 + 5, State.CRITICAL),
    ("timeboxed", "failed", T0 + 4, State.CRITICAL),
    ("critical", "state", T0 + 3, State.CRITICAL),
    ("warning and disabled", "state", T0 + 2, State.WARNING),
    ("unknown", "state", T0 + 1, State.UNKNOWN),
]
"""Newest first."""


def an_old_file(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(connection, path, sqlite.migrations()[:SCHEMA_BEFORE])
        for number, old in enumerate(OLD, 1):
            task = a_task(old.name, check=old.is_check, enabled=old.is_enabled)
            connection.execute(
                "INSERT INTO tasks VALUES (?, ?, ?, 'me', 1, ?, ?, ?, ?)",
                (number, f"id {number}", old.name, T0, T0, old.removed, as_text(task)),
            )
            connection.execute(
                "INSERT INTO progress (task, accounted, state, hard, result_at, outcome, ended, output) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, 'no answer')",
                (number, T0, old.state, old.hard, old.result_at, old.outcome, old.ended),
            )


def an_old_schema(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA evenbeat")
        connection.execute("SET search_path = evenbeat")
        for script in postgres.migrations()[:SCHEMA_BEFORE]:
            connection.execute(script)
        connection.execute("CREATE TABLE version (number integer NOT NULL)")
        connection.execute("INSERT INTO version VALUES (%s)", (SCHEMA_BEFORE,))
        for number, old in enumerate(OLD, 1):
            task = a_task(old.name, check=old.is_check, enabled=old.is_enabled)
            connection.execute(
                "INSERT INTO tasks (number, id, name, owner, version, created, changed, removed, stamp, is_check, "
                "is_off, labels, definition) VALUES (%s, %s, %s, 'me', 1, %s, %s, %s, 1, %s, %s, %s, %s)",
                (
                    *(number, f"id {number}", old.name, T0, T0, old.removed, task.check),
                    *(is_off(task), labels_of(task), as_text(task)),
                ),
            )
            connection.execute(
                "INSERT INTO progress (task, accounted, state, hard, result_at, outcome, ended, output) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s, 'no answer')",
                (number, T0, old.state, old.hard, old.result_at, old.outcome, old.ended),
            )


@pytest.fixture
def old_sqlite(tmp_path: Path) -> Callable[[], Store]:
    an_old_file(tmp_path / "old.db")
    return lambda: SqliteStore(tmp_path / "old.db")


@pytest.fixture
def old_postgres(postgres: PostgresServer) -> Callable[[], Store]:
    dsn = postgres.create_database()
    an_old_schema(dsn)
    return lambda: PostgresStore(dsn)


def must_have_its_problems(open_store: Callable[[], Store]) -> Iterator[Store]:
    """Open the database twice; the second time it has what it had the first time."""
    with closing(open_store()) as store:
        found = store.problems(ProblemFilter(is_open=None))
        assert [(problem.task, problem.cause, problem.opened, problem.state) for problem in found] == HAS_NOW
        assert all((p.since, p.worst, p.closed) == (p.opened, p.state, None) for p in found)
        assert {problem.output for problem in found} == {"no answer"}
        yield store
        before = store.problems(ProblemFilter(is_open=None))
    with closing(open_store()) as store:
        assert store.problems(ProblemFilter(is_open=None)) == before


def must_go_on_with_them(open_store: Callable[[], Store]) -> None:
    for store in must_have_its_problems(open_store):
        numbers = {entry.task.name: entry.number for entry in store.entries()}
        known = {problem.task: problem for problem in store.open_problems()}
        assert known[numbers["unknown"]] == OpenProblem(numbers["unknown"], "state", T0 + 1, 3, 3)
        ids = {problem.task: problem.id for problem in store.problems()}
        changes = [
            a_problem_change(numbers["unknown"], T0 + 1, T0 + MINUTE, State.CRITICAL),
            a_problem_change(numbers["failed"], T0 + 9, T0 + MINUTE, cause=Cause.FAILED, is_open=False),
            a_problem_change(numbers["ok"], T0 + MINUTE),
        ]
        store.record(Batch(problems=changes)).result()
        worse, closed, new = (
            store.problems(ProblemFilter(ids=(id_,), is_open=None))[0]
            for id_ in (ids["unknown"], ids["failed"], max(ids.values()) + 1)
        )
        assert (worse.state, worse.worst, worse.since) == (State.CRITICAL, State.CRITICAL, T0 + MINUTE)
        assert (closed.closed, new.task) == (T0 + MINUTE, "ok")


def test_an_old_file_has_its_problems_and_goes_on_with_them(old_sqlite: Callable[[], Store]) -> None:
    must_go_on_with_them(old_sqlite)


def test_an_old_schema_has_its_problems_and_goes_on_with_them(old_postgres: Callable[[], Store]) -> None:
    must_go_on_with_them(old_postgres)


def test_an_old_file_that_is_copied_has_its_problems(
    old_sqlite: Callable[[], Store], postgres: PostgresServer, tmp_path: Path
) -> None:
    """Only a file of the present schema is copied: opening it once brings it there."""
    with closing(old_sqlite()) as store:
        before = store.problems()
    dsn = postgres.create_database()
    copy_sqlite(tmp_path / "old.db", dsn)
    with closing(PostgresStore(dsn)) as copied:
        assert copied.problems() == before
