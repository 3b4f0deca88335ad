"""Who may read, or operate, learns no value of a variable of a task: neither by any route nor by the command line."""

from collections.abc import Iterator
from typing import Any

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from live_node import LiveNode

from evenbeat.api.application import ROUTES
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.route import Role
from evenbeat.load.task_tables import hide_secrets, task_from_table, task_to_table
from evenbeat.model import HIDDEN_VALUE

SECRET = "hunter2-is-secret"
ENV = {"PASSWORD": SECRET, "BY_NAME": "env:DB_PASSWORD", "BY_FILE": "file:/run/secrets/db"}
SHOWN = {**ENV, "PASSWORD": HIDDEN_VALUE}
KEYS: dict[str, Any] = {"every": "1d", "command": ["noop"], "env": ENV}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    with LiveNode(tmp_path_factory.mktemp("node") / "evenbeat.db", grace=0.1) as node:
        context = ApiContext(node.database)
        api = ApiClient(context, RoleNameAuthenticator())
        api.add("t", env=ENV)
        # So that there is something of it everywhere: a change, a run, an audit.
        api.ask("PATCH", "/v1/tasks/t", json={"env": {"OTHER": SECRET + "-too"}})
        api.ask("PATCH", "/v1/tasks/t", json={"env": {"OTHER": None}})
        api.post("/v1/tasks/t/run?wait=true")
        yield api
        api.close()
        context.close()


def of(role: str) -> dict[str, str]:
    return {"authorization": f"Bearer {role}"}


def read_routes() -> list[str]:
    paths = [route.path for route in ROUTES if route.method == "GET" and route.role <= Role.OPERATE]
    return sorted({path.replace("{name}", "t") for path in paths} - {"/v1/events"})


@pytest.mark.parametrize("role", ["reader", "operator"])
def test_no_route_that_reads_shows_a_value(api: ApiClient, role: str) -> None:
    assert "/v1/tasks/t" in read_routes()
    for path in read_routes():
        assert SECRET not in api.get(path, headers=of(role)).text, path


@pytest.mark.parametrize("role", ["reader", "operator"])
def test_names_and_references_are_shown(api: ApiClient, role: str) -> None:
    assert api.get("/v1/tasks/t", headers=of(role)).json()["task"]["env"] == SHOWN
    assert api.get("/v1/tasks", headers=of(role)).json()["tasks"][0]["task"]["env"] == SHOWN


def test_admin_is_shown_the_values(api: ApiClient) -> None:
    assert api.get("/v1/tasks/t").json()["task"]["env"] == ENV
    assert api.get("/v1/tasks").json()["tasks"][0]["task"]["env"] == ENV


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_who_operates_a_task_is_not_answered_with_its_values(api: ApiClient, action: str) -> None:
    answer = api.post(f"/v1/tasks/t/{action}", headers=of("operator"))
    assert (answer.status_code, answer.json()["task"]["env"]) == (200, SHOWN)


def test_what_a_reader_was_shown_cannot_be_written_back_over_the_values(api: ApiClient) -> None:
    shown = api.get("/v1/tasks/t", headers=of("reader")).json()["task"]
    for body in (shown, {"env": shown["env"]}):
        for role in ("reader", "operator"):
            assert api.ask("PATCH", "/v1/tasks/t", json=body, headers=of(role)).status_code == 403
            assert api.ask("PUT", "/v1/tasks/t", json=body, headers=of(role)).status_code == 403
    refused = [
        api.ask("PUT", "/v1/tasks/t", json=shown),
        api.ask("PATCH", "/v1/tasks/t", json={"env": shown["env"]}),
        api.post("/v1/tasks", json={**shown, "name": "u"}),
    ]
    for answer in refused:
        (error,) = answer.json()["errors"]
        assert (answer.status_code, error["pointer"]) == (422, "/env/PASSWORD")
        assert "only the role admin reads" in error["detail"]
    owners = {"owners": {"file:/x": {"tasks": {"v": shown}}}}
    assert api.post("/v1/apply", json=owners).json()["errors"][0]["pointer"] == "/owners/file:~1x/tasks/v/env/PASSWORD"
    assert api.get("/v1/tasks/t").json()["task"]["env"] == ENV


def test_a_task_without_variables_is_shown_as_it_is() -> None:
    table = task_to_table(task_from_table("t", {"every": "1d", "command": ["noop"], "labels": {"a": "b"}}, check=False))
    assert hide_secrets(table) == table
    table = task_to_table(task_from_table("t", KEYS, check=False))
    assert hide_secrets(table) == {**table, "env": SHOWN}
    assert table["env"] == ENV
