import pytest
from api_client import ApiClient, RoleNameAuthenticator
from live_node import LiveNode
from waiting import eventually

from evenbeat.api.http.context import ApiContext


@pytest.fixture
def endless(api: ApiClient, live_node: LiveNode) -> str:
    """A task whose run is under way."""
    name = "endless"
    if api.get(f"/v1/tasks/{name}").status_code == 404:
        api.add(name, command=["sleep", "600"], labels={"team": "ops"})
    api.post(f"/v1/tasks/{name}/run")
    eventually(lambda: api.get(f"/v1/tasks/{name}").json()["running_since"])
    return name


def test_a_run_is_stopped_and_waited_for(api: ApiClient, endless: str) -> None:
    done = api.post(f"/v1/tasks/{endless}/stop?wait=true&reason=wrong database").json()
    assert (done["task"], done["found"]) == (endless, "run")
    assert (done["run"]["outcome"], "wrong database" in done["run"]["output"]) == ("cancelled", True)
    again = api.post(f"/v1/tasks/{endless}/stop").json()
    assert again == {"task": endless, "found": "nothing", "run": None}


def test_who_has_stopped_it_is_seen_while_it_ends(api: ApiClient) -> None:
    api.add("stubborn", shell=True, command="trap '' TERM; while :; do sleep 0.1; done")
    api.post("/v1/tasks/stubborn/run")
    eventually(lambda: api.get("/v1/tasks/stubborn").json()["running_since"])
    assert api.post("/v1/tasks/stubborn/stop").json() == {"task": "stubborn", "found": "run", "run": None}
    (run,) = [run for run in api.get("/v1/running").json()["running"] if run["task"] == "stubborn"]
    assert run["stopping"].startswith("stopped by ")
    why = api.get("/v1/tasks/stubborn/why").json()
    assert any("stopped by" in reason for reason in [why["answer"], *why["reasons"]])


def test_runs_are_stopped_by_filter(api: ApiClient, endless: str) -> None:
    done = api.post("/v1/runs/stop", json={"filter": {"labels": {"team": "ops"}}, "wait": True}).json()
    assert [(run["task"], run["found"]) for run in done["stopped"]] == [(endless, "run")]
    refused = api.post("/v1/runs/stop", json={})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/filter")


def test_nobody_stops_what_is_not_there_or_without_the_role(api: ApiClient, context: ApiContext) -> None:
    assert api.post("/v1/tasks/nobody/stop").status_code == 404
    reader = ApiClient(context, RoleNameAuthenticator(), who="reader")
    assert reader.post("/v1/runs/stop", json={"all": True}).status_code == 403
    reader.close()


def test_a_reason_is_one_line(api: ApiClient, endless: str) -> None:
    refused = api.post("/v1/runs/stop", json={"filter": {"names": [endless]}, "reason": "two\nlines"})
    assert refused.status_code == 422
    api.post(f"/v1/tasks/{endless}/stop?wait=true")
