"""Moves what was committed from the write-ahead log to the database, and to the disk, beside the writer.

SQLite itself would move it within a commit, every now and then: those who wait for that commit would wait for the disk.
And with `durability = "normal"` it would leave it to the system when commits reach the disk, until they are moved.
"""

import sqlite3
import threading
from pathlib import Path
from typing import Final

from evenbeat.store.sqlite.open_files import CheckpointStamps, sync

_CHANGES: Final = 16_000
"""Rows that may have changed since it was last done ..."""
_GROWTH: Final = 8 << 20
"""... and bytes by which the log may have grown; both, as the log grows no more once it starts anew."""
_LONG_LOG: Final = 24 << 20
"""Bytes from which on the writer helps: the log starts anew only if nothing at all is left to be moved."""
_SYNC: Final = 5.0
"""Seconds of commits that a power loss may take away."""
_MOVE: Final = "PRAGMA wal_checkpoint(PASSIVE)"


class Checkpointer:
    """A thread with a connection of its own, which sleeps until the writer has written much, or some time ago."""

    def __init__(self, connection: sqlite3.Connection, stamps: CheckpointStamps, log: Path | None) -> None:
        """`log` is the write-ahead log if it is to be synced; None if the writer syncs it with every commit."""
        self._connection = connection
        self._stamps = stamps
        self._log = log
        self._is_unsynced = False
        self._is_named = False
        """Is the log's own name safe?"""
        (self._page,) = connection.execute("PRAGMA page_size").fetchone()
        self._changes = 0
        self._size = 0
        self._is_wanted = threading.Event()
        self._is_closed = False
        self._log_is_long = False
        self._thread = threading.Thread(target=self._run, name="evenbeat checkpoints", daemon=True)
        self._thread.start()

    def committed(self, writer: sqlite3.Connection, size: int) -> None:
        """The writer has committed, and lets us use its connection; the log is so long."""
        self._is_unsynced = True
        if self._log_is_long:
            # Most of it has just been moved, and while the writer is here nothing is added: the rest is short.
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
                self._is_unsynced = False  # to move it, SQLite syncs it
                self._move()
            elif self._log is not None and self._is_unsynced:
                self._sync(self._log)

    def _move(self) -> None:
        try:
            pages = self._stamps.checkpoint(self._connection, _MOVE)
        except sqlite3.Error:
            # It is only care: what is wrong with the file is told with the next commit.
            return
        self._log_is_long = pages * self._page > _LONG_LOG

    def _sync(self, log: Path) -> None:
        """The log has no POSIX locks, so that a descriptor of our own does no harm. Its name is synced once."""
        self._is_unsynced = False
        try:
            sync(log)
            if not self._is_named:
                sync(log.parent)
                self._is_named = True
        except OSError:
            self._is_unsynced = True  # and told by the next commit, if it lasts
