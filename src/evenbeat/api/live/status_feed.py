"""The node's event feed, received once for all clients: its latest status, and recent events for reconnecting ones."""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from evenbeat.client.socket import subscribe_to_events
from evenbeat.report.documents import iso_time
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

    def __init__(self, database: Path | str, kept: int = EVENTS_KEPT, control: Path | None = None) -> None:
        self._database = database
        self._control = control
        self._position: FeedPosition | None = None
        self._events: deque[bytes] = deque(maxlen=kept)
        """The events up to the position, without a gap."""
        self.status: Status | None = None
        """The latest status, even if the node has stopped: see `is_live`."""
        self.status_event = b""
        self._heard = -_SILENT_SECONDS
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_closing = False
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
        if self._task is None and not self.is_closing:
            self._task = asyncio.get_running_loop().create_task(self._listen())

    def end_streams(self) -> None:
        """End all event streams: a server that stops waits for its connections."""
        self.is_closing = True
        self._wake()

    async def stop(self) -> None:
        """End all streams and unsubscribe."""
        self.end_streams()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # Reading the feed

    @property
    def position(self) -> FeedPosition | None:
        """The latest position; None before the first message."""
        return self._position

    @property
    def changed(self) -> asyncio.Event:
        """Set at the next message. Each message replaces it, so take it before reading anything else."""
        return self._news

    def events_after(self, heard: FeedPosition) -> tuple[Sequence[bytes], FeedPosition] | None:
        """The next events after a position, encoded as they are sent, and the new position; None if there is a gap."""
        here = self._position
        if here is None or here.boot != heard.boot or not 0 <= here.seq - heard.seq <= len(self._events):
            return None
        first = len(self._events) - (here.seq - heard.seq)
        piece = list(islice(self._events, first, first + _EVENTS_PER_PIECE))
        return piece, FeedPosition(here.boot, heard.seq + len(piece))

    # Receiving it

    async def _listen(self) -> None:
        while True:
            try:
                async for feed in subscribe_to_events(self._database, self._control):
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
        if before != self._position:
            self._events.clear()
        for seq, event in enumerate(feed.events, before.seq + 1):
            self._events.append(sse_frame(_event_name(event), _event_document(event), FeedPosition(feed.boot, seq)))
        self._position = FeedPosition(feed.boot, feed.seq)
        if feed.status is not None:
            self.status = feed.status
            status = msgspec.to_builtins(feed.status) | {"started_last_second": feed.started_last_second or 0}
            self.status_event = sse_frame("status", status)
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
    }
