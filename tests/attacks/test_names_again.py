"""A limited token takes a name that another task has or had: it learns and reaches nothing of that one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_node import Living

from api.asking import Api, Porter
from evenbeat.admin.tokens import add_token, create_api_token
from evenbeat.api.auth.scopes import events_within
from evenbeat.api.http.context import ApiContext
from evenbeat.api.live.status_feed import parse_feed_position, sse_frame
from evenbeat.core.scope import Scope

SHOP = Scope("shop")


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    with Living(tmp_path_factory.mktemp("node") / "evenbeat.db", grace=0.1) as node:
        yield node


@pytest.fixture(scope="module")
def house(living: Living) -> Iterator[ApiContext]:
    house = ApiContext(living.database)
    yield house
    house.close()


@pytest.fixture(scope="module")
def boss(house: ApiContext) -> Iterator[Api]:
    api = Api(house, Porter())
    yield api
    api.close()


@pytest.fixture(scope="module")
def shop(house: ApiContext) -> Iterator[Api]:
    """An admin that is limited to an owner."""
    api = Api(house, Porter(SHOP))
    yield api
    api.close()


def made(api: Api, name: str, *command: str) -> Any:
    body = {"name": name, "every": "1d", "command": command or ("noop",)}
    return api.post("/v1/tasks", json=body)


def ran_and_removed(boss: Api, name: str) -> int:
    """A task of somebody else's; its number."""
    assert made(boss, name, "echo", "SECRET").status_code == 201
    assert boss.post(f"/v1/tasks/{name}/run?wait=true").json()["output"] == "SECRET\n"
    entry = boss.house.store.find(name)
    assert entry is not None
    assert boss.ask("DELETE", f"/v1/tasks/{name}").status_code == 204
    return entry.number


def test_the_past_of_another_task_of_the_same_name_stays_hidden(boss: Api, shop: Api) -> None:
    ran_and_removed(boss, "payroll")
    assert made(shop, "payroll").status_code == 201
    assert shop.post("/v1/tasks/payroll/run?wait=true").status_code == 200
    for path in ("/v1/history", "/v1/tasks/payroll/history", "/v1/tasks/payroll/changes", "/v1/tasks/payroll"):
        assert "SECRET" not in shop.get(path).text, path
    assert [run["task"] for run in shop.get("/v1/history").json()["runs"]] == ["payroll"]
    own = [change["action"] for change in shop.get("/v1/tasks/payroll/changes").json()["changes"]]
    assert own == ["forced", "created"]
    whole = [change["action"] for change in boss.get("/v1/tasks/payroll/changes").json()["changes"]]
    assert whole == ["forced", "created", "removed", "forced", "created"]


def test_a_task_that_is_renamed_brings_no_past_with_it(boss: Api, shop: Api) -> None:
    assert made(shop, "older").status_code == 201
    ran_and_removed(boss, "ledger")
    assert shop.ask("PATCH", "/v1/tasks/older", json={"name": "ledger"}).status_code == 200
    for path in ("/v1/history", "/v1/tasks/ledger/history", "/v1/tasks/ledger/changes"):
        assert "SECRET" not in shop.get(path).text, path
    assert [change["action"] for change in shop.get("/v1/tasks/ledger/changes").json()["changes"]] == ["changed"]


def test_what_comes_after_a_removed_task_stays_hidden_too(boss: Api, shop: Api) -> None:
    id_ = made(shop, "later").json()["id"]
    assert shop.ask("DELETE", "/v1/tasks/later").status_code == 204
    ran_and_removed(boss, "later")
    changes = shop.get(f"/v1/tasks/{id_}/changes")
    assert [change["action"] for change in changes.json()["changes"]] == ["removed", "created"]
    assert "SECRET" not in changes.text


def test_a_task_called_like_a_token_shows_nothing_of_the_token(living: Living, shop: Api) -> None:
    new = create_api_token("root", "admin", living.node.admin.now())
    add_token(living.node.admin, new.id, new.token, "ana")
    assert made(shop, "token root").status_code == 201
    assert shop.get("/v1/tasks/token%20root/changes").json() == {"changes": []}


def test_events_of_another_task_of_the_same_name_are_not_heard(boss: Api, shop: Api) -> None:
    theirs = ran_and_removed(boss, "invoices")
    assert made(shop, "invoices").status_code == 201
    mine = shop.house.store.find("invoices")
    assert mine is not None

    async def pieces() -> AsyncIterator[bytes]:
        for seq, number in enumerate((theirs, mine.number)):
            yield sse_frame("run", {"task": "invoices", "number": number}, parse_feed_position(f"b-{seq}"))

    async def heard() -> list[bytes]:
        return [piece async for piece in events_within(pieces(), shop.house, SHOP)]

    hidden, shown = asyncio.run(heard())
    assert hidden == b"id: b-0\n\n"
    assert b"event: run" in shown


def test_nobody_takes_over_a_run_from_outside_its_scope(boss: Api, shop: Api, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    assert made(boss, "long", "sh", "-c", f"mkfifo {begun}; echo SECRET; cat {begun}").status_code == 201
    assert boss.post("/v1/tasks/long/run").status_code == 202
    assert boss.ask("DELETE", "/v1/tasks/long").status_code == 204
    refused = made(shop, "long")
    assert (refused.status_code, "still runs" in refused.text) == (409, True)
    assert shop.get("/v1/running").json() == {"running": [], "total": 0}
    # Whoever sees everything has it back, as before.
    assert made(boss, "long").status_code == 201


def test_no_task_is_called_like_the_id_of_another(boss: Api, shop: Api) -> None:
    id_ = made(boss, "victim").json()["id"]
    assert made(shop, id_).status_code == 409
    assert made(shop, "decoy").status_code == 201
    assert shop.ask("PATCH", "/v1/tasks/decoy", json={"name": id_}).status_code == 409
    body = {"owners": {"upload:/a": {"tasks": {id_: {"every": "1d", "command": ["noop"]}}}}}
    refused = boss.post("/v1/apply", json=body)
    assert (refused.status_code, "is the id of another task" in refused.text) == (409, True)
    assert boss.ask("PATCH", "/v1/tasks/victim", json={"env": {"SECRET": "x"}}).json()["name"] == "victim"
