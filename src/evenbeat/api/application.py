"""The ASGI application: routes a request, authenticates its caller and answers; every exception becomes a problem."""

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

from evenbeat.api.auth import scopes
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.errors import HttpError, http_error_of
from evenbeat.api.http.paths import Router
from evenbeat.api.http.receive import parse_body, parse_query
from evenbeat.api.http.route import JSON, Authenticator, Call, Role, Route, address_of
from evenbeat.api.http.threads import set_current_caller
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
    problems,
    schedules,
    session,
    tasks,
)
from evenbeat.web.routes import web_routes

_ROUTE_MODULES: Final = (
    *(
        tasks,
        actions,
        problems,
        apply,
        history,
        heartbeats,
        schedules,
        load,
        periods,
        capacity,
        events,
        cluster,
        session,
        health,
    ),
    metrics,
    audit,
)
ROUTES: Final[tuple[Route, ...]] = tuple(route for part in _ROUTE_MODULES for route in part.ROUTES)
"""Every route except the reference, which describes these."""

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


def create_application(
    context: ApiContext,
    access: Authenticator,
    routes: Sequence[Route] = ROUTES,
    pages: Sequence[BaseRoute] | None = None,
    lifespan: Lifespan | None = None,
) -> Starlette:
    """Build the application: the routes and the files of the page. The caller closes `context` at the end."""
    app = Starlette(
        routes=web_routes() if pages is None else pages,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_exception_response},
    )
    # Starlette's own routing, by decoded paths, is for the page only: in them a name with a slash is two segments.
    app.router.redirect_slashes = False
    app.router.default = _Dispatcher(context, access, Router((*routes, *reference_page.routes(routes))))
    return app


async def _http_exception_response(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return HttpError(error.status_code, error.detail, headers=error.headers).response()


class _Dispatcher:
    """Handles every request that is not for a file of the page."""

    def __init__(self, context: ApiContext, access: Authenticator, paths: Router) -> None:
        self._context = context
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
        found = self._paths.find(request.scope)
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
