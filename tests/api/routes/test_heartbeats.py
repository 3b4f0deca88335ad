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


def test_an_exit_status_says_how_it_ended(passive: ApiClient) -> None:
    url = passive.post("/v1/tasks/nightly%2Fbackup/beat").json()["url"]
    nobody = {"authorization": ""}

    def shown() -> tuple[str, str]:
        found = passive.get("/v1/tasks/nightly%2Fbackup").json()
        return found["state"], found["output"]

    for status, body, expected in (
        ("0", b"412 files", ("ok", "412 files")),
        ("3", b"", ("critical", "exit status 3")),
        ("255", b"rsync: no route", ("critical", "exit status 255: rsync: no route")),
        ("1", b"sending\nno space", ("critical", "exit status 1: no space\nsending\nno space")),
        ("0", b"", ("ok", "")),
    ):
        assert passive.post(f"{url}/{status}", content=body, headers=nobody).text == "ok"
        assert shown() == expected
    assert passive.ask("HEAD", f"{url}/2", headers=nobody).status_code == 200
    assert shown() == ("critical", "exit status 2")
    for nonsense in ("256", "-1", "1.5", "²", "done", "0001"):
        assert passive.get(f"{url}/{nonsense}").status_code == 404


def test_a_line_of_the_log_is_in_the_history_and_changes_nothing(passive: ApiClient) -> None:
    path = "/v1/tasks/nightly%2Fbackup"
    url = passive.post(f"{path}/beat").json()["url"]
    passive.post(f"{url}/fail", content=b"no space")
    before = passive.get(path).json()
    assert passive.post(f"{url}/log", content=b"cleaning up\n" + b"x" * 70_000).text == "ok"
    after = passive.get(path).json()
    assert after == before
    newest, older = passive.get(f"{path}/history?limit=2").json()["runs"]
    assert (newest["kind"], newest["state"], newest["output"][:12]) == ("log", None, "cleaning up\n")
    assert (older["kind"], older["output"]) == ("told", "no space")
    answer = passive.get(f"{path}/why").json()
    assert any("the last result was submitted" in reason for reason in answer["reasons"])
    assert any(": cleaning up" in reason for reason in answer["reasons"])


def test_a_token_that_was_replaced_or_removed_is_nobodys(passive: ApiClient) -> None:
    path = "/v1/tasks/nightly%2Fbackup/beat"
    first, second = (passive.post(path).json()["url"] for _ in range(2))
    assert passive.get(first).status_code == 404
    assert passive.get(second).status_code == 200
    assert passive.ask("DELETE", path).status_code == 204
    assert passive.get(second).status_code == 404
    assert passive.get("/v1/beat/" + "x" * 5_000).status_code == 404
