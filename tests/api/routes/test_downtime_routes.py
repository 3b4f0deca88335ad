"""Downtimes over HTTP: roles, pages, errors at their places, and tokens that are limited to some tasks."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from live_node import LiveNode

from evenbeat.api.http.context import ApiContext
from evenbeat.core.scope import Scope
from evenbeat.report.downtimes import DowntimeReader
from evenbeat.wire.documents import DowntimeDocument, DowntimePage

READER = {"authorization": "Bearer reader"}
OPERATOR = {"authorization": "Bearer operator"}
PATH = "/v1/downtimes"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiContext]:
    """A node with checks of two teams, one of the other team behind one of ours."""
    with LiveNode(tmp_path_factory.mktemp("downtimes") / "evenbeat.db", grace=0.1) as live_node:
        context = ApiContext(live_node.database)
        api = ApiClient(context, RoleNameAuthenticator())
        for name, team, parents in (("ours", "ops", []), ("behind", "ops", ["ours"]), ("theirs", "dev", ["ours"])):
            api.add(name, check=True, labels={"team": team}, **({"depends": parents} if parents else {}))
        api.close()
        yield context
        context.close()


@pytest.fixture
def api(context: ApiContext) -> Iterator[ApiClient]:
    api = ApiClient(context, RoleNameAuthenticator())
    yield api
    for downtime in api.get(PATH).json()["downtimes"]:
        api.ask("DELETE", f"{PATH}/{downtime['id']}")
    api.close()


@pytest.fixture
def limited(context: ApiContext) -> Iterator[ApiClient]:
    """An admin who sees the tasks of one team."""
    api = ApiClient(context, RoleNameAuthenticator(Scope(None, {"team": "ops"})))
    yield api
    api.close()


def add(api: ApiClient, **body: Any) -> dict[str, Any]:
    answer = api.post(PATH, json={"for": "2h", **body}, headers=OPERATOR)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"{PATH}/{made['id']}"
    assert list(made) == list(DowntimeDocument.__struct_encode_fields__)
    return made


def in_downtime(api: ApiClient) -> set[str]:
    context = api.context
    return set(DowntimeReader(context.store, context.now()).of(list(context.store.entries())))


def test_roles(api: ApiClient) -> None:
    assert api.post(PATH, json={"names": ["ours"], "for": "2h"}, headers=READER).status_code == 403
    made = add(api, names=["ours"], comment="disks")
    assert (made["who"], made["comment"], made["active"]) == ("operator", "disks", True)
    assert api.get(f"{PATH}/{made['id']}", headers=READER).json() == made
    assert api.ask("DELETE", f"{PATH}/{made['id']}", headers=READER).status_code == 403
    ended = api.ask("DELETE", f"{PATH}/{made['id']}", headers=OPERATOR)
    assert (ended.status_code, ended.json()["over"], ended.json()["ended_by"]) == (200, True, "operator")
    assert api.ask("DELETE", f"{PATH}/{made['id']}").status_code == 409
    assert api.ask("DELETE", f"{PATH}/nothing").status_code == 404


def test_pages_in_the_order_in_which_they_begin(api: ApiClient) -> None:
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    ids = [add(api, names=["ours"], **{"from": later})["id"], *(add(api, names=["ours"])["id"] for _ in range(3))]
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = api.get(PATH, params={"limit": 2, "after": after}).json()
        assert list(page) == list(DowntimePage.__struct_fields__)
        assert page["total"] == 4
        found += [downtime["id"] for downtime in page["downtimes"]]
        after = page["next"]
    assert found == [*ids[1:], ids[0]]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"names": ["ours"]}, "/until"),
        ({"names": ["ours"], "for": "x"}, "/for"),
        ({"names": ["ours"], "for": "1h", "until": "2027-01-01"}, "/for"),
        ({"names": ["ours"], "for": "1h", "from": "2020-01-01"}, "/from"),
        ({"names": ["ours"], "for": "1h", "period": "no"}, "/period"),
        ({"names": ["a\x00"], "for": "1h"}, "/names/0"),
        ({"for": "1h"}, ""),
    ],
)
def test_errors_name_their_places(api: ApiClient, body: dict[str, Any], pointer: str) -> None:
    answer = api.post(PATH, json=body)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_a_limited_token_reaches_only_its_own_tasks_also_by_dependents(api: ApiClient, limited: ApiClient) -> None:
    made = add(limited, names=["*"])
    assert made["limited_to"] == {"owner": None, "labels": {"team": "ops"}}
    assert in_downtime(api) == {"ours", "behind"}
    assert limited.post(PATH, json={"names": ["theirs"], "for": "1h"}).status_code == 404
    assert limited.ask("DELETE", f"{PATH}/{made['id']}").status_code == 200
    free = add(api, names=["ours"])
    assert in_downtime(api) == {"ours", "behind", "theirs"}
    assert limited.get(PATH).json()["downtimes"] == []
    assert limited.get(f"{PATH}/{free['id']}").status_code == 404
    assert limited.ask("DELETE", f"{PATH}/{free['id']}").status_code == 404
    own = add(api, labels={"team": "ops"}, dependents=False)
    assert [one["id"] for one in limited.get(PATH).json()["downtimes"]] == [own["id"]]


def test_applied_documents_declare_downtimes_and_are_refused_at_their_places(api: ApiClient) -> None:
    wrong = {"downtimes": [{"names": ["ours"], "period": "no"}, {"names": ["x"], "untl": "2030"}]}
    answer = api.post("/v1/apply", json={"owners": {"file": wrong}})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/owners/file/downtimes/1/untl"]
    del wrong["downtimes"][1]
    answer = api.post("/v1/apply", json={"owners": {"file": wrong}})
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/owners/file/downtimes/0/period"]
    right = {"downtimes": [{"names": ["ours"], "until": "2190-01-01"}]}
    assert api.post("/v1/apply", json={"owners": {"file": right}}).status_code == 200
    (declared,) = api.get(PATH).json()["downtimes"]
    assert (declared["declared"], declared["who"]) == (True, "file")
    refused = api.ask("DELETE", f"{PATH}/{declared['id']}")
    assert (refused.status_code, "change it there" in refused.text) == (409, True)
    assert api.post("/v1/apply", json={"owners": {"file": {}}}).status_code == 200
    assert in_downtime(api) == set()
    assert api.get(PATH).json()["downtimes"] == []
