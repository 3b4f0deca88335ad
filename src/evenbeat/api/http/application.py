"""The application: from a request to its route, past the doorman, to an answer; every mishap becomes a problem."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from evenbeat.api.auth import scopes, session
from evenbeat.api.http.context import House
from evenbeat.api.http.errors import Problem, problem_of
from evenbeat.api.http.paths import Paths
from evenbeat.api.http.receive import body_of, query_of
from evenbeat.api.http.route import JSON, Call, Doorman, Role, Route, address_of
from evenbeat.api.http.threads import work_for
from evenbeat.api.openapi import reference_page
from evenbeat.api.routes import (
    actions,
    apply,
    audit,
    capacity,
    cluster,
    events,
    health,
    heartbeats,
    history,
    load,
    metrics,
    periods,
    schedules,
    tasks,
)
from evenbeat.web.routes import web_routes

_PARTS: Final = (
    *(tasks, actions, apply, history, heartbeats, schedules, load, periods, capacity, events, cluster, session, health),
    metrics,
    audit,
)
ROUTES: Final[tuple[Route, ...]] = tuple(route for part in _PARTS for route in part.ROUTES)
"""All that a house offers, but for what tells of them."""

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


def application(
    house: House,
    access: Doorman,
    routes: Sequence[Route] = ROUTES,
    pages: Sequence[BaseRoute] | None = None,
    lifespan: Lifespan | None = None,
) -> Starlette:
    """An ASGI application: the routes, and the files of the page; whoever makes it closes the house."""
    app = Starlette(
        routes=web_routes() if pages is None else pages,
        lifespan=lifespan,
        exception_handlers={HTTPException: _told},
    )
    # Starlette's own routing, by decoded paths, is for the page only: in them a name with a slash is two segments.
    app.router.redirect_slashes = False
    app.router.default = _Front(house, access, Paths((*routes, *reference_page.routes(routes))))
    return app


async def _told(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Problem(error.status_code, error.detail, headers=error.headers).response()


class _Front:
    """Takes every request."""

    def __init__(self, house: House, access: Doorman, paths: Paths) -> None:
        self._house = house
        self._access = access
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except Exception as e:
            problem = problem_of(e)
            if problem.refusal:
                route = request.scope.get("evenbeat.route", "")
                self._house.refusals.note(problem.refusal, address_of(request), route, problem.who)
            response = problem.response()
        if request.method == "HEAD":
            await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        found = self._paths.find(request.scope)
        if found is None:
            await self._access.admit(request, Role.ANYBODY)
            raise Problem(404, "there is nothing at this path")
        route = found.methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            await self._access.admit(request, Role.ANYBODY)
            raise Problem(405, f"accepted: {found.allowed}", headers={"Allow": found.allowed})
        request.scope["evenbeat.route"] = f"{route.method} {route.path}"
        caller = await self._access.admit(request, route.role)
        work_for(caller.who)
        path = found.path
        if caller.scope is not None:
            path = await scopes.admitted(self._house, route, path, caller.scope)
        query = query_of(route, request)
        body = await body_of(route, request, self._house.work)
        still = partial(self._access.still_admits, request)
        call = Call(request, self._house, path, query, body, caller.who, caller.role, caller.scope, still)
        return _response(route, await route.handler(call))


def _response(route: Route, answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    if route.answer is None:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return Response(msgspec.json.encode(answer), route.status, media_type=JSON)
