"""HTTP on a connection, with little patience: whoever begins a request also ends it, or is not waited for."""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from evenbeat.api.http.connections import Connections

HEAD_PATIENCE: Final = 10.0
"""Seconds from the first byte of a request, or from the connection, to the end of its headers."""
BODY_PATIENCE: Final = 10.0
"""Seconds from there to the end of its body."""
ANSWER_PATIENCE: Final = 30.0
"""Seconds in which somebody reads nothing of an answer that is too long to be sent at once."""
_LEFT: Final = 2.0
"""Seconds more, in which the answer 408 is sent if somebody waits for the body."""


class PatientProtocol(H11Protocol):
    """uvicorn's own, which would wait for ever."""

    head_patience = HEAD_PATIENCE
    body_patience = BODY_PATIENCE
    answer_patience = ANSWER_PATIENCE
    connections_of_server: Connections | None = None
    """The list of connections; `server_of` gives each server its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaited: Any = None
        """What of a request is being waited for."""
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._is_read()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._say_whose_turn_it_is()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_read()
        self._unread = self.loop.call_later(self.answer_patience, self.transport.abort)

    def resume_writing(self) -> None:
        self._is_read()
        super().resume_writing()

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _say_whose_turn_it_is(self) -> None:
        if self.connections_of_server is None:
            return
        peer = self.transport.get_extra_info("peername")
        if self.conn.their_state is h11.IDLE or self.conn.their_state is h11.SEND_BODY:
            self.connections_of_server.waits(peer)
        else:
            self.connections_of_server.is_answered(peer)

    def _watch(self) -> None:
        state = self.conn.their_state
        if state is self._awaited:
            return  # slow as it is: a byte now and then does not begin the time anew
        self._say_whose_turn_it_is()
        self._forget()
        if state is h11.IDLE or state is h11.SEND_BODY:
            self._awaited = state
            seconds = self.head_patience if state is h11.IDLE else self.body_patience + _LEFT
            self._timer = self.loop.call_later(seconds, self._give_up)

    def _forget(self) -> None:
        self._awaited = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self.conn.their_state is self._awaited and not self.transport.is_closing():
            self.transport.close()
