"""Middleware around every request: limits on what comes in, security headers on what goes out."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.protocol import BODY_TIMEOUT
from evenbeat.api.http.rate_limit import RateLimiter, client_network
from evenbeat.api.http.refusals import BUSY_REASON, RefusalCounter
from evenbeat.api.http.security_headers import SECURITY_HEADERS

MAX_REQUESTS_PER_SECOND: Final = 2_000
"""Requests from one address in a second, and in one burst."""
MAX_CONCURRENT_REQUESTS: Final = 1_000
"""Requests that are answered at the same time."""
MAX_CONCURRENT_REQUESTS_PER_ADDRESS: Final = 500
"""Requests of one address, which may be a proxy, that are answered at the same time."""
HEALTH_PATHS: Final = ("/healthz", "/readyz")
"""Never limited: a monitor must not take a busy server for a dead one."""
MAX_BODY_BYTES: Final = 64 << 20
"""Bytes of any body; most routes accept far fewer, see `Route.limit`."""

_CLOSE_CONNECTION: Final = {"connection": "close"}
_BODY_HEADERS: Final = (b"content-length", b"transfer-encoding")
"""Headers which announce a body."""


class SecurityMiddleware:
    """An ASGI application that protects another."""

    def __init__(
        self,
        app: ASGIApp,
        refusals: RefusalCounter | None = None,
        *,
        largest: int = MAX_BODY_BYTES,
        patience: float = BODY_TIMEOUT,
        requests: RateLimiter | None = None,
    ) -> None:
        self._app = app
        self._largest = largest
        self._patience = patience
        self.request_limiter = requests or RateLimiter(MAX_REQUESTS_PER_SECOND, MAX_REQUESTS_PER_SECOND)
        self._refusals = refusals or RefusalCounter()
        self._answered: Counter[str] = Counter()
        """Requests received but not yet answered, by address."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        address = client_network(scope["client"][0] if scope.get("client") else "")
        is_free = scope["path"] in HEALTH_PATHS
        turn = _RequestSlot(self._answered, address, is_free=is_free)
        body = _LimitedBody(scope, receive, self._largest, self._patience, turn.acquire)
        answer = _ResponseWithHeaders(body, send)
        try:
            if not is_free and (seconds := self.request_limiter.take_token(address)):
                raise HttpError(
                    429,
                    f"more than {MAX_REQUESTS_PER_SECOND:,} requests a second",
                    headers={"retry-after": str(seconds)},
                )
            self._check(scope)
            if body.is_whole:
                turn.acquire()
            await self._app(scope, body.receive, answer.send)
        except HttpError as problem:
            if answer.has_begun:
                raise
            if problem.refusal_reason:
                self._refusals.note(problem.refusal_reason, address)
            await problem.response()(scope, receive, answer.send)
        finally:
            turn.release()

    def _check(self, scope: Scope) -> None:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        if not raw.startswith(b"/") or b"%00" in raw:
            raise HttpError(400, "a path begins with / and has no NUL in it", headers=_CLOSE_CONNECTION)
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if lengths and int(lengths[0]) > self._largest:
            raise _body_too_large(self._largest)


def _body_too_large(limit: int) -> HttpError:
    return HttpError(413, f"more than {limit:,} bytes; accepted: up to that", headers=_CLOSE_CONNECTION)


class _RequestSlot:
    """A slot among the requests being answered, taken once a request has arrived whole: slow senders take none."""

    def __init__(self, answered: Counter[str], address: str, *, is_free: bool) -> None:
        self._answered = answered
        self._address = address
        self._is_free = is_free
        self._is_taken = False

    def acquire(self) -> None:
        """Take the slot; raise 503 if too many are taken."""
        if self._is_free or self._is_taken:
            return
        if (
            self._answered.total() >= MAX_CONCURRENT_REQUESTS
            or self._answered[self._address] >= MAX_CONCURRENT_REQUESTS_PER_ADDRESS
        ):
            most = f"{MAX_CONCURRENT_REQUESTS:,}, of one address {MAX_CONCURRENT_REQUESTS_PER_ADDRESS}"
            detail = f"too many requests are being answered; accepted: {most}"
            raise HttpError(503, detail, headers={"retry-after": "1"}, refusal=BUSY_REASON)
        self._answered[self._address] += 1
        self._is_taken = True

    def release(self) -> None:
        """Free the slot once the request is answered."""
        if self._is_taken:
            self._answered[self._address] -= 1
            if not self._answered[self._address]:
                del self._answered[self._address]


class _LimitedBody:
    """The body of a request, limited in size and time."""

    def __init__(
        self, scope: Scope, receive: Receive, largest: int, patience: float, when_whole: Callable[[], None]
    ) -> None:
        self._receive = receive
        self._left = largest
        self._largest = largest
        self._patience = patience
        self._when_whole = when_whole
        self._deadline = asyncio.get_running_loop().time() + patience
        self.is_whole = not any(name in _BODY_HEADERS and value != b"0" for name, value in scope["headers"])

    async def receive(self) -> Message:
        if self.is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise HttpError(408, f"not all of the body in {self._patience:g} s", headers=_CLOSE_CONNECTION) from None
        if message["type"] == "http.disconnect":
            return message
        self.is_whole = not message.get("more_body", False)
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise _body_too_large(self._largest)
        if self.is_whole:
            self._when_whole()
        return message


class _ResponseWithHeaders:
    """The response, with the security headers."""

    def __init__(self, body: _LimitedBody, send: Send) -> None:
        self._body = body
        self._send = send
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            message = {**message, "headers": self._headers(message.get("headers", ()))}
        await self._send(message)

    def _headers(self, theirs: Any) -> list[tuple[bytes, bytes]]:
        found = [(name, value) for name, value in theirs if name.lower() not in SECURITY_HEADERS]
        found += SECURITY_HEADERS.items()
        # No cache keeps an answer unless it says so itself, as the page's own files do.
        if all(name.lower() != b"cache-control" for name, _ in found):
            found.append((b"cache-control", b"no-store"))
        if not self._body.is_whole and all(name.lower() != b"connection" for name, _ in found):
            found.append((b"connection", b"close"))  # the rest of the body will not be read
        return found
