"""The ASGI application: every route of the API, and the files of the page."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from evenbeat.api.dispatcher import Dispatcher, Router
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.route import Authenticator, Route
from evenbeat.api.openapi import reference_page
from evenbeat.api.routes import (
    actions,
    apply,
    audit,
    capacity,
    cluster,
    contacts,
    cursors,
    downtimes,
    events,
    health,
    heartbeats,
    history,
    load,
    messages,
    metrics,
    notifications,
    outputs,
    periods,
    problems,
    schedules,
    session,
    stops,
    tasks,
)
from evenbeat.web.routes import web_routes

_ROUTE_MODULES: Final = (
    *(
        tasks,
        actions,
        stops,
        cursors,
        messages,
        notifications,
        problems,
        apply,
        history,
        outputs,
        heartbeats,
        schedules,
        load,
        periods,
        contacts,
        downtimes,
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
    app.router.default = Dispatcher(context, access, Router((*routes, *reference_page.routes(routes))))
    return app


async def _http_exception_response(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return HttpError(error.status_code, error.detail, headers=error.headers).response()
