"""The writer of the SQLite store: group commit, disks that fail, a log that stays short, kill -9."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
from waiting import PATIENCE, eventually

from evenbeat.model import MINUTE, Instant
from evenbeat.store.contract import Batch, StoreError
from evenbeat.store.sqlite import checkpoint as sqlite_checkpoint
from evenbeat.store.sqlite.replaced_files import CheckpointStamps
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_claim, a_finish, a_progress_record, a_task


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "x.db", plain_runs=1_000)
    yield made
    made.close()


def numbers(store: SqliteStore, count: int) -> list[int]:
    return [entry.number for entry in store.create([a_task(f"t{i:05}") for i in range(count)], "me", T0)]


def pragma(store: SqliteStore, text: str) -> int:
    """Execute a pragma on the connection that writes."""
    row = store.writer.changes.submit(lambda c: c.execute(f"PRAGMA {text}").fetchone()).result()
    return int(row[0]) if row else 0


def test_what_was_changed_is_not_held_until_the_next_change(store: SqliteStore) -> None:
    class Large:
        """Something that a change may be made of."""

    def change(_: sqlite3.Connection) -> Large:
        return made.pop()

    made = [Large()]
    gone = weakref.ref(made[0])
    store.writer.changes.submit(change).result()
    deadline = time.monotonic() + 60
    while gone() is not None:
        assert time.monotonic() < deadline, "the writer holds it"
        time.sleep(0.001)


def test_ids_are_random_uuids(store: SqliteStore) -> None:
    ids = [entry.id for entry in store.create([a_task(f"t{i}") for i in range(1_000)], "me", T0)]
    assert len(set(ids)) == 1_000
    assert all(str(uuid.UUID(text)) == text for text in ids)
    assert {(uuid.UUID(text).version, uuid.UUID(text).variant) for text in ids} == {(4, uuid.RFC_4122)}
    for place, digits in ((19, "89ab"), (0, "0123456789abcdef"), (-1, "0123456789abcdef")):
        assert {text[place] for text in ids} == set(digits), "each digit is drawn"


def test_batches_that_wait_are_committed_together(store: SqliteStore) -> None:
    tasks = numbers(store, 30)
    blocked, go = threading.Event(), threading.Event()
    writer = store.writer.changes

    def block(_: sqlite3.Connection) -> None:
        blocked.set()
        go.wait()

    writer.submit(block)
    blocked.wait()
    before = writer.commits
    futures = [store.record(Batch(claims=[a_claim(task)])) for task in tasks]
    assert not any(future.done() for future in futures)
    go.set()
    for future in futures:
        future.result()
    assert writer.commits == before + 2, "the one that blocked, then all that waited"


def test_a_batch_whose_future_was_cancelled_is_not_made_and_the_next_one_is(store: SqliteStore) -> None:
    a, b = numbers(store, 2)
    blocked, go = threading.Event(), threading.Event()
    store.writer.changes.submit(lambda _: blocked.set() or go.wait())  # type: ignore[func-returns-value]
    blocked.wait()
    cancelled, made = store.record(Batch(claims=[a_claim(a)])), store.record(Batch(claims=[a_claim(b)]))
    assert cancelled.cancel()
    go.set()
    made.result()
    assert not made.cancel()
    assert [progress.task for progress in store.progress()] == [b]


def test_a_full_disk_loses_nothing_and_it_goes_on_when_there_is_room(store: SqliteStore) -> None:
    (task,) = numbers(store, 1)
    store.record(Batch(claims=[a_claim(task)])).result()
    pragma(store, f"max_page_count = {pragma(store, 'page_count')}")
    finish = a_finish(task, output=os.urandom(30_000).hex(), notable=True)
    with pytest.raises(StoreError, match=r"disk is full.*make room"):
        store.record(Batch(finishes=[finish])).result()
    assert [run.ended for run in store.runs()] == [None]
    pragma(store, "max_page_count = 1000000")
    store.record(Batch(finishes=[finish])).result()
    assert [run.output for run in store.runs()] == [finish.output]


def test_a_file_that_cannot_be_written_is_reported(store: SqliteStore) -> None:
    (task,) = numbers(store, 1)
    pragma(store, "query_only = ON")
    with pytest.raises(StoreError, match="cannot be written: look at their owner and mode"):
        store.record(Batch(claims=[a_claim(task)])).result()
    store.writer._connection.execute("PRAGMA query_only = OFF")
    store.record(Batch(claims=[a_claim(task)])).result()


def test_a_file_that_another_program_has_locked_is_reported(store: SqliteStore, tmp_path: Path) -> None:
    (task,) = numbers(store, 1)
    pragma(store, "busy_timeout = 10")
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another program has locked"):
        store.record(Batch(claims=[a_claim(task)])).result()
    assert list(store.progress()) == [], "reading goes on meanwhile"
    other.close()
    store.record(Batch(claims=[a_claim(task)])).result()


def test_the_log_stays_short_under_load(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written while the log was moved to the database is moved by the writer, and the log is used again."""
    is_long, may_end, was_moved, rest_was_moved = (threading.Event() for _ in range(4))
    make_checkpoint = CheckpointStamps.checkpoint

    def checkpoint(stamps: CheckpointStamps, connection: sqlite3.Connection, statement: str) -> int:
        is_mover = threading.current_thread().name == "evenbeat checkpoints"
        assert not is_mover or is_long.wait(PATIENCE)
        # A second round of the mover, asked for meanwhile, would find a short log before the writer has looked.
        assert not (is_mover and was_moved.is_set()) or rest_was_moved.wait(PATIENCE)
        pages = make_checkpoint(stamps, connection, statement)
        (was_moved if is_mover else rest_was_moved).set()
        assert not is_mover or may_end.wait(PATIENCE)
        return pages

    monkeypatch.setattr(CheckpointStamps, "checkpoint", checkpoint)
    # The inspector reads a table now and then: what it reads just then would not be moved.
    monkeypatch.setattr("evenbeat.store.sqlite.inspection.check_tables", lambda *_: None)
    tasks, rounds = numbers(store, 50), iter(range(100))

    def write_much() -> int:
        i = next(rounds)
        store.record(Batch(claims=[a_claim(task, T0 + i) for task in tasks])).result()
        outputs = [os.urandom(30_000).hex() for _ in tasks]  # what is the same as before is not written again
        finishes = [a_finish(task, T0 + i, output, notable=True) for task, output in zip(tasks, outputs, strict=True)]
        store.record(Batch(finishes=finishes)).result()
        return (tmp_path / "x.db-wal").stat().st_size

    def is_rest_moved() -> bool:
        store.set_settings({"some": "setting"})
        return rest_was_moved.is_set()

    while write_much() < 32 << 20:
        assert not rest_was_moved.is_set(), "the log is not long yet"
    is_long.set()
    assert was_moved.wait(PATIENCE)
    length = write_much()
    may_end.set()
    eventually(is_rest_moved)
    for _ in range(4):
        assert write_much() <= length


