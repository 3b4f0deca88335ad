"""Contacts over HTTP: who reads and changes what, and what is refused where."""

from typing import Any

import pytest
from api_client import ApiClient

MAIL = {"email": ["ops@example.org"]}
SECRET = {"webhook": "https://hooks.example.org/S3CRET", "secret": "env:KEY", "send": ["slack://S3CRET/x"]}


def pointers(answer: Any) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [error["pointer"] for error in answer.json()["errors"]]


def test_a_contact_is_created_replaced_read_and_deleted(api: ApiClient) -> None:
    made = api.ask("PUT", "/v1/contacts/ops", json=MAIL)
    assert made.status_code == 201
    assert made.json() == {
        "name": "ops",
        "owner": "api",
        "places": [{"kind": "email", "shown": "ops@example.org", "blocked": False, "failing": False, "latest": None}],
        "period": None,
        "states": [],
        "per_hour": 60,
        "tasks": 0,
        "definition": MAIL,
    }
    changed = api.ask("PUT", "/v1/contacts/ops", json={**MAIL, "states": ["critical"], "per_hour": 5})
    assert (changed.status_code, changed.json()["states"], changed.json()["per_hour"]) == (200, ["critical"], 5)
    assert api.get("/v1/contacts/ops").json() == changed.json()
    assert changed.json() in api.get("/v1/contacts").json()["contacts"]
    gone = api.ask("DELETE", "/v1/contacts/ops")
    assert (gone.status_code, gone.content) == (204, b"")
    for method in ("GET", "DELETE"):
        assert api.ask(method, "/v1/contacts/ops").status_code == 404


@pytest.mark.parametrize("role", ["reader", "operator"])
def test_only_an_administrator_reads_a_definition_and_changes_it(api: ApiClient, role: str) -> None:
    api.ask("PUT", "/v1/contacts/secret", json=SECRET)
    for path in ("/v1/contacts/secret", "/v1/contacts"):
        answer = api.ask("GET", path, headers={"authorization": f"Bearer {role}"})
        assert answer.status_code == 200
        assert "S3CRET" not in answer.text
        assert "env:KEY" not in answer.text
    seen = api.ask("GET", "/v1/contacts/secret", headers={"authorization": f"Bearer {role}"}).json()
    assert seen["definition"] is None
    assert [place["shown"] for place in seen["places"]] == ["slack://...", "https://hooks.example.org"]
    assert api.get("/v1/contacts/secret").json()["definition"] == SECRET
    for method in ("PUT", "DELETE"):
        assert (
            api.ask(method, "/v1/contacts/secret", headers={"authorization": f"Bearer {role}"}, json=MAIL).status_code
            == 403
        )
    api.ask("DELETE", "/v1/contacts/secret")


def test_a_contact_stays_as_long_as_a_task_names_it(api: ApiClient) -> None:
    api.ask("PUT", "/v1/contacts/used", json=MAIL)
    api.add("user", notify=["used"])
    assert api.get("/v1/contacts/used").json()["tasks"] == 1
    refused = api.ask("DELETE", "/v1/contacts/used")
    assert (refused.status_code, "user" in refused.json()["detail"]) == (409, True)
    api.ask("DELETE", "/v1/tasks/user")
    assert api.get("/v1/contacts/used").json()["tasks"] == 0
    assert api.ask("DELETE", "/v1/contacts/used").status_code == 204


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({}, [""]),
        ({"email": ["x"]}, ["/email/0"]),
        ({"email": None}, ["/email"]),
        ({"emial": ["a@b"], "email": ["a@b"]}, ["/emial"]),
        ({"webhook": "x", "secret": "y"}, ["/webhook", "/secret"]),
        ({**MAIL, "states": ["bad"]}, ["/states/0"]),
        ({**MAIL, "per_hour": 0}, ["/per_hour"]),
        ({**MAIL, "period": "no such"}, ["/period"]),
        ({"command": "notify ops"}, ["/command"]),
    ],
)
def test_what_is_wrong_with_a_contact_is_pointed_at(api: ApiClient, body: dict[str, Any], found: list[str]) -> None:
    assert pointers(api.ask("PUT", "/v1/contacts/wrong", json=body)) == found
    assert api.get("/v1/contacts/wrong").status_code == 404


