"""HTTP on a connection, with timeouts: a client that begins a request must finish it in time."""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from evenbeat.api.http.connections import ConnectionTable

HEADERS_TIMEOUT: Final = 10.0
"""Seconds from the first byte of a request, or from the connection, to the end of its headers."""
BODY_TIMEOUT: Final = 10.0
"""Seconds from the end of the headers to the end of the body."""
RESPONSE_TIMEOUT: Final = 30.0
"""Seconds in which a client may read nothing of an answer that is too long to be sent at once."""
_CLOSE_DELAY: Final = 2.0
"""Extra seconds for sending the answer 408 if a handler waits for the body."""


class TimeoutProtocol(H11Protocol):
    """uvicorn's protocol with timeouts; the original waits for ever."""

    headers_timeout = HEADERS_TIMEOUT
    body_timeout = BODY_TIMEOUT
    response_timeout = RESPONSE_TIMEOUT
    connections_of_server: ConnectionTable | None = None
    """The table of connections; `create_server` gives each server its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaited: Any = None
        """The part of a request that the timer waits for."""
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._restart_timeout()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._restart_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timeout()
        self._cancel_response_timeout()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_connection_state()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._cancel_response_timeout()
        self._unread = self.loop.call_later(self.response_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        self._cancel_response_timeout()
        super().resume_writing()

    def _cancel_response_timeout(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _update_connection_state(self) -> None:
        if self.connections_of_server is None:
            return
        peer = self.transport.get_extra_info("peername")
        if self.conn.their_state is h11.IDLE or self.conn.their_state is h11.SEND_BODY:
            self.connections_of_server.mark_idle(peer)
        else:
            self.connections_of_server.mark_busy(peer)

    def _restart_timeout(self) -> None:
        state = self.conn.their_state
        if state is self._awaited:
            return  # a byte now and then does not restart the timeout
        self._update_connection_state()
        self._cancel_timeout()
        if state is h11.IDLE or state is h11.SEND_BODY:
            self._awaited = state
            seconds = self.headers_timeout if state is h11.IDLE else self.body_timeout + _CLOSE_DELAY
            self._timer = self.loop.call_later(seconds, self._give_up)

    def _cancel_timeout(self) -> None:
        self._awaited = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self.conn.their_state is self._awaited and not self.transport.is_closing():
            self.transport.close()
