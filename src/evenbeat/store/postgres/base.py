"""What all parts of the PostgreSQL store share: its connections, and how a change is made."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from evenbeat.store.contract import StoreError
from evenbeat.store.postgres.connect import PostgresAddress, check_readable, is_lost, prepare
from evenbeat.store.postgres.read_connections import Parameters, ReadConnections, Row
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.write_session import ConfirmedCommits, SessionLease, T, WriteSession, WriteWork
from evenbeat.store.postgres.writer import BatchRecorder

_ALONE_LOCK_TIMEOUT: Final = 60.0
"""Seconds to wait for somebody else who changes tasks in several steps."""
_SESSIONS_KEPT: Final = 3


class PostgresBase:
    """Opens the database, and brings it up to date."""

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
        """Everything that was recorded is kept; the store is not used any more."""
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
        """Make a change, in the thread that asks for it, and wait until it is kept."""
        with self._session() as session:
            return session.transaction(work, held)

    def _change_idempotent(self, *asked: tuple[str, Parameters]) -> list[list[Row]]:
        """Changes that may be made twice, in one round trip and one transaction."""
        with self._session() as session:
            is_second = False
            while True:
                connection = session.connection()
                try:
                    session.be_called(self._held)  # the server waits for the rest of a pipeline as long as it takes
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
        """One that nobody else uses meanwhile; a change that takes long keeps no other waiting."""
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
        """For whoever changes tasks in several steps: nobody else who asks for this does so meanwhile.

        If the connection is lost, so is the lock: each step is still a transaction of its own.
        """
        if self._is_closed:
            raise StoreError(f"{self._address}: the store is closed")
        connection = self._address.connect()
        try:
            deadline = time.monotonic() + _ALONE_LOCK_TIMEOUT
            with self._address.explained():
                while not (connection.execute(query("lock_desk")).fetchone() or (False,))[0]:
                    if time.monotonic() > deadline:
                        raise StoreError(f"{self._address}: somebody else has been changing tasks for a minute; wait")
                    time.sleep(0.02)
            yield
        finally:
            # The lock goes with its connection.
            connection.close()
