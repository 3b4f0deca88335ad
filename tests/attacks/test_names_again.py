"""A limited token takes a name that another task has or had: it learns and reaches nothing of that one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from live_node import LiveNode

from evenbeat.admin.tokens import add_token, create_api_token
from evenbeat.api.auth.scopes import events_within
from evenbeat.api.http.context import ApiContext
from evenbeat.api.live.event_feed import parse_feed_position, sse_frame
from evenbeat.core.scope import Scope

SHOP = Scope("shop")


@pytest.fixture(scope="module")
def shop(context: ApiContext) -> Iterator[ApiClient]:
    """An admin that is limited to an owner."""
    api = ApiClient(context, RoleNameAuthenticator(SHOP))
    yield api
    api.close()


def made(api: ApiClient, name: str, *command: str) -> Any:
    body = {"name": name, "every": "1d", "command": command or ("noop",)}
    return api.post("/v1/tasks", json=body)


def ran_and_removed(api: ApiClient, name: str) -> int:
    """A task of somebody else's; its number."""
    assert made(api, name, "echo", "SECRET").status_code == 201
    assert api.post(f"/v1/tasks/{name}/run?wait=true").json()["output"] == "SECRET\n"
    entry = api.context.store.find(name)
    assert entry is not None
    assert api.ask("DELETE", f"/v1/tasks/{name}").status_code == 204
    return entry.number


def test_the_past_of_another_task_of_the_same_name_stays_hidden(api: ApiClient, shop: ApiClient) -> None:
    ran_and_removed(api, "payroll")
    assert made(shop, "payroll").status_code == 201
    assert shop.post("/v1/tasks/payroll/run?wait=true").status_code == 200
    for path in ("/v1/history", "/v1/tasks/payroll/history", "/v1/tasks/payroll/changes", "/v1/tasks/payroll"):
        assert "SECRET" not in shop.get(path).text, path
    assert [run["task"] for run in shop.get("/v1/history").json()["runs"]] == ["payroll"]
    own = [change["action"] for change in shop.get("/v1/tasks/payroll/changes").json()["changes"]]
    assert own == ["forced", "created"]
    whole = [change["action"] for change in api.get("/v1/tasks/payroll/changes").json()["changes"]]
    assert whole == ["forced", "created", "removed", "forced", "created"]


def test_a_task_that_is_renamed_brings_no_past_with_it(api: ApiClient, shop: ApiClient) -> None:
    assert made(shop, "older").status_code == 201
    ran_and_removed(api, "ledger")
    assert shop.ask("PATCH", "/v1/tasks/older", json={"name": "ledger"}).status_code == 200
    for path in ("/v1/history", "/v1/tasks/ledger/history", "/v1/tasks/ledger/changes"):
        assert "SECRET" not in shop.get(path).text, path
    assert [change["action"] for change in shop.get("/v1/tasks/ledger/changes").json()["changes"]] == ["changed"]


def test_what_comes_after_a_removed_task_stays_hidden_too(api: ApiClient, shop: ApiClient) -> None:
    id_ = made(shop, "later").json()["id"]
    assert shop.ask("DELETE", "/v1/tasks/later").status_code == 204
    ran_and_removed(api, "later")
    changes = shop.get(f"/v1/tasks/{id_}/changes")
    assert [change["action"] for change in changes.json()["changes"]] == ["removed", "created"]
    assert "SECRET" not in changes.text


def test_a_task_called_like_a_token_shows_nothing_of_the_token(live_node: LiveNode, shop: ApiClient) -> None:
    new = create_api_token("root", "admin", live_node.node.admin.now())
    add_token(live_node.node.admin, new.id, new.token, "ana")
    assert made(shop, "token root").status_code == 201
    assert shop.get("/v1/tasks/token%20root/changes").json() == {"changes": []}


def test_events_of_another_task_of_the_same_name_are_not_heard(api: ApiClient, shop: ApiClient) -> None:
    theirs = ran_and_removed(api, "invoices")
    assert made(shop, "invoices").status_code == 201
    mine = shop.context.store.find("invoices")
    assert mine is not None

    async def pieces() -> AsyncIterator[bytes]:
        for seq, number in enumerate((theirs, mine.number)):
            yield sse_frame("run", {"task": "invoices", "number": number}, parse_feed_position(f"b-{seq}"))

    async def heard() -> list[bytes]:
        return [piece async for piece in events_within(pieces(), shop.context, SHOP)]

    hidden, shown = asyncio.run(heard())
    assert hidden == b"id: b-0\n\n"
    assert b"event: run" in shown


def test_nobody_takes_over_a_run_from_outside_its_scope(api: ApiClient, shop: ApiClient, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    assert made(api, "long", "sh", "-c", f"mkfifo {begun}; echo SECRET; cat {begun}").status_code == 201
    assert api.post("/v1/tasks/long/run").status_code == 202
    assert api.ask("DELETE", "/v1/tasks/long").status_code == 204
    refused = made(shop, "long")
    assert (refused.status_code, "still runs" in refused.text) == (409, True)
    assert shop.get("/v1/running").json() == {"running": [], "total": 0}
    # Whoever sees everything has it back, as before.
    assert made(api, "long").status_code == 201


def test_no_task_is_called_like_the_id_of_another(api: ApiClient, shop: ApiClient) -> None:
    id_ = made(api, "victim").json()["id"]
    assert made(shop, id_).status_code == 409
    assert made(shop, "decoy").status_code == 201
    assert shop.ask("PATCH", "/v1/tasks/decoy", json={"name": id_}).status_code == 409
    body = {"owners": {"upload:/a": {"tasks": {id_: {"every": "1d", "command": ["noop"]}}}}}
    refused = api.post("/v1/apply", json=body)
    assert (refused.status_code, "is the id of another task" in refused.text) == (409, True)
    assert api.ask("PATCH", "/v1/tasks/victim", json={"env": {"SECRET": "x"}}).json()["name"] == "victim"
