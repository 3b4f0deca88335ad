import asyncio
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from api_client import ApiClient, RoleNameAuthenticator
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from evenbeat.api.application import ROUTES
from evenbeat.api.dispatcher import Router
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.errors import PROBLEM_MEDIA_TYPE
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.model import Invalid
from evenbeat.store.contract import Conflict, StoreError
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_task


class Inner(Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[Annotated[str, Meta(max_length=3)], ...] = ()


class Body(Struct, forbid_unknown_fields=True):
    number: int
    inner: Inner = Inner()


class Query(Struct, rename={"from_": "from"}):
    many: tuple[int, ...] = ()
    flag: bool = False
    from_: int | None = None


async def echo(call: Call) -> Any:
    return {"path": dict(call.path_variables), "body": call.body, "query": call.query, "who": call.who}


async def fail(call: Call) -> Any:
    raise {
        "invalid": Invalid("no", column=3, place="field 1"),
        "conflict": Conflict("taken"),
        "store": StoreError("the disk is full"),
    }.get(call.path_variables["how"], RuntimeError("secret detail"))


async def endless(call: Call) -> Response:
    async def stream() -> Any:
        while True:
            yield b"x"

    return StreamingResponse(stream())


def route(method: str, path: str, role: Role = Role.READ, **more: Any) -> Route:
    return Route(method, path, role, more.pop("handler", echo), "A test.", dict[str, Any], "test", **more)


OWN = (
    route("POST", "/v1/echo", body=Body),
    route("GET", "/v1/echo", query=Query),
    route("GET", "/v1/one/{name}"),
    route("GET", "/v1/one/fixed", handler=fail),
    route("GET", "/v1/one/{name}/{other}"),
    route("GET", "/v1/rest/{rest:path}"),
    route("GET", "/v1/fail/{how}", handler=fail),
    route("GET", "/v1/endless", handler=endless),
    route("POST", "/v1/raw", body=bytes, limit=10),
    route("POST", "/v1/admin", Role.ADMIN),
)


@pytest.fixture(scope="module")
def own(context: ApiContext) -> Iterator[ApiClient]:
    api = ApiClient(context, RoleNameAuthenticator(), OWN)
    yield api
    api.close()


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM_MEDIA_TYPE
    document: dict[str, Any] = answer.json()
    assert document["status"] == status
    assert document["type"].startswith("/docs#problem-")
    return document


def test_what_is_nowhere_is_a_404_and_what_has_other_methods_a_405(own: ApiClient) -> None:
    for path in ("/v1/nowhere", "/", "/v1/one/", "/v1//one/x", "/v1/one/a/b/c", "/v1/one/%FF", "/V1/echo"):
        if path != "/":  # which is the page
            problem(own.get(path), 404)
    answer = own.ask("DELETE", "/v1/echo")
    problem(answer, 405)
    assert answer.headers["allow"] == "GET, HEAD, POST"


def test_paths_are_split_before_they_are_decoded(own: ApiClient) -> None:
    assert own.get("/v1/one/a%2Fb%3F").json()["path"] == {"name": "a/b?"}
    assert own.get("/v1/%6Fne/x").json()["path"] == {"name": "x"}
    assert own.get("/v1/one/a/b").json()["path"] == {"name": "a", "other": "b"}
    assert own.get("/v1/rest/a/b%2Fc").json()["path"] == {"rest": "a/b/c"}
    problem(own.get("/v1/one/fixed"), 500)


def test_a_route_that_is_there_twice_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="twice"):
        Router((route("GET", "/v1/x"), route("GET", "/v1/x", Role.ADMIN)))


def test_a_head_is_a_get_without_its_body_and_never_endless(own: ApiClient) -> None:
    whole, head = own.get("/v1/one/x"), own.ask("HEAD", "/v1/one/x")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))
    assert own.ask("HEAD", "/v1/endless").status_code == 200
    assert own.ask("HEAD", "/v1/nowhere").status_code == 404


def test_bodies_are_json_and_within_bounds(own: ApiClient) -> None:
    def post(content: bytes, kind: str = "application/json") -> httpx.Response:
        return own.post("/v1/echo", content=content, headers={"content-type": kind})

    assert post(b'{"number": 3}', 'application/json; charset="UTF-8"').json()["body"]["number"] == 3
    for kind in ("text/plain", "", "application/x-www-form-urlencoded", "application/json; charset=utf-16"):
        problem(post(b'{"number": 3}', kind), 415)
    for bad in (b"", b"{", b"\xff", b'"\xff"', b'{"number": 3} x', b"NaN", b'"\\ud800"'):
        problem(post(bad), 400)
    for deep in (b"[" * 200_000, b'{"a":' * 100_000, b"[" * 40 + b"]" * 40):
        problem(post(deep), 400)
    problem(post(b" " * (1 << 20) + b" "), 413)


def test_a_body_that_never_says_its_length_is_cut_off(own: ApiClient) -> None:
    sent = 0

    async def pieces() -> Any:
        nonlocal sent
        while sent < 100 << 20:
            sent += 1 << 16
            yield b" " * (1 << 16)

    problem(own.post("/v1/echo", content=pieces(), headers={"content-type": "application/json"}), 413)
    assert sent <= 2 << 20


