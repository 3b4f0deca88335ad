"""Requests made up from the OpenAPI document, good and bad ones, and every check that schemathesis has.

Schemathesis makes up requests of all operations where its tests are collected, which each test process does. So it is
imported, and asked for those of one operation, by the test of that operation.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from api_client import ApiClient, FakeCaller, RoleNameAuthenticator
from budget import examples
from hypothesis import HealthCheck, settings
from starlette.requests import Request
from starlette.types import ASGIApp

from evenbeat.api.application import ROUTES
from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.route import Role
from evenbeat.api.openapi import reference_page
from evenbeat.api.openapi.document import openapi_document

if TYPE_CHECKING:
    from schemathesis.schemas import BaseSchema

EXAMPLES = examples(15)
HEADERS = {"Authorization": "Bearer admin"}

# JSON Schema cannot say all that a request must be: a cron entry has a grammar, a period must be there, a version must
# be the present one. So one that fits the schema may still be refused for what it says.
ANSWERS = ["2xx", "401", "403", "404", "409", "412", "413", "422", "429"]
REFUSALS = ["400", "401", "403", "404", "405", "409", "413", "415", "422", "429"]

# One by one, every key of a task is tried with every kind of value where tasks are created. The same keys elsewhere are
# only drawn at random, or it would take minutes.
SAME_KEYS = "^((PUT|PATCH) /v1/tasks/|POST /v1/(forecast|apply))"

CONFIG = {
    "checks": {
        "positive_data_acceptance": {"expected-statuses": ANSWERS},
        "negative_data_rejection": {"expected-statuses": REFUSALS},
    },
    "generation": {"max-examples": EXAMPLES, "deterministic": True},
    "operations": [{"include-name-regex": SAME_KEYS, "phases": {"coverage": {"enabled": False}}}],
}
DOCUMENT = openapi_document((*ROUTES, *reference_page.routes(ROUTES)))
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
OPERATIONS = [
    f"{key.upper()} {path}" for path, described in DOCUMENT["paths"].items() for key in described if key in METHODS
]


class SessionAuthenticator(RoleNameAuthenticator):
    """Also has what sessions are made with."""

    def __init__(self, context: ApiContext) -> None:
        super().__init__()
        self._access = TokenAuthenticator(context, "127.0.0.1", is_open=True)

    async def authenticate(self, request: Request, role: Role) -> FakeCaller:
        request.scope["evenbeat.access"] = self._access
        return await super().authenticate(request, role)


@pytest.fixture(scope="module", autouse=True)
def _no_proxies() -> Iterator[None]:
    """Without a word on them, each request looks for proxies among all variables, twice."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("no_proxy", "testserver")
        yield


@pytest.fixture(scope="module")
def application(context: ApiContext) -> Iterator[ASGIApp]:
    """The one that the requests go to."""
    api = ApiClient(context, SessionAuthenticator(context))
    assert api.get("/v1/openapi.json").json() == DOCUMENT
    context.live_feed.end_streams()  # so that a stream of events ends
    for name in ("0", "a"):
        api.add(name)
    yield api.app
    api.close()


@pytest.fixture(scope="module")
def schema(application: ASGIApp) -> "BaseSchema":
    import schemathesis
    from schemathesis.config import SchemathesisConfig

    schema = schemathesis.openapi.from_dict(deepcopy(DOCUMENT), config=SchemathesisConfig.from_dict(CONFIG))
    schema.app = application
    return schema


@pytest.mark.hypothesis
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_application_is_what_its_document_says(schema: "BaseSchema", operation: str) -> None:
    requests_of(schema, operation, answer_is_right)()


def test_each_operation_of_the_document_is_tested(schema: "BaseSchema") -> None:
    found = [operation.ok() for operation in schema.get_all_operations()]  # type: ignore[union-attr]
    assert [operation.label for operation in found] == OPERATIONS


@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def answer_is_right(case: Any) -> None:
    case.body = harmless(case.body)
    case.call_and_validate(headers=HEADERS)


def requests_of(schema: "BaseSchema", label: str, check: Callable[..., None]) -> Callable[[], None]:
    """What schemathesis makes of `check` where it collects tests itself: with examples, every key, and random ones."""
    from schemathesis.checks import load_all_checks
    from schemathesis.generation.feedback import FeedbackSources
    from schemathesis.pytest._test_builder import build_operation_test
    from schemathesis.python._constants.orchestrator import make_constants_value_source

    load_all_checks()
    operation = schema.find_operation_by_label(label)
    assert operation is not None
    feedback = FeedbackSources(constants_value_source=make_constants_value_source(schema))
    built = build_operation_test(
        config=schema.config, operation=operation, test_func=check, given_kwargs={}, feedback=feedback
    )
    test: Callable[[], None] = built
    return test


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
