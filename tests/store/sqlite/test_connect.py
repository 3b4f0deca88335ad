"""Opening files of the SQLite store: other programs' files, damaged files, migrations; nothing is ever overwritten."""

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from evenbeat.model import DAY, Instant
from evenbeat.store.common.rows import as_text
from evenbeat.store.contract import FOREVER, Batch, Change, DatabaseDamaged, FieldChange, StoreError
from evenbeat.store.sqlite.connect import APPLICATION_ID, begin_file, migrate
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.store.sqlite.statements import FOLDER, migrations
from evenbeat.testing.samples import T0, a_claim, a_finish, a_task


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()


def newer(path: Path) -> None:
    SqliteStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def broken_schema(path: Path) -> None:
    SqliteStore(path).close()
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xff" * 3996
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text("Dear diary, " * 50), "not an evenbeat database"),
        (lambda path: path.write_bytes(b"SQLite format 3\0"), "not an evenbeat database"),
        (foreign, "belongs to another program"),
        (newer, r"newer evenbeat \(schema 99, this program knows \d+\).*Upgrade"),
        (broken_schema, "damaged and was left as it is"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_not_for_us_is_refused_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], object], words: str, read_only: bool
) -> None:
    path = tmp_path / "x.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=words) as refusal:
        SqliteStore(path, read_only=read_only)
    assert str(path) in str(refusal.value)
    assert path.read_bytes() == before


