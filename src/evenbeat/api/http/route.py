"""What a route is: who may call it, what it takes and gives. The application and its reference are made of these."""

from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

from starlette.requests import Request

from evenbeat.api.http.context import ApiContext
from evenbeat.core.scope import Scope

BODY_LIMIT: Final = 1 << 20
"""Bytes of a request's body, unless its route says otherwise."""
JSON: Final = "application/json"


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    ANYBODY = 0
    READ = 1
    OPERATE = 2
    ADMIN = 3


def address_of(request: Request) -> str:
    """Where it came from."""
    return request.client.host if request.client is not None else "unknown"


class Caller(Protocol):
    """Somebody who has been let in."""

    @property
    def who(self) -> str:
        """For the audit."""

    @property
    def role(self) -> Role: ...

    @property
    def scope(self) -> Scope | None:
        """To what its token is limited; None for nothing."""


class Authenticator(Protocol):
    """Decides who may come in."""

    async def authenticate(self, request: Request, role: Role) -> Caller:
        """Whoever asks, if they may do what this role may; raise Problem (401, 403, 429) if not."""

    async def is_still_authorized(self, request: Request) -> bool:
        """Is whoever was let in with this request still welcome? Asked again and again where an answer takes long."""


async def _always_authorized() -> bool:
    return True


class Call(NamedTuple):
    """One request, understood."""

    request: Request
    context: ApiContext
    path: Mapping[str, str]
    """The variable parts of the path, decoded."""
    query: Any
    """An instance of the route's `query`."""
    body: Any
    """An instance of the route's `body`."""
    who: str
    """For the audit: the name of the token, or where the request came from."""
    role: Role
    scope: Scope | None = None
    """To what the token is limited: see `api.scopes`."""
    is_still_authorized: Callable[[], Awaitable[bool]] = _always_authorized
    """Is the token or session that it came with still good? An answer that takes long ends when it is not."""


Handler = Callable[[Call], Awaitable[Any]]
"""Gives what the route's `answer` says (or a dict of that shape), or a whole Response where more is to be said."""


class Route(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    """As OpenAPI writes it: /v1/tasks/{name}. Each variable is one segment; a last {rest:path} is all that follows."""
    role: Role
    handler: Handler
    summary: str
    """One sentence, for the reference."""
    answer: Any
    """A type that msgspec can describe; None for no content."""
    tag: str
    query: type | None = None
    """A Struct, all of its fields with a default; repeated parameters are tuples."""
    body: Any = None
    """What msgspec makes of the JSON; `bytes` takes whatever it is as it is."""
    status: int = 200
    problems: tuple[int, ...] = ()
    """Status codes beyond those that every route may answer with (400, 401, 403, 422, 429, 503)."""
    described: Any = None
    """A type that says more of the body than `body` does, where the handler itself checks it; for the reference."""
    media: str = JSON
    """What the answer is written in; anything but JSON is made by the handler, as a Response."""
    conditional: bool = False
    """Obeys If-Match, so that 412 is among its answers."""
    headers: tuple[str, ...] = ()
    """Of a good answer, beyond the usual ones."""
    limit: int = BODY_LIMIT
    """Bytes of the body."""
    also: tuple[int, ...] = ()
    """Other status codes of a good answer of the same shape."""
