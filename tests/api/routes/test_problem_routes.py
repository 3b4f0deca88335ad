"""Problems over HTTP: pages and filters, acknowledgements and comments with their authors, roles and scopes."""

from collections.abc import Iterator
from typing import Any

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from live_node import LiveNode
from problem_seeds import seed_problem

from evenbeat.api.http.context import ApiContext
from evenbeat.core.scope import Scope
from evenbeat.model import Cause, State
from evenbeat.wire.documents import ChangedProblems, ProblemOfTask, ProblemPage, ProblemWithNotes, TimelineEntry
from evenbeat.wire.requests import COMMENT_LIMIT

READER = {"authorization": "Bearer reader"}
OPERATOR = {"authorization": "Bearer operator"}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiContext]:
    """A node with ten paused tasks of two teams; nine have open problems, `p9` had one."""
    with LiveNode(tmp_path_factory.mktemp("problems") / "evenbeat.db", grace=0.1) as live_node:
        context = ApiContext(live_node.database)
        api = ApiClient(context, RoleNameAuthenticator())
        for i in range(10):
            api.add(f"p{i}", check=i > 0, enabled=False, labels={"team": "ops" if i % 2 else "dev"})
            cause = Cause.FAILED if i == 0 else Cause.STATE
            seed_problem(live_node.node.store, f"p{i}", State.WARNING if i == 1 else State.CRITICAL, cause=cause)
        seed_problem(live_node.node.store, "p9", is_open=False)
        yield context
        api.close()
        context.close()


@pytest.fixture
def api(context: ApiContext) -> Iterator[ApiClient]:
    """The application; acknowledgements are taken back afterwards."""
    api = ApiClient(context, RoleNameAuthenticator())
    yield api
    api.post("/v1/problems/acknowledge", json={"all": True, "withdraw": True})
    api.close()


@pytest.fixture
def limited(context: ApiContext) -> Iterator[ApiClient]:
    """An admin who sees the tasks of one team."""
    api = ApiClient(context, RoleNameAuthenticator(Scope(None, {"team": "ops"})))
    yield api
    api.close()


def page(api: ApiClient, **query: Any) -> dict[str, Any]:
    answer = api.get("/v1/problems", params=query, headers=READER)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert list(found) == list(ProblemPage.__struct_fields__)
    # Fields that are left out when they are empty come last.
    assert all(list(problem) == list(ProblemOfTask.__struct_fields__)[: len(problem)] for problem in found["problems"])
    return found


def tasks(api: ApiClient, **query: Any) -> list[str]:
    return [problem["task"] for problem in page(api, **query)["problems"]]


def ids(api: ApiClient, *names: str) -> list[int]:
    return [problem["id"] for problem in page(api, name=list(names), which="all")["problems"]]


def test_pages_miss_nothing_and_say_how_many_there_are(api: ApiClient) -> None:
    found, before = [], None
    while True:
        one = page(api, limit=2, **({} if before is None else {"before": before}))
        assert one["total"] == 9
        found += [problem["task"] for problem in one["problems"]]
        before = one["next"]
        if before is None:
            break
    assert found == [f"p{i}" for i in range(8, -1, -1)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"which": "closed"}, ["p9"]),
        ({"which": "all", "contains": "P9"}, ["p9"]),
        ({"name": ["p1", "p[2]", "p3"]}, ["p3", "p1"]),
        ({"label": "team=dev", "cause": "state"}, ["p8", "p6", "p4", "p2"]),
        ({"cause": "failed"}, ["p0"]),
        ({"state": "warning"}, ["p1"]),
        ({"owner": "nobody"}, []),
        ({"acknowledged": "true"}, ["p2"]),
        ({"acknowledged": "false", "label": "team=dev"}, ["p8", "p6", "p4", "p0"]),
    ],
)
def test_they_are_found_by_what_is_asked_for(api: ApiClient, query: dict[str, Any], found: list[str]) -> None:
    assert api.post("/v1/problems/acknowledge", json={"filter": {"names": ["p2"]}}).status_code == 200
    assert tasks(api, **query) == found
    assert page(api, **query, limit=1)["total"] == len(found)


