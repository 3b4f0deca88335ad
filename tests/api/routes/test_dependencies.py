"""Dependencies over HTTP: keys of tasks, what is refused and where, what is unreachable, and problems."""

from typing import Any

import pytest
from api_client import ApiClient
from waiting import eventually


def add(api: ApiClient, name: str, *, check: bool = True, **keys: Any) -> Any:
    return api.post("/v1/tasks", json={"name": name, "check": check, "every": "1d", "command": ["noop"], **keys})


def submit(api: ApiClient, name: str, status: int) -> None:
    answer = api.post(f"/v1/tasks/{name}/result", json={"status": status, "output": "as it is"})
    assert answer.status_code == 202, answer.text


@pytest.fixture
def gateway(api: ApiClient) -> Any:
    """A check, and one that depends on it. Neither runs by itself: results are those of the test."""
    later = "2150-01-01"
    assert add(api, "dep-gw", attempts=1, start_at=later).status_code == 201
    assert add(api, "dep-web", depends=["dep-gw"], attempts=1, start_at=later).status_code == 201
    yield
    api.post("/v1/actions", json={"action": "delete", "filter": {"names": ["dep-*"]}})


@pytest.mark.parametrize(
    ("keys", "pointer", "detail"),
    [
        ({"depends": ["dep-gww"]}, "/depends", "there is no check 'dep-gww', did you mean 'dep-gw'?"),
        ({"depends_any": ["dep-x"]}, "/depends_any", "'dep-x' cannot depend on itself"),
        ({"depends": ["dep-gw", "dep-gw"]}, "/depends", "'dep-gw' is named twice"),
        (
            {"when_unreachable": "skip"},
            "/when_unreachable",
            "`when_unreachable` has no effect here: the task depends on nothing",
        ),
        (
            {"when_unreachable": "no", "depends": ["dep-gw"]},
            "/when_unreachable",
            "'no' is not a choice, accepted: run, skip",
        ),
        ({"depends": [f"c{i}" for i in range(101)]}, "/depends", "Expected `array` of length <= 100"),
    ],
)
@pytest.mark.usefixtures("gateway")
def test_what_is_wrong_has_a_pointer(api: ApiClient, keys: dict[str, Any], pointer: str, detail: str) -> None:
    answer = add(api, "dep-x", **keys)
    assert answer.status_code == 422
    assert [(error["pointer"], error["detail"]) for error in answer.json()["errors"]] == [(pointer, detail)]
    draft = api.post("/v1/validate", json={"name": "dep-x", "check": True, "every": "1d", "command": ["noop"], **keys})
    assert [(error["pointer"], error["detail"]) for error in draft.json()["errors"]] == [(pointer, detail)]
    table = {"every": "1d", "command": ["noop"], **keys}
    applied = api.post("/v1/apply", json={"owners": {"dep": {"checks": {"dep-x": table}}}})
    assert [(error["pointer"], error["detail"]) for error in applied.json()["errors"]] == [
        (f"/owners/dep/checks/dep-x{pointer}", detail)
    ]


@pytest.mark.usefixtures("gateway")
def test_a_circle_is_refused_on_the_task_that_closes_it(api: ApiClient) -> None:
    answer = api.ask("PATCH", "/v1/tasks/dep-gw", json={"depends": ["dep-web"]})
    assert [(error["pointer"], error["detail"]) for error in answer.json()["errors"]] == [
        ("/depends", "tasks depend on each other in a circle: dep-gw -> dep-web -> dep-gw")
    ]


@pytest.mark.usefixtures("gateway")
def test_a_check_that_others_depend_on_stays(api: ApiClient) -> None:
    version = api.get("/v1/tasks/dep-gw").json()["version"]
    for answer in (
        api.ask("DELETE", "/v1/tasks/dep-gw"),
        api.ask("PATCH", "/v1/tasks/dep-gw", json={"name": "dep-gateway"}),
        api.ask("PATCH", "/v1/tasks/dep-gw", json={"check": False, "attempts": None}),
        api.post("/v1/actions", json={"action": "delete", "filter": {"names": ["dep-g*"]}}),
        api.post("/v1/actions", json={"action": "delete", "filter": {"names": ["dep-g*"]}, "dry_run": True}),
    ):
        assert (answer.status_code, "'dep-gw' must stay" in answer.json()["detail"]) == (409, True), answer.text
    assert api.get("/v1/tasks/dep-gw").json()["version"] == version


@pytest.mark.usefixtures("gateway")
def test_tasks_and_problems_say_that_they_are_unreachable(api: ApiClient) -> None:
    submit(api, "dep-web", 2)
    assert api.get("/v1/tasks/dep-web").json()["unreachable"] is False
    submit(api, "dep-gw", 2)

    def is_unreachable() -> bool:
        found = api.get("/v1/tasks?state=unreachable").json()
        return [task["name"] for task in found["tasks"]] == ["dep-web"]

    eventually(is_unreachable)
    document = api.get("/v1/tasks/dep-web").json()
    assert (document["unreachable"], document["unreachable_through"]) == (True, ["dep-gw"])
    assert document["task"]["depends"] == ["dep-gw"]
    problems = api.get("/v1/problems?name=dep-*").json()["problems"]
    assert {problem["task"]: problem["unreachable"] for problem in problems} == {"dep-web": True, "dep-gw": False}
    assert "'dep-gw' is CRITICAL" in api.get("/v1/tasks/dep-web/why").json()["reasons"]
    submit(api, "dep-gw", 0)
    eventually(lambda: api.get("/v1/tasks/dep-web").json()["unreachable"] is False)
