"""The base of the PostgreSQL store: its connections, and how it makes changes."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from evenbeat.store.common.rows import Parameters, Row
from evenbeat.store.contract import StoreError
from evenbeat.store.postgres.connect import PostgresAddress, check_readable, is_lost, prepare
from evenbeat.store.postgres.read_connections import ReadConnections
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.write_session import ConfirmedCommits, SessionLease, T, WriteSession, WriteWork
from evenbeat.store.postgres.writer import BatchRecorder

_ALONE_LOCK_TIMEOUT: Final = 60.0
"""Seconds to wait for another process that changes tasks in several steps."""
_SESSIONS_KEPT: Final = 3


class PostgresBase:
    """Opens the database and migrates it."""

    def __init__(self, dsn: str, *, read_only: bool = False) -> None:
        self._address = PostgresAddress(dsn)
        self._readers = ReadConnections(self._address)
        self._sessions: deque[WriteSession] = deque()
        self._end_listeners: list[Callable[[], None]] = []
        self._held: SessionLease | None = None
        self._confirmed = ConfirmedCommits()
        self._is_closed = False
        if read_only:
            check_readable(self._address)
        else:
            prepare(self._address)
        self._recorder = None if read_only else BatchRecorder(self._address, lambda: self._held, self._confirmed)

    def close(self) -> None:
        """Finish what was recorded, and close the store."""
        self._is_closed = True
        for end in self._end_listeners:
            end()
        if self._recorder is not None:
            self._recorder.close()
        self._forget_sessions()
        self._readers.close()

    def _forget_sessions(self) -> None:
        while self._sessions:
            self._sessions.pop().drop()

    def _record(self) -> BatchRecorder:
        if self._recorder is None:
            raise StoreError(f"{self._address}: opened only to read")
        return self._recorder

    def _change(self, work: WriteWork[T], held: SessionLease | None = None) -> T:
        """Make a change in the calling thread; it is committed when this returns."""
        with self._session() as session:
            return session.transaction(work, held)

    def _change_idempotent(self, *asked: tuple[str, Parameters]) -> list[list[Row]]:
        """Make changes that may be made twice, in one round trip and one transaction."""
        with self._session() as session:
            is_second = False
            while True:
                connection = session.connection()
                try:
                    session.name_connection(self._held)  # the server waits without a limit for the rest of a pipeline
                    with connection.pipeline():
                        cursors = [connection.execute(statement, values) for statement, values in asked]
                    return [cursor.fetchall() for cursor in cursors]
                except psycopg.Error as e:
                    session.recover(e)
                    if is_second or not is_lost(e):
                        raise self._address.explain(e) from e
                    is_second = True

    @contextmanager
    def _session(self) -> Iterator[WriteSession]:
        """A session that no other thread uses meanwhile, so that a long change does not delay others."""
        self._record()
        if self._is_closed:
            raise StoreError(f"{self._address}: the store is closed")
        try:
            session = self._sessions.pop()
        except IndexError:
            session = WriteSession(self._address, self._confirmed)
        try:
            yield session
        finally:
            if len(self._sessions) < _SESSIONS_KEPT:
                self._sessions.append(session)
            else:
                session.drop()
            self._drop_if_closed()

    def _drop_if_closed(self) -> None:
        if self._is_closed:
            self._forget_sessions()

    @contextmanager
    def exclusive_change(self) -> Iterator[None]:
        """A lock among all processes, for changes of tasks that take several steps.

        The lock is lost with its connection, but each step is still a transaction of its own.
        """
        if self._is_closed:
            raise StoreError(f"{self._address}: the store is closed")
        connection = self._address.connect()
        try:
            deadline = time.monotonic() + _ALONE_LOCK_TIMEOUT
            with self._address.explained():
                while not (connection.execute(query("lock_desk")).fetchone() or (False,))[0]:
                    if time.monotonic() > deadline:
                        raise StoreError(
                            f"{self._address}: another process has been changing tasks for a minute; wait and try again"
                        )
                    time.sleep(0.02)
            yield
        finally:
            # This releases the lock too.
            connection.close()