def test_one_is_read_with_what_people_wrote(api: ApiClient) -> None:
    (number,) = ids(api, "p3")
    body = {"ids": [number], "comment": "on it", "until": "2190-01-01T00:00:00Z", "sticky": True}
    answer = api.post("/v1/problems/acknowledge", json=body, headers=OPERATOR)
    assert (answer.status_code, answer.json()) == (200, {"ids": [number], "tasks": ["p3"]})
    assert list(answer.json()) == list(ChangedProblems.__struct_fields__)
    assert api.post("/v1/problems/comment", json={"ids": [number], "text": "the disk"}).status_code == 200
    found = api.get(f"/v1/problems/{number}", headers=READER).json()
    left_out = ("hold", "held_since", "downtime", "passive")
    assert list(found) == [name for name in ProblemWithNotes.__struct_fields__ if name not in left_out]
    at = found["acknowledged"]["at"]
    assert found["acknowledged"] == {
        "by": "operator",
        "at": at,
        "comment": "on it",
        "until": "2190-01-01T00:00:00+00:00",
        "sticky": True,
    }
    assert found["notes"][0] == {"at": at, "who": "operator", "action": "acknowledged", "text": "on it"}
    assert [(note["who"], note["text"]) for note in found["notes"]] == [("operator", "on it"), ("admin", "the disk")]
    changes = api.get("/v1/tasks/p3/changes").json()["changes"]
    assert [(change["who"], change["action"]) for change in changes[:2]] == [
        ("admin", "commented"),
        ("operator", "acknowledged"),
    ]
    # It opened in the future, by the clock of the test.
    assert [(entry["kind"], entry["text"]) for entry in found["timeline"]] == [
        ("acknowledged", "on it"),
        ("commented", "the disk"),
        ("opened", "the problem opened"),
    ]
    assert list(found["timeline"][0]) == list(TimelineEntry.__struct_fields__)
    del found["notes"], found["timeline"]
    assert page(api, name="p3")["problems"] == [found]


@pytest.mark.parametrize("path", ["acknowledge", "comment"])
def test_a_reader_may_look_and_not_act(api: ApiClient, path: str) -> None:
    answer = api.post(f"/v1/problems/{path}", json={"all": True, "text": "x"}, headers=READER)
    assert answer.status_code == 403
    assert tasks(api, acknowledged="true") == []


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("acknowledge", {}, 422),
        ("acknowledge", {"filter": {}}, 422),
        ("acknowledge", {"filter": {"names": ["nope"]}}, 404),
        ("acknowledge", {"ids": [999]}, 404),
        ("acknowledge", {"ids": [0]}, 422),
        ("acknowledge", {"ids": [2**70]}, 422),
        ("acknowledge", {"ids": list(range(1, 10_002))}, 422),
        ("acknowledge", {"filter": {"names": ["p9"]}}, 409),
        ("acknowledge", {"filter": {"names": ["p8"]}, "withdraw": True}, 409),
        ("acknowledge", {"all": True, "until": "soon"}, 422),
        ("acknowledge", {"all": True, "until": "2001-01-01"}, 422),
        ("acknowledge", {"all": True, "comment": "x" * (COMMENT_LIMIT + 1)}, 422),
        ("acknowledge", {"all": True, "comment": "a\x00b"}, 422),
        ("acknowledge", {"all": True, "expires": "1d"}, 422),
        ("comment", {"all": True}, 422),
        ("comment", {"all": True, "text": ""}, 422),
        ("comment", {"all": True, "text": "  "}, 422),
        ("comment", {"filter": {"names": ["p9"]}, "text": "hm"}, 409),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    api: ApiClient, path: str, body: dict[str, Any], status: int
) -> None:
    answer = api.post(f"/v1/problems/{path}", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert tasks(api, acknowledged="true") == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "before=-1", "cause=other", "state=ok", "which=some", "label=x", "what=1"]
)
def test_a_question_that_makes_no_sense_is_refused(api: ApiClient, query: str) -> None:
    assert api.get(f"/v1/problems?{query}").status_code == 422


@pytest.mark.parametrize("number", ["0", "999", "-1", "x", "1e3", "9" * 30, "%C2%B2"])
def test_a_problem_that_is_not_there_is_not_found(api: ApiClient, number: str) -> None:
    assert api.get(f"/v1/problems/{number}").status_code == 404


def test_a_limited_token_sees_and_acknowledges_what_is_within(limited: ApiClient, api: ApiClient) -> None:
    assert tasks(limited) == ["p7", "p5", "p3", "p1"]
    assert page(limited, limit=1)["total"] == 4
    assert tasks(limited, label="team=dev") == []
    ((within,), (outside,)) = ids(api, "p7"), ids(api, "p8")
    assert limited.get(f"/v1/problems/{within}").status_code == 200
    hidden, missing = limited.get(f"/v1/problems/{outside}"), limited.get("/v1/problems/999")
    assert (hidden.status_code, hidden.text) == (404, missing.text.replace("999", str(outside)))
    for body in (
        {"ids": [within, outside]},
        {"filter": {"names": ["p8"]}},
        {"filter": {"names": ["p8"], "labels": {"team": "dev"}}},
        {"filter": {"labels": {"team": "dev"}}},
    ):
        for path in ("acknowledge", "comment"):
            answer = limited.post(f"/v1/problems/{path}", json={**body, **({"text": "x"} if path == "comment" else {})})
            assert answer.status_code in (404, 409)
            assert "p6" not in answer.text  # no name from outside is suggested
    assert tasks(api, acknowledged="true") == []
    assert limited.post("/v1/problems/acknowledge", json={"all": True}).json()["tasks"] == ["p7", "p5", "p3", "p1"]
    assert tasks(api, acknowledged="true") == ["p7", "p5", "p3", "p1"]
