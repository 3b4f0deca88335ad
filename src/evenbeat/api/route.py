"""What a route is: who may call it, what it takes and gives. The application and its reference are made of these."""

from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from starlette.requests import Request

from evenbeat.api.house import House


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    ANYBODY = 0
    READ = 1
    OPERATE = 2
    ADMIN = 3


class Call(NamedTuple):
    """One request, understood."""

    request: Request
    house: House
    path: Mapping[str, str]
    """The variable parts of the path, decoded."""
    query: Any
    """An instance of the route's `query`."""
    body: Any
    """An instance of the route's `body`."""
    who: str
    """For the audit: the name of the token, or where the request came from."""
    role: Role


Handler = Callable[[Call], Awaitable[Any]]
"""Gives what the route's `answer` says (or a dict of that shape), or a whole Response where more is to be said."""


class Route(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    """As Starlette and OpenAPI write it: /v1/tasks/{name}."""
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
    status: int = 200
    problems: tuple[int, ...] = ()
    """Status codes beyond those that every route may answer with (400, 401, 403, 422, 429, 503)."""
