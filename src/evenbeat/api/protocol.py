"""HTTP on a connection, with little patience: whoever begins a request also ends it, or is not waited for."""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_PATIENCE: Final = 10.0
"""Seconds from the first byte of a request, or from the connection, to the end of its headers."""
BODY_PATIENCE: Final = 10.0
"""Seconds from there to the end of its body."""
_LEFT: Final = 2.0
"""Seconds more, in which the answer 408 is sent if somebody waits for the body."""


class PatientProtocol(H11Protocol):
    """uvicorn's own, which would wait for ever."""

    head_patience = HEAD_PATIENCE
    body_patience = BODY_PATIENCE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaited: Any = None
        """What of a request is being waited for."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        state = self.conn.their_state
        if state is self._awaited:
            return  # slow as it is: a byte now and then does not begin the time anew
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
