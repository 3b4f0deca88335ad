"""Connections that read: as many as there are reads at the same time; each is given back and used again."""

from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import psycopg

from evenbeat.store.common.rows import Parameters, Row
from evenbeat.store.contract import StoreError
from evenbeat.store.postgres.connect import Connection, PostgresAddress, is_lost

_KEPT: Final = 4
"""Idle connections that are kept for the next read; a server has only a limited number."""
_FETCHED_AT_ONCE: Final = 2_000


class Moment:
    """The database as it was at one moment."""

    def __init__(self, connection: Connection, answers: list[list[Row]]) -> None:
        self._connection = connection
        self.answers = answers
        """To the queries with which the moment began."""

    def all(self, statement: str, values: Parameters) -> list[Row]:
        """All rows of a query."""
        return self._connection.execute(statement, values).fetchall()


class ReadConnections:
    """Connections for reading, which any thread may use."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._idle: deque[Connection] = deque()
        self._is_closed = False

    def all(self, statement: str, values: Parameters = ()) -> list[Row]:
        """All rows of a query. Asked again if the connection turns out to be older than a restart of the server."""
        while True:
            with self._one() as (connection, is_new):
                try:
                    return connection.execute(statement, values or None).fetchall()
                except psycopg.Error as e:
                    if is_new or not is_lost(e):
                        raise
                    connection.close()

    def many(self, statement: str, values: Parameters = ()) -> Iterator[Row]:
        """The rows of a query as of one moment, a part at a time; the server keeps the rest, outside a transaction."""
        while True:
            with self._one() as (connection, is_new):
                try:
                    cursor = connection.cursor("evenbeat", withhold=True).execute(statement, values or None)
                except psycopg.Error as e:
                    if is_new or not is_lost(e):
                        raise
                    connection.close()
                    continue
                with closing(cursor):
                    while some := cursor.fetchmany(_FETCHED_AT_ONCE):
                        yield from some
                return

    def pipelined(self, *asked: tuple[str, Parameters]) -> list[list[Row]]:
        """The rows of several queries, in one round trip."""
        while True:
            with self._one() as (connection, is_new):
                try:
                    with connection.pipeline():
                        cursors = [connection.execute(statement, values or None) for statement, values in asked]
                    return [cursor.fetchall() for cursor in cursors]
                except psycopg.Error as e:
                    if is_new or not is_lost(e):
                        raise
                    connection.close()

    @contextmanager
    def one_moment(self, *asked: tuple[str, Parameters]) -> Iterator["Moment"]:
        """Further queries see the database as these first ones did."""
        while True:
            with self._one() as (connection, is_new):
                try:
                    with connection.pipeline():
                        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                        cursors = [connection.execute(statement, values or None) for statement, values in asked]
                    moment = Moment(connection, [cursor.fetchall() for cursor in cursors])
                except psycopg.Error as e:
                    if is_new or not is_lost(e):
                        raise
                    connection.close()
                    continue
                yield moment
                connection.execute("COMMIT")
                return

    def close(self) -> None:
        """Close all connections; those in use are closed when they are given back."""
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _one(self) -> Iterator[tuple[Connection, bool]]:
        """A connection that no other thread uses meanwhile, and whether it is new."""
        if self._is_closed:
            raise StoreError(f"{self._address}: the store is closed")
        try:
            connection, is_new = self._idle.pop(), False
        except IndexError:
            connection, is_new = self._address.connect(), True
        try:
            with self._address.explained():
                yield connection, is_new
        finally:
            self._give_back(connection)

    def _give_back(self, connection: Connection) -> None:
        idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if connection.closed or not idle or len(self._idle) >= _KEPT:
            connection.close()
        else:
            self._idle.append(connection)
        if self._is_closed:
            self._close_idle()
