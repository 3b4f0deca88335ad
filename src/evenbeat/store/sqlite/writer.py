"""The one thread that writes to an SQLite file: whatever waits is committed together."""

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from evenbeat.store.contract import DatabaseDamaged, StoreError
from evenbeat.store.sqlite.checkpoint import Checkpointer
from evenbeat.store.sqlite.connect import connect_writer, explain
from evenbeat.store.sqlite.open_files import CheckpointStamps, OpenedFiles

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_MOST_TOGETHER: Final = 64
"""Changes in one commit: enough to share its cost, few enough that the first does not wait long for the last."""
_WAL_TOO_LONG: Final = 256 << 20
"""Readers that never pause would let the write-ahead log grow without end; from here on the writer waits for them."""


class _WaitingChange(NamedTuple, Generic[T]):
    work: Work[T]
    future: Future[T]


class SqliteWriter:
    """Takes changes from any thread and makes them in the order they came."""

    def __init__(self, path: Path, durability: str) -> None:
        self._path = path
        whole = path.resolve()
        self._wal = whole.with_name(whole.name + "-wal")
        self._wal_waited_for = 0
        self.damage: DatabaseDamaged | None = None
        """Set from outside: nothing more is to be written."""
        log_was_empty = not self._wal.exists() or self._wal.stat().st_size == 0
        with ExitStack() as opened:
            self._connection = opened.enter_context(closing(connect_writer(path, durability)))
            self.files = OpenedFiles(path)
            self.stamps = CheckpointStamps(path, self._connection, log_was_empty=log_was_empty)
            moving = opened.enter_context(closing(connect_writer(path, durability)))
            self._checkpoints = Checkpointer(moving, self.stamps, None if durability == "full" else self._wal)
            opened.pop_all()  # from now on `close` sees to them
        self._jobs: queue.SimpleQueue[_WaitingChange[object] | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name="evenbeat store", daemon=True)
        self._thread.start()

    def submit(self, work: Work[T]) -> Future[T]:
        """The future of a change: done when it is durable. Raise StoreError after `close`."""
        future: Future[T] = Future()
        with self._closing:
            if self._closed:
                raise StoreError(f"{self._path}: the store is closed")
            self._jobs.put(_WaitingChange(work, future))  # type: ignore[arg-type]
        return future

    def do(self, work: Work[T]) -> T:
        """Make a change and wait for it."""
        return self.submit(work).result()

    def close(self) -> None:
        """Make everything that was submitted, then stop."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            jobs: list[_WaitingChange[object]] = []
            job = self._jobs.get()
            while job is not None:
                # From now on it cannot be cancelled; one that was is not made.
                if job.future.set_running_or_notify_cancel():
                    jobs.append(job)
                if len(jobs) == _MOST_TOGETHER or self._jobs.empty():
                    break
                job = self._jobs.get()
            is_open = job is not None
            problem = (self.damage or self.files.problem()) if jobs else None
            if problem is not None:
                # Nothing is written that nobody will ever read.
                for refused in jobs:
                    refused.future.set_exception(DatabaseDamaged(str(problem)))
            elif jobs:
                self._commit(jobs)
                # What was changed is no longer ours to hold while we wait.
                jobs, job = [], None
                self._keep_wal_short()
        self._checkpoints.close()
        self._connection.close()

    def _commit(self, jobs: list[_WaitingChange[object]]) -> None:
        """All in one transaction. If that fails, each in its own, so that one that cannot be done harms no other."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            results = [job.work(connection) for job in jobs]
            connection.execute("COMMIT")
        except Exception as e:
            self._roll_back()
            if len(jobs) > 1:
                for job in jobs:
                    self._commit([job])
            else:
                jobs[0].future.set_exception(
                    explain(self._path, e) if isinstance(e, sqlite3.Error | UnicodeDecodeError) else e
                )
        else:
            self.commits += 1
            for job, result in zip(jobs, results, strict=True):
                job.future.set_result(result)

    def _roll_back(self) -> None:
        try:
            # A full disk may have ended the transaction already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            # Whoever waits is told the first error; the next BEGIN tells this one if it lasts.
            return

    def _keep_wal_short(self) -> None:
        try:
            size = self._wal.stat().st_size
            self._checkpoints.committed(self._connection, size)
            if size < _WAL_TOO_LONG:
                self._wal_waited_for = 0
            elif size > self._wal_waited_for + _WAL_TOO_LONG:
                self._wal_waited_for = size
                self.stamps.checkpoint(self._connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        except (OSError, sqlite3.Error):
            # It is only care: what is wrong with the file is told with the next commit.
            return
