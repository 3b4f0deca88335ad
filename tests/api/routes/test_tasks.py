from typing import Any

import pytest
from api_client import ApiClient
from live_node import LiveNode
from waiting import eventually

from evenbeat.load.task_keys import TASK_KEYS
from evenbeat.model import Outcome, RunKind, State
from evenbeat.store.contract import COMPUTED_FILTER_STATES, FILTER_STATES
from evenbeat.wire.documents import FilterState, RunDocument, SkipDocument, TaskDocument, TaskKeys, TaskPatch


def errors(answer: Any) -> list[tuple[str, str]]:
    assert answer.status_code == 422, answer.text
    return [(error["pointer"], error["detail"]) for error in answer.json()["errors"]]


def test_a_task_is_created_read_changed_and_deleted(api: ApiClient) -> None:
    made = api.post("/v1/tasks", json={"name": "life", "every": "5m", "command": ["noop"], "check": True})
    assert made.status_code == 201
    assert (made.headers["location"], made.headers["etag"]) == ("/v1/tasks/life", '"1"')
    document = made.json()
    assert (document["name"], document["check"], document["owner"]) == ("life", True, "admin")
    assert document["task"]["every"] == "5m"
    read = api.get("/v1/tasks/life")
    assert (read.status_code, read.headers["etag"], read.json()["id"]) == (200, '"1"', document["id"])
    changed = api.ask("PATCH", "/v1/tasks/life", json={"timebox": "20s", "labels": {"team": "web", "tier": "1"}})
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    assert changed.json()["task"]["labels"] == {"team": "web", "tier": "1"}
    merged = api.ask("PATCH", "/v1/tasks/life", json={"timebox": None, "labels": {"tier": None}}).json()
    assert merged["task"]["labels"] == {"team": "web"}
    assert "timebox" not in merged["task"]
    assert merged["check"] is True
    gone = api.ask("DELETE", "/v1/tasks/life")
    assert (gone.status_code, gone.content) == (204, b"")
    assert api.get("/v1/tasks/life").status_code == 404


def test_a_task_belongs_to_whoever_made_it_or_was_named(api: ApiClient) -> None:
    assert api.add("mine").json()["owner"] == "admin"
    answer = api.post("/v1/tasks?owner=bo", json={"name": "his", "every": "1d", "command": ["noop"]})
    assert answer.json()["owner"] == "bo"


def test_put_replaces_the_whole_definition_and_may_rename(api: ApiClient) -> None:
    api.add("before", labels={"a": "b"})
    answer = api.ask("PUT", "/v1/tasks/before", json={"name": "after", "cron": "H 3 * * *", "command": ["noop"]})
    assert (answer.status_code, answer.headers["location"]) == (200, "/v1/tasks/after")
    assert answer.json()["task"] == {"cron": "H 3 * * *", "command": ["noop"]}
    assert api.get("/v1/tasks/before").status_code == 404
    assert api.ask("PUT", "/v1/tasks/before", json={"every": "5m"}).status_code == 404


@pytest.mark.parametrize("keys", [{"every": "5m"}, {"every": "5m", "phase": "7s"}, {"cron": "H 3 * * *"}])
def test_a_document_that_is_put_back_changes_nothing(api: ApiClient, keys: dict[str, str]) -> None:
    api.post("/v1/tasks", json={"name": "same", "command": ["noop"], **keys})
    before = api.get("/v1/tasks/same").json()
    after = api.ask("PUT", "/v1/tasks/same", json=before["task"])
    assert (after.json()["version"], after.json()["task"]) == (1, before["task"])
    assert "evenbeat-notice" not in after.headers
    again = api.ask("PATCH", "/v1/tasks/same", json={"phase": None}).json()
    assert (again["version"], again["task"].get("phase") == "7s") == (1 + ("phase" in keys), False)
    api.ask("DELETE", "/v1/tasks/same")


