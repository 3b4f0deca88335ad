"""The node's event feed: received once for all clients, and streamed to each of them at its own pace."""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from evenbeat.client.socket import NodeSocket
from evenbeat.report.documents import iso_time, retry_document
from evenbeat.store.contract import StoreError
from evenbeat.wire.events import Event, EventMessage, RunEvent, TaskEvent

if TYPE_CHECKING:
    from evenbeat.wire.status import Status

EVENTS_KEPT: Final = 10_000
"""Events that a reconnecting client can still get: minutes of a busy node, hours of a quiet one."""
_RECONNECT_SECONDS: Final = 0.5
"""Seconds between two attempts to reach a node that does not answer."""
_SILENT_SECONDS: Final = 5.0
"""Seconds without a message after which the node counts as silent; it sends its status once a second."""
_EVENTS_PER_PIECE: Final = 500
"""Events sent to a client in one piece, which bounds what is buffered for a slow reader."""
KEEP_ALIVE_SECONDS: Final = 15.0
"""Seconds between two keep-alive comments, for proxies that close silent connections."""
MAX_STREAM_SECONDS: Final = 3_600.0
"""Seconds after which a stream ends; browsers reconnect by themselves."""
_RETRY: Final = b"retry: 1000\n\n"
_KEEP_ALIVE: Final = b": beat\n\n"
_log: Final = logging.getLogger("evenbeat.api")


class FeedPosition(NamedTuple):
    """A position in the feed: the start of the node, and the number of the event."""

    boot: str
    seq: int

    def __str__(self) -> str:
        return f"{self.boot}-{self.seq}"


def parse_feed_position(text: str) -> FeedPosition | None:
    """Parse the header Last-Event-ID; None if it is not a position of ours."""
    boot, _, seq = text.rpartition("-")
    return FeedPosition(boot, int(seq)) if boot and seq.isascii() and seq.isdecimal() and len(seq) <= 18 else None


