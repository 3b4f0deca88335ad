"""The stores on which histories are played, each of them empty at the beginning."""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
from path_world import Watched, WatchedMemory

from evenbeat.node.definition_copy import DefinitionCopy, definition_copy_path
from evenbeat.node.loop.plain_definitions import PlainDefinitions
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore

Stores = Callable[[], AbstractContextManager[Watched]]


class WatchedSqlite(Watched, SqliteStore):
    """The store in a file."""


class CopyingSqlite(WatchedSqlite):
    """The store in a file, beside which each scheduler leaves a copy of the definitions for the next one."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.copies: list[UsedCopy] = []

    def definition_copy(self) -> DefinitionCopy:
        self.copies.append(UsedCopy(definition_copy_path(self._path), self, least=1))
        return self.copies[-1]


class UsedCopy(DefinitionCopy):
    """A copy that knows how many definitions a scheduler has got from it."""

    used = 0

    def plain(self, without: Collection[int]) -> Iterator[PlainDefinitions]:
        for some in super().plain(without):
            self.used += len(some.numbers)
            yield some


class WatchedPostgres(Watched, PostgresStore):
    """The store in PostgreSQL."""


@contextmanager
def memory() -> Iterator[Watched]:
    yield WatchedMemory()


def sqlite(folder: Path, kind: type[WatchedSqlite] = WatchedSqlite) -> Stores:
    @contextmanager
    def opened() -> Iterator[Watched]:
        path = folder / f"{len(list(folder.iterdir()))}.db"
        store = kind(path)
        yield store
        store.close()

    return opened


def postgres(empty_database: Callable[[], str]) -> Stores:
    @contextmanager
    def opened() -> Iterator[Watched]:
        store = WatchedPostgres(empty_database())
        yield store
        store.close()

    return opened


_KEPT = ("version", "marks", "partitions")


class EmptyDatabase:
    """The address of a database, emptied each time it is asked for: making one anew takes longer than a history."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def __call__(self) -> str:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'evenbeat'").fetchall()
            emptied = [f"DELETE FROM evenbeat.{name}" for (name,) in tables if name not in _KEPT]
            connection.execute("; ".join(emptied).encode())
        return self._dsn