def test_a_one_off_may_be_relative_and_not_in_the_past(api: ApiClient) -> None:
    made = api.post("/v1/tasks", json={"name": "once", "at": "+10m", "command": ["noop"]})
    assert (made.status_code, made.json()["task"]["at"][-6:]) == (201, "+00:00")
    for body in ({"at": "2020-01-01"}, {"at": "+soon"}):
        assert errors(api.post("/v1/tasks", json={"name": "late", "command": ["noop"], **body}))[0][0] == "/at"
        assert errors(api.ask("PATCH", "/v1/tasks/once", json=body))[0][0] == "/at"
    api.ask("DELETE", "/v1/tasks/once")


def test_who_changes_a_task_of_a_file_hears_that_it_does_not_last(api: ApiClient) -> None:
    body = {
        "owners": {"upload:/etc/evenbeat/ü.toml": {"tasks": {n: {"every": "1d", "command": ["noop"]} for n in "xyz"}}}
    }
    assert api.post("/v1/apply", json=body).status_code == 200
    said = "/etc/evenbeat/%C3%BC.toml: your change is overwritten when that file is next applied"
    for method, more in (
        ("PUT", {"json": {"every": "2d", "command": ["noop"]}}),
        ("PATCH", {"json": {}}),
        ("DELETE", {}),
    ):
        assert api.ask(method, "/v1/tasks/x", **more).headers["evenbeat-notice"].endswith(said)
    action = {"action": "delete", "filter": {"names": ["y", "z"]}}
    for dry_run in (True, False):
        assert api.post("/v1/actions", json={**action, "dry_run": dry_run}).json()["files"] == ["/etc/evenbeat/ü.toml"]


def test_a_name_is_one_encoded_segment_whatever_is_in_it(api: ApiClient) -> None:
    for name, path in (
        ("web/ping", "web%2Fping"),
        ("a b?c#d%2F", "a%20b%3Fc%23d%252F"),
        ("naïve 🦉", "na%C3%AFve%20%F0%9F%A6%89"),
        ("<script>alert(1)</script>", "%3Cscript%3Ealert%281%29%3C%2Fscript%3E"),
    ):
        made = api.add(name)
        assert made.headers["location"] == f"/v1/tasks/{path}"
        assert api.get(made.headers["location"]).json()["name"] == name
        assert api.post(f"{made.headers['location']}/pause").json()["paused"] is True
    assert api.get("/v1/tasks/web/ping").status_code == 404


def test_a_taken_name_is_a_conflict(api: ApiClient) -> None:
    api.add("taken")
    answer = api.post("/v1/tasks", json={"name": "taken", "every": "5m", "command": ["noop"]})
    assert answer.status_code == 409
    assert "taken" in answer.json()["detail"]
    api.add("other")
    assert api.ask("PATCH", "/v1/tasks/other", json={"name": "taken"}).status_code == 409


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_if_match_lets_only_the_present_version_be_changed(api: ApiClient, method: str) -> None:
    name = f"version-{method}"
    api.add(name)
    path, body = f"/v1/tasks/{name}", {"every": "10m", "command": ["noop"]}
    for wrong in ('"7"', 'W/"1"', '"10", "11"', '""'):
        assert api.ask(method, path, json=body, headers={"If-Match": wrong}).status_code == 412
    for nonsense in ("1", '"1', "", '"1",', "*, *"):
        answer = api.ask(method, path, json=body, headers={"If-Match": nonsense})
        assert errors(answer)[0][0] == "/header/If-Match"
    assert api.get(path).headers["etag"] == '"1"'
    answer = api.ask(method, path, json=body, headers={"If-Match": '"7", "1"'})
    assert answer.status_code in (200, 204)