@pytest.mark.parametrize("name", ["%20x", "a%07b", "x" * 257])
def test_a_contact_has_a_name_that_can_be_typed(api: ApiClient, name: str) -> None:
    assert pointers(api.ask("PUT", f"/v1/contacts/{name}", json=MAIL)) == ["/name"]


def test_a_test_message_is_sent_by_operators_and_its_fate_is_answered(api: ApiClient) -> None:
    api.ask("PUT", "/v1/contacts/dead", json={"webhook": "http://127.0.0.1:1/S3CRET"})
    path = "/v1/contacts/dead/test"
    answer = api.ask("POST", path, headers={"authorization": "Bearer operator"})
    (place,) = answer.json()["places"]
    assert (place["kind"], place["shown"], place["delivered"]) == ("webhook", "http://127.0.0.1", False)
    assert place["error"]
    assert "S3CRET" not in answer.text
    assert api.ask("POST", path, headers={"authorization": "Bearer reader"}).status_code == 403
    assert api.ask("POST", "/v1/contacts/nobody/test").status_code == 404


def test_a_task_says_whom_to_notify_as_a_file_does(api: ApiClient) -> None:
    api.ask("PUT", "/v1/contacts/ops", json=MAIL)
    api.ask("PUT", "/v1/contacts/boss", json=MAIL)
    notify = ["ops", {"to": "boss", "after": "30m"}]
    task = api.add("told", notify=notify, repeat="4h", gather="1m").json()["task"]
    assert (task["notify"], task["repeat"], task["gather"]) == (notify, "4h", "1m")
    patched = api.ask("PATCH", "/v1/tasks/told", json={"notify": ["boss"], "gather": None})
    assert patched.json()["task"]["notify"] == ["boss"]
    assert "gather" not in patched.json()["task"]
    silent = api.ask("PATCH", "/v1/tasks/told", json={"notify": None}).json()["task"]
    assert not silent.keys() & {"notify", "repeat"}
    wrong = api.ask("PATCH", "/v1/tasks/told", json={"notify": ["boss", "bos"]})
    assert pointers(wrong) == ["/notify/1"]
    assert "did you mean 'boss'?" in wrong.json()["errors"][0]["detail"]
    validated = api.ask("POST", "/v1/validate", json={"every": "1m", "name": "x", "notify": ["bos"]}).json()
    assert (validated["valid"], validated["errors"][0]["pointer"]) == (False, "/notify/0")
    assert pointers(api.ask("PATCH", "/v1/tasks/told", json={"repeat": "1h"})) == ["/repeat"]
    api.ask("DELETE", "/v1/tasks/told")


def test_contacts_are_applied_with_the_tasks_that_name_them(api: ApiClient) -> None:
    tasks = {"web": {"every": "1h", "command": ["true"], "notify": ["mail"]}}
    owner = {"tasks": tasks, "contacts": {"mail": MAIL}, "node": {"notify": [{"to": "mail", "after": "1m"}]}}
    done = api.ask("POST", "/v1/apply", json={"owners": {"upload:/a": owner}})
    assert (done.status_code, done.json()["created"]) == (200, ["web"])
    seen = api.get("/v1/contacts/mail").json()
    assert (seen["owner"], seen["tasks"], seen["definition"]) == ("upload:/a", 1, MAIL)
    wrong = {"contacts": {"mail": {"email": ["x"]}}, "tasks": tasks}
    assert pointers(api.ask("POST", "/v1/apply", json={"owners": {"upload:/a": wrong}})) == [
        "/owners/upload:~1a/contacts/mail/email/0"
    ]
    unknown = {"tasks": tasks, "node": {"notify": ["nobody"]}}
    assert pointers(api.ask("POST", "/v1/apply", json={"owners": {"upload:/b": unknown}}))[-1] == (
        "/owners/upload:~1b/node/notify/0"
    )
    other = {"contacts": {"mail": {"email": ["other@example.org"]}}}
    conflict = api.ask("POST", "/v1/apply", json={"owners": {"upload:/b": other}})
    assert (conflict.status_code, conflict.json()["errors"][0]["pointer"]) == (409, "/owners/upload:~1b/contacts/mail")
    gone = api.ask("POST", "/v1/apply", json={"owners": {"upload:/a": {}}})
    assert (gone.json()["removed"], api.get("/v1/contacts/mail").status_code) == (["web"], 404)
