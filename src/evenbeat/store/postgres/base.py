"""The base of the PostgreSQL store: its connections, and a lock among all processes that change tasks."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from evenbeat.store.contract import StoreError
from evenbeat.store.postgres.batch_recorder import BatchRecorder
from evenbeat.store.postgres.connect import PostgresAddress, check_readable, prepare
from evenbeat.store.postgres.read_connections import ReadConnections
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.write_session import ConfirmedCommits, SessionLease, WriteSessions

_ALONE_LOCK_TIMEOUT: Final = 60.0
"""Seconds to wait for another process that changes tasks in several steps."""


class PostgresBase:
    """Opens the database and migrates it."""

    def __init__(self, dsn: str, *, read_only: bool = False) -> None:
        self._address = PostgresAddress(dsn)
        self._readers = ReadConnections(self._address)
        self._end_listeners: list[Callable[[], None]] = []
        self._held: SessionLease | None = None
        self._confirmed = ConfirmedCommits()
        self._writers = WriteSessions(self._address, self._confirmed, read_only=read_only)
        self._is_closed = False
        if read_only:
            check_readable(self._address)
        else:
            prepare(self._address)
        self._recorder = None if read_only else BatchRecorder(self._address, self._confirmed)

    def close(self) -> None:
        """Finish what was recorded, and close the store."""
        self._is_closed = True
        for end in self._end_listeners:
            end()
        self._writers.close()
        if self._recorder is not None:
            self._recorder.close()
        self._readers.close()

    def _record(self) -> BatchRecorder:
        if self._recorder is None:
            raise StoreError(f"{self._address}: opened only to read")
        return self._recorder

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
