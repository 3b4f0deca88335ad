"""The connection to the NATS servers: it reconnects by itself, and sending never waits for it."""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.transport import TcpTransport

from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.identity import check_credentials, connect_options, set_client_identity

_RECONNECT_DELAY: Final = 0.25
"""Seconds between two attempts to connect to the same server."""
_CONNECT_TIMEOUT: Final = 2
_PING_INTERVAL: Final = 2
"""Seconds between two pings; a connection that leaves two unanswered is none."""
_MAX_UNSENT_BYTES: Final = 8 << 20
"""Bytes that may wait for a server that does not read."""
_REQUEST_TIMEOUT: Final = 3.0
_STATUS: Final = "Status"
NO_RESPONDERS: Final = "503"
_log: Final = logging.getLogger("evenbeat.queue")


async def end_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel them until they have ended: the NATS client swallows a cancellation now and then."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=_RECONNECT_DELAY)


class NatsRefused(Exception):
    """A server has refused a request; `code` as in HTTP."""

    def __init__(self, code: int, reason: str) -> None:
        self.code = code
        super().__init__(reason)


class NatsUnavailable(Exception):
    """No server has answered: none can be reached, or it is too slow."""


def response_status(message: Msg) -> str:
    """The status that a server sends instead of a message; "" for a message."""
    return (message.headers or {}).get(_STATUS, "")


