"""Inspects the database file of a running node, in a thread: is it the file that was opened, and is it undamaged?

Every second it checks that the file is the same and has the stamp of the latest checkpoint. In between it checks one
table after the other with `PRAGMA quick_check`, by a connection that has no page of it in its cache.
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from evenbeat.store.contract import DatabaseDamaged, StoreError
from evenbeat.store.sqlite.connect import DAMAGED_ADVICE, connect_reader, explain
from evenbeat.store.sqlite.writer import SqliteWriter

_LOOK: Final = 1.0
"""Seconds between two inspections of the files."""
_PAUSE: Final = 5.0
"""Seconds between two tables, at least."""
_SHARE: Final = 50
"""The pause after a table is this many times as long as its check took: two percent of a processor and of the disk."""
_NICE: Final = 10
"""The scheduler goes first."""
_log: Final = logging.getLogger("evenbeat.store")


def check_tables(path: Path, schema: int, tables: list[str] | None = None) -> DatabaseDamaged | None:
    """The damage to these tables of a file and to their indexes, if any; by default of all tables."""
    try:
        with closing(connect_reader(path, schema)) as connection:
            problem = problem_in(connection, tables)
            if problem:
                return DatabaseDamaged(f"{path}: {DAMAGED_ADVICE} ({problem})")
    except (sqlite3.Error, UnicodeDecodeError) as e:
        return _damage(explain(path, e), e)
    except StoreError as e:
        return _damage(e, e.__cause__)
    return None


def problem_in(connection: sqlite3.Connection, tables: list[str] | None = None) -> str:
    """The damage to these tables in SQLite's words; empty if there is none."""
    for table in tables_of(connection) if tables is None else tables:
        (found,) = connection.execute(f"PRAGMA quick_check({table})").fetchone()
        if found != "ok":
            return f"table {table}: {' '.join(str(found).split())}"
    return ""


def _damage(error: StoreError, cause: BaseException | None) -> DatabaseDamaged | None:
    """The error if it will not go away by itself: a lock, or too many open files, does not mean damage."""
    if isinstance(error, DatabaseDamaged):
        return error
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    return DatabaseDamaged(str(error)) if code == sqlite3.SQLITE_IOERR else None


def tables_of(connection: sqlite3.Connection) -> list[str]:
    """The tables of a database, in the order of their creation."""
    names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    return [name for (name,) in names]


class FileInspector:
    """Reports when something is wrong with the file, and when it is right again."""

    def __init__(
        self,
        path: Path,
        schema: int,
        writer: SqliteWriter,
        found: Callable[[DatabaseDamaged | None], None],
    ) -> None:
        self._path = path
        self._schema = schema
        self._files = writer.files
        self._stamps = writer.stamps
        self._found = found
        self._to_check: list[str] = []
        self._next_check = time.monotonic()
        self._next_whole_check = self._next_check
        self._was_written = False
        self._looked_at: tuple[int | None, tuple[int, int, int]] | None = None
        self._suspect: tuple[int, int] | None = None
        """Size and time of change of the main file when it last had a wrong stamp."""
        self._problem: DatabaseDamaged | None = None
        self._is_damaged = False
        self.looks = 0
        self._keeper = connect_reader(path, schema)
        self._tables = tables_of(self._keeper)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evenbeat inspector", daemon=True)
        self._thread.start()

    def close(self, writer: SqliteWriter) -> None:
        """Stop, and close the writer.

        When the last connection that may write is closed, SQLite moves the log into the file and deletes the log by its
        name. If the file was replaced or is damaged, all files must stay as they are: then the connection that is
        closed last is one that may only read.
        """
        self._closing.set()
        self._thread.join()
        if self._problem is None and self._files.problem() is None:
            self._keeper.close()
        writer.close()
        self._keeper.close()

    def _run(self) -> None:
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        except OSError:
            _log.debug("the priority of the inspector cannot be lowered")
        while not self._closing.wait(_LOOK):
            try:
                self._look()
                self.looks += 1
            except Exception:
                # A file that is not inspected still works.
                _log.exception("the database file could not be inspected", extra={"action": "inspection_failed"})

    def _look(self) -> None:
        problem = self._files.problem()
        if problem is None and not self._is_damaged:
            content = self._content()
            # A file that was deleted or replaced just now cannot be read either.
            problem = (self._files.problem() or content) if content is not None else None
            self._is_damaged = problem is not None and problem is content
        elif self._is_damaged:
            problem = self._problem  # a damaged file does not repair itself
        if str(problem) != str(self._problem):
            self._problem = problem
            self._found(problem)

    def _content(self) -> DatabaseDamaged | None:
        """Damage within the main file."""
        self._was_written |= self._was_written_by_others()
        return self._stamp_problem() or (self._all_tables() if self._was_written else self._next_table())

    def _all_tables(self) -> DatabaseDamaged | None:
        """Check all tables after another program wrote to the file, with pauses if it keeps writing."""
        begun = time.monotonic()
        if begun < self._next_whole_check:
            return None
        self._was_written = False
        _log.warning(
            "another program has written to %s; checking the whole file", self._path, extra={"action": "inspecting"}
        )
        problem = check_tables(self._path, self._schema)
        took = time.monotonic() - begun
        self._next_whole_check = begun + took + _SHARE * took
        return problem

    def _was_written_by_others(self) -> bool:
        """Whether the main file changed without a checkpoint of this process, or its log got shorter."""
        looked_at = self._stamps.moves(), self._sizes()
        before, self._looked_at = self._looked_at, looked_at
        if before is None or looked_at[0] is None or looked_at[0] != before[0]:
            return False
        (size, written, log), (size_before, written_before, log_before) = looked_at[1], before[1]
        return (size, written) != (size_before, written_before) or log < log_before

    def _sizes(self) -> tuple[int, int, int]:
        main = self._path.stat()
        return main.st_size, main.st_mtime_ns, self._path.with_name(self._path.name + "-wal").stat().st_size

    def _stamp_problem(self) -> DatabaseDamaged | None:
        """A wrong stamp, if two inspections have found one in the same file: as long as the file changes, another
        program may be in the middle of a checkpoint.
        """
        size, written, _ = self._sizes()
        problem = None if self._stamps.moves() is None else self._stamps.problem()
        before, self._suspect = self._suspect, None if problem is None else (size, written)
        return problem if before == (size, written) else None

    def _next_table(self) -> DatabaseDamaged | None:
        begun = time.monotonic()
        if begun < self._next_check:
            return None
        if not self._to_check:
            self._to_check = list(self._tables)
        problem = check_tables(self._path, self._schema, [self._to_check.pop(0)])
        took = time.monotonic() - begun
        self._next_check = begun + took + max(_PAUSE, _SHARE * took)
        return problem
