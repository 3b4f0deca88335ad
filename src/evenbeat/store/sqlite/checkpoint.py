"""Makes checkpoints beside the writer: moves commits from the write-ahead log to the database, and to the disk.

SQLite itself would make a checkpoint within a commit now and then, and the callers of that commit would wait for the
disk. And with `durability = "normal"` it would let the system decide when commits reach the disk before a checkpoint.
"""

import sqlite3
import threading
from pathlib import Path
from typing import Final

from evenbeat.store.sqlite.replaced_files import CheckpointStamps, sync

_CHANGES: Final = 16_000
"""Changed rows after which a checkpoint is made ..."""
_GROWTH: Final = 8 << 20
"""... or bytes by which the log has grown. Both are needed, as the log does not grow while it is reused."""
_LONG_LOG: Final = 24 << 20
"""Length of the log in bytes from which on the writer makes the rest of a checkpoint: the log is reused from its
beginning only when nothing is left to be moved."""
_SYNC: Final = 5.0
"""Seconds of commits that a power loss may lose."""
_MOVE: Final = "PRAGMA wal_checkpoint(PASSIVE)"


class Checkpointer:
    """A thread with its own connection, which wakes up when the writer has written much, and to sync the log."""

    def __init__(self, connection: sqlite3.Connection, stamps: CheckpointStamps, log: Path | None) -> None:
        """`log` is the write-ahead log if this thread must sync it; None if the writer syncs it with every commit."""
        self._connection = connection
        self._stamps = stamps
        self._log = log
        self._is_unsynced = False
        self._is_named = False
        """Whether the name of the log has been synced."""
        (self._page,) = connection.execute("PRAGMA page_size").fetchone()
        self._changes = 0
        self._size = 0
        self._is_wanted = threading.Event()
        self._is_closed = False
        self._log_is_long = False
        self._thread = threading.Thread(target=self._run, name="evenbeat checkpoints", daemon=True)
        self._thread.start()

    def committed(self, writer: sqlite3.Connection, size: int) -> None:
        """Called by the writer after a commit, with its connection and the size of the log."""
        self._is_unsynced = True
        if self._log_is_long:
            # Most of the log has just been moved, and the writer adds nothing while it is here: the rest is short.
            self._log_is_long = False
            self._stamps.checkpoint(writer, _MOVE)
        self._size = min(self._size, size)
        if writer.total_changes - self._changes > _CHANGES or size - self._size > _GROWTH:
            self._stamps.issue(writer)
            self._changes, self._size = writer.total_changes, size
            self._is_wanted.set()

    def close(self) -> None:
        self._is_closed = True
        self._is_wanted.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        pause = None if self._log is None else _SYNC
        while not self._is_closed:
            is_wanted = self._is_wanted.wait(pause)
            if is_wanted and not self._is_closed:
                self._is_wanted.clear()
                self._is_unsynced = False  # a checkpoint syncs the log first
                self._move()
            elif self._log is not None and self._is_unsynced:
                self._sync(self._log)

    def _move(self) -> None:
        try:
            pages = self._stamps.checkpoint(self._connection, _MOVE)
        except sqlite3.Error:
            # A checkpoint can wait; what is wrong with the file is reported by the next commit.
            return
        self._log_is_long = pages * self._page > _LONG_LOG

    def _sync(self, log: Path) -> None:
        """Sync the log. SQLite holds no POSIX locks on it, so that a descriptor of our own does no harm."""
        self._is_unsynced = False
        try:
            sync(log)
            if not self._is_named:
                sync(log.parent)
                self._is_named = True
        except OSError:
            self._is_unsynced = True  # and reported by the next commit, if it lasts
