"""Answers that take long, event streams and runs that are waited for, end with the token or session that asked."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.route import Call

T = TypeVar("T")
RECHECK_SECONDS: Final = 1.0
"""Seconds between two looks at the token: with the two that the tokens are remembered, it is over within three."""


async def while_authorized(call: Call, answer: Awaitable[T]) -> T:
    """What was waited for; raise Problem if the token of the caller was removed or has expired before it came."""
    waited = asyncio.ensure_future(answer)
    try:
        while True:
            done, _ = await asyncio.wait((waited,), timeout=RECHECK_SECONDS)
            if done:
                return waited.result()
            if not await call.is_still_authorized():
                raise HttpError(401, "the token or session that asked for this is not good any more")
    finally:
        waited.cancel()
