import pytest
from api_client import ApiClient, RoleNameAuthenticator
from live_node import LiveNode
from waiting import eventually

from evenbeat.api.http.context import ApiContext


@pytest.fixture(scope="module")
def several(api: ApiClient) -> ApiClient:
    for number in range(4):
        api.add(f"bulk-{number}", labels={"team": "web" if number else "db"})
    return api


def names_of(api: ApiClient, query: str) -> list[str]:
    return [task["name"] for task in api.get(f"/v1/tasks?{query}").json()["tasks"]]


def test_pause_and_resume_by_filter(several: ApiClient) -> None:
    body = {"action": "pause", "filter": {"labels": {"team": "web"}}}
    dry = several.post("/v1/actions", json={**body, "dry_run": True}).json()
    assert dry == {"action": "pause", "count": 3, "names": ["bulk-1", "bulk-2", "bulk-3"], "unchanged": 0, "files": []}
    assert names_of(several, "state=disabled") == []
    assert several.post("/v1/actions", json=body).json() == dry
    assert names_of(several, "state=disabled") == dry["names"]
    again = several.post("/v1/actions", json=body).json()
    assert (again["count"], again["names"], again["unchanged"]) == (0, [], 3)
    assert several.post("/v1/actions", json={**body, "dry_run": True}).json() == again
    resumed = several.post("/v1/actions", json={"action": "resume", "filter": {"contains": "BULK"}}).json()
    assert resumed["count"] == 3


def test_run_by_filter(several: ApiClient, live_node: LiveNode) -> None:
    done = several.post("/v1/actions", json={"action": "run", "filter": {"names": ["bulk-0", "bulk-[x]", "*-1"]}})
    assert done.json() == {"action": "run", "count": 2, "names": ["bulk-0", "bulk-1"], "unchanged": 0, "files": []}
    eventually(lambda: live_node.runs("bulk-0") and live_node.runs("bulk-1"))


def test_some_run_together_or_none_does(several: ApiClient) -> None:
    answer = several.post("/v1/runs", json={"tasks": ["bulk-0", "bulk-1"], "wait": True})
    assert answer.status_code == 200
    assert [run["task"] for run in answer.json()["runs"]] == ["bulk-0", "bulk-1"]
    before = len(several.get("/v1/tasks/bulk-0/history?runs=true").json()["runs"])
    assert several.post("/v1/runs", json={"tasks": ["bulk-0", "nobody"], "wait": True}).status_code in (404, 422)
    assert len(several.get("/v1/tasks/bulk-0/history?runs=true").json()["runs"]) == before


def test_delete_takes_an_admin_and_tells_the_first_names(several: ApiClient, context: ApiContext) -> None:
    operator = ApiClient(context, RoleNameAuthenticator(), who="operator")
    body = {"action": "delete", "filter": {"names": ["bulk-2", "bulk-3"]}}
    assert operator.post("/v1/actions", json=body).status_code == 403
    assert operator.post("/v1/actions", json={**body, "action": "pause"}).status_code == 200
    operator.close()
    assert several.post("/v1/actions", json=body).json()["count"] == 2
    assert names_of(several, "name=bulk-*") == ["bulk-0", "bulk-1"]


def test_nobody_means_everything_by_saying_nothing(several: ApiClient) -> None:
    for body in ({"action": "pause"}, {"action": "pause", "filter": {"names": [], "labels": {}, "contains": ""}}):
        answer = several.post("/v1/actions", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/filter")
    everything = several.post("/v1/actions", json={"action": "pause", "all": True, "dry_run": True}).json()
    assert everything["count"] == several.get("/v1/tasks").json()["total"]


def test_an_action_that_does_not_exist_is_pointed_at(several: ApiClient) -> None:
    answer = several.post("/v1/actions", json={"action": "explode", "all": True})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/action")
