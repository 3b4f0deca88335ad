"""Tokens that are limited to an owner or to labels: what they see and do, on every route there is."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from in_process_server import InProcessServer
from live_node import LiveNode
from problem_seeds import seed_problem

from evenbeat.admin.tokens import add_token, create_api_token
from evenbeat.api.application import ROUTES
from evenbeat.api.auth.scopes import SCOPE_POLICIES, ScopePolicy, events_within, narrow_filter
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.route import Role, Route
from evenbeat.api.live.event_feed import parse_feed_position, sse_frame
from evenbeat.api.openapi import reference_page
from evenbeat.core.scope import Scope
from evenbeat.model import Cause
from evenbeat.store.contract import Filter

SHOP = Scope("shop")
OPS = Scope(None, {"team": "ops"})
ALL = [*ROUTES, *reference_page.routes(ROUTES)]
PARTS = {"{name}": "theirs", "{token}": "x" * 32, "{id}": "1"}
"""What stands in a path for a variable: the task outside, and its problem."""


@pytest.fixture(scope="module", params=[SHOP, OPS], ids=["owner", "label"])
def limited(
    request: pytest.FixtureRequest, context: ApiContext, api: ApiClient, live_node: LiveNode
) -> Iterator[ApiClient]:
    """An admin whose token is limited; `mine-*` is within, `theirs-*` is not."""
    if api.get("/v1/tasks/mine").status_code == 404:
        for name, owner, team in (("mine", "shop", "ops"), ("theirs", "bank", "dev")):
            body = {"name": name, "every": "1d", "command": ["noop"], "labels": {"team": team}}
            assert api.post(f"/v1/tasks?owner={owner}", json=body).status_code == 201
            assert api.post(f"/v1/tasks/{name}/run?wait=true").status_code == 200
        assert seed_problem(live_node.node.store, "theirs", cause=Cause.FAILED) == 1
    api = ApiClient(context, RoleNameAuthenticator(request.param))
    yield api
    api.close()


def test_every_route_says_how_it_treats_scopes() -> None:
    here = {(route.method, route.path) for route in ALL}
    assert here - SCOPE_POLICIES.keys() == set(), (
        "a route that is not in api/scopes.py is refused to tokens with a scope"
    )
    assert SCOPE_POLICIES.keys() - here == set()


def test_a_route_that_names_a_task_treats_it_as_one() -> None:
    of_a_task = [route for route in ALL if route.path.startswith("/v1/tasks/{name}")]
    assert {SCOPE_POLICIES[route.method, route.path] for route in of_a_task} == {ScopePolicy.TASK}
    assert {
        route.path for route in ALL if SCOPE_POLICIES[route.method, route.path] is ScopePolicy.FREE and route.role
    } == {
        "/docs",
        "/v1/openapi.json",
        "/v1/periods/preview",
    }


@pytest.mark.parametrize("route", ALL, ids=lambda route: f"{route.method} {route.path}")
def test_no_route_tells_of_or_touches_what_is_outside(limited: ApiClient, api: ApiClient, route: Route) -> None:
    if route.path == "/v1/events" or route.role is Role.ANYBODY:
        return
    path = route.path
    for variable, value in PARTS.items():
        path = path.replace(variable, value)
    bodies: dict[str, Any] = {
        "/v1/actions": {"action": "pause", "all": True},
        "/v1/runs": {"tasks": ["theirs"], "wait": True},
        "/v1/problems/acknowledge": {"ids": [1]},
        "/v1/problems/comment": {"ids": [1], "text": "hm"},
        "/v1/tasks": {"name": "outside", "every": "1d", "command": ["noop"], "labels": {"team": "dev"}},
    }
    more: dict[str, Any] = {} if route.body is None else {"json": bodies.get(route.path, {})}
    answer = limited.ask(route.method, f"{path}?owner=bank" if path == "/v1/tasks" else path, **more)
    assert "theirs" not in answer.text.replace("no task 'theirs'", "")
    refusals: dict[ScopePolicy, tuple[int, ...]] = {ScopePolicy.TASK: (404,), ScopePolicy.REFUSED: (403,)}
    expected = refusals.get(SCOPE_POLICIES[route.method, route.path])
    if route.path in ("/v1/tasks", "/v1/runs") and route.method == "POST":
        expected = (403, 404)
    if route.path.startswith(("/v1/problems/", "/v1/downtimes/")):
        expected = (404,)
    assert answer.status_code in (expected or (200, 422))
    assert api.get("/v1/tasks/theirs").json()["paused"] is False
    limited.post("/v1/tasks/mine/resume")


def test_what_is_within_is_seen_and_done(limited: ApiClient) -> None:
    listed = limited.get("/v1/tasks").json()
    assert ([task["name"] for task in listed["tasks"]], listed["total"]) == (["mine"], 1)
    assert limited.get("/v1/tasks?owner=bank").json()["tasks"] == []
    assert limited.get("/v1/tasks?label=team%3Ddev").json()["total"] == 0
    assert limited.get("/v1/tasks?contains=their").json()["total"] == 0
    for word in ("", "/history", "/why", "/changes", "/next"):
        assert limited.get(f"/v1/tasks/mine{word}").status_code == 200
    assert {run["task"] for run in limited.get("/v1/history").json()["runs"]} == {"mine"}
    assert limited.get("/v1/running").json() == {"running": [], "total": 0}
    assert limited.post("/v1/runs", json={"tasks": ["mine"], "wait": True}).json()["runs"][0]["task"] == "mine"
    newest = limited.get("/v1/history?limit=1").json()
    assert (len(newest["runs"]), newest["next"] is None) == (1, False)
    done = limited.post("/v1/actions", json={"action": "pause", "all": True}).json()
    assert (done["count"], done["names"]) == (1, ["mine"])
    dry = {"action": "delete", "filter": {"names": ["*"]}, "dry_run": True}
    assert limited.post("/v1/actions", json=dry).json()["names"] == ["mine"]
    assert limited.post("/v1/tasks/mine/resume").json()["paused"] is False


def test_what_is_made_is_within_and_stays_so(limited: ApiClient, api: ApiClient) -> None:
    body = {"name": "new", "every": "1d", "command": ["noop"], "labels": {"team": "ops"}}
    made = limited.post("/v1/tasks", json=body)
    assert made.status_code == 201
    is_by_owner = made.json()["owner"] == "shop"
    out = {"labels": {"team": "dev"}}
    assert limited.ask("PATCH", "/v1/tasks/new", json=out).status_code == (200 if is_by_owner else 403)
    assert limited.ask("PATCH", "/v1/tasks/mine", json={"priority": 1}).status_code == 200
    assert api.ask("DELETE", "/v1/tasks/new").status_code == 204
    # Its past is still theirs to read, and nobody else's.
    assert limited.get("/v1/tasks/new/changes").status_code == 200


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (Filter(), Filter(owner="shop", labels={"team": "ops"})),
        (Filter(owner="shop", labels={"a": "b"}), Filter(owner="shop", labels={"a": "b", "team": "ops"})),
        (Filter(owner="bank"), Filter(names=("",))),
        (Filter(labels={"team": "dev"}), Filter(names=("",))),
    ],
)
def test_a_filter_is_narrowed(only: Filter, expected: Filter) -> None:
    assert narrow_filter(only, Scope("shop", {"team": "ops"})) == expected
    assert narrow_filter(only, None) == only


def test_events_are_those_of_the_scope(limited: ApiClient, context: ApiContext) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        yield sse_frame("run", {"task": "mine", "number": numbers["mine"]}, parse_feed_position("b-1"))
        yield sse_frame("run", {"task": "theirs", "number": numbers["theirs"]}, parse_feed_position("b-2"))
        yield sse_frame("task", {"name": None, "change": "changed", "count": 7}, parse_feed_position("b-3"))
        yield sse_frame("status", {"tasks": 99}) + b": beat\n\n"
        yield sse_frame("reset", {}, parse_feed_position("b-4"))

    async def heard() -> bytes:
        return b"".join([piece async for piece in events_within(pieces(), context, SHOP)])

    assert limited
    numbers = {entry.task.name: entry.number for entry in context.store.entries()}
    received = asyncio.run(heard())
    assert received == (
        b'retry: 1000\n\nid: b-1\nevent: run\ndata: {"task":"mine","number":%d}\n\n' % numbers["mine"]
        + b"id: b-2\n\nid: b-3\n\n: beat\n\nid: b-4\nevent: reset\ndata: {}\n\n"
    )


def test_the_token_carries_its_scope(tmp_path: Path) -> None:
    with LiveNode(tmp_path / "evenbeat.db"):
        pass
    with InProcessServer(tmp_path) as server:
        new = create_api_token("ci", "operate", server.context.now(), None, Scope("shop", {"team": "ops"}))
        add_token(server.admin, new.id, new.token, "ana")
        server.later(3)
        assert server("GET", "/v1/tasks", new.text).json()["total"] == 0
        refused = server("GET", "/v1/status", new.text)
        assert (refused.status_code, "limited to owner shop, label team=ops" in refused.text) == (403, True)
        (change,) = [change for change in server.admin.store.changes() if change.name == "token ci"]
        assert change.detail == "operate, limited to owner shop, label team=ops"


def test_dependencies_tell_nothing_of_tasks_outside(limited: ApiClient, api: ApiClient) -> None:
    keys = {"passive": True, "every": "1d"}  # it never runs
    inside, outside = {**keys, "labels": {"team": "ops"}}, {**keys, "labels": {"team": "dev"}}
    assert api.post("/v1/tasks?owner=bank", json={"name": "outer-check", **outside}).status_code == 201
    assert api.post("/v1/tasks?owner=shop", json={"name": "inner-check", **inside}).status_code == 201
    dependent = {"name": "outer-dependent", **outside, "depends": ["inner-check"]}
    assert api.post("/v1/tasks?owner=bank", json=dependent).status_code == 201
    answers = [
        limited.post("/v1/tasks", json={"name": "inner-x", **inside, "depends": [name]})
        for name in ("outer-check", "outer-chick")
    ]
    assert [answer.status_code for answer in answers] == [422, 422]
    assert answers[0].json()["errors"] == [
        {**error, "detail": error["detail"].replace("chick", "check")} for error in answers[1].json()["errors"]
    ]
    assert limited.post("/v1/tasks", json={"name": "inner-x", **inside, "depends": ["inner-check"]}).status_code == 201
    selected = {"action": "delete", "filter": {"names": ["inner-check"]}}
    for answer in (
        limited.ask("DELETE", "/v1/tasks/inner-check"),
        limited.ask("PATCH", "/v1/tasks/inner-check", json={"name": "other"}),
        limited.post("/v1/actions", json=selected),
        limited.post("/v1/actions", json={**selected, "dry_run": True}),
    ):
        assert answer.status_code == 409, answer.text
        assert "tasks depend on it: 'inner-x' of" in answer.json()["detail"]
        assert "and 1 more" in answer.json()["detail"]
        assert "outer" not in answer.text
    api.ask("PATCH", "/v1/tasks/inner-x", json={"depends": ["inner-check", "outer-check"]})
    kept = limited.ask("PATCH", "/v1/tasks/inner-x", json={"grace": "5m"})
    assert (kept.status_code, kept.json()["task"]["depends"]) == (200, ["inner-check", "outer-check"])
    names = ["outer-check", "inner-check", "outer-dependent", "inner-x"]
    assert api.post("/v1/actions", json={"action": "delete", "filter": {"names": names}}).json()["count"] == 4
