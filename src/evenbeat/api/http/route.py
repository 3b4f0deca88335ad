"""A route: its method and path, who may call it, its query, body and answer. The reference is made from these too."""

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
    """What a caller may do; each role includes those before it."""

    ANYBODY = 0
    READ = 1
    OPERATE = 2
    ADMIN = 3


def address_of(request: Request) -> str:
    """The address of the client."""
    return request.client.host if request.client is not None else "unknown"


class Caller(Protocol):
    """An authenticated caller."""

    @property
    def who(self) -> str:
        """The caller's name in the audit."""

    @property
    def role(self) -> Role: ...

    @property
    def scope(self) -> Scope | None:
        """What the caller's token is limited to; None for no limit."""


class Authenticator(Protocol):
    """Decides who may call what."""

    async def authenticate(self, request: Request, role: Role) -> Caller:
        """The caller, if they have this role; raise HttpError (401, 403, 429) if not."""

    async def is_still_authorized(self, request: Request) -> bool:
        """Would this request still be admitted? Checked repeatedly while a long answer is under way."""


async def _always_authorized() -> bool:
    return True


class Call(NamedTuple):
    """One request, decoded and authenticated."""

    request: Request
    context: ApiContext
    path_variables: Mapping[str, str]
    """The variable parts of the path, decoded."""
    query: Any
    """An instance of the route's `query`."""
    body: Any
    """An instance of the route's `body`."""
    who: str
    """For the audit: the name of the token, or where the request came from."""
    role: Role
    scope: Scope | None = None
    """What the token is limited to: see `api.auth.scopes`."""
    is_still_authorized: Callable[[], Awaitable[bool]] = _always_authorized
    """Is the caller's token or session still valid? A long answer ends when it is not."""


Handler = Callable[[Call], Awaitable[Any]]
"""Returns the route's `answer` (or a dict of that shape), or a Response to control status and headers."""


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
    """The type the JSON body is decoded to; `bytes` accepts any body undecoded."""
    status: int = 200
    error_statuses: tuple[int, ...] = ()
    """Statuses of errors besides those of every route (400, 401, 403, 422, 429, 503)."""
    documented_body_type: Any = None
    """For the reference: a more precise type of the body, where the handler does the checking itself."""
    media: str = JSON
    """The media type of the answer; for anything but JSON the handler returns a Response."""
    conditional: bool = False
    """Obeys If-Match, and so may answer 412."""
    headers: tuple[str, ...] = ()
    """Headers of a successful answer, besides the usual ones."""
    limit: int = BODY_LIMIT
    """Maximum bytes of the body."""
    other_statuses: tuple[int, ...] = ()
    """Other statuses of a successful answer of the same shape."""
