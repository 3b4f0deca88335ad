"""Loads the first tasks of a database past its write-ahead log, which takes a third of the work of a million of them.

In the log each page would be written, with a checksum, read again and written once more. A rollback journal holds only
pages that the database had before, which are few, and new pages are written once, to their place. A process that dies
meanwhile leaves the journal, by which the next one that opens the file undoes all of the load.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from evenbeat.store.sqlite.connect import begin_log, connect_writer, explained
from evenbeat.store.sqlite.statements import query

T = TypeVar("T")

LEAST_TASKS: Final = 20_000
"""Tasks from which on a load is worth another way: below them it takes a moment anyway."""


def has_had_tasks(connection: sqlite3.Connection) -> bool:
    """Whether the database has, or ever had, any task."""
    (last,) = connection.execute(query("last_number"), ("tasks",)).fetchone()
    return bool(last)


def try_load(path: Path, work: Callable[[sqlite3.Connection], T]) -> tuple[T] | None:
    """Commit a change past the log; None if another program has the file open, or it has had tasks: then nothing was
    done. This process must not have it open.
    """
    with explained(path), _past_the_log(path) as connection:
        if connection is None:
            return None
        try:
            connection.execute("BEGIN IMMEDIATE")
            if has_had_tasks(connection):
                return None
            with _names_indexed_at_the_end(connection):
                made = work(connection)
            connection.execute("COMMIT")
        except sqlite3.OperationalError as e:
            if not _is_busy(e):
                raise
            return None  # a program that only reads keeps us from writing to the file, but not to a log
        finally:
            if connection.in_transaction:  # a full disk may have ended it already
                connection.execute("ROLLBACK")
        return (made,)


@contextmanager
def _past_the_log(path: Path) -> Iterator[sqlite3.Connection | None]:
    """A connection with a rollback journal, while no other has the file open; None if another has."""
    with closing(connect_writer(path, "full")) as connection:
        # A journal that came back after a power loss would undo what was committed since: EXTRA syncs its removal too.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = OFF")  # new tasks bring all rows that refer to them
        ((patience,),) = connection.execute("PRAGMA busy_timeout")
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError as e:
            if not _is_busy(e):
                raise
            yield None
            return
        connection.execute(f"PRAGMA busy_timeout = {patience}")
        try:
            yield connection
        finally:
            begin_log(connection)


@contextmanager
def _names_indexed_at_the_end(connection: sqlite3.Connection) -> Iterator[None]:
    """Tasks come in the order of their runs: an index of their names costs several times less if it is sorted once."""
    found = connection.execute(query("indexes_of_names")).fetchall()
    for name, _ in found:
        connection.execute(f"DROP INDEX {name}")
    yield
    for _, statement in found:
        connection.execute(statement)


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
