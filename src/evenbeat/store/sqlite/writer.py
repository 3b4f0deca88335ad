"""Writes to an SQLite file: commits changes, refuses them if the file is damaged, and keeps the log short."""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final, TypeVar

from evenbeat.store.common.group_writer import GroupRefused, GroupWriter
from evenbeat.store.contract import DatabaseDamaged
from evenbeat.store.sqlite.checkpoint import Checkpointer
from evenbeat.store.sqlite.connect import connect_writer, explain
from evenbeat.store.sqlite.replaced_files import CheckpointStamps, OpenedFiles

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_WAL_TOO_LONG: Final = 256 << 20
"""Bytes. Readers that never pause would let the write-ahead log grow without end; from here on the writer waits for
them."""


class SqliteWriter:
    """The connection of one file that writes; `changes` takes the changes from any thread."""

    def __init__(self, path: Path, durability: str) -> None:
        self._path = path
        whole = path.resolve()
        self._wal = whole.with_name(whole.name + "-wal")
        self._wal_waited_for = 0
        self.damage: DatabaseDamaged | None = None
        """Set by the inspector: nothing more may be written."""
        self._problem: DatabaseDamaged | None = None
        """Why the latest group was refused, if it was."""
        log_was_empty = not self._wal.exists() or self._wal.stat().st_size == 0
        with ExitStack() as opened:
            self._connection = opened.enter_context(closing(connect_writer(path, durability)))
            self.files = OpenedFiles(path)
            self.stamps = CheckpointStamps(path, self._connection, log_was_empty=log_was_empty)
            moving = opened.enter_context(closing(connect_writer(path, durability)))
            self._checkpoints = Checkpointer(moving, self.stamps, None if durability == "full" else self._wal)
            opened.pop_all()  # from now on `close` closes them
        self.changes: GroupWriter[Work[Any], Any] = GroupWriter(path, self._commit, after_commit=self._keep_wal_short)

    def close(self) -> None:
        """Make everything that was submitted, then stop."""
        self.changes.close()
        self._checkpoints.close()
        self._connection.close()

    def _commit(self, works: list[Work[Any]]) -> list[Any]:
        self._problem = self.damage or self.files.problem()
        if self._problem is not None:
            # Nobody would ever read what is written now.
            raise GroupRefused(DatabaseDamaged(str(self._problem)))
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            results = [work(connection) for work in works]
            connection.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as e:
            self._roll_back()
            raise explain(self._path, e) from e
        except Exception:
            self._roll_back()
            raise
        return results

    def _roll_back(self) -> None:
        try:
            # A full disk may have ended the transaction already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            # The caller gets the first error; if this one lasts, the next BEGIN raises it.
            return

    def _keep_wal_short(self) -> None:
        if self._problem is not None:
            return
        try:
            size = self._wal.stat().st_size
            self._checkpoints.committed(self._connection, size)
            if size < _WAL_TOO_LONG:
                self._wal_waited_for = 0
            elif size > self._wal_waited_for + _WAL_TOO_LONG:
                self._wal_waited_for = size
                self.stamps.checkpoint(self._connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        except (OSError, sqlite3.Error):
            # The checkpoint can wait; what is wrong with the file is reported by the next commit.
            return