class LiveFeed:
    """Subscribes to the node's events, and again after the node restarts."""

    def __init__(self, node: NodeSocket, kept: int = EVENTS_KEPT) -> None:
        self._node = node
        self.position: FeedPosition | None = None
        """That of the latest event; None before the first message."""
        self._events: deque[bytes] = deque(maxlen=kept)
        """The events up to the position, without a gap."""
        self.status: Status | None = None
        """The latest status, even if the node has stopped: see `is_live`."""
        self._status_event = b""
        self._heard = -_SILENT_SECONDS
        self._news = asyncio.Event()
        """Set at the next message. Each message replaces it."""
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self.streams_of: Counter[str] = Counter()
        """Open event streams, by token or address."""

    @property
    def streams(self) -> int:
        """Open event streams."""
        return self.streams_of.total()

    @property
    def is_live(self) -> bool:
        """Has the node sent something within the last seconds?"""
        return self._task is not None and time.monotonic() - self._heard < _SILENT_SECONDS

    def start(self) -> None:
        """Subscribe; calling it twice is harmless."""
        if self._task is None and not self._is_closing:
            self._task = asyncio.get_running_loop().create_task(self._listen())

    def end_streams(self) -> None:
        """End all event streams: a server that stops waits for its connections."""
        self._is_closing = True
        self._wake()

    async def stop(self) -> None:
        """End all streams and unsubscribe."""
        self.end_streams()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # Streaming it to a client

    async def stream(
        self,
        heard: FeedPosition | None,
        beat: float = KEEP_ALIVE_SECONDS,
        longest: float = MAX_STREAM_SECONDS,
        *,
        is_admitted: Callable[[], Awaitable[bool]],
        look: float,
    ) -> AsyncIterator[bytes]:
        """All events after a position, or from now on, until the feed, the time or the client's authorisation ends.

        The client's authorisation is checked every `look` seconds.
        """
        now = asyncio.get_running_loop().time
        end, next_beat, next_look, status = now() + longest, now() + beat, now() + look, b""
        yield _RETRY
        while not self._is_closing and now() < end:
            news = self._news  # before anything else is read: the next message replaces it
            while self.position is not None:
                # Check here too: a slow reader must not receive a backlog that it may no longer see.
                if now() >= next_look:
                    if not await is_admitted():
                        return
                    next_look = now() + look
                piece, heard = self._next_events(self.position, heard)
                if not piece:
                    break
                yield piece
            if self._status_event is not status:
                status = self._status_event
                yield status
            try:
                async with asyncio.timeout_at(min(next_beat, next_look, end)):
                    await news.wait()
            except TimeoutError:
                pass
            if now() >= next_look:
                if not await is_admitted():
                    return
                next_look = now() + look
            if now() >= next_beat:
                next_beat = now() + beat
                yield _KEEP_ALIVE

    def _next_events(self, here: FeedPosition, heard: FeedPosition | None) -> tuple[bytes, FeedPosition]:
        """The next piece for a client, and the client's position after it."""
        if heard is None:
            # Without data it is no event: only the number is remembered, for a connection that breaks before the first.
            return f"id: {here}\n\n".encode(), here
        if here.boot != heard.boot or not 0 <= here.seq - heard.seq <= len(self._events):
            return sse_frame("reset", {}, here), here  # there is a gap
        first = len(self._events) - (here.seq - heard.seq)
        piece = list(islice(self._events, first, first + _EVENTS_PER_PIECE))
        return b"".join(piece), FeedPosition(here.boot, heard.seq + len(piece))

    # Receiving it

    async def _listen(self) -> None:
        while True:
            try:
                async for feed in self._node.events():
                    self.receive(feed)
            except (StoreError, OSError) as e:
                _log.debug("the node does not answer: %s", e, extra={"action": "node_silent"})
            except (ValueError, msgspec.MsgspecError):
                _log.exception("cannot decode a message of the node", extra={"action": "feed_not_understood"})
            await asyncio.sleep(_RECONNECT_SECONDS)

    def receive(self, feed: EventMessage) -> None:
        """Take a message of the node."""
        self._heard = time.monotonic()
        before = FeedPosition(feed.boot, feed.seq - len(feed.events))
        if before != self.position:
            self._events.clear()
        for seq, event in enumerate(feed.events, before.seq + 1):
            self._events.append(sse_frame(_event_name(event), _event_document(event), FeedPosition(feed.boot, seq)))
        self.position = FeedPosition(feed.boot, feed.seq)
        if feed.status is not None:
            self.status = feed.status
            status = msgspec.to_builtins(feed.status) | {"started_last_second": feed.started_last_second or 0}
            self._status_event = sse_frame("status", status)
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def sse_frame(name: str, data: dict[str, Any], position: FeedPosition | None = None) -> bytes:
    """One frame of a server-sent event stream. JSON on one line needs no escaping."""
    number = f"id: {position}\n" if position is not None else ""
    return f"{number}event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def _event_name(event: Event) -> str:
    return "run" if isinstance(event, RunEvent) else "task"


def _event_document(event: Event) -> dict[str, Any]:
    if isinstance(event, TaskEvent):
        more = {"count": event.count} if event.name is None else {"next": iso_time(event.next)}
        return {"name": event.name, "change": event.change} | more
    return {
        "task": event.task,
        "nominal": iso_time(event.nominal),
        "kind": event.kind.word,
        "started": iso_time(event.started),
        "ended": iso_time(event.ended),
        "outcome": event.outcome,
        "status": event.status,
        "state": None if event.state is None else event.state.name.lower(),
        "hard": event.hard,
        "attempt": event.attempt,
        "flapping": event.flapping,
        "output": event.output,
        "notable": event.notable,
        "next": iso_time(event.next),
        "newest": event.newest,
        "number": event.number,
        "retry": None if event.retry is None else retry_document(event.retry),
    }
