"""Server-sent events: where a stream begins, and how many of them may be open."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Final

from msgspec import Meta, Struct
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from evenbeat.api.auth.scopes import events_within
from evenbeat.api.auth.while_authorized import RECHECK_SECONDS
from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.live.event_feed import FeedPosition, LiveFeed, parse_feed_position

MAX_STREAMS: Final = 100
"""Maximum number of open event streams."""
MAX_STREAMS_PER_CALLER: Final = 25
"""Maximum for one token with all its sessions; without any tokens, for one address."""
EVENT_STREAM_MEDIA_TYPE: Final = "text/event-stream"


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
    pieces = listening.stream(heard, is_admitted=call.is_still_authorized, look=RECHECK_SECONDS)
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
