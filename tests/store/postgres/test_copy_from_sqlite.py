"""`evenbeat migrate`: creates the schema, and copies a whole SQLite store to PostgreSQL."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from evenbeat.model import Instant, Period
from evenbeat.store.contract import ENVIRONMENT_TOLD, Batch, Returned
from evenbeat.store.history_contract import Layer
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.sqlite.ownership import DatabaseOwnership
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.postgres_server import PostgresServer
from evenbeat.testing.samples import T0, a_claim, a_finish, a_problem_change, a_submitted_result, a_task
from evenbeat.testing.store_layers import a_run, a_summary, pack_all
from evenbeat.testing.store_maintenance import all_of_store, fill_store

Evenbeat = Callable[..., Any]


@pytest.fixture
def empty(postgres: PostgresServer) -> str:
    return postgres.create_database()


def rows_of(file: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(statement).fetchall()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with something of each kind."""
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    fill_store(store)
    (odd,) = store.create([a_task('n\0"\\x', check=True, enabled=False, site='\1"')], "\0me", T0, "w\0ho")
    store.record(Batch(claims=[a_claim(odd.number)])).result()
    returned = [Returned(odd.number, T0, T0 + 1, '{"value":"\\\\N\\u0000"}')]
    finish = a_finish(odd.number, output="\0\1\n{}\t\\N", cursor=b"\0\xff")
    store.record(Batch(finishes=[finish], returned=returned)).result()
    store.record(Batch(told=[a_submitted_result(odd.number, T0 + 9, "told", made=2, notable=True)])).result()
    store.remove([store.create([a_task("last")], "me", T0)[0].number], T0)
    store.set_periods({"night": Period(ranges=("22:00-06:00",))}, "you", T0)
    store.close()
    return path


def test_a_copy_tells_the_same(empty: str, file: Path, evenbeat: Evenbeat) -> None:
    result = evenbeat("migrate", "--db", empty, "--from", str(file), "--json")
    assert result.code == 0, result.err
    assert result.json["copied"] | {"changes": 0} == {
        "tasks": 5, "progress": 5, "claims": 1, "plain_runs": 3, "notable_runs": 2, "skips": 2, "changes": 0,
        "periods": 2, "settings": 2, "past_definitions": 0, "pauses": 0, "problems": 3, "problem_notes": 4,
        "chain_ends": 2, "chain_uses": 1, "alerts": 4, "alert_decisions": 4, "messages": 2, "message_documents": 2,
        "returned": 1, "outputs": 1, "parts": 0, "blocks": 0,
    }  # fmt: skip
    old, new = SqliteStore(file, read_only=True), PostgresStore(empty)
    assert all_of_store(new) == all_of_store(old)
    assert new.changes(most=1_000) == old.changes(most=1_000)
    assert len(new.changes()) > 5
    assert [run for run in new.runs() if run.ended is None], "an open claim is open"
    ((task, claimed),) = rows_of(file, "SELECT task, claimed FROM returned")
    assert new.returned(task, claimed) == old.returned(task, claimed) is not None
    assert new.starts(T0, Instant(T0 + 10**9)) == old.starts(T0, Instant(T0 + 10**9))
    with sqlite3.connect(file) as connection:
        ((numbers,),) = connection.execute("SELECT max(number) FROM tasks").fetchall()
        ((problems,),) = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'problems'").fetchall()
    connection.close()
    (entry,) = new.create([a_task("later")], "me", T0)
    assert entry.number == numbers + 1, "no number is given twice, also not that of a task that is gone"
    new.record(Batch(problems=[a_problem_change(entry.number)])).result()
    assert new.problems()[0].id == problems + 1, "nor is the id of a problem"
    assert new.stamp() > 0
    for store in (old, new):
        store.close()


