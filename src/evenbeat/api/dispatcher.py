"""Finds the route of a request, authenticates its caller and answers; every exception becomes a problem document.

Paths are split before they are decoded: a name is one segment, slashes included.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from evenbeat.api.auth import scopes
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.errors import HttpError, http_error_of
from evenbeat.api.http.receive import parse_body, parse_query
from evenbeat.api.http.route import JSON, Authenticator, Call, Role, Route, address_of
from evenbeat.api.http.threads import set_current_caller

_PATH_SUFFIX: Final = ":path}"


class _PathPattern(NamedTuple):
    segments: tuple[str, ...]
    methods: dict[str, Route]


class RouteMatch(NamedTuple):
    """The routes of a path, by method, and the path's variables."""

    methods: Mapping[str, Route]
    variables: Mapping[str, str]

    @property
    def allowed(self) -> str:
        """The value of the header Allow."""
        return ", ".join(sorted({*self.methods, *(["HEAD"] if "GET" in self.methods else [])}))


class Router:
    """All routes, by path."""

    def __init__(self, routes: Sequence[Route]) -> None:
        patterns: dict[str, _PathPattern] = {}
        for route in routes:
            pattern = patterns.setdefault(route.path, _PathPattern(tuple(route.path.split("/")), {}))
            if pattern.methods.get(route.method, route) != route:
                raise ValueError(f"{route.method} {route.path} is defined twice")
            pattern.methods[route.method] = route
        # A literal segment takes precedence over a variable in the same place.
        self._patterns = sorted(patterns.values(), key=lambda p: [_rank(segment) for segment in p.segments])

    def find(self, scope: Scope) -> RouteMatch | None:
        """The routes of a request's path; None if there are none, or if the path is not UTF-8."""
        raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        try:
            segments = [unquote_to_bytes(segment).decode() for segment in raw.split(b"/")]
        except UnicodeDecodeError:
            return None
        for pattern in self._patterns:
            found = _match(pattern.segments, segments)
            if found is not None:
                return RouteMatch(pattern.methods, found)
        return None


def _rank(segment: str) -> tuple[int, str]:
    return (2 if segment.endswith(_PATH_SUFFIX) else 1 if segment.startswith("{") else 0, segment)


def _match(pattern: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    found = {}
    if pattern[-1].endswith(_PATH_SUFFIX) and len(segments) >= len(pattern):
        last = len(pattern) - 1
        found[pattern[-1][1 : -len(_PATH_SUFFIX)]] = "/".join(segments[last:])
        pattern, segments = pattern[:-1], segments[:last]
    if len(pattern) != len(segments):
        return None
    for wanted, segment in zip(pattern, segments, strict=True):
        if wanted.startswith("{") and segment:
            found[wanted[1:-1]] = segment
        elif wanted != segment:
            return None
    return found


class Dispatcher:
    """Answers every request that is not for a file of the page."""

    def __init__(self, context: ApiContext, access: Authenticator, router: Router) -> None:
        self._context = context
        self._access = access
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except Exception as e:
            problem = http_error_of(e)
            if problem.refusal_reason:
                route = request.scope.get("evenbeat.route", "")
                self._context.refusals.note(problem.refusal_reason, address_of(request), route, problem.who)
            response = problem.response()
        if request.method == "HEAD":
            await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        found = self._router.find(request.scope)
        if found is None:
            await self._access.authenticate(request, Role.ANYBODY)
            raise HttpError(404, "there is nothing at this path")
        route = found.methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            await self._access.authenticate(request, Role.ANYBODY)
            raise HttpError(405, f"accepted: {found.allowed}", headers={"Allow": found.allowed})
        request.scope["evenbeat.route"] = f"{route.method} {route.path}"
        caller = await self._access.authenticate(request, route.role)
        set_current_caller(caller.who)
        path = found.variables
        if caller.scope is not None:
            path = await scopes.check_scope(self._context, route, path, caller.scope)
        query = parse_query(route, request)
        body = await parse_body(route, request, self._context.run_in_thread)
        is_still_authorized = partial(self._access.is_still_authorized, request)
        call = Call(
            request, self._context, path, query, body, caller.who, caller.role, caller.scope, is_still_authorized
        )
        return _response(route, await route.handler(call))


def _response(route: Route, answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    if route.answer is None:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return Response(msgspec.json.encode(answer), route.status, media_type=JSON)
