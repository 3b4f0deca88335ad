"""Wrong tokens and sign-in links: after too many from one address within a minute, the caller has to wait."""

import time
from collections.abc import Callable
from typing import Final

from starlette.requests import Request

from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.rate_limit import RateLimiter, client_network
from evenbeat.api.http.route import address_of

_MAX_PER_MINUTE: Final = 10


class WrongTokenLimit:
    """Counts wrong ones for each address, and for what they were guesses of."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._limiter = RateLimiter(_MAX_PER_MINUTE, _MAX_PER_MINUTE / 60, now)

    def count(self, request: Request, guessed: str) -> None:
        """Count one; raise HttpError if there were too many."""
        if seconds := self._limiter.take_token(_key(request, guessed)):
            detail = f"too many wrong tokens; try again in {seconds} s"
            raise HttpError(429, detail, headers={"retry-after": str(seconds)})

    def take_back(self, request: Request, guessed: str) -> None:
        """What was counted was right."""
        self._limiter.give_back(_key(request, guessed))


def _key(request: Request, guessed: str) -> str:
    return f"{client_network(address_of(request))} {guessed}"
