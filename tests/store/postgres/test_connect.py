"""Addresses, versions, passwords, and the error messages when something is wrong."""

import secrets
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from evenbeat.model import DAY, HOUR, Instant, Invalid
from evenbeat.store.addresses import is_shared_database, without_password
from evenbeat.store.contract import Batch, StoreError
from evenbeat.store.opening import open_store
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.postgres.text import from_text, to_text
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.postgres_server import PostgresServer
from evenbeat.testing.samples import T0, a_claim, a_finish, a_task

SECRET = "s3cr3t-" + secrets.token_hex(4)


@pytest.fixture
def empty(postgres: PostgresServer) -> str:
    """A database without the schema evenbeat."""
    return postgres.create_database()


@pytest.mark.parametrize(
    ("database", "reported"),
    [
        ("evenbeat.db", "evenbeat.db"),
        ("postgresql://me:pw@host:5/db", "postgresql://me@host:5/db"),
        ("postgres://me:p:w@x@host/db?sslmode=require", "postgres://me@host/db?sslmode=require"),
        ("postgresql://host/db?user=me&password=pw&sslpassword=pw", "postgresql://host/db?user=me&password=...&sslpassword=..."),
        ("postgresql://host", "postgresql://host"),
    ],
)  # fmt: skip
def test_a_database_is_shown_without_its_password(database: str, reported: str) -> None:
    assert without_password(database) == reported
    assert is_shared_database(database) == database.startswith("postgres")


def test_an_address_is_opened_by_what_it_is(dsn: str, tmp_path: Path) -> None:
    file, server = open_store(str(tmp_path / "x.db")), open_store(dsn)
    assert isinstance(file, SqliteStore)
    assert isinstance(server, PostgresStore)
    for store in (file, server):
        store.close()


def test_without_the_driver_people_are_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Invalid, match=r"pip install 'evenbeat\[cluster\]'"):
        open_store("postgresql://nowhere/x")


def test_the_password_is_in_no_message() -> None:
    server = PostgresServer(durable=False, password=SECRET).start()
    try:
        dsn = server.create_database()
        assert SECRET in dsn
        PostgresStore(dsn).close()
        store = PostgresStore(dsn)
        messages = []
        with pytest.raises(StoreError, match="pg_dump") as refusal:
            store.backup(Path("x"))
        messages.append(str(refusal.value))
        for address, words in (
            (dsn.replace(SECRET, SECRET + "x"), "refuses the password"),
            (dsn + "nowhere", "no such database"),
            (dsn.replace("127.0.0.1", "not a host"), "postgresql://"),
            (dsn.replace("@127.0.0.1", "@[127.0.0.1"), "no address of a PostgreSQL"),
        ):
            with pytest.raises(StoreError, match=words) as refusal:
                PostgresStore(address)
            messages.append(str(refusal.value))
        server.stop()
        with pytest.raises(StoreError, match="cannot be reached") as refusal:
            store.count()
        messages.append(str(refusal.value))
        assert SECRET not in repr(messages)
        store.close()
    finally:
        server.close()


def test_a_schema_of_a_newer_program_is_left_alone(empty: str) -> None:
    PostgresStore(empty).close()
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("UPDATE evenbeat.version SET number = 99")
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"newer evenbeat \(schema 99, this program knows \d+\).*Upgrade"):
            PostgresStore(empty, read_only=read_only)


def test_many_may_open_a_new_database_at_once(empty: str) -> None:
    def open_and_write(name: str) -> None:
        store = PostgresStore(empty)
        store.create([a_task(name)], "me", T0)
        store.close()

    with ThreadPoolExecutor() as pool:
        list(pool.map(open_and_write, "abcd"))
    store = PostgresStore(empty, read_only=True)
    assert store.count() == 4
    store.close()


def test_what_is_only_read_is_neither_created_nor_changed(empty: str) -> None:
    with pytest.raises(StoreError, match="evenbeat migrate"):
        PostgresStore(empty, read_only=True)
    PostgresStore(empty).close()
    store = PostgresStore(empty, read_only=True)
    for change in (lambda: store.create([a_task("a")], "me", T0), lambda: store.record(Batch())):
        with pytest.raises(StoreError, match="only to read"):
            change()
    store.close()


def test_we_live_beside_others_in_their_database(empty: str) -> None:
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("CREATE TABLE tasks (theirs text)")
        PostgresStore(empty).close()
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        assert found == [("tasks",)]