def test_a_body_may_be_anything_where_the_route_says_so(own: ApiClient) -> None:
    assert own.post("/v1/raw", content=b"ten bytes!").status_code == 200
    problem(own.post("/v1/raw", content=b"eleven byte"), 413)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/number"),
        ({"number": "3"}, "/number"),
        ({"number": 3, "colour": 1}, "/colour"),
        ({"number": 3, "inner": {"words": ["abc", "abcd"]}}, "/inner/words/1"),
        ({"number": 3, "inner": {"x/y": 1}}, "/inner/x~1y"),
        ([], ""),
    ],
)
def test_a_wrong_value_is_pointed_at(own: ApiClient, body: Any, pointer: str) -> None:
    document = problem(own.post("/v1/echo", json=body), 422)
    assert [error["pointer"] for error in document["errors"]] == [pointer]
    assert document["errors"][0]["detail"] in document["detail"]


def test_parameters_are_converted_and_several_only_where_a_list_is_meant(own: ApiClient) -> None:
    whole = own.get("/v1/echo?many=1&many=2&flag=true&from=3").json()["query"]
    assert whole == {"many": [1, 2], "flag": True, "from": 3}
    assert problem(own.get("/v1/echo?from=null"), 422)["errors"][0]["pointer"] == "/query/from"
    both = problem(own.get("/v1/echo?flag=true&flag=true&x=1"), 422)
    assert [error["pointer"] for error in both["errors"]] == ["/query/flag", "/query/x"]
    problem(own.get("/v1/one/x?y=1"), 422)


def test_every_exception_has_its_status(own: ApiClient) -> None:
    invalid = problem(own.get("/v1/fail/invalid"), 422)
    assert invalid["errors"] == [{"pointer": "", "detail": "field 1, column 3: no", "column": 3}]
    assert problem(own.get("/v1/fail/conflict"), 409)["detail"] == "taken"
    store = own.get("/v1/fail/store")
    assert problem(store, 503)["detail"] == "the disk is full"
    assert store.headers["retry-after"] == "1"


def test_a_defect_tells_a_reference_and_the_log_the_rest(own: ApiClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "evenbeat.api"):
        document = problem(own.get("/v1/fail/otherwise"), 500)
    (record,) = caplog.records
    assert record.reference in document["detail"]  # type: ignore[attr-defined]
    assert "secret" not in str(document)
    assert "secret detail" in caplog.text


def test_nobody_is_heard_before_the_authenticator_has_let_them_in(context: ApiContext) -> None:
    api = ApiClient(context, RoleNameAuthenticator(), OWN, who="reader")
    problem(api.post("/v1/admin"), 403)
    # A refusal comes before anything of the request is looked at.
    problem(api.post("/v1/admin?nonsense=1", content=b"{"), 403)
    api.close()


def test_the_authenticator_is_asked_even_where_there_is_nothing(context: ApiContext) -> None:
    asked = []

    class Watchful(RoleNameAuthenticator):
        async def authenticate(self, request: Request, role: Role) -> Any:
            asked.append((request.url.path, role))
            return await super().authenticate(request, role)

    api = ApiClient(context, Watchful(), OWN)
    api.get("/v1/nowhere")
    api.ask("DELETE", "/v1/echo")
    api.close()
    assert asked == [("/v1/nowhere", Role.ANYBODY), ("/v1/echo", Role.ANYBODY)]


def test_every_route_but_sessions_health_and_heartbeats_needs_a_role() -> None:
    everybody = {route.path for route in ROUTES if route.role is Role.ANYBODY}
    allowed = ("/v1/session", "/healthz", "/readyz", "/v1/beat/")
    assert not [path for path in everybody if not path.startswith(allowed)]


def test_a_websocket_is_closed(own: ApiClient) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/v1/echo", "raw_path": b"/v1/echo", "headers": [], "query_string": b""}
    asyncio.run(own.app(scope, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_without_a_node_changes_are_refused_and_reading_goes_on(stopped_context: ApiContext) -> None:
    api = ApiClient(stopped_context, RoleNameAuthenticator())
    assert api.get("/v1/tasks").json() == {"tasks": [], "next": None, "total": 0, "live": False}
    body = {"name": "x", "every": "5m", "command": ["noop"]}
    assert "does not answer" in problem(api.post("/v1/tasks", json=body), 503)["detail"]
    problem(api.get("/v1/status"), 503)
    api.close()


def test_without_a_node_a_task_that_is_not_there_is_told_from_one_that_cannot_run_now(
    stopped_context: ApiContext,
) -> None:
    api = ApiClient(stopped_context, RoleNameAuthenticator())
    with closing(SqliteStore(Path(stopped_context.database))) as store:
        store.create([a_task("there")], "me", T0)
    assert "does not answer" in problem(api.post("/v1/tasks/there/run"), 503)["detail"]
    assert problem(api.post("/v1/tasks/nobody/run"), 404)["detail"] == "there is no task 'nobody'"
    api.close()
