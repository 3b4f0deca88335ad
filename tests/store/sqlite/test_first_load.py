"""The first tasks of a database are loaded past its log: with the same outcome, and all or none of them."""

import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from evenbeat.model import Entry, Task
from evenbeat.store.contract import AuditFilter, Conflict, StoreError
from evenbeat.store.sqlite import connect, task_changes
from evenbeat.store.sqlite.first_load import LEAST_TASKS, try_load
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_task

MANY = LEAST_TASKS + 5
SMALL_CACHE = 1_000
"""KiB: pages are written before the commit, as they do not fit into it."""
CHILD = """
import os, signal, sys
from pathlib import Path
from evenbeat.store.sqlite import connect, first_load, task_changes
from evenbeat.testing.samples import T0, a_task

connect._WRITER_CACHE = int(sys.argv[3])

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def work(connection):
    task_changes.create(connection, [a_task(f"task {i}") for i in range(first_load.LEAST_TASKS + 5)], "me", T0, "I")
    if sys.argv[2] == "before the commit":
        die()

if sys.argv[2] == "after the commit":
    first_load.begin_log = die
first_load.try_load(Path(sys.argv[1]), work)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


def many_tasks() -> list[Task]:
    return [a_task(f"task {i}") for i in range(MANY)]


def loaded(store: SqliteStore, tasks: list[Task]) -> list[Entry]:
    with store.used_alone():
        return store.create(tasks, "me", T0, "I")


def journal_mode(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def logged_bytes(store: SqliteStore, path: Path, change: Callable[[], object]) -> int:
    """How large the log is after a change: it was not made past the log if that is much."""
    change()
    store.writer.changes.submit(lambda _: None).result()
    log = path.with_name("x.db-wal")
    return log.stat().st_size if log.exists() else 0


def test_tasks_that_are_loaded_are_as_those_that_are_created(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / name) for name in ("loaded.db", "created.db")]
    made = [loaded(stores[0], many_tasks()), stores[1].create(many_tasks(), "me", T0, "I")]
    for store, entries in zip(stores, made, strict=True):
        assert list(store.entries()) == sorted(entries, key=lambda entry: entry.task.name)
    first, second = (
        [(e.number, e.version, e.owner, e.created, e.changed, e.task) for e in store.entries()] for store in stores
    )
    assert first == second
    told = [store.audit(AuditFilter(most=MANY)) for store in stores]
    assert told[0] == told[1]
    assert [list(store.progress()) for store in stores] == [[], []]
    for store in stores:
        store.close()
    assert [journal_mode(tmp_path / name) for name in ("loaded.db", "created.db")] == ["wal", "wal"]


def test_a_load_hardly_uses_the_log_and_later_changes_do(path: Path) -> None:
    store = SqliteStore(path)
    assert logged_bytes(store, path, lambda: loaded(store, many_tasks())) < 1 << 20
    assert logged_bytes(store, path, lambda: loaded(store, [a_task(f"more {i}") for i in range(MANY)])) > 1 << 20
    assert store.count() == 2 * MANY
    store.close()
    assert is_sound(path)


def test_only_one_who_uses_the_store_alone_loads(path: Path) -> None:
    store = SqliteStore(path)
    assert logged_bytes(store, path, lambda: store.create(many_tasks(), "me", T0)) > 1 << 20
    store.close()


def test_while_another_program_has_the_file_open_tasks_are_created_through_the_log(path: Path) -> None:
    store = SqliteStore(path)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM tasks").fetchone() == (0,)
        loaded(store, many_tasks())
        assert other.execute("SELECT count(*) FROM tasks").fetchone() == (MANY,)
    assert store.count() == MANY
    store.close()


def test_a_program_that_reads_meanwhile_does_not_stop_the_load(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_PATIENCE", 0.1)
    SqliteStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:

        def work(connection: sqlite3.Connection) -> None:
            other.execute("BEGIN")
            assert other.execute("SELECT count(*) FROM tasks").fetchone() == (0,)
            task_changes.create(connection, many_tasks(), "me", T0, "I")

        with pytest.raises(StoreError, match="locked"):
            try_load(path, work)  # the reader still reads: nor can the log be used again
        other.execute("COMMIT")
    store = SqliteStore(path)
    assert (journal_mode(path), store.count()) == ("wal", 0)
    assert len(loaded(store, many_tasks())) == MANY
    store.close()


def test_tasks_that_are_refused_leave_everything_as_it_was(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(Conflict):
        loaded(store, [*many_tasks(), a_task("task 7")])
    assert store.count() == 0
    assert store.create([a_task("one")], "me", T0)[0].number == 1
    store.close()
    assert journal_mode(path) == "wal"


def test_a_full_disk_undoes_the_load_and_the_store_goes_on(path: Path) -> None:
    store = SqliteStore(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    was = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, before[1]))
        with pytest.raises(StoreError):
            loaded(store, many_tasks())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, was)
    assert store.count() == 0
    assert len(loaded(store, many_tasks())) == MANY
    store.close()
    assert is_sound(path)


@pytest.mark.parametrize("cache", [SMALL_CACHE, 32_000])
@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_kill_undoes_all_of_the_load_or_nothing(path: Path, when: str, cache: int, *, read_only: bool) -> None:
    SqliteStore(path).close()
    child = subprocess.run([sys.executable, "-c", CHILD, str(path), when, str(cache)], check=False)
    assert child.returncode == -signal.SIGKILL
    there = MANY if when == "after the commit" else 0
    found = SqliteStore(path, read_only=read_only)
    assert found.count() == there
    found.close()
    again = SqliteStore(path)
    assert again.count() == there
    if not there:
        assert len(loaded(again, many_tasks())) == MANY
    again.close()
    assert journal_mode(path) == "wal"
    assert is_sound(path)


def test_a_load_that_was_cut_off_by_a_power_loss_is_undone(path: Path) -> None:
    """The first page says that there are more pages than the file has."""
    SqliteStore(path).close()
    size = path.stat().st_size
    child = subprocess.run([sys.executable, "-c", CHILD, str(path), "before the commit", str(SMALL_CACHE)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert path.stat().st_size > 2 * size
    assert path.with_name("x.db-journal").stat().st_size > 0
    content = bytearray(path.read_bytes()[: size + 10 * 1024])
    content[28:32] = (len(content) // 1024 + 1000).to_bytes(4, "big")
    content[24:28] = content[92:96] = (4711).to_bytes(4, "big")
    path.write_bytes(content)
    reader = SqliteStore(path, read_only=True)
    assert reader.count() == 0
    reader.close()
    assert is_sound(path)
