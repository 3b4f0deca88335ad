"""A database of the schema before alerts goes on with its problems, which nothing holds, and keeps alerts of them."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
import pytest

from evenbeat.store.alert_records import NONE_REFUSED, AlertBatch
from evenbeat.store.common.rows import as_text
from evenbeat.store.contract import Batch, Store
from evenbeat.store.postgres import statements as postgres_statements
from evenbeat.store.postgres.copy_from_sqlite import copy_sqlite
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.postgres.task_changes import labels_of
from evenbeat.store.problem_records import OpenProblem
from evenbeat.store.sqlite import statements as sqlite
from evenbeat.store.sqlite.connect import APPLICATION_ID, migrate
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.postgres_server import PostgresServer
from evenbeat.testing.samples import T0, a_decision, a_hold, a_message, a_problem_change, a_task, an_alert

SCHEMA_BEFORE: Final = 5
PROBLEMS: Final = (
    "INSERT INTO problems (task, cause, opened, since, state, severity, worst, worst_severity, closed) VALUES "
    f"(1, 'state', {T0}, {T0}, 1, 1, 2, 3, NULL), (2, 'state', {T0}, {T0}, 2, 3, 2, 3, {T0 + 9})"
)


@pytest.fixture
def old_sqlite(tmp_path: Path) -> Callable[[], Store]:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(connection, path, sqlite.migrations()[:SCHEMA_BEFORE])
        for number, name in enumerate("ab", 1):
            connection.execute(
                "INSERT INTO tasks VALUES (?, ?, ?, 'me', 1, ?, ?, NULL, ?)",
                (number, f"id {number}", name, T0, T0, as_text(a_task(name, check=True))),
            )
            connection.execute("INSERT INTO progress (task, accounted) VALUES (?, ?)", (number, T0))
        connection.execute(PROBLEMS)
    return lambda: SqliteStore(path)


@pytest.fixture
def old_postgres(postgres: PostgresServer) -> Callable[[], Store]:
    dsn = postgres.create_database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA evenbeat")
        connection.execute("SET search_path = evenbeat")
        for script in postgres_statements.migrations()[:SCHEMA_BEFORE]:
            connection.execute(script)
        connection.execute("CREATE TABLE version (number integer NOT NULL)")
        connection.execute("INSERT INTO version VALUES (%s)", (SCHEMA_BEFORE,))
        for number, name in enumerate("ab", 1):
            task = a_task(name, check=True)
            connection.execute(
                "INSERT INTO tasks (number, id, name, owner, version, created, changed, stamp, is_check, is_off, "
                "labels, definition) VALUES (%s, %s, %s, 'me', 1, %s, %s, 0, true, false, %s, %s)",
                (number, f"id {number}", name, T0, T0, labels_of(task), as_text(task)),
            )
            connection.execute("INSERT INTO progress (task, accounted) VALUES (%s, %s)", (number, T0))
        connection.execute(PROBLEMS)
    return lambda: PostgresStore(dsn)


def must_go_on(open_store: Callable[[], Store]) -> None:
    with closing(open_store()) as store:
        assert list(store.open_problems()) == [OpenProblem(1, "state", T0, 1, 2)]
        assert [(problem.hold, problem.held_since) for problem in store.problems()] == [("", None)]
        assert [(problem.id, alerts) for problem, alerts in store.open_alert_problems()] == [(1, [])]
        assert (store.alert_decisions(), store.messages(), store.unfinished_messages()) == ([], [], [])
        message = store.reserve_messages(1)
        assert message == 1
        alert = an_alert(1, sent=3, message=message)
        batch = AlertBatch([alert, an_alert(2)], [a_decision(1, message=message)], [a_message(message)])
        assert store.record_alerts(batch).result() == NONE_REFUSED
        store.record(Batch(problems=[a_problem_change(1, at=T0 + 5)], holds=[a_hold(1, at=T0 + 6)])).result()
        before = list(store.open_alert_problems())
        assert [(problem.id, problem.hold, len(alerts)) for problem, alerts in before] == [
            (1, "downtime", 1),
            (2, "", 1),
        ]
    with closing(open_store()) as store:
        assert list(store.open_alert_problems()) == before
        assert store.reserve_messages(1) == message + 1


def test_an_old_file_goes_on(old_sqlite: Callable[[], Store]) -> None:
    must_go_on(old_sqlite)


def test_an_old_schema_goes_on_and_its_problems_are_no_news(old_postgres: Callable[[], Store]) -> None:
    must_go_on(old_postgres)
    with closing(old_postgres()) as store:
        assert isinstance(store, PostgresStore)
        revision = store.problem_revision()
        assert store.problems_changed_since(revision).problems == []


def test_an_old_file_that_is_copied_goes_on(
    old_sqlite: Callable[[], Store], postgres: PostgresServer, tmp_path: Path
) -> None:
    old_sqlite().close()
    dsn = postgres.create_database()
    copy_sqlite(tmp_path / "old.db", dsn)
    must_go_on(lambda: PostgresStore(dsn))
