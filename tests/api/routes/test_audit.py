from collections.abc import Iterator

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from live_node import LiveNode

from evenbeat.admin.submitters import SUBMITTED_ACTION
from evenbeat.api.http.context import ApiContext
from evenbeat.model import HIDDEN_VALUE
from evenbeat.wire.documents import AuditPage, ChangeDocument

READER = {"authorization": "Bearer reader"}
OPERATOR = {"authorization": "Bearer operator"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    """A node of which nobody else changes anything."""
    with LiveNode(tmp_path_factory.mktemp("audit") / "evenbeat.db", grace=0.1) as live_node:
        context = ApiContext(live_node.database)
        api = ApiClient(context, RoleNameAuthenticator())
        yield api
        api.close()
        context.close()


def audit(api: ApiClient, **query: object) -> list[ChangeDocument]:
    answer = api.get("/v1/audit", params=query, headers=READER)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert list(found) == list(AuditPage.__struct_fields__)
    assert all(list(change) == list(ChangeDocument.__struct_fields__) for change in found["changes"])
    return [ChangeDocument(**change) for change in found["changes"]]


def test_a_reader_learns_from_what_to_what_and_no_secret(own: ApiClient) -> None:
    own.add("job", env={"PASSWORD": "hunter2", "KEY": "file:/run/key"})
    own.ask("PATCH", "/v1/tasks/job", json={"every": "2h", "env": {"PASSWORD": "hunter3"}})
    own.ask("DELETE", "/v1/tasks/job")
    removed, changed, created = audit(own, name="job")
    assert [c.action for c in (removed, changed, created)] == ["removed", "changed", "created"]
    assert {c.who for c in (removed, changed, created)} == {"admin"}
    found = {field["key"]: (field["old"], field["new"]) for field in changed.fields}  # type: ignore[index]
    assert found["every"] == ("1d", "2h")
    assert found["env.PASSWORD"] == (HIDDEN_VALUE, HIDDEN_VALUE)
    everything = own.get("/v1/audit?limit=1000", headers=READER).text + own.get("/v1/tasks/job/changes").text
    assert "hunter" not in everything
    assert "file:/run/key" in everything


def test_it_comes_in_pages_that_miss_nothing(own: ApiClient) -> None:
    for i in range(7):
        own.add(f"page {i}")
    whole = audit(own, limit=1_000)
    found, before = [], None
    while True:
        query = {"limit": 2} | ({} if before is None else {"before": before})
        page = own.get("/v1/audit", params=query).json()
        found += page["changes"]
        before = page["next"]
        if before is None:
            break
    assert [ChangeDocument(**change) for change in found] == whole
    assert audit(own, since="2199-01-01") == []
    assert audit(own, who="nobody") == []


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "before=-1", "since=soon", "what=1"])
def test_what_makes_no_sense_is_refused(own: ApiClient, query: str) -> None:
    assert own.get(f"/v1/audit?{query}").status_code == 422


def test_who_submits_results_is_noted_when_it_is_another(own: ApiClient) -> None:
    own.post("/v1/tasks", json={"name": "backup", "every": "1d", "check": True, "passive": True})
    url = own.post("/v1/tasks/backup/beat").json()["url"]

    def submit(**headers: str) -> None:
        assert own.post("/v1/tasks/backup/result", json={"status": 0}, headers=headers).status_code == 202

    for headers in (OPERATOR, OPERATOR, {}, OPERATOR, OPERATOR):
        submit(**headers)
    for _ in range(3):
        assert own.get(url, headers={"authorization": ""}).status_code == 200
    noted = [(c.who, c.detail) for c in audit(own, name="backup") if c.action == SUBMITTED_ACTION]
    assert noted == [
        ("heartbeat", "from 127.0.0.1"),
        ("operator", "from 127.0.0.1"),
        ("admin", "from 127.0.0.1"),
        ("operator", "from 127.0.0.1"),
    ]


def test_everything_that_people_do_is_in_it(own: ApiClient) -> None:
    own.add("target")
    said = {"node": {"keep": "20d"}, "limits": {"db": 4}, "tasks": {"new": {"every": "1h", "command": ["noop"]}}}
    for path, how, body in (
        ("/v1/tasks/target/pause", "POST", None),
        ("/v1/tasks/target/resume", "POST", None),
        ("/v1/tasks/target/run", "POST", None),
        ("/v1/slots", "PUT", {"most": 9}),
        ("/v1/periods/work", "PUT", {"ranges": ["monday"]}),
        ("/v1/periods/work", "PUT", {"ranges": ["tuesday"]}),
        ("/v1/periods/work", "DELETE", None),
        ("/v1/apply", "POST", {"owners": {"shop": said}}),
        ("/v1/limits/db", "PUT", {"most": 2}),
    ):
        assert own.ask(how, path, json=body).status_code < 300, (path, how)
    found = [(c.action, c.name, c.detail, [list(f.values()) for f in c.fields]) for c in audit(own)]  # type: ignore[attr-defined]
    assert found[:8] == [
        ("set", "limit db", "2", [["most", 4, 2]]),
        ("applied", "shop", "1 created, 0 changed, 0 removed, 0 unchanged", []),
        found[2],
        ("changed", "node", "by shop", [["keep", None, "20d"]]),
        ("created", "limit db", "by shop", [["most", None, 4]]),
        ("removed", "period work", "", [["ranges", ["tuesday"], None]]),
        ("changed", "period work", "", [["ranges", ["monday"], ["tuesday"]]]),
        ("created", "period work", "", [["ranges", None, ["monday"]]]),
    ]
    assert found[2][:2] == ("created", "new")
    assert found[8][:3] == ("set", "slots", "9")
    assert [words[:2] for words in found[9:13]] == [
        ("forced", "target"),
        ("resumed", "target"),
        ("paused", "target"),
        ("created", "target"),
    ]
