import os

from api_client import ApiClient
from live_node import LiveNode
from waiting import eventually

from evenbeat.wire.documents import ChangeDocument, NodeDocument, RunningDocument, SkipDocument
from evenbeat.wire.status import Status


def test_history_comes_newest_first_and_in_pages(api: ApiClient) -> None:
    api.add("often", command=["false"])
    for _ in range(5):
        api.post("/v1/tasks/often/run?wait=true")
    eventually(lambda: all(run["ended"] for run in api.get("/v1/tasks/often/history").json()["runs"]))
    newest = api.get("/v1/tasks/often/history?limit=2").json()
    assert len(newest["runs"]) == 2
    assert newest["runs"][0]["claimed"] > newest["runs"][1]["claimed"]
    older = api.get("/v1/tasks/often/history", params={"before": newest["next"]}).json()
    assert len(older["runs"]) == 3
    assert older["next"] is None
    whole = api.get("/v1/tasks/often/history").json()["runs"]
    assert whole == newest["runs"] + older["runs"]
    assert {run["task"] for run in api.get("/v1/history?failed=true").json()["runs"]} == {"often"}


def test_failed_leaves_out_what_succeeded_and_skips_are_told_alone(api: ApiClient) -> None:
    api.add("mixed")
    api.post("/v1/tasks/mixed/run?wait=true")
    assert len(api.get("/v1/tasks/mixed/history").json()["runs"]) == 1
    assert api.get("/v1/tasks/mixed/history?failed=true").json()["runs"] == []
    assert api.get("/v1/tasks/mixed/history?skips=true").json()["runs"] == []


def test_a_skip_is_told_with_its_reason(api: ApiClient) -> None:
    api.add("slow", every="1s", command=["sleep", "30"], timebox="40s")
    eventually(lambda: api.get("/v1/tasks/slow").json()["running_since"])
    skips = eventually(lambda: api.get("/v1/tasks/slow/history?skips=true").json()["skips"])
    assert list(skips[0]) == list(SkipDocument.__struct_fields__)
    assert (skips[0]["task"], skips[0]["kind"]) == ("slow", "grid")
    api.ask("DELETE", "/v1/tasks/slow")


def test_the_history_of_a_removed_task_is_told_while_it_is_kept(api: ApiClient) -> None:
    api.add("gone")
    api.post("/v1/tasks/gone/run?wait=true")
    before = api.get("/v1/tasks/gone").json()
    api.ask("DELETE", "/v1/tasks/gone")
    assert api.get("/v1/tasks/gone").status_code == 404
    for name in ("gone", before["id"]):
        assert [run["task"] for run in api.get(f"/v1/tasks/{name}/history").json()["runs"]] == ["gone"]
    assert next(c["action"] for c in api.get("/v1/tasks/gone/changes").json()["changes"]) == "removed"
    assert api.get("/v1/tasks/never/history").status_code == 404


def test_the_audit_tells_who_changed_what(api: ApiClient) -> None:
    api.add("watched")
    api.post("/v1/tasks/watched/pause")
    found = api.get("/v1/tasks/watched/changes").json()["changes"]
    assert list(found[0]) == list(ChangeDocument.__struct_fields__)
    assert [change["who"] for change in found] == ["admin", "admin"]
    assert found[-1]["action"] == "created"
    assert len(api.get("/v1/tasks/watched/changes?limit=1").json()["changes"]) == 1


def test_why_answers_for_now_and_for_then(api: ApiClient) -> None:
    api.add("asked")
    api.post("/v1/tasks/asked/pause")
    now = api.get("/v1/tasks/asked/why").json()
    assert "does not run: it is paused" in now["answer"]
    assert now["reasons"]
    then = api.get("/v1/tasks/asked/why", params={"at": "2001-01-01T03:00"}).json()
    assert "did not exist yet" in then["answer"]
    wrong = api.get("/v1/tasks/asked/why?at=soon")
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/query/at")
    assert api.get("/v1/tasks/nobody/why").status_code == 404
    assert api.get("/v1/history?before=soon").json()["errors"][0]["pointer"] == "/query/before"


def test_what_runs_is_told_while_it_runs(api: ApiClient) -> None:
    api.add("lasting", command=["sleep", "30"], timebox="45s")
    api.post("/v1/tasks/lasting/run")
    found = eventually(
        lambda: next((run for run in api.get("/v1/running").json()["running"] if run["task"] == "lasting"), None)
    )
    assert found is not None
    assert list(found) == list(RunningDocument.__struct_fields__)
    assert (found["kind"], found["timebox"]) == ("forced", 45.0)
    assert found["elapsed"] >= 0
    assert api.get("/v1/running?limit=1").json()["total"] >= 1


def test_the_node_tells_how_and_who_it_is(api: ApiClient, live_node: LiveNode) -> None:
    status = api.get("/v1/status").json()
    assert status["live"] is True
    assert set(status) == {"live", *Status.__struct_fields__}
    (node,) = api.get("/v1/nodes").json()["nodes"]
    assert list(node) == list(NodeDocument.__struct_fields__)
    assert node["pid"] == os.getpid()  # the node of this test is a thread of it
    assert node["workers"]
