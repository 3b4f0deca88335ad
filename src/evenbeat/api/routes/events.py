"""Server-sent events: each client reads the node's events at its own pace."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Final

from msgspec import Meta, Struct
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from evenbeat.api.auth.scopes import events_within
from evenbeat.api.auth.while_authorized import RECHECK_SECONDS
from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.live.status_feed import FeedPosition, LiveFeed, parse_feed_position, sse_frame

MAX_STREAMS: Final = 100
"""Maximum number of open event streams."""
MAX_STREAMS_PER_CALLER: Final = 25
"""Maximum for one token with all its sessions; without any tokens, for one address."""
KEEP_ALIVE_SECONDS: Final = 15.0
"""Seconds between two keep-alive comments, for proxies that close silent connections."""
MAX_STREAM_SECONDS: Final = 3_600.0
"""Seconds after which a stream ends; browsers reconnect by themselves."""
EVENT_STREAM_MEDIA_TYPE: Final = "text/event-stream"
_RETRY: Final = b"retry: 1000\n\n"
_KEEP_ALIVE: Final = b": beat\n\n"


class EventsQuery(Struct):
    """Where to continue."""

    last_event_id: Annotated[str, Meta(max_length=256)] = ""
    """The same as the header Last-Event-ID, for clients that cannot send it."""


async def stream_events(call: Call) -> StreamingResponse:
    listening = call.context.live_feed
    listening.start()
    if listening.streams_of[call.who] >= MAX_STREAMS_PER_CALLER:
        detail = (
            f"{call.who} has {MAX_STREAMS_PER_CALLER} event streams already; accepted: so many of one token or address"
        )
        raise HttpError(429, detail, headers={"Retry-After": "10"}, who=call.who)
    if listening.streams >= MAX_STREAMS:
        raise HttpError(
            503, f"there are {MAX_STREAMS} connections already; accepted: so many", headers={"Retry-After": "10"}
        )
    last = call.request.headers.get("last-event-id") or call.query.last_event_id
    # What cannot be ours is a gap like any other.
    heard = (parse_feed_position(last) or FeedPosition("", 0)) if last else None
    pieces = event_stream(listening, heard, is_admitted=call.is_still_authorized, look=RECHECK_SECONDS)
    if call.scope is not None:
        pieces = events_within(pieces, call.context, call.scope)
    return _EventStreamResponse(listening, pieces, call.who)


class _EventStreamResponse(StreamingResponse):
    """Count a stream while it lasts."""

    def __init__(self, listening: LiveFeed, pieces: AsyncIterator[bytes], who: str) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(pieces, media_type=EVENT_STREAM_MEDIA_TYPE, headers=headers)
        self._listening = listening
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._listening.streams_of[self._who] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._listening.streams_of[self._who] -= 1
            self._listening.streams_of += Counter()  # drops callers without streams


async def _always_authorized() -> bool:
    return True


async def event_stream(
    listening: LiveFeed,
    heard: FeedPosition | None,
    beat: float = KEEP_ALIVE_SECONDS,
    longest: float = MAX_STREAM_SECONDS,
    *,
    is_admitted: Callable[[], Awaitable[bool]] = _always_authorized,
    look: float = RECHECK_SECONDS,
) -> AsyncIterator[bytes]:
    """All events after a position, or from now on, until the feed, the time or the caller's authorisation ends."""
    now = asyncio.get_running_loop().time
    end, next_beat, next_look, status = now() + longest, now() + beat, now() + look, b""
    yield _RETRY
    while not listening.is_closing and now() < end:
        news = listening.changed
        while listening.position is not None:
            # Check here too: a slow reader must not receive a backlog that it may no longer see.
            if now() >= next_look:
                if not await is_admitted():
                    return
                next_look = now() + look
            piece, heard = _next_events(listening, heard)
            if not piece:
                break
            yield piece
        if listening.status_event is not status:
            status = listening.status_event
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


def _next_events(listening: LiveFeed, heard: FeedPosition | None) -> tuple[bytes, FeedPosition | None]:
    """The next piece for a client, and the client's position after it."""
    here = listening.position
    if heard is None:
        # Without data it is no event: only the number is remembered, for a connection that breaks before the first.
        return f"id: {here}\n\n".encode(), here
    found = listening.events_after(heard)
    if found is None:
        return sse_frame("reset", {}, here), here
    return b"".join(found[0]), found[1]


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/v1/events",
        Role.READ,
        stream_events,
        "Runs that end, tasks that change and the status of the node, as server-sent events.",
        str,
        "Events",
        EventsQuery,
        media=EVENT_STREAM_MEDIA_TYPE,
    ),
)
