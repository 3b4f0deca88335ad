"""Connections that write. Each reconnects after a loss, and finds out whether its last transaction was committed."""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

import psycopg

from evenbeat.store.cluster_contract import CommitsForgotten
from evenbeat.store.common.rows import Parameters, Row
from evenbeat.store.contract import StoreError
from evenbeat.store.postgres.connect import LOCK_TIMEOUT, Connection, PostgresAddress, is_lost
from evenbeat.store.postgres.statements import query

T = TypeVar("T")
WriteWork = Callable[[Connection], T]

RECOVERY_TIMEOUT: Final = 10.0
"""Seconds in which a server that was lost during a commit must come back to say whether it was committed."""
_AGAIN: Final = 0.1
"""Seconds between two attempts to reach it."""
_TRIES: Final = 3
_SESSIONS_KEPT: Final = 3
"""Idle sessions that are kept for the next change."""
_IDLE: Final = psycopg.pq.TransactionStatus.IDLE


class SessionLease(NamedTuple):
    """The lease under which a session writes."""

    node: str
    epoch: int


class ConfirmedCommits:
    """The commits confirmed to a node since its lease was last renewed, which a promoted standby may lack.

    Earlier commits exist if that renewal exists: a standby lacks the last commits, without gaps.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: SessionLease | None = None
        self._expires = 0
        self._marks: dict[str, tuple[int, float]] = {}
        """The number and the time of the latest transaction of each writer."""
        self.forgotten: SessionLease | None = None
        """The lease under which the server confirmed a commit that it did not know at a later connection."""

    def begin(self, held: SessionLease) -> None:
        """Start with a new lease: commits under other leases do not matter any more."""
        with self._lock:
            self._held, self._expires, self._marks = held, 0, {}

    def kept(self, writer: str, number: int, held: SessionLease | None) -> None:
        """A transaction under this lease was confirmed."""
        with self._lock:
            if held is not None and held == self._held:
                self._marks[writer] = number, time.monotonic()

    def renewed(self, held: SessionLease, expires: int, asked: float) -> None:
        """The renewal of the lease was confirmed; it was sent at `asked`."""
        with self._lock:
            if held == self._held:
                self._expires = expires
                self._marks = {writer: mark for writer, mark in self._marks.items() if mark[1] >= asked}

    def question(self) -> tuple[SessionLease, dict[str, object]] | None:
        """The lease and the parameters of the query `has_forgotten`; None without a lease."""
        with self._lock:
            if self._held is None:
                return None
            numbers = [number for number, _ in self._marks.values()]
            values = {"writers": list(self._marks), "numbers": numbers, "expires": self._expires}
            return self._held, values | self._held._asdict()


class WriteSession:
    """A connection for writing, which one thread uses at a time."""

    def __init__(
        self, address: PostgresAddress, confirmed: ConfirmedCommits | None = None, *, by_key: bool = False
    ) -> None:
        self.address = address
        self._confirmed = confirmed or ConfirmedCommits()
        self._by_key = by_key
        self.writer: Final = secrets.token_hex(8)
        self._number = 0
        self._connection: Connection | None = None
        self._pid = 0
        self._called = ""

    def connection(self) -> Connection:
        """The open connection, or a new one; raise StoreError if that fails."""
        if self._connection is None or self._connection.closed:
            self._connection = self.address.connect(by_key=self._by_key)
            self._called = ""
            self._learn(self._connection)
        return self._connection

    def _learn(self, connection: Connection) -> None:
        """Ask a new connection which process of the server serves it, and whether the server has all confirmed commits.

        A standby that is promoted ends all connections, so it is enough to ask each new one.
        """
        asked = self._confirmed.question()
        try:
            row = connection.execute(query("backend")).fetchone()
            assert row is not None
            self._pid = row[0]  # a pooler gives another number when the connection is opened
            if asked is not None:
                row = connection.execute(query("has_forgotten"), asked[1]).fetchone()
                if row is not None and row[0]:
                    self._confirmed.forgotten = asked[0]
        except psycopg.Error as e:
            self.drop()
            raise self.address.explain(e) from e

    def transaction_confirmed(self, number: int, held: SessionLease | None) -> None:
        """Record that the server has confirmed a transaction."""
        self._confirmed.kept(self.writer, number, held)

    def next_number(self) -> int:
        """A number for the next transaction, by which `was_kept` finds it."""
        self._number += 1
        return self._number

    def name_connection(self, held: SessionLease | None) -> None:
        """Name the connection after the node, so that the node that revokes its lease can end it.

        Raise CommitsForgotten if the server has lost commits of the lease.
        """
        if held is not None and held == self._confirmed.forgotten:
            raise CommitsForgotten(f"{self.address}: the database has lost commits that it had confirmed")
        if held is not None and held.node != self._called:
            self.connection().execute(query("name_connection"), (held.node,))
            self._called = held.node

    def begin(self, connection: Connection, number: int, held: SessionLease | None) -> None:
        """Send the first statement of every transaction."""
        node, epoch = held or (None, None)
        connection.execute(query("begin_writing"), (self.writer, number, node, epoch), prepare=True)

    def transaction(self, work: WriteWork[T], held: SessionLease | None = None) -> T:
        """Make a change as a whole or not at all. `work` may be called again if the connection was lost."""
        for tried in range(1, _TRIES + 1):
            connection, number = self.connection(), self.next_number()
            try:
                self.name_connection(held)
                connection.execute("BEGIN")
                self.begin(connection, number, held)
                result = work(connection)
            except psycopg.Error as e:
                self.recover(e)
                if is_lost(e) and tried < _TRIES:
                    continue  # no commit was sent yet
                raise self.address.explain(e) from e
            except BaseException:
                self.roll_back()
                raise
            try:
                connection.execute("COMMIT")
            except psycopg.Error as e:
                self.recover(e)
                if not is_lost(e):
                    raise self.address.explain(e) from e
                if not self.was_kept(number, lambda: time.monotonic() + RECOVERY_TIMEOUT):
                    continue
            self.transaction_confirmed(number, held)
            return result
        raise StoreError(f"{self.address}: the connection was lost {_TRIES} times in a row; nothing was kept")

    def was_kept(self, number: int, deadline: Callable[[], float]) -> bool:
        """Whether a transaction whose answer was lost was committed; if not, it never will be.

        Asks until there is an answer, or raises StoreError after the deadline, which may become earlier meanwhile.
        """
        last = deadline()
        lost = self._pid
        while True:
            try:
                connection = self.connection()
                connection.execute("SET lock_timeout = 500")
                row = connection.execute(query("was_kept"), (self.writer, number)).fetchone()
                connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
            except psycopg.errors.LockNotAvailable:
                # The server has not noticed yet that the connection was lost.
                self._end_backend(lost)
                problem = "the server is still executing it"
            except psycopg.Error as e:
                self.drop()
                problem = str(self.address.explain(e))
            except StoreError as e:
                problem = str(e)
            else:
                assert row is not None
                return bool(row[0])
            last = min(last, deadline())
            if time.monotonic() > last:
                raise StoreError(
                    f"{self.address}: the connection was lost while a change was being committed, and whether it was "
                    f"committed is not known: check before you repeat it ({problem})"
                )
            time.sleep(_AGAIN)

    def _end_backend(self, pid: int) -> None:
        try:
            self.connection().execute(query("end_backend"), (pid,))
        except (psycopg.Error, StoreError):
            self.drop()

    def recover(self, error: psycopg.Error) -> None:
        """After a failure: leave no transaction open, and drop a connection that was lost."""
        if is_lost(error):
            self.drop()
        else:
            self.roll_back()

    def roll_back(self) -> None:
        """Leave no transaction open."""
        try:
            if self._connection is not None and self._connection.info.transaction_status != _IDLE:
                self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self.drop()

    def drop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class WriteSessions:
    """As many sessions as there are changes at the same time, so that a long change does not delay others."""

    def __init__(self, address: PostgresAddress, confirmed: ConfirmedCommits, *, read_only: bool) -> None:
        self._address = address
        self._confirmed = confirmed
        self._read_only = read_only
        self._idle: deque[WriteSession] = deque()
        self._is_closed = False

    def transaction(self, work: WriteWork[T], held: SessionLease | None = None) -> T:
        """Make a change in the calling thread; it is committed when this returns."""
        with self.one() as session:
            return session.transaction(work, held)

    def repeatable(self, held: SessionLease, *asked: tuple[str, Parameters]) -> list[list[Row]]:
        """Make changes that may be made twice, in one round trip and one transaction."""
        with self.one() as session:
            is_second = False
            while True:
                connection = session.connection()
                try:
                    session.name_connection(held)  # the server waits without a limit for the rest of a pipeline
                    with connection.pipeline():
                        cursors = [connection.execute(statement, values) for statement, values in asked]
                    return [cursor.fetchall() for cursor in cursors]
                except psycopg.Error as e:
                    session.recover(e)
                    if is_second or not is_lost(e):
                        raise self._address.explain(e) from e
                    is_second = True

    @contextmanager
    def one(self) -> Iterator[WriteSession]:
        """A session that no other thread uses meanwhile."""
        if self._read_only:
            raise StoreError(f"{self._address}: opened only to read")
        if self._is_closed:
            raise StoreError(f"{self._address}: the store is closed")
        try:
            session = self._idle.pop()
        except IndexError:
            session = WriteSession(self._address, self._confirmed)
        try:
            yield session
        finally:
            self._give_back(session)

    def _give_back(self, session: WriteSession) -> None:
        if len(self._idle) < _SESSIONS_KEPT:
            self._idle.append(session)
        else:
            session.drop()
        if self._is_closed:
            self._drop_idle()

    def close(self) -> None:
        """Close all connections; those in use are closed when they are given back."""
        self._is_closed = True
        self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().drop()
