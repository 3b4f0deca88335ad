"""Server-sent events: where a stream begins."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from evenbeat.api.auth.scopes import events_within
from evenbeat.api.auth.while_authorized import RECHECK_SECONDS
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.live.event_feed import FeedPosition, parse_feed_position
from evenbeat.api.routes.streams import CountedStream, refuse_too_many_streams

EVENT_STREAM_MEDIA_TYPE: Final = "text/event-stream"


class EventsQuery(Struct):
    """Where to continue."""

    last_event_id: Annotated[str, Meta(max_length=256)] = ""
    """The same as the header Last-Event-ID, for clients that cannot send it."""


async def stream_events(call: Call) -> CountedStream:
    listening = call.context.live_feed
    listening.start()
    refuse_too_many_streams(call)
    last = call.request.headers.get("last-event-id") or call.query.last_event_id
    # What cannot be ours is a gap like any other.
    heard = (parse_feed_position(last) or FeedPosition("", 0)) if last else None
    pieces = listening.stream(heard, is_admitted=call.is_still_authorized, look=RECHECK_SECONDS)
    if call.scope is not None:
        pieces = events_within(pieces, call.context, call.scope)
    return CountedStream(listening, pieces, call.who, EVENT_STREAM_MEDIA_TYPE)


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