def test_a_database_of_another_encoding_is_refused(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE old_style ENCODING 'LATIN1' TEMPLATE template0")
        with pytest.raises(StoreError, match="LATIN1, accepted: UTF8"):
            PostgresStore(postgres.dsn.replace("/postgres", "/old_style"))
        connection.execute("DROP DATABASE old_style")


def test_a_server_that_may_only_be_read_says_so(dsn: str) -> None:
    store = PostgresStore(f"{dsn}?options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(StoreError, match=r"is read-only.*primary"):
        store.create([a_task("a")], "me", T0)
    with pytest.raises(StoreError, match=r"is read-only.*primary"):
        store.record(Batch()).result()
    store.close()


def test_a_closed_store_says_so(dsn: str) -> None:
    store = PostgresStore(dsn)
    store.close()
    store.close()
    for ask in (store.count, lambda: store.record(Batch()), lambda: store.remove([1], T0), store.view):
        with pytest.raises(StoreError, match="closed"):
            ask()


def test_what_only_looks_like_a_number_is_refused(dsn: str) -> None:
    import numpy as np

    store = PostgresStore(dsn)
    (entry,) = store.create([a_task("a")], "me", T0)
    odd = a_claim(entry.number)._replace(nominal=np.int64(T0))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        store.record(Batch(claims=[odd])).result()
    store.record(Batch(claims=[a_claim(entry.number)])).result()
    store.close()


@pytest.mark.parametrize("text", ["", "plain", "\0", "\1", "\0\1\0", "\1\1", "\1\2", "é\0ü", 'a"b\\c{d},e', "\n\t\x7f"])
def test_any_text_comes_back_as_it_was(dsn: str, text: str) -> None:
    assert from_text(to_text(text)) == text
    store = PostgresStore(dsn)
    (entry,) = store.create([a_task("a" + text, label=text or "x")], "me" + text, T0, "who" + text)
    store.record(Batch(claims=[a_claim(entry.number)])).result()
    store.record(Batch(finishes=[a_finish(entry.number, output=text)])).result()
    store.set_settings({"k" + text: text})
    assert list(store.entries()) == [entry]
    assert store.runs()[0].output == text
    assert store.runs()[0].task == "a" + text
    assert store.settings("k" + text) == {"k" + text: text}
    assert store.changes("a" + text)[0].who == "who" + text
    store.close()


def test_texts_keep_their_order() -> None:
    some = ["", "\0", "\0\0", "\0a", "\1", "\1\0", "\2", "a", "a\0", "a\1", "aa"]
    assert sorted(some) == [from_text(text) for text in sorted(map(to_text, some))]


# Days


def days(dsn: str, kind: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'evenbeat'").fetchall()
    return sorted(name for (name,) in found if name.startswith(kind + "_2"))


def test_runs_of_a_day_are_in_a_table_of_their_own_that_is_dropped_as_a_whole(empty: str) -> None:
    dsn, store = empty, PostgresStore(empty)
    now = store.clock()
    (entry,) = store.create([a_task("a")], "me", T0)
    for ago in (0, 1, 2, 3):
        nominal = now - ago * DAY
        for notable in (False, True):
            store.prune(Instant(nominal), 3650 * DAY)  # the tables of those days
            store.record(Batch(claims=[a_claim(entry.number, nominal)])).result()
            store.record(Batch(finishes=[a_finish(entry.number, nominal, notable=notable)])).result()
    before = days(dsn, "plain_runs"), days(dsn, "notable_runs")
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM evenbeat.plain_runs_else").fetchone() == (0,)
    gone = 0
    while some := store.prune(Instant(now), 2 * DAY - HOUR):
        gone += some
    assert gone == 4
    assert len(store.runs()) == 4
    after = days(dsn, "plain_runs"), days(dsn, "notable_runs")
    assert after == (before[0][2:], before[1][2:])
    store.close()


def test_plain_successes_beyond_the_bound_go_by_whole_days(empty: str) -> None:
    dsn, store = empty, PostgresStore(empty, plain_runs=3)
    now = store.clock()
    (entry,) = store.create([a_task("a")], "me", T0)
    for nominal in [now - DAY] * 4 + [now] * 3:
        store.prune(Instant(nominal), 3650 * DAY)
        store.record(Batch(claims=[a_claim(entry.number, nominal)])).result()
        store.record(Batch(finishes=[a_finish(entry.number, nominal)])).result()
    before = days(dsn, "plain_runs")
    while store.prune(Instant(now), 3650 * DAY):
        pass
    assert len(store.runs()) == 3
    assert len(days(dsn, "plain_runs")) < len(before)
    store.close()