def test_everything_that_is_wrong_is_told_at_once_with_pointers(api: ApiClient) -> None:
    body = {"cron": "61 * * * *", "zone": "Mars/Olympus", "timebx": "5m", "priority": 1000, "command": ["x"]}
    found = errors(api.post("/v1/tasks", json={"name": "bad", **body}))
    assert {pointer for pointer, _ in found} == {"/timebx", "/zone", "/cron", "/priority"}
    answer = api.post("/v1/tasks", json={"name": "bad", "cron": "* * 32 * *"}).json()
    assert answer["errors"][0]["pointer"] == "/cron"
    assert answer["errors"][0]["column"] == 5
    assert errors(api.post("/v1/tasks", json={"every": "5m"}))[0][0] == "/name"
    assert errors(api.post("/v1/tasks", json={"name": "bad", "every": "5m", "check": "yes"}))[0][0] == "/check"
    assert errors(api.post("/v1/tasks", json={"name": "bad", "every": "5m", "cron": None}))[0][0] == "/cron"
    assert errors(api.post("/v1/tasks", json={"name": "bad", "every": "5m", "env": {"a=b": "c"}}))[0][0] == "/env/a=b"
    assert api.get("/v1/tasks/bad").status_code == 404


def test_a_patch_is_held_to_the_same_rules(api: ApiClient) -> None:
    api.add("patched")
    assert errors(api.ask("PATCH", "/v1/tasks/patched", json={"every": "soon"}))[0][0] == "/every"
    assert errors(api.ask("PATCH", "/v1/tasks/patched", json={"labels.team": "x"}))[0][0] == "/labels.team"
    assert errors(api.ask("PATCH", "/v1/tasks/patched", json={"name": ""}))[0][0] == "/name"
    refused = api.ask("PATCH", "/v1/tasks/patched", json={"period": "no such period"})
    assert "no such period" in errors(refused)[0][1]


def test_lists_come_in_pages_and_by_filter(api: ApiClient) -> None:
    for number in range(5):
        api.add(f"page-{number}", labels={"parity": "odd" if number % 2 else "even"})
    first = api.get("/v1/tasks?name=page-*&limit=2").json()
    assert ([task["name"] for task in first["tasks"]], first["next"]) == (["page-0", "page-1"], "page-1")
    assert first["total"] == 5
    rest = api.get(f"/v1/tasks?name=page-*&limit=3&after={first['next']}").json()
    assert ([task["name"] for task in rest["tasks"]], rest["next"]) == (["page-2", "page-3", "page-4"], None)
    odd = api.get("/v1/tasks", params={"name": "page-*", "label": "parity=odd"}).json()
    assert [task["name"] for task in odd["tasks"]] == ["page-1", "page-3"]
    two = api.get("/v1/tasks", params=[("name", "page-0"), ("name", "page-4"), ("owner", "admin")]).json()
    assert [task["name"] for task in two["tasks"]] == ["page-0", "page-4"]
    some = api.get("/v1/tasks", params={"contains": "AGE-3"}).json()
    assert [task["name"] for task in some["tasks"]] == ["page-3"]
    api.post("/v1/tasks/page-2/pause")
    paused = api.get("/v1/tasks", params={"name": "page-*", "state": "disabled"}).json()
    assert [task["name"] for task in paused["tasks"]] == ["page-2"]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/query/limit"),
        ("limit=many", "/query/limit"),
        ("limit=1&limit=2", "/query/limit"),
        ("colour=red", "/query/colour"),
        ("a%2Fb=1", "/query/a~1b"),
        ("state=happy", "/query/state"),
        ("state=null", "/query/state"),
        ("label=novalue", "/query/label/0"),
    ],
)
def test_a_wrong_parameter_is_pointed_at(api: ApiClient, query: str, pointer: str) -> None:
    assert [found for found, _ in errors(api.get(f"/v1/tasks?{query}"))] == [pointer]


