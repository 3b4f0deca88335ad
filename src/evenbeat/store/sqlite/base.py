"""The base of the SQLite store: its file and connections."""

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, TypeVar

from evenbeat.store.common import rows
from evenbeat.store.contract import DatabaseDamaged, StoreError
from evenbeat.store.sqlite.connect import DAMAGED_ADVICE, check_readable, connect_reader, explained, prepare
from evenbeat.store.sqlite.first_load import has_had_tasks, try_load
from evenbeat.store.sqlite.inspection import FileInspector, check_tables
from evenbeat.store.sqlite.statements import migrations
from evenbeat.store.sqlite.writer import SqliteWriter, T, Work

_FETCHED_AT_ONCE: Final = 1_000

N = TypeVar("N")
Rows = Generator[rows.Row, None, None]
Parts = Generator[list[rows.Row], None, None]
"""Rows, some at a time."""


class SqliteBase:
    """Opens the file, or creates it."""

    def __init__(
        self,
        path: Path,
        durability: Literal["normal", "full"] = "normal",
        *,
        read_only: bool = False,
        is_checked: bool = True,
    ) -> None:
        """With `is_checked=False` a file that cannot be read is refused at the first read, not now."""
        self._path = path
        self._durability: Literal["normal", "full"] = durability
        self._is_used_alone = False
        self._schema = len(migrations())
        self._readers: deque[sqlite3.Connection] = deque()
        self._is_closed = False
        self._held = threading.local()
        """The connection of a thread whose reads are all of one moment."""
        if read_only:
            if is_checked:
                check_readable(path)
        else:
            prepare(path, durability)
        self._writer = None if read_only else SqliteWriter(path, durability)
        self._inspector: FileInspector | None = None

    def reopen(self, durability: Literal["normal", "full"]) -> None:
        """New connections with this durability, before the file is inspected; the old ones give back their memory."""
        self.writer.close()
        self._close_readers()
        self._durability = durability
        self._writer = SqliteWriter(self._path, durability)

    @contextmanager
    def used_alone(self) -> Iterator[None]:
        """While no other thread uses the store, and the file is not inspected, the first tasks are loaded faster."""
        self._is_used_alone = True
        try:
            yield
        finally:
            self._is_used_alone = False

    def _load_first(self, work: Work[T]) -> T:
        """Make a change that creates the first tasks, and many: past the log if that is possible."""
        if self._has_had_tasks():
            return self._do(work)
        self.writer.close()
        self._close_readers()
        try:
            made = try_load(self._path, work)
        finally:
            self._writer = SqliteWriter(self._path, self._durability)
        return self._do(work) if made is None else made[0]

    def _has_had_tasks(self) -> bool:
        with self._read() as connection:
            return has_had_tasks(connection)

    def inspect(self, report: Callable[[DatabaseDamaged | None], None]) -> None:
        """Inspect the file from now on. A thread calls `report` with what is wrong, and with None when that is over.

        While something is wrong, nothing is written, as nobody would ever read it, and nothing is read, as it may be of
        another file.
        """
        writer = self.writer

        def found(problem: DatabaseDamaged | None) -> None:
            writer.damage = problem
            report(problem)

        self._inspector = FileInspector(self._path, self._schema, writer, found)

    def check(self) -> None:
        """Raise DatabaseDamaged if the file is damaged; with a large file this takes seconds."""
        problem = check_tables(self._path, self._schema)
        if problem is not None:
            raise problem

    def close(self) -> None:
        self._is_closed = True
        self._close_readers()
        if self._writer is not None and self._inspector is not None:
            self._inspector.close(self._writer)
        elif self._writer is not None:
            self._writer.close()

    def give_back_memory(self) -> None:
        """Close the idle reading connections, which frees their page caches. The next read opens a new one."""
        self._close_readers()

    def _close_readers(self) -> None:
        with suppress(IndexError):  # another thread may take the last one
            while True:
                self._readers.pop().close()

    # Connections

    @property
    def writer(self) -> SqliteWriter:
        """The thread that makes all changes; raise StoreError if the store was opened only to read."""
        if self._writer is None:
            raise StoreError(f"{self._path}: opened only to read; changes go through the node that owns it")
        return self._writer

    def _do(self, work: Work[T]) -> T:
        made: T = self.writer.changes.submit(work).result()
        return made

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread uses meanwhile; there are as many as there are reads at the same time."""
        held: sqlite3.Connection | None = getattr(self._held, "connection", None)
        if held is not None:
            yield held
            return
        if self._is_closed:
            raise StoreError(f"{self._path}: the store is closed")
        if self._writer is not None and self._writer.damage is not None:
            raise DatabaseDamaged(str(self._writer.damage))
        try:
            connection = self._readers.pop()
        except IndexError:
            if self._writer is not None and (problem := self._writer.files.problem()) is not None:
                raise problem from None
            connection = connect_reader(self._path, self._schema)
        try:
            with explained(self._path):
                yield connection
        finally:
            self._give_back(connection)

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        """All reads of this thread see the database as it is now."""
        if getattr(self._held, "connection", None) is not None:
            yield
            return
        with self._read() as connection:
            connection.execute("BEGIN")
            self._held.connection = connection
            try:
                yield
            finally:
                self._held.connection = None
                connection.execute("ROLLBACK")

    def _give_back(self, connection: sqlite3.Connection) -> None:
        self._readers.append(connection)
        if self._is_closed:
            self._close_readers()

    def _converted(self, convert: Callable[[rows.Row], N], found: Rows) -> Iterator[N]:
        """Turn rows into what they stand for. A row that cannot be converted means damage."""
        with self._damage_explained(), closing(found):  # a failed conversion gives the connection back
            for row in found:
                yield convert(row)

    def _converted_in_parts(self, convert: Callable[[list[rows.Row]], Iterable[N]], found: Parts) -> Iterator[N]:
        """`_converted` for a million rows: without steps of Python for each of them."""
        with self._damage_explained(), closing(found):
            for some in found:
                yield from convert(some)

    @contextmanager
    def _damage_explained(self) -> Iterator[None]:
        """Turn errors of conversions into StoreErrors."""
        try:
            yield
        except rows.UnreadableDefinition as e:
            raise StoreError(f"{self._path}: {e}; if no other version wrote it: {DAMAGED_ADVICE}") from e
        except (ArithmeticError, LookupError, TypeError, ValueError) as e:
            raise DatabaseDamaged(f"{self._path}: {DAMAGED_ADVICE} ({e})") from e

    def _select(self, statement: str, values: rows.Parameters = ()) -> Rows:
        with closing(self._select_parts(statement, values)) as parts:
            for some in parts:
                yield from some

    def _select_parts(self, statement: str, values: rows.Parameters = ()) -> Parts:
        """Rows in lists that are not empty."""
        with self._read() as connection, closing(connection.execute(statement, values)) as cursor:
            while some := cursor.fetchmany(_FETCHED_AT_ONCE):
                yield some
