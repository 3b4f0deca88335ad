import pytest
from api_client import ApiClient


@pytest.fixture(scope="module")
def passive(api: ApiClient) -> ApiClient:
    # A first run of its own would come between two results.
    api.add("told", command=["noop"], check=True, attempts=2, start_at="2099-01-01T00:00Z")
    answer = api.post("/v1/tasks", json={"name": "nightly/backup", "every": "1d", "check": True, "passive": True})
    assert answer.status_code == 201, answer.text
    return api


def test_a_result_is_told_and_makes_a_state(passive: ApiClient) -> None:
    body = {"status": 2, "output": "disk <full>", "perfdata": "used=99%"}
    first = passive.post("/v1/tasks/told/result", json=body)
    assert first.status_code == 202
    expected = {"task": "told", "state": "critical", "hard": False, "attempt": 1, "is_newest": True}
    assert first.json() == expected
    assert passive.post("/v1/tasks/told/result", json=body).json() == {**expected, "hard": True, "attempt": 2}
    document = passive.get("/v1/tasks/told").json()
    assert (document["state"], document["output"]) == ("critical", "disk <full> | used=99%")
    old = passive.post("/v1/tasks/told/result", json={"status": 0, "at": "2020-01-01T00:00:00Z"}).json()
    assert (old["is_newest"], old["state"]) == (False, "critical")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/status"),
        ({"status": 4}, "/status"),
        ({"status": True}, "/status"),
        ({"status": 0, "ttl": "soon"}, "/ttl"),
        ({"status": 0, "ttl": 0}, "/ttl"),
        ({"status": 0, "at": "yesterday"}, "/at"),
        ({"status": 0, "output": "x" * 70_000}, "/output"),
    ],
)
def test_a_result_that_makes_no_sense_is_pointed_at(passive: ApiClient, body: dict[str, object], pointer: str) -> None:
    answer = passive.post("/v1/tasks/told/result", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_only_checks_have_results_and_only_passive_ones_heartbeats(passive: ApiClient) -> None:
    passive.add("plain")
    assert passive.post("/v1/tasks/plain/result", json={"status": 0}).status_code == 409
    assert passive.post("/v1/tasks/plain/beat").status_code == 409
    assert passive.post("/v1/tasks/nobody/result", json={"status": 0}).status_code == 404
    assert passive.post("/v1/tasks/nobody/beat").status_code == 404
    assert passive.ask("DELETE", "/v1/tasks/plain/beat").status_code == 404


def test_a_heartbeat_needs_its_token_and_nothing_else(passive: ApiClient) -> None:
    made = passive.post("/v1/tasks/nightly%2Fbackup/beat")
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    url, nobody = made.json()["url"], {"authorization": ""}
    assert url == f"http://localhost/v1/beat/{made.json()['token']}"
    for path, method, state in (("/fail", "POST", "critical"), ("/start", "GET", "critical"), ("", "GET", "ok")):
        answer = passive.ask(method, f"{url}{path}", headers=nobody)
        assert (answer.status_code, answer.text) == (200, "ok")
        assert answer.headers["content-type"].startswith("text/plain")
        assert passive.get("/v1/tasks/nightly%2Fbackup").json()["state"] == state
    said = passive.post(f"{url}/fail", content=b"no space \xff" + b"x" * 70_000, headers=nobody)
    assert said.status_code == 200
    assert passive.get("/v1/tasks/nightly%2Fbackup").json()["output"].startswith("no space \ufffd")
    assert passive.post(f"{url}/success", content=b"x" * (2 << 20), headers=nobody).status_code == 413


def test_a_token_that_was_replaced_or_removed_is_nobodys(passive: ApiClient) -> None:
    path = "/v1/tasks/nightly%2Fbackup/beat"
    first, second = (passive.post(path).json()["url"] for _ in range(2))
    assert passive.get(first).status_code == 404
    assert passive.get(second).status_code == 200
    assert passive.ask("DELETE", path).status_code == 204
    assert passive.get(second).status_code == 404
    assert passive.get("/v1/beat/" + "x" * 5_000).status_code == 404