def test_tasks_are_listed_by_what_depends_on_the_time(api: ApiClient) -> None:
    api.add("on-time", every="1d", phase="0s")
    found = api.get("/v1/tasks?name=on-time").json()
    assert found["live"] is True
    (task,) = found["tasks"]
    assert (task["late"], task["stale"]) == (False, False)
    assert task["expected_by"] > task["next"]
    for state in ("late", "stale", "problem", "paused"):
        found = api.get(f"/v1/tasks?name=on-time&state={state}")
        assert (found.status_code, found.json()["tasks"], found.json()["total"]) == (200, [], 0)
    api.post("/v1/tasks/on-time/pause")
    assert [one["name"] for one in api.get("/v1/tasks?name=on-time&state=paused").json()["tasks"]] == ["on-time"]
    assert api.get("/v1/tasks/on-time").json()["expected_by"] is None
    would = api.post("/v1/actions", json={"action": "resume", "filter": {"state": "late"}, "dry_run": True})
    assert would.json()["count"] == 0


def test_a_task_runs_when_asked(api: ApiClient, live_node: LiveNode) -> None:
    api.add("forced", command=["sh", "-c", "echo '<b>done</b>'; exit 3"])
    answer = api.post("/v1/tasks/forced/run?wait=true")
    assert answer.status_code == 200
    ended = answer.json()
    assert (ended["task"], ended["outcome"], ended["status"]) == ("forced", "failed", 3)
    assert ended["output"].strip() == "<b>done</b>"
    assert ended["started"] <= ended["ended"]
    soon = api.post("/v1/tasks/forced/run")
    assert (soon.status_code, soon.json()) == (202, {"task": "forced"})
    eventually(lambda: len(live_node.runs("forced")) == 2)
    assert api.post("/v1/tasks/nobody/run").status_code == 404


def test_paused_is_paused_until_resumed(api: ApiClient) -> None:
    api.add("rests")
    paused = api.post("/v1/tasks/rests/pause")
    assert (paused.status_code, paused.json()["paused"], paused.json()["next"]) == (200, True, None)
    assert api.post("/v1/tasks/rests/pause").status_code == 200
    resumed = api.post("/v1/tasks/rests/resume").json()
    assert resumed["paused"] is False
    assert resumed["next"] is not None
    assert api.post("/v1/tasks/nobody/pause").status_code == 404


def test_documents_have_the_keys_that_the_reference_says(api: ApiClient) -> None:
    made = api.add("keys", command=["false"]).json()
    assert list(made) == list(TaskDocument.__struct_fields__)
    api.post("/v1/tasks/keys/run?wait=true")
    run = api.get("/v1/tasks/keys/history").json()["runs"][0]
    assert list(run) == list(RunDocument.__struct_fields__)


def test_the_described_keys_are_those_of_files() -> None:
    assert set(TaskKeys.__struct_fields__) == set(TASK_KEYS)
    assert set(TaskPatch.__struct_fields__) == {*TASK_KEYS, "name", "check"}
    assert set(FilterState.__args__) == {*FILTER_STATES, *COMPUTED_FILTER_STATES}  # type: ignore[attr-defined]


def test_the_described_words_are_those_of_the_model() -> None:
    hints = RunDocument.__annotations__
    assert set(hints["kind"].__args__) == {kind.word for kind in RunKind if kind is not RunKind.FORCED_BEFORE_START}
    assert set(hints["outcome"].__args__[0].__args__) == set(Outcome)
    assert set(hints["state"].__args__[0].__args__) == {state.name.lower() for state in State}
    assert SkipDocument.__annotations__["kind"] == hints["kind"]


def test_nobody_forges_an_owner_that_stands_for_a_file(api: ApiClient) -> None:
    body = {"name": "forged", "every": "1d", "command": ["noop"]}
    made = api.post("/v1/tasks?owner=file%3A%2Fetc%2Fevenbeat.toml", json=body)
    assert (made.status_code, "stands for a file" in made.json()["detail"]) == (403, True)
    said = {"owners": {"file:/etc/evenbeat.toml": {"tasks": {"forged": {"every": "1d", "command": ["noop"]}}}}}
    assert api.post("/v1/apply", json=said).status_code == 403
    strict = {"owners": {"upload:/a.toml": {"node": {"commands": "files"}}}}
    assert api.post("/v1/apply", json=strict).status_code == 422
    assert api.get("/v1/tasks/forged").status_code == 404
