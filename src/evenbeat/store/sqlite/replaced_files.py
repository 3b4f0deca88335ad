"""Notices when the files that SQLite has open are no longer those at their paths, or were overwritten.

SQLite itself does not notice: it would go on writing into a file that was deleted or replaced, and
nobody would ever read that.
"""

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import Final

from evenbeat.store.contract import DatabaseDamaged
from evenbeat.store.sqlite.connect import connect_untouched, explain
from evenbeat.store.sqlite.statements import query

_STAMP: Final = "file stamp"
"""The setting that holds the stamp of the latest checkpoint in the main file."""
_ADVICE: Final = (
    "nothing is recorded any more and nothing new starts. Put the file back where it was, or stop the node and start "
    "it on the database you want"
)

Identity = tuple[int, int]


class OpenedFiles:
    """The identities of the main file, its write-ahead log and the index of the log when they were opened."""

    def __init__(self, path: Path) -> None:
        # As text: this is checked with every commit, and a Path would be converted each time. The log lies beside the
        # file that a link leads to; the link itself may be changed one day.
        whole = path.resolve()
        self._main = str(path.absolute())
        self._opened = {name: self._identity(name) for name in (self._main, f"{whole}-wal", f"{whole}-shm")}

    def _identity(self, name: str) -> Identity | None:
        try:
            about = os.stat(name)  # noqa: PTH116 - with every commit, and a Path takes as long again
        except FileNotFoundError:
            return None
        # An empty main file counts as none: a program that opens it now would make SQLite delete the log.
        return (about.st_dev, about.st_ino) if about.st_size or name != self._main else (0, 0)

    def problem(self) -> DatabaseDamaged | None:
        """What happened to the files, if they are no longer the same."""
        for name, opened in self._opened.items():
            try:
                found = self._identity(name)
            except OSError as e:
                return DatabaseDamaged(f"{name}: the file cannot be found any more: {e.strerror}; {_ADVICE}")
            if found != opened:
                how = {None: "was deleted or moved away", (0, 0): "was emptied"}.get(
                    found, "was replaced by another file"
                )
                return DatabaseDamaged(f"{name}: the file {how} while the node had it open; {_ADVICE}")
        return None


class CheckpointStamps:
    """Stamps in the main file, a new one with each checkpoint, by which an old copy over the file is detected.

    `cp backup.db live.db` keeps the file and replaces its content. The content is then what it was some checkpoints
    ago, except for pages that are in the log. A copy made since the latest checkpoint does no harm: the log has the
    rest.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, *, log_was_empty: bool) -> None:
        """`connection` reads the log too; `log_was_empty`: whether the log was empty before that connection was opened.

        A log that is not empty was left by a crash, perhaps within a checkpoint: then the main file is consistent only
        together with the log, and its stamp is unknown until a complete checkpoint was made.
        """
        self._path = path
        self._lock = threading.Lock()
        self.known: list[str | None] = []
        """Stamps that the main file may have: the one that it is known to have, and those issued since."""
        self._committed = ""
        self._under_way = 0
        self._moves = 0
        self._is_known = log_was_empty
        if log_was_empty:
            try:
                self.known += [self._read(), _stamp_in(connection)]
            except (sqlite3.Error, UnicodeDecodeError):
                self._is_known = False  # known after the next complete checkpoint; damage is found elsewhere

    def issue(self, writer: sqlite3.Connection) -> None:
        """Commit a new stamp, before a checkpoint."""
        stamp = token_hex(8)
        with self._lock:
            self.known.append(stamp)
        writer.execute(query("set_setting"), (_STAMP, stamp))
        with self._lock:
            self._committed = stamp

    def checkpoint(self, connection: sqlite3.Connection, statement: str) -> int:
        """Make a checkpoint, unless the file was overwritten; return how many pages were in the log."""
        if self.moves() is not None and self.problem() is not None:
            return 0
        with self._lock:
            self._under_way += 1
            committed = self._committed  # not the latest stamp in `known`: its commit may be under way
        is_whole = False
        try:
            _, pages, moved = connection.execute(statement).fetchone()
            is_whole = pages == moved
        finally:
            with self._lock:
                self._under_way -= 1
                self._moves += 1
                # A checkpoint held up by a reader leaves out pages that changed since: the main file is inconsistent.
                self._is_known = is_whole and committed in self.known
                if self._is_known:
                    self.known = self.known[self.known.index(committed) :]
        return int(pages)

    def moves(self) -> int | None:
        """How many checkpoints were made; None while one is under way."""
        with self._lock:
            return None if self._under_way else self._moves

    def problem(self) -> DatabaseDamaged | None:
        """What is wrong with the main file according to its stamp. Not to be called during a checkpoint."""
        with self._lock:
            known = list(self.known) if self._is_known else None
            moves = self._moves
        if known is None:
            return None
        try:
            found = self._read()
        except (sqlite3.Error, UnicodeDecodeError) as e:
            error = explain(self._path, e)
            # Other errors, such as too many open files, do not mean damage.
            return error if isinstance(error, DatabaseDamaged) and self.moves() == moves else None
        if found in known or self.moves() != moves:
            return None
        return DatabaseDamaged(
            f"{self._path}: another program has overwritten the file, perhaps with an old copy of it, while the node "
            f"had it open; {_ADVICE}"
        )

    def _read(self) -> str | None:
        with closing(connect_untouched(self._path)) as connection:
            return _stamp_in(connection)


def _stamp_in(connection: sqlite3.Connection) -> str | None:
    tables = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'settings'").fetchall()
    found = connection.execute(query("setting"), (_STAMP,)).fetchone() if tables else None
    return None if found is None else str(found[0])


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk. Not for the main file of a database: see `sqlite.connect`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