def test_a_log_that_readers_keep_long_is_cut_when_they_let_go(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenbeat.store.sqlite.writer._WAL_TOO_LONG", 1 << 20)
    pragma(store, "wal_autocheckpoint = 0")
    (task,) = numbers(store, 1)
    for i in range(40):
        store.record(Batch(claims=[a_claim(task, T0 + i)])).result()
        store.record(Batch(finishes=[a_finish(task, T0 + i, os.urandom(30_000).hex(), notable=True)])).result()
    assert (tmp_path / "x.db-wal").stat().st_size < 2 << 20


def test_the_file_does_not_grow_under_a_steady_load(store: SqliteStore) -> None:
    tasks = numbers(store, 100)
    sizes = []
    keep = 50 * MINUTE
    for i in range(200):
        now = T0 + i * MINUTE
        store.record(Batch(claims=[a_claim(task, now) for task in tasks])).result()
        bad = i % 10 == 0
        finishes = [
            a_finish(task, now, "some output", outcome="failed" if bad else "succeeded", notable=bad) for task in tasks
        ]
        store.record(Batch(finishes=finishes)).result()
        while store.prune(Instant(now), keep):
            pass
        sizes.append(pragma(store, "page_count"))
    assert sizes[-1] <= 1.1 * sizes[80]
    assert len(store.runs(most=100_000)) <= 1_000 + 5 * 100


def test_a_backup_can_be_made_while_everything_goes_on(store: SqliteStore, tmp_path: Path) -> None:
    tasks = numbers(store, 200)
    stop = threading.Event()

    def load() -> None:
        i = 0
        while not stop.is_set():
            i += 1
            store.record(Batch(standings=[a_progress_record(task, T0 + i) for task in tasks])).result()

    thread = threading.Thread(target=load)
    thread.start()
    for i in range(5):
        store.backup(tmp_path / f"copy{i}")
        copy = SqliteStore(tmp_path / f"copy{i}")
        assert len({progress.accounted for progress in copy.progress()}) <= 1, "no batch is there in part"
        assert copy.count() == 200
        copy.close()
    stop.set()
    thread.join()


def test_durability_full_waits_for_the_disk(tmp_path: Path) -> None:
    normal, full = SqliteStore(tmp_path / "a"), SqliteStore(tmp_path / "b", durability="full")
    assert (pragma(normal, "synchronous"), pragma(full, "synchronous")) == (1, 2)
    normal.close()
    full.close()


VICTIM = """
import sys
from pathlib import Path
from queue import SimpleQueue
from evenbeat.store.contract import Batch
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_claim, a_finish, a_task

store = SqliteStore(Path(sys.argv[1]))
tasks = [entry.number for entry in store.create([a_task(f"t{i}") for i in range(50)], "me", T0)]
futures = []
for i in range(100_000):
    store.record(Batch(claims=[a_claim(task, T0 + i) for task in tasks]))
    future = store.record(Batch(finishes=[a_finish(task, T0 + i) for task in tasks]))
    future.add_done_callback(lambda f, i=i: print(i, f.exception(), flush=True))
    futures.append(future)
    if i % 20 == 0:
        future.result()
"""


def test_what_was_done_survives_kill_9_and_batches_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with subprocess.Popen([sys.executable, "-c", VICTIM, str(path)], stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        printed = [victim.stdout.readline() for _ in range(60)]
        victim.send_signal(signal.SIGKILL)
        printed += victim.stdout.readlines()
    store = SqliteStore(path)
    by_nominal = Counter(run.nominal for run in store.runs(most=10_000_000) if run.ended is not None)
    assert set(by_nominal.values()) == {50}
    acknowledged = [int(line.split()[0]) for line in printed if line.endswith("None\n")]
    assert len(acknowledged) >= 60
    assert set(acknowledged) <= {nominal - T0 for nominal in by_nominal}
    assert len({progress.claimed for progress in store.progress()}) == 1, "claimed together or not at all"
    store.close()


class TestSyncs:
    """With durability "normal" a power loss loses the commits of a few seconds at most."""

    @pytest.fixture
    def synced(self, monkeypatch: pytest.MonkeyPatch) -> "SimpleQueue[str]":
        names: SimpleQueue[str] = SimpleQueue()
        fsync = os.fsync

        def noted(descriptor: int) -> None:
            names.put(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", noted)
        monkeypatch.setattr(sqlite_checkpoint, "_SYNC", 0.01)
        return names

    def test_the_log_is_synced_soon_after_a_commit_and_its_name_once(
        self, tmp_path: Path, synced: "SimpleQueue[str]"
    ) -> None:
        store = SqliteStore(tmp_path / "x.db")
        for i in range(3):
            store.set_settings({"a": str(i)})
            assert synced.get(timeout=60) == "x.db-wal"
            if i == 0:
                assert synced.get(timeout=60) == tmp_path.name
        store.close()
        assert synced.empty(), "nothing is synced that was not changed"

    def test_with_full_durability_sqlite_does_it_itself(self, tmp_path: Path, synced: "SimpleQueue[str]") -> None:
        store = SqliteStore(tmp_path / "x.db", "full")
        store.set_settings({"a": "b"})
        store.close()
        assert synced.empty()
