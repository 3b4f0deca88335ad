"""What the node tells, heard once for all: its latest status, and the last events for those who come back."""

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

from evenbeat.client.event_stream import subscribe_to_events
from evenbeat.report.documents import iso_time
from evenbeat.store.contract import StoreError
from evenbeat.wire.events import Event, EventMessage, RunEvent, TaskEvent

if TYPE_CHECKING:
    from evenbeat.wire.status import Status

EVENTS_KEPT: Final = 10_000
"""Events that can be told again: minutes of a busy node, hours of a quiet one."""
_RECONNECT_SECONDS: Final = 0.5
"""Seconds between two attempts to reach a node that does not answer."""
_SILENT_SECONDS: Final = 5.0
"""Seconds; a node tells its status once a second."""
_EVENTS_PER_PIECE: Final = 500
"""Events that somebody gets in one piece: what a slow reader can make us hold for them."""
_log: Final = logging.getLogger("evenbeat.api")


class FeedPosition(NamedTuple):
    """Up to where somebody has heard: which start of the node, and the number of the event."""

    boot: str
    seq: int

    def __str__(self) -> str:
        return f"{self.boot}-{self.seq}"


def parse_feed_position(text: str) -> FeedPosition | None:
    """What Last-Event-ID says; None if that cannot be ours."""
    boot, _, seq = text.rpartition("-")
    return FeedPosition(boot, int(seq)) if boot and seq.isascii() and seq.isdecimal() and len(seq) <= 18 else None


class LiveFeed:
    """Listens for ever, also to the node that comes after the one that went."""

    def __init__(self, database: Path | str, kept: int = EVENTS_KEPT, control: Path | None = None) -> None:
        self._database = database
        self._control = control
        self._position: FeedPosition | None = None
        self._events: deque[bytes] = deque(maxlen=kept)
        """Those up to the position, without a gap."""
        self.status: Status | None = None
        """The latest, also of a node that has gone: see `is_live`."""
        self.status_event = b""
        self._heard = -_SILENT_SECONDS
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_closing = False
        self.streams_of: Counter[str] = Counter()
        """Connections that tell on what is heard, by the token or address that asked for them."""

    @property
    def streams(self) -> int:
        """Connections that tell on what is heard."""
        return self.streams_of.total()

    @property
    def is_live(self) -> bool:
        """Has the node told something just now?"""
        return self._task is not None and time.monotonic() - self._heard < _SILENT_SECONDS

    def start(self) -> None:
        """Begin; a second time it is nothing."""
        if self._task is None and not self.is_closing:
            self._task = asyncio.get_running_loop().create_task(self._listen())

    def end_streams(self) -> None:
        """Whoever waits for news learns that there will be none: a server that stops waits for its connections."""
        self.is_closing = True
        self._wake()

    async def stop(self) -> None:
        """The end."""
        self.end_streams()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # What there is to know

    @property
    def position(self) -> FeedPosition | None:
        """Where the node is; None as long as it has not been heard."""
        return self._position

    @property
    def changed(self) -> asyncio.Event:
        """Set when there is anything new; each time another one, so take it before you look at the rest."""
        return self._news

    def events_after(self, heard: FeedPosition) -> tuple[Sequence[bytes], FeedPosition] | None:
        """The next events after a position, as they are sent, and the new position; None if there is a gap."""
        here = self._position
        if here is None or here.boot != heard.boot or not 0 <= here.seq - heard.seq <= len(self._events):
            return None
        first = len(self._events) - (here.seq - heard.seq)
        piece = list(islice(self._events, first, first + _EVENTS_PER_PIECE))
        return piece, FeedPosition(here.boot, heard.seq + len(piece))

    # Hearing it

    async def _listen(self) -> None:
        while True:
            try:
                async for feed in subscribe_to_events(self._database, self._control):
                    self.receive(feed)
            except (StoreError, OSError) as e:
                _log.debug("the node is not there: %s", e, extra={"action": "node_silent"})
            except (ValueError, msgspec.MsgspecError):
                _log.exception("the node says what we do not understand", extra={"action": "feed_not_understood"})
            await asyncio.sleep(_RECONNECT_SECONDS)

    def receive(self, feed: EventMessage) -> None:
        """Take what the node tells."""
        self._heard = time.monotonic()
        before = FeedPosition(feed.boot, feed.seq - len(feed.events))
        if before != self._position:
            self._events.clear()
        for seq, event in enumerate(feed.events, before.seq + 1):
            self._events.append(sse_frame(_event_name(event), _event_document(event), FeedPosition(feed.boot, seq)))
        self._position = FeedPosition(feed.boot, feed.seq)
        if feed.status is not None:
            self.status = feed.status
            told = msgspec.to_builtins(feed.status) | {"started_last_second": feed.started_last_second or 0}
            self.status_event = sse_frame("status", told)
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def sse_frame(name: str, data: dict[str, Any], position: FeedPosition | None = None) -> bytes:
    """As an event stream has it. JSON in one line needs no further care."""
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
