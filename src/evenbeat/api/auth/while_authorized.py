"""Long answers (event streams, runs that are waited for) end when the caller's token or session does."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.route import Call

T = TypeVar("T")
RECHECK_SECONDS: Final = 1.0
"""Seconds between two checks of the token. Tokens are cached for two, so a removed one ends within three."""


async def while_authorized(call: Call, answer: Awaitable[T]) -> T:
    """Await an answer; raise HttpError if the caller's token is removed or expires first."""
    pending = asyncio.ensure_future(answer)
    try:
        while True:
            done, _ = await asyncio.wait((pending,), timeout=RECHECK_SECONDS)
            if done:
                return pending.result()
            if not await call.is_still_authorized():
                raise HttpError(401, "the token or session that asked for this is not good any more")
    finally:
        pending.cancel()