class _ClosingTransport(TcpTransport):
    """Closes each connection that it replaces: the client forgets one that a server drops before it names itself."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._opened: list[asyncio.StreamWriter] = []

    async def connect(self, *args: Any, **kwargs: Any) -> None:
        await super().connect(*args, **kwargs)
        # Afterwards, as the client may make two attempts at once.
        for replaced in self._opened:
            replaced.close()
        self._opened = [] if self._io_writer is None else [self._io_writer]

    def __bool__(self) -> bool:
        """The client replaces a transport that is false by one of its own, and asks that before it has connected."""
        return True


class NatsConnection:
    """A connection to one of the servers, replaced by another when it is lost."""

    def __init__(self, address: QueueAddress, name: str, on_up: Callable[[], None]) -> None:
        """`on_up` is called whenever a connection is established; everything sent before may have been lost."""
        check_credentials(address)
        self._address = address
        self._name = name
        self._on_up = on_up
        self._handlers: dict[str, Callable[[Msg], None]] = {}
        self._client: Client | None = None
        self._newest_client: Client | None = None
        """The same, or one that has not connected yet."""
        self._outgoing: deque[tuple[str, bytes, str, dict[str, str] | None]] = deque()
        self._wake = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._was_up = asyncio.Event()
        self._closed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = False
        self._is_new = True
        """It was never connected, and that was not logged yet."""
        self.problem = "not connected yet"
        """Why nothing can be sent now, or ""."""

    @property
    def is_up(self) -> bool:
        return self._client is not None and self._client.is_connected

    def subscribe(self, subject: str, handler: Callable[[Msg], None]) -> None:
        """Call this for every message on that subject; before `start`."""
        self._handlers[subject] = handler

    async def start(self) -> None:
        """Connect, however long it takes."""
        self._tasks = [asyncio.create_task(self._stay_connected()), asyncio.create_task(self._send_outgoing())]
        await self._was_up.wait()

    def send(self, subject: str, data: bytes, reply: str = "", headers: dict[str, str] | None = None) -> bool:
        """Send it soon, in order. False if there is no connection: then it is never sent."""
        if not self.is_up:
            return False
        self._outgoing.append((subject, data, reply, headers))
        self._wake.set()
        self._is_idle.clear()
        return True

    async def request_jetstream(
        self, subject: str, request: dict[str, Any], seconds: float = _REQUEST_TIMEOUT
    ) -> dict[str, Any]:
        """Ask JetStream; raise NatsRefused or NatsUnavailable."""
        if self._client is None:
            raise NatsUnavailable(self.problem)
        try:
            message = await self._client.request(f"$JS.API.{subject}", json.dumps(request).encode(), timeout=seconds)
        except (nats.errors.Error, OSError, TimeoutError) as e:
            raise NatsUnavailable(str(e) or type(e).__name__) from None
        answer: dict[str, Any] = json.loads(message.data)
        if error := answer.get("error"):
            raise NatsRefused(int(error.get("code", 0)), str(error.get("description", "")))
        return answer

    async def stop(self, seconds: float = 1.0) -> None:
        """Send what waits, as far as that goes quickly, and disconnect."""
        if self.is_up and self._client is not None:
            with suppress(TimeoutError, nats.errors.Error, OSError):
                async with asyncio.timeout(seconds):
                    if self._outgoing:
                        await self._is_idle.wait()
                    await self._client.flush()
        self._is_stopping = True
        await end_tasks(self._tasks)
        client, self._client, self._newest_client = self._newest_client, None, None
        if client is not None:
            await _close(client, seconds)

    async def _stay_connected(self) -> None:
        while True:
            self._closed.clear()
            client = self._newest_client = Client()
            client._transport = _ClosingTransport()
            try:
                set_client_identity(client, self._address)
                await client.connect(**self._options())
                for subject, handler in self._handlers.items():
                    await client.subscribe(subject, cb=_as_callback(handler))
                self._client = client
            except (nats.errors.Error, OSError, TimeoutError) as e:
                await self._on_error(e)
                await _close(client, _RECONNECT_DELAY)  # else it would go on beside the next one
                await asyncio.sleep(_RECONNECT_DELAY)
                continue
            await self._on_connected()
            self._was_up.set()
            await self._closed.wait()
            self._client = None
            await asyncio.sleep(_RECONNECT_DELAY)

    def _options(self) -> dict[str, Any]:
        address = self._address
        return {
            "servers": address.urls,
            "name": self._name,
            **connect_options(address),
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": _RECONNECT_DELAY,
            "connect_timeout": _CONNECT_TIMEOUT,
            "ping_interval": _PING_INTERVAL,
            "max_outstanding_pings": 2,
            "pending_size": _MAX_UNSENT_BYTES,
            "flush_timeout": float(_CONNECT_TIMEOUT),
            "error_cb": self._on_error,
            "disconnected_cb": self._on_disconnected,
            "reconnected_cb": self._on_connected,
            "closed_cb": self._on_closed,
        }

    async def _on_connected(self) -> None:
        _log.info("connected to the queue", extra={"action": "queue_up", "queue": str(self._address)})
        self.problem = ""
        self._is_new = False
        self._on_up()

    async def _on_disconnected(self) -> None:
        if not self.problem and not self._is_stopping:
            _log.warning("the queue is out of reach", extra={"action": "queue_down", "queue": str(self._address)})
        self.problem = self.problem or f"{self._address} is out of reach"
        # Most messages are of no use later; the others are sent again by the code that needs them.
        self._outgoing.clear()
        self._is_idle.set()

    async def _on_closed(self) -> None:
        self._closed.set()

    async def _on_error(self, error: Exception) -> None:
        if not self.is_up:
            if self._is_new:
                _log.warning("the queue is out of reach: %s", error, extra={"action": "queue_down"})
            self._is_new = False
            self.problem = f"{self._address} is out of reach: {error or type(error).__name__}"
        _log.debug("queue: %s", error, extra={"action": "queue_error"})

    async def _send_outgoing(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._outgoing:
                subject, data, reply, headers = self._outgoing.popleft()
                client = self._client
                try:
                    if client is not None:
                        await client.publish(subject, data, reply, headers)
                except (nats.errors.Error, OSError) as e:
                    await self._on_error(e)
            self._is_idle.set()


async def _close(client: Client, seconds: float) -> None:
    closing = asyncio.create_task(client.close())
    await asyncio.wait([closing], timeout=seconds)
    await end_tasks([closing])


def _as_callback(handler: Callable[[Msg], None]) -> Any:
    async def call(message: Msg) -> None:
        try:
            handler(message)
        except Exception:
            # The client would ignore it silently.
            _log.exception("a message could not be handled", extra={"action": "queue_failed"})

    return call
