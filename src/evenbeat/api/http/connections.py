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

from evenbeat.api.http.rate_limit import address_key
from evenbeat.api.http.refusals import CONNECTION, Refusals

WAITING_EACH: Final = 256
"""Of one address. A proxy is one address: so many of its connections may be idle or half-sent at the same time."""
WAITING: Final = 768
"""Of all addresses together."""
MOST: Final = 2_500
"""Open at all; above it the oldest that waits is closed without grace."""
GRACE: Final = 1.0
"""Seconds that a connection may wait whatever the number: a burst of many honest clients takes that long to be read."""


class Connection(socket.socket):
    """One that was accepted; it takes itself off the list when it is closed."""

    connections: "Connections"
    peer: Any
    address: str

    def close(self) -> None:
        self.connections.gone(self)
        super().close()


class Connections:
    """All connections of a server, by who is waited for since when."""

    def __init__(self, refusals: Refusals, now: Callable[[], float] = time.monotonic) -> None:
        self._refusals = refusals
        self._now = now
        self._open: dict[Any, Connection] = {}
        """By their peers, an address and a port each."""
        self._waiting: OrderedDict[Connection, float] = OrderedDict()
        """Since when; the oldest first."""
        self._by_address: dict[str, OrderedDict[Connection, None]] = {}
        """The same for each address."""

    @property
    def total(self) -> int:
        """Connections that are open."""
        return len(self._open)

    def waiting(self, address: str | None = None) -> int:
        """Connections from which something must come, of all or of one address."""
        return len(self._waiting if address is None else self._by_address.get(address_key(address), ()))

    def came(self, connection: Connection) -> None:
        """It was accepted."""
        self._open[connection.peer] = connection
        self._wait(connection)
        self._make_room(connection.address)

    def gone(self, connection: Connection) -> None:
        """It is closed; a second time it is nothing."""
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
        self._forget(connection)

    def waits(self, peer: Any) -> None:
        """Something must come from there."""
        if (connection := self._open.get(peer)) is not None and connection not in self._waiting:
            self._wait(connection)

    def is_answered(self, peer: Any) -> None:
        """Its request is there; it is our turn."""
        if (connection := self._open.get(peer)) is not None:
            self._forget(connection)

    def _wait(self, connection: Connection) -> None:
        self._waiting[connection] = self._now()
        self._by_address.setdefault(connection.address, OrderedDict())[connection] = None

    def _forget(self, connection: Connection) -> None:
        if self._waiting.pop(connection, None) is not None:
            own = self._by_address[connection.address]
            del own[connection]
            if not own:
                del self._by_address[connection.address]

    def _make_room(self, address: str) -> None:
        own = self._by_address[address]
        while len(own) > WAITING_EACH and self._is_old(oldest := next(iter(own))):
            self._end(oldest)
        while len(self._waiting) > WAITING and self._is_old(oldest := next(iter(self._waiting))):
            self._end(oldest)
        if len(self._open) > MOST and self._waiting:
            # Who has the most gives way, not who came first.
            most = max(self._by_address.values(), key=len)
            self._end(next(iter(most)))

    def _is_old(self, connection: Connection) -> bool:
        return self._now() - self._waiting[connection] >= GRACE

    def _end(self, connection: Connection) -> None:
        self._forget(connection)
        self._refusals.note(CONNECTION, connection.address)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # the loop hears its end, and closes it


class Listener(socket.socket):
    """A socket that listens and puts on the list what it accepts."""

    connections: Connections

    @classmethod
    def of(cls, listening: socket.socket, connections: Connections) -> "Listener":
        """The same socket; the one that is given is no longer of use."""
        found = cls(listening.family, listening.type, listening.proto, listening.detach())
        found.connections = connections
        return found

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, peer = super().accept()
        connection = Connection(accepted.family, accepted.type, accepted.proto, accepted.detach())
        connection.connections, connection.peer = self.connections, peer
        connection.address = address_key(peer[0])
        self.connections.came(connection)
        return connection, peer
