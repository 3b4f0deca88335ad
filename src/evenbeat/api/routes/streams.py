"""Answers that last: how many of them may be open, and that they are counted."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.route import Call
from evenbeat.api.live.event_feed import LiveFeed

MAX_STREAMS: Final = 100
"""Maximum number of open streams: of events, and of outputs that are followed."""
MAX_STREAMS_PER_CALLER: Final = 25
"""Maximum for one token with all its sessions; without any tokens, for one address."""


def refuse_too_many_streams(call: Call) -> None:
    """Raise HttpError if the caller, or all callers together, have as many streams as they may."""
    listening, headers = call.context.live_feed, {"Retry-After": "10"}
    if listening.streams_of[call.who] >= MAX_STREAMS_PER_CALLER:
        detail = f"{call.who} has {MAX_STREAMS_PER_CALLER} streams already; accepted: so many of one token or address"
        raise HttpError(429, detail, headers=headers, who=call.who)
    if listening.streams >= MAX_STREAMS:
        raise HttpError(503, f"there are {MAX_STREAMS} connections already; accepted: so many", headers=headers)


class CountedStream(StreamingResponse):
    """Count a stream while it lasts."""

    def __init__(self, listening: LiveFeed, pieces: AsyncIterator[bytes], who: str, media_type: str) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(pieces, media_type=media_type, headers=headers)
        self._listening = listening
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._listening.streams_of[self._who] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._listening.streams_of[self._who] -= 1
            self._listening.streams_of += Counter()  # drops callers without streams