def test_damage_within_is_reported_where_it_is_met_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    store.create([a_task(f"task{i}") for i in range(500)], "me", T0)
    store.close()
    content = bytearray(path.read_bytes())
    for page in range(20, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xee" * 64
    path.write_bytes(content)
    store = SqliteStore(path)
    with pytest.raises(DatabaseDamaged, match="put a backup in its place"):
        list(store.entries())
    with pytest.raises(DatabaseDamaged, match="put a backup in its place"):
        store.create([a_task(f"more{i}") for i in range(500)], "me", T0)
    store.close()
    assert path.read_bytes() == content


def test_a_missing_folder_or_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no folder"):
        SqliteStore(tmp_path / "nowhere" / "x.db")
    with pytest.raises(StoreError, match="no such file"):
        SqliteStore(tmp_path / "x.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_a_new_one_and_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.db"
    path.touch()
    SqliteStore(path).close()
    content = path.read_bytes()
    assert int.from_bytes(content[68:72], "big") == APPLICATION_ID
    assert f"{path} is an empty file; it becomes a new database" in caplog.text
    caplog.clear()
    SqliteStore(path).close()
    SqliteStore(tmp_path / "new.db").close()
    assert caplog.text == ""


def test_an_empty_file_beside_a_log_that_is_not_is_refused_and_both_are_left(tmp_path: Path) -> None:
    path, log = tmp_path / "x.db", tmp_path / "x.db-wal"
    path.touch()
    log.write_bytes(b"all that was there")
    with pytest.raises(DatabaseDamaged, match=r"the file is empty, though its log x\.db-wal is not"):
        SqliteStore(path)
    assert log.read_bytes() == b"all that was there"


def test_many_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    problems: list[BaseException] = []

    def open_and_write(name: str) -> None:
        try:
            store = SqliteStore(path)
            store.create([a_task(name)], "me", T0)
            store.close()
        except BaseException as e:
            problems.append(e)

    threads = [threading.Thread(target=open_and_write, args=(f"task{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    store = SqliteStore(path, read_only=True)
    assert store.count() == 4
    store.close()


def test_a_new_file_names_its_program_from_its_first_byte_on(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    headers = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # Called before each statement: a process may die, or another look, at any of these moments.
        connection.set_trace_callback(lambda _: headers.append(path.read_bytes()[:100]))
        begin_file(connection)
        headers.append(path.read_bytes()[:100])
        connection.set_trace_callback(None)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert {int.from_bytes(header[68:72]) for header in headers if header} == {APPLICATION_ID}
    SqliteStore(path).close()


def test_what_is_opened_only_to_read_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    owner = SqliteStore(path)
    (entry,) = owner.create([a_task("a")], "me", T0)
    reader = SqliteStore(path, read_only=True)
    assert reader.find("a") == entry
    with pytest.raises(StoreError, match="only to read"):
        reader.create([a_task("b")], "me", T0)
    owner.create([a_task("c")], "me", T0)
    assert reader.count() == 2
    reader.close()
    owner.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.count()
    with pytest.raises(StoreError, match="closed"):
        store.record(Batch())


def test_memory_is_given_back_between_reads_and_reading_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    store.create([a_task(f"task {i}") for i in range(3_000)], "me", T0)
    under_way = store.entries()
    first = next(under_way)
    assert store.count() == 3_000
    store.give_back_memory()
    assert len(store._readers) == 0
    assert len({first.id, *(entry.id for entry in under_way)}) == 3_000
    assert store.count() == 3_000
    store.close()


def test_a_list_that_is_left_in_the_middle_keeps_nothing_open(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    store.create([a_task(f"task{i}") for i in range(3_000)], "me", T0)
    for _ in range(20):
        next(iter(store.entries()))
    assert len(store._readers) == 1
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["x.db"], "the log is folded in at the end"


# Migrations


@pytest.fixture
def two_steps(tmp_path: Path) -> Path:
    folder = tmp_path / "sql"
    folder.mkdir()
    (folder / "001_first.sql").write_text((FOLDER / "001_first.sql").read_text())
    (folder / "002_second.sql").write_text(
        "-- a comment; with a semicolon\nALTER TABLE tasks ADD COLUMN colour TEXT;\n"
        "CREATE TABLE more (x INTEGER) STRICT;\n"
    )
    (folder / "queries.sql").write_text("SELECT 1;")
    return folder


def as_old(path: Path) -> sqlite3.Connection:
    """A file of schema 1 with a task in it."""
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, path, migrations()[:1])
    connection.execute("INSERT INTO tasks VALUES (7, 'i', 'old', 'me', 1, 0, 0, NULL, '{}')")
    return connection


def test_an_older_file_is_brought_up_to_date_with_its_content(tmp_path: Path, two_steps: Path) -> None:
    path = tmp_path / "x.db"
    connection = as_old(path)
    migrate(connection, path, migrations(two_steps))
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert connection.execute("SELECT number, colour FROM tasks").fetchall() == [(7, None)]
    migrate(connection, path, migrations(two_steps))
    with pytest.raises(StoreError, match="newer"):
        migrate(connection, path, migrations(two_steps)[:1])
    connection.close()


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path, two_steps: Path) -> None:
    path = tmp_path / "x.db"
    connection = as_old(path)
    with (two_steps / "002_second.sql").open("a") as file:
        file.write("CREATE TABLE tasks (again INTEGER) STRICT;\n")
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate(connection, path, migrations(two_steps))
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("SELECT * FROM tasks").fetchall()[0][:3] == (7, "i", "old")
    assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'more'").fetchall() == []
    connection.close()


def test_a_file_opened_only_to_read_is_not_migrated(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    SqliteStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 0")
    connection.close()
    with pytest.raises(StoreError, match="older evenbeat"):
        SqliteStore(path, read_only=True)


def test_every_table_is_strict(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    SqliteStore(path).close()
    connection = sqlite3.connect(path)
    tables = connection.execute("SELECT name, strict FROM pragma_table_list WHERE name NOT LIKE 'sqlite%'").fetchall()
    assert len(tables) == 24
    assert all(strict for _, strict in tables)
    connection.close()


def test_a_definition_of_another_time_is_reported(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    store.create([a_task("a")], "me", T0)
    store.writer.changes.submit(
        lambda c: c.execute("""UPDATE tasks SET definition = '{"name": "a", "wings": 2}'""") and None
    ).result()
    with pytest.raises(StoreError, match=r"does not understand.*wings"):
        list(store.entries())
    store.close()


def test_values_that_only_look_like_ints_are_refused(tmp_path: Path) -> None:
    import numpy as np

    store = SqliteStore(tmp_path / "x.db")
    (entry,) = store.create([a_task("a")], "me", T0)
    nominal: int = np.int64(T0)  # type: ignore[assignment]
    with pytest.raises(StoreError, match="cannot store BLOB value in INTEGER column"):
        store.record(Batch(claims=[a_claim(entry.number, nominal, at=T0)])).result()
    store.record(Batch(claims=[a_claim(entry.number)])).result()
    store.record(Batch(finishes=[a_finish(entry.number)])).result()
    store.close()


def test_a_power_loss_in_the_middle_of_a_checkpoint_leaves_a_database_that_opens(tmp_path: Path) -> None:
    """The first half of the pages is on the disk, the rest only in the log; the first page refers to all of them."""
    path, copy = tmp_path / "x.db", tmp_path / "after" / "x.db"
    copy.parent.mkdir()
    store = SqliteStore(path)
    before = path.stat().st_size
    store.create([a_task(f"task {i}") for i in range(500)], "me", T0)
    log = (tmp_path / "x.db-wal").read_bytes()
    store.writer.changes.submit(lambda connection: None).result()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    whole = path.read_bytes()
    store.close()
    half = (before + len(whole)) // 2 // 1024 * 1024
    assert before < half < len(whole)
    copy.write_bytes(whole[:half])
    copy.with_name("x.db-wal").write_bytes(log)
    found = SqliteStore(copy)
    assert found.count() == 500
    found.close()


def test_progress_of_the_first_schema_becomes_what_is_accounted_for(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    migrate(connection, path, migrations()[:1])
    for number, nominal in ((1, T0 + 7), (2, None), (3, FOREVER)):
        name = f"t{number}"
        connection.execute(
            "INSERT INTO tasks VALUES (?, ?, ?, 'me', 1, ?, ?, NULL, ?)",
            (number, name, name, T0, T0, as_text(a_task(name))),
        )
        connection.execute("INSERT INTO progress (task, next_nominal) VALUES (?, ?)", (number, nominal))
    connection.execute("INSERT INTO claims VALUES (1, ?, 0, 0, ?, ?, ?, 0, NULL)", (T0, T0, T0 + 9, FOREVER))
    connection.close()
    store = SqliteStore(path)
    one, none, never = store.conditions()
    assert (one.accounted, none.accounted) == (T0 + 8, None), "all before the next nominal time, by the claim"
    assert never.accounted is not None
    assert T0 - 366 * DAY < never.accounted < T0 + 36_600 * DAY, "all up to the day of the change"
    store.close()


def test_a_backup_of_a_damaged_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    store.create([a_task(f"task{i}") for i in range(500)], "me", T0)
    store.close()
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 64] = b"\xee" * 64
    path.write_bytes(content)
    store = SqliteStore(path, read_only=True)
    with pytest.raises(DatabaseDamaged, match="no backup was made"):
        store.backup(tmp_path / "copy.db")
    store.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.db", "x.db-shm", "x.db-wal"]


def test_a_backup_is_synced_together_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    store = SqliteStore(tmp_path / "x.db")
    (tmp_path / "copies").mkdir()
    store.backup(tmp_path / "copies" / "copy.db")
    store.close()
    assert synced[-1] == tmp_path / "copies"
    assert synced[-2].match("copies/copy.db.*.part")
    assert [file.name for file in (tmp_path / "copies").iterdir()] == ["copy.db"]


def test_rows_that_make_no_sense_are_damage_and_not_a_crash(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    (entry,) = store.create([a_task("a")], "me", T0)
    store.record(Batch(claims=[a_claim(entry.number)])).result()
    store.record(Batch(finishes=[a_finish(entry.number)])).result()
    row = f"1, NULL, {entry.number}, {T0}, 0, 0, {T0}, {T0}, {T0}, 'qucceeded', 0, NULL, 1, 1, ''"
    store.writer.changes.submit(lambda c: c.execute(f"INSERT INTO plain_runs VALUES ({row})") and None).result()
    with pytest.raises(DatabaseDamaged, match="qucceeded"):
        store.runs()
    store.writer.changes.submit(lambda c: c.execute("UPDATE tasks SET definition = '{'") and None).result()
    with pytest.raises(StoreError, match=r"x\.db: task number 1 .* backup"):
        list(store.entries())
    store.writer.changes.submit(
        lambda c: c.execute("UPDATE tasks SET definition = CAST(x'ff7b' AS TEXT)") and None
    ).result()
    with pytest.raises(DatabaseDamaged, match="UTF-8"):
        list(store.entries())
    store.close()


def test_the_audit_of_before_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(connection, path, migrations()[:3])
        connection.execute("INSERT INTO changes (at, who, action, name, detail) VALUES (1, 'ana', 'created', 'a', '')")
    with closing(SqliteStore(path)) as store:
        store.note([Change(Instant(2), "ana", "forced", "a", "", (FieldChange("every", 1, 2),))])
        old = Change(Instant(1), "ana", "created", "a")
        assert store.changes() == [Change(Instant(2), "ana", "forced", "a", "", (FieldChange("every", 1, 2),)), old]
