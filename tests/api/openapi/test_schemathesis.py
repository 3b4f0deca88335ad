"""Requests made up from the OpenAPI document, good and bad ones, and every check that schemathesis has."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import schemathesis
from api_client import ApiClient, FakeCaller, RoleNameAuthenticator
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from evenbeat.api.application import ROUTES
from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.route import Role
from evenbeat.api.openapi import reference_page
from evenbeat.api.openapi.document import openapi_document

EXAMPLES = 15
HEADERS = {"Authorization": "Bearer admin"}

# JSON Schema cannot say all that a request must be: a cron entry has a grammar, a period must be there, a version must
# be the present one. So one that fits the schema may still be refused for what it says.
ANSWERS = ["2xx", "401", "403", "404", "409", "412", "413", "422", "429"]
REFUSALS = ["400", "401", "403", "404", "405", "409", "413", "415", "422", "429"]

# One by one, every key of a task is tried with every kind of value where tasks are created. The same keys elsewhere are
# only drawn at random, or it would take minutes.
SAME_KEYS = "^((PUT|PATCH) /v1/tasks/|POST /v1/(forecast|apply))"

CONFIG = SchemathesisConfig.from_dict(
    {
        "checks": {
            "positive_data_acceptance": {"expected-statuses": ANSWERS},
            "negative_data_rejection": {"expected-statuses": REFUSALS},
        },
        "generation": {"max-examples": EXAMPLES, "deterministic": True},
        "operations": [{"include-name-regex": SAME_KEYS, "phases": {"coverage": {"enabled": False}}}],
    }
)
DOCUMENT = openapi_document((*ROUTES, *reference_page.routes(ROUTES)))
SCHEMA = schemathesis.openapi.from_dict(deepcopy(DOCUMENT), config=CONFIG)


class DeferredApplication:
    """Stands for the application, which is there when the tests are."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


DEFERRED = SCHEMA.app = DeferredApplication()


class SessionAuthenticator(RoleNameAuthenticator):
    """Also has what sessions are made with."""

    def __init__(self, context: ApiContext) -> None:
        super().__init__()
        self._access = TokenAuthenticator(context, "127.0.0.1", is_open=True)

    async def authenticate(self, request: Request, role: Role) -> FakeCaller:
        request.scope["evenbeat.access"] = self._access
        return await super().authenticate(request, role)


@pytest.fixture(scope="module", autouse=True)
def application(context: ApiContext) -> Iterator[None]:
    """The one that the requests go to."""
    api = ApiClient(context, SessionAuthenticator(context))
    DEFERRED.app = api.app
    assert api.get("/v1/openapi.json").json() == DOCUMENT
    context.live_feed.end_streams()  # so that a stream of events ends
    for name in ("0", "a"):
        api.add(name)
    yield
    api.close()


@SCHEMA.parametrize()
@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_application_is_what_its_document_says(case: Any) -> None:
    case.body = harmless(case.body)
    case.call_and_validate(headers=HEADERS)


def harmless(body: Any) -> Any:
    """The same, with every command in it tamed, wherever it is."""
    if isinstance(body, list):
        return [harmless(inner) for inner in body]
    if not isinstance(body, dict):
        return body
    return {key: tamed(value) if key == "command" else harmless(value) for key, value in body.items()}


def tamed(command: Any) -> Any:
    """Nobody knows what a command does that was made up, and the node is real."""
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return ["noop"]
    return "true" if isinstance(command, str) else command
