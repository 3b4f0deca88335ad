"""Moves what was committed from the write-ahead log to the database, beside the writer.

SQLite itself would do it within a commit, every now and then: those who wait for that commit would wait for the disk.
"""

import sqlite3
import threading
from typing import Final

from evenbeat.store.sqlite_files import Stamps

_CHANGES: Final = 16_000
"""Rows that may have changed since it was last done ..."""
_GROWTH: Final = 8 << 20
"""... and bytes by which the log may have grown; both, as the log grows no more once it starts anew."""
_LONG_LOG: Final = 24 << 20
"""Bytes from which on the writer helps: the log starts anew only if nothing at all is left to be moved."""
_MOVE: Final = "PRAGMA wal_checkpoint(PASSIVE)"


class Checkpoints:
    """A thread with a connection of its own, which sleeps until the writer has written much."""

    def __init__(self, connection: sqlite3.Connection, stamps: Stamps) -> None:
        self._connection = connection
        self._stamps = stamps
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
        if self._log_is_long:
            # Most of it has just been moved, and while the writer is here nothing is added: the rest is short.
            self._log_is_long = False
            self._stamps.move(writer, _MOVE)
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
        while self._is_wanted.wait() and not self._is_closed:
            self._is_wanted.clear()
            try:
                pages = self._stamps.move(self._connection, _MOVE)
            except sqlite3.Error:
                # It is only care: what is wrong with the file is told with the next commit.
                continue
            self._log_is_long = pages * self._page > _LONG_LOG
