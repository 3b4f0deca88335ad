"""Are the files that SQLite has open still those at their paths? SQLite itself does not notice if they are not.

It would go on to write into a file that was deleted or replaced, and nobody would ever read that again.
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
"""The setting that says up to which checkpoint the main file has come."""
_ADVICE: Final = (
    "nothing is recorded any more and nothing new starts. Put the file back where it was, or stop the node and start "
    "it on the database you want"
)

Identity = tuple[int, int]


class OpenedFiles:
    """The main file, its write-ahead log and the index of that, as they were when a connection had opened them."""

    def __init__(self, path: Path) -> None:
        # As text: this is asked with every commit, and a Path would be made into it each time. The log is beside the
        # file that a link leads to; the link itself may lead elsewhere one day.
        whole = path.resolve()
        self._main = str(path.absolute())
        self._opened = {name: self._identity(name) for name in (self._main, f"{whole}-wal", f"{whole}-shm")}

    def _identity(self, name: str) -> Identity | None:
        try:
            about = os.stat(name)  # noqa: PTH116 - with every commit, and a Path takes as long again
        except FileNotFoundError:
            return None
        # A main file that is empty is none: whoever opened it now would make SQLite delete the log.
        return (about.st_dev, about.st_ino) if about.st_size or name != self._main else (0, 0)

    def problem(self) -> DatabaseDamaged | None:
        """What became of them, if they are not the same any more."""
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
    """Marks in the main file, a new one with each checkpoint, by which an old copy over it is found out.

    `cp backup.db live.db` keeps the file and replaces its content. The content is then what it was some checkpoints
    ago, except for pages that are in the log. A copy since the latest checkpoint is harmless: the log has the rest.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, *, log_was_empty: bool) -> None:
        """`connection` reads what is in the log too; `log_was_empty`: before it was opened.

        A log that is not empty is left by a crash, perhaps within a checkpoint: then the main file is a mixture, which
        is whole only together with the log, and no mark is known before we have made a whole checkpoint.
        """
        self._path = path
        self._lock = threading.Lock()
        self._known: list[str | None] = []
        """What the main file may say: what it is known to say, and what was issued since."""
        self._committed = ""
        self._under_way = 0
        self._moves = 0
        self._is_known = log_was_empty
        if log_was_empty:
            try:
                self._known += [self._read(), _stamp_in(connection)]
            except (sqlite3.Error, UnicodeDecodeError):
                self._is_known = False  # known with the next whole checkpoint; what is wrong with it is found elsewhere

    def issue(self, writer: sqlite3.Connection) -> None:
        """Commit a new mark, before a checkpoint."""
        stamp = token_hex(8)
        with self._lock:
            self._known.append(stamp)
        writer.execute(query("set_setting"), (_STAMP, stamp))
        with self._lock:
            self._committed = stamp

    def checkpoint(self, connection: sqlite3.Connection, statement: str) -> int:
        """Make a checkpoint; the number of pages that were in the log. None onto a file that is not as we left it."""
        if self.moves() is not None and self.problem() is not None:
            return 0
        with self._lock:
            self._under_way += 1
            committed = self._committed  # not the latest that is known: its commit may be under way
        is_whole = False
        try:
            _, pages, moved = connection.execute(statement).fetchone()
            is_whole = pages == moved
        finally:
            with self._lock:
                self._under_way -= 1
                self._moves += 1
                # One that a reader held up leaves out pages that were changed again since: the main file is a mixture.
                self._is_known = is_whole and committed in self._known
                if self._is_known:
                    self._known = self._known[self._known.index(committed) :]
        return int(pages)

    def moves(self) -> int | None:
        """How many checkpoints there were; None while one is under way."""
        with self._lock:
            return None if self._under_way else self._moves

    def problem(self) -> DatabaseDamaged | None:
        """What is wrong with the main file, as far as its marks tell; asked while no checkpoint is under way."""
        with self._lock:
            known = list(self._known) if self._is_known else None
            moves = self._moves
        if known is None:
            return None
        try:
            found = self._read()
        except (sqlite3.Error, UnicodeDecodeError) as e:
            error = explain(self._path, e)
            # Any other would be too many open files, say.
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
    """Have a file, or the names in a folder, on the disk. Not for the main file of a database: see `sqlite_open`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
