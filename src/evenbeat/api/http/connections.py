"""Which connections there are. If too many are waited for, the one that was waited for the longest gives way.

A connection waits as long as the client has yet to send something: the TLS handshake, a request, the rest of its body.
Whoever opens thousands of them and sends nothing takes them from themselves, not from others; a client that sends its
request at once is never among the oldest. What is being answered is bounded elsewhere, by the guard.
"""

import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from evenbeat.api.http.rate_limit import client_network
from evenbeat.api.http.refusals import CONNECTION_REASON, RefusalCounter

MAX_IDLE_PER_ADDRESS: Final = 256
"""Of one address. A proxy is one address: so many of its connections may be idle or half-sent at the same time."""
MAX_IDLE: Final = 768
"""Of all addresses together."""
MAX_CONNECTIONS: Final = 2_500
"""Open at all; above it the oldest that waits is closed without grace."""
IDLE_GRACE_SECONDS: Final = 1.0
"""Seconds that a connection may wait whatever the number: a burst of many honest clients takes that long to be read."""


class TrackedConnection(socket.socket):
    """One that was accepted; it takes itself off the list when it is closed."""

    connections: "ConnectionTable"
    peer: Any
    address: str

    def close(self) -> None:
        self.connections.closed(self)
        super().close()


class ConnectionTable:
    """All connections of a server, by who is waited for since when."""

    def __init__(self, refusals: RefusalCounter, now: Callable[[], float] = time.monotonic) -> None:
        self._refusals = refusals
        self._now = now
        self._open: dict[Any, TrackedConnection] = {}
        """By their peers, an address and a port each."""
        self._waiting: OrderedDict[TrackedConnection, float] = OrderedDict()
        """Since when; the oldest first."""
        self._by_address: dict[str, OrderedDict[TrackedConnection, None]] = {}
        """The same for each address."""

    @property
    def total(self) -> int:
        """Connections that are open."""
        return len(self._open)

    def idle_count(self, address: str | None = None) -> int:
        """Connections from which something must come, of all or of one address."""
        return len(self._waiting if address is None else self._by_address.get(client_network(address), ()))

    def opened(self, connection: TrackedConnection) -> None:
        """It was accepted."""
        self._open[connection.peer] = connection
        self._wait(connection)
        self._make_room(connection.address)

    def closed(self, connection: TrackedConnection) -> None:
        """It is closed; a second time it is nothing."""
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
        self._forget(connection)

    def mark_idle(self, peer: Any) -> None:
        """Something must come from there."""
        if (connection := self._open.get(peer)) is not None and connection not in self._waiting:
            self._wait(connection)

    def mark_busy(self, peer: Any) -> None:
        """Its request is there; it is our turn."""
        if (connection := self._open.get(peer)) is not None:
            self._forget(connection)

    def _wait(self, connection: TrackedConnection) -> None:
        self._waiting[connection] = self._now()
        self._by_address.setdefault(connection.address, OrderedDict())[connection] = None

    def _forget(self, connection: TrackedConnection) -> None:
        if self._waiting.pop(connection, None) is not None:
            own = self._by_address[connection.address]
            del own[connection]
            if not own:
                del self._by_address[connection.address]

    def _make_room(self, address: str) -> None:
        own = self._by_address[address]
        while len(own) > MAX_IDLE_PER_ADDRESS and self._is_old(oldest := next(iter(own))):
            self._end(oldest)
        while len(self._waiting) > MAX_IDLE and self._is_old(oldest := next(iter(self._waiting))):
            self._end(oldest)
        if len(self._open) > MAX_CONNECTIONS and self._waiting:
            # Who has the most gives way, not who came first.
            most = max(self._by_address.values(), key=len)
            self._end(next(iter(most)))

    def _is_old(self, connection: TrackedConnection) -> bool:
        return self._now() - self._waiting[connection] >= IDLE_GRACE_SECONDS

    def _end(self, connection: TrackedConnection) -> None:
        self._forget(connection)
        self._refusals.note(CONNECTION_REASON, connection.address)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # the loop hears its end, and closes it


class ListeningSocket(socket.socket):
    """A socket that listens and puts on the list what it accepts."""

    connections: ConnectionTable

    @classmethod
    def of(cls, listening: socket.socket, connections: ConnectionTable) -> "ListeningSocket":
        """The same socket; the one that is given is no longer of use."""
        found = cls(listening.family, listening.type, listening.proto, listening.detach())
        found.connections = connections
        return found

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, peer = super().accept()
        connection = TrackedConnection(accepted.family, accepted.type, accepted.proto, accepted.detach())
        connection.connections, connection.peer = self.connections, peer
        connection.address = client_network(peer[0])
        self.connections.opened(connection)
        return connection, peer