def test_packed_runs_and_summaries_are_copied_as_they_are(empty: str, file: Path, evenbeat: Evenbeat) -> None:
    old = SqliteStore(file)
    pack_all(old, 3)
    hours = old.begin_part(Layer.HOURS, T0)
    old.add_summaries(hours, [a_summary(1)])
    old.complete([hours], [])
    old.complete([old.begin_part(Layer.KEPT, T0)], [old.parts(Layer.RECENT)[0].number])
    unfinished = old.begin_part(Layer.RUNS, T0)
    old.add_runs(unfinished, [a_run(1)])
    old.close()
    result = evenbeat("migrate", "--db", empty, "--from", str(file), "--json")
    assert (result.json["copied"]["parts"], result.json["copied"]["blocks"]) == (2, 2)
    old, new = SqliteStore(file, read_only=True), PostgresStore(empty)
    assert all_of_store(new) == all_of_store(old)
    assert new.parts(Layer.RECENT) == old.parts(Layer.RECENT) != []
    assert new.summaries(1, Layer.HOURS, T0, Instant(T0 + 1)) == [a_summary(1)]
    assert new.starts(T0, Instant(T0 + 10**9)) == old.starts(T0, Instant(T0 + 10**9)) != {}
    assert new.begin_part(Layer.RUNS, T0) > unfinished, "no number is given twice"
    for store in (old, new):
        store.close()


def test_what_concerns_the_workers_of_the_single_node_stays_behind(empty: str, file: Path, evenbeat: Evenbeat) -> None:
    store = SqliteStore(file)
    store.set_settings({"deaths:1": "3"})
    store.close()
    assert evenbeat("migrate", "--db", empty, "--from", str(file)).code == 0
    copy = PostgresStore(empty)
    assert copy.settings("deaths:") == {}
    assert copy.settings("") != {}
    copy.close()


def test_history_goes_to_the_tables_of_its_days(empty: str, file: Path, evenbeat: Evenbeat) -> None:
    assert evenbeat("migrate", "--db", empty, "--from", str(file)).code == 0
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT count(*) FROM evenbeat.plain_runs_20270115").fetchone() == (3,)


def test_a_copy_replaces_nothing(empty: str, file: Path, evenbeat: Evenbeat) -> None:
    store = PostgresStore(empty)
    store.set_settings({"precious": "1"})
    before = store.settings("")
    result = evenbeat("migrate", "--db", empty, "--from", str(file))
    assert result.code != 0
    assert "replaces nothing" in result.err
    assert store.count() == 0
    assert store.settings("") == before
    store.close()


def test_what_a_node_lives_on_is_not_copied(empty: str, file: Path, evenbeat: Evenbeat) -> None:
    with DatabaseOwnership(file):
        result = evenbeat("migrate", "--db", empty, "--from", str(file))
    assert result.code == 2
    assert "a node is already running on" in result.err
    store = PostgresStore(empty)
    assert store.count() == 0
    store.close()


def test_a_copy_that_fails_leaves_nothing(empty: str, file: Path, evenbeat: Evenbeat) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE tasks SET definition = '{\"name\": 7}' WHERE number = 3")
    connection.close()
    result = evenbeat("migrate", "--db", empty, "--from", str(file))
    assert result.code != 0
    assert "task number 3" in result.err
    store = PostgresStore(empty)
    assert (store.count(), store.changes(), store.settings("")) == (0, [], {ENVIRONMENT_TOLD: "1"})
    store.close()


def test_the_schema_is_brought_up_to_date_once(empty: str, evenbeat: Evenbeat) -> None:
    first, second = evenbeat("migrate", "--db", empty, "--json"), evenbeat("migrate", "--db", empty, "--json")
    assert (first.code, second.code) == (0, 0)
    assert (first.json["before"], second.json["before"]) == (0, first.json["after"])
    assert second.json == json.loads(json.dumps({"database": empty, "before": second.json["after"], "after": 12}))
    assert "up to date" in evenbeat("migrate", "--db", empty).out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--db", "evenbeat.db"], "is a file"),
        (["--db", "postgresql://x/y", "--from", "nowhere.db"], "there is no database nowhere.db"),
        (["--db", "postgresql://x/y", "--from", "postgresql://x/z"], "pg_dump"),
    ],
)
def test_what_cannot_be_migrated_is_refused(evenbeat: Evenbeat, argv: list[str], words: str) -> None:
    result = evenbeat("migrate", *argv)
    assert result.code == 2
    assert words in result.err
