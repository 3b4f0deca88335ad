from typing import Any

from api_client import ApiClient
from live_node import LiveNode
from waiting import eventually


def said(*names: str, every: str = "1d", **more: Any) -> dict[str, Any]:
    return {"tasks": {name: {"every": every, "command": ["noop"]} for name in names}, **more}


def apply(api: ApiClient, **owners: Any) -> Any:
    answer = api.post("/v1/apply", json={"owners": owners})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_owner_has_what_it_says(api: ApiClient) -> None:
    week = {"week": {"ranges": ["monday-friday"]}}
    check = {"ap-c": {"every": "1d", "command": ["noop"], "limit": "two", "period": "week"}}
    first = said("ap-a", "ap-b", checks=check, periods=week, limits={"two": 2}, node={"keep": "30d"})
    assert apply(api, me=first) == {
        "created": ["ap-c", "ap-a", "ap-b"],
        "changed": [],
        "removed": [],
        "unchanged": 0,
        "settings": True,
        "files": [],
        "notices": [],
    }
    found = api.get("/v1/tasks/ap-c").json()
    assert (found["owner"], found["check"], found["task"]["limit"]) == ("me", True, "two")
    again = apply(api, me=first)
    assert (again["unchanged"], again["settings"]) == (3, False)
    other = apply(api, me=said("ap-a", every="2d"))
    assert (other["changed"], other["removed"]) == (["ap-a"], ["ap-b", "ap-c"])
    assert api.get("/v1/periods/week").status_code == 404
    assert apply(api, me={})["removed"] == ["ap-a"]


def test_a_task_of_a_crontab_keeps_the_name_that_it_has(api: ApiClient) -> None:
    def crontab(**commands: str) -> dict[str, Any]:
        tasks = {name: {"every": "1d", "command": command, "shell": True} for name, command in commands.items()}
        return {"tasks": tasks, "names_from_commands": {name: ["echo", name] for name in tasks}}

    assert apply(api, tab=crontab(echo="echo one"))["created"] == ["echo"]
    more = apply(api, tab=crontab(**{"echo-one": "echo one", "echo-two": "echo two"}))
    assert (more["created"], more["changed"], more["removed"], more["unchanged"]) == (["echo-two"], [], [], 1)
    api.add("echo-three")
    known = crontab(**{"echo-one": "echo one", "echo-two": "echo two", "echo-three": "echo three"})
    refused = api.post("/v1/apply", json={"owners": {"tab": known}})
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/owners/tab/tasks/echo-three"]
    apply(api, tab={})


def test_several_owners_are_one_change(api: ApiClient) -> None:
    week = {"week": {"ranges": ["monday-friday"]}}
    uses = {"tasks": {"ap-d": {"every": "1d", "command": ["noop"], "period": "week"}}}
    assert api.post("/v1/apply", json={"owners": {"two": uses}}).status_code == 422
    assert apply(api, one={"periods": week}, two=uses)["created"] == ["ap-d"]
    going = api.post("/v1/apply", json={"owners": {"one": {}}})
    assert (going.status_code, "uses it" in going.json()["detail"]) == (409, True)
    apply(api, one={}, two={})


def test_all_of_it_or_nothing(api: ApiClient) -> None:
    api.add("ap-mine")
    taken = api.post("/v1/apply", json={"owners": {"me": said("ap-e", "ap-mine")}})
    assert taken.status_code == 409
    assert "the name 'ap-mine' is taken by a task of admin" in taken.json()["detail"]
    wrong = said("ap-e", "a/p", every="5x", checks={"ap-f": {"check": True, "nope": None}})
    answer = api.post("/v1/apply", json={"owners": {"me": wrong}})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [
        "/owners/me/checks/ap-f/check",
        "/owners/me/checks/ap-f/nope",
        "/owners/me/tasks/ap-e/every",
        "/owners/me/tasks/a~1p/every",
    ]
    twice = said("ap-e", checks=said("ap-e")["tasks"])
    assert api.post("/v1/apply", json={"owners": {"me": twice}}).status_code == 409
    keep = api.post("/v1/apply", json={"owners": {"me": {"node": {"keep": "0s"}}}})
    assert keep.json()["errors"][0]["pointer"] == "/owners/me/node/keep"
    assert api.get("/v1/tasks/ap-e").status_code == 404


def test_all_that_does_not_fit_is_told_with_its_place(api: ApiClient) -> None:
    tasks = {"fit-x": {"every": "1d"}, "fit-y": {"every": "1d", "command": ["noop"], "period": "p", "limit": "l"}}
    answer = api.post("/v1/apply", json={"owners": {"me": {"tasks": tasks}}})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [
        "/owners/me/tasks/fit-x",
        "/owners/me/tasks/fit-y/period",
        "/owners/me/tasks/fit-y/limit",
    ]
    body = {"name": "fit-z", "every": "1d", "period": "p", "limit": "l"}
    answer = api.post("/v1/tasks", json=body)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/period", "/limit", ""]


def test_some_run_now_all_or_none(api: ApiClient, live_node: LiveNode) -> None:
    for name in ("rn-a", "rn-b"):
        api.add(name)
    api.post("/v1/tasks", json={"name": "rn-told", "every": "1d", "passive": True, "check": True})
    refused = api.post("/v1/runs", json={"tasks": ["rn-a", "rn-told"]})
    assert (refused.status_code, "passive" in refused.json()["detail"]) == (409, True)
    assert live_node.runs("rn-a") == []
    waited = api.post("/v1/runs", json={"tasks": ["rn-a", "rn-b"], "wait": True})
    assert waited.status_code == 200
    assert [(run["task"], run["outcome"]) for run in waited.json()["runs"]] == [
        ("rn-a", "succeeded"),
        ("rn-b", "succeeded"),
    ]
    asked = api.post("/v1/runs", json={"tasks": ["rn-a"]})
    assert (asked.status_code, asked.json()) == (202, {"runs": [], "waiting": {}})
    eventually(lambda: len(live_node.runs("rn-a")) == 2)
    assert api.post("/v1/runs", json={"tasks": ["rn-none"]}).status_code == 422


def test_who_creates_may_say_whose_it_is_and_a_history_may_be_of_runs_alone(api: ApiClient) -> None:
    task = {"name": "of-bo", "every": "1d", "command": ["noop"]}
    assert api.post("/v1/tasks?owner=bo", json=task).json()["owner"] == "bo"
    api.post("/v1/tasks/of-bo/run?wait=true")
    found = api.get("/v1/tasks/of-bo/history?runs=true").json()
    assert (len(found["runs"]), found["skips"]) == (1, [])
