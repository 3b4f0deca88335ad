"""Open connections. If too many are idle, the one that has been idle longest is closed.

A connection is idle while the client has yet to send something: the TLS handshake, a request, the rest of its body.
A client that opens thousands and sends nothing loses its own connections, not those of others; a client that sends its
request at once is never among the oldest. Requests being answered are bounded elsewhere, by the SecurityMiddleware.
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
"""Idle connections of one address. A proxy is one address, so this bounds all of its clients together."""
MAX_IDLE: Final = 768
"""Idle connections of all addresses together."""
MAX_CONNECTIONS: Final = 2_500
"""Open connections in total; beyond that the oldest idle one is closed without grace."""
IDLE_GRACE_SECONDS: Final = 1.0
"""Seconds for which an idle connection is safe: reading a burst of many honest clients takes that long."""


class TrackedConnection(socket.socket):
    """An accepted connection; it removes itself from the table when it is closed."""

    connections: "ConnectionTable"
    peer: Any
    address: str

    def close(self) -> None:
        self.connections.closed(self)
        super().close()


class ConnectionTable:
    """All connections of a server, and since when each is idle."""

    def __init__(self, refusals: RefusalCounter, now: Callable[[], float] = time.monotonic) -> None:
        self._refusals = refusals
        self.now = now
        self._open: dict[Any, TrackedConnection] = {}
        """By peer: address and port."""
        self._waiting: OrderedDict[TrackedConnection, float] = OrderedDict()
        """Idle connections and since when; the oldest first."""
        self._by_address: dict[str, OrderedDict[TrackedConnection, None]] = {}
        """Idle connections of each address; the oldest first."""

    @property
    def total(self) -> int:
        """Open connections."""
        return len(self._open)

    def idle_count(self, address: str | None = None) -> int:
        """Idle connections, of all addresses or of one."""
        return len(self._waiting if address is None else self._by_address.get(client_network(address), ()))

    def opened(self, connection: TrackedConnection) -> None:
        """Add a connection that was accepted."""
        self._open[connection.peer] = connection
        self._wait(connection)
        self._make_room(connection.address)

    def closed(self, connection: TrackedConnection) -> None:
        """Remove a connection that was closed; calling it twice is harmless."""
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
        self._forget(connection)

    def mark_idle(self, peer: Any) -> None:
        """The client has to send something now."""
        if (connection := self._open.get(peer)) is not None and connection not in self._waiting:
            self._wait(connection)

    def mark_busy(self, peer: Any) -> None:
        """The request has arrived; the server works on it."""
        if (connection := self._open.get(peer)) is not None:
            self._forget(connection)

    def _wait(self, connection: TrackedConnection) -> None:
        self._waiting[connection] = self.now()
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
            # The address with the most connections loses one, not the one that came first.
            most = max(self._by_address.values(), key=len)
            self._end(next(iter(most)))

    def _is_old(self, connection: TrackedConnection) -> bool:
        return self.now() - self._waiting[connection] >= IDLE_GRACE_SECONDS

    def _end(self, connection: TrackedConnection) -> None:
        self._forget(connection)
        self._refusals.note(CONNECTION_REASON, connection.address)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # the event loop then closes it


class ListeningSocket(socket.socket):
    """A listening socket that adds what it accepts to the table."""

    connections: ConnectionTable

    @classmethod
    def of(cls, listening: socket.socket, connections: ConnectionTable) -> "ListeningSocket":
        """Take over the descriptor of a listening socket, which can no longer be used."""
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
