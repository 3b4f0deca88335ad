"""Messages over HTTP: pages, filters, who sees which; and timelines and answers to why beside them."""

from collections.abc import Iterator
from typing import Any

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from notification_seeds import seed_notifications

from evenbeat.api.http.context import ApiContext
from evenbeat.core.scope import Scope
from evenbeat.report.why_facts import ContactAnswer
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.documents import SentMessage, TimelineEntry

READER = {"authorization": "Bearer reader"}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiContext]:
    """A database whose node has stopped."""
    path = tmp_path_factory.mktemp("messages") / "evenbeat.db"
    store = SqliteStore(path)
    assert seed_notifications(store) == (1, 2)
    store.close()
    context = ApiContext(path)
    yield context
    context.close()


@pytest.fixture(scope="module")
def api(context: ApiContext) -> Iterator[ApiClient]:
    api = ApiClient(context, RoleNameAuthenticator())
    yield api
    api.close()


def page(api: ApiClient, **query: Any) -> tuple[list[int], int | None]:
    answer = api.get("/v1/messages", params=query, headers=READER)
    assert answer.status_code == 200, answer.text
    assert "S3CRET" not in answer.text
    found = answer.json()
    assert list(found) == ["messages", "next"]
    assert all(list(message) == list(SentMessage.__struct_fields__) for message in found["messages"])
    return [message["id"] for message in found["messages"]], found["next"]


def test_a_reader_sees_messages_newest_first_by_contact_and_state(api: ApiClient) -> None:
    assert page(api) == ([2, 1], None)
    assert page(api, limit=1) == ([2], 2)
    assert page(api, limit=1, before=2) == ([1], None)
    assert page(api, state="delivered") == ([1], None)
    assert page(api, state="given up") == ([], None)
    assert page(api, contact="ops", state="waiting") == ([2], None)
    assert page(api, contact="boss") == ([], None)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "state=lost", "before=-1", "contact=", "unknown=1"])
def test_what_no_page_can_be_is_refused(api: ApiClient, query: str) -> None:
    assert api.get(f"/v1/messages?{query}").status_code == 422


def test_who_has_no_role_is_refused(api: ApiClient) -> None:
    assert api.get("/v1/messages", headers={"authorization": "Bearer nobody"}).status_code == 401


def test_a_limited_token_sees_messages_about_its_tasks(context: ApiContext, api: ApiClient) -> None:
    for team, seen in (("ops", [(2, 1), (1, 1)]), ("data", [(1, 1)]), ("else", [])):
        limited = ApiClient(context, RoleNameAuthenticator(Scope(None, {"team": team})))
        found = limited.get("/v1/messages").json()["messages"]
        assert [(message["id"], message["items"]) for message in found] == seen
        assert limited.get("/v1/problems/1").status_code == (200 if team == "ops" else 404)
        assert limited.get("/v1/tasks/web/why").status_code == (200 if team == "ops" else 404)
        for path in ("/v1/tasks/web/why", "/v1/problems/1") if team == "ops" else ():
            said = limited.get(path).text
            assert "ops was told" in said
            assert "gathered" not in said  # with problems of other tasks
            assert "gathered into message 1 with 1 other" in api.get(path).text
        limited.close()


def test_why_has_facts_about_each_contact(api: ApiClient) -> None:
    found = api.get("/v1/tasks/web/why", headers=READER).json()["notified"]
    assert all(list(line) == list(ContactAnswer.__struct_fields__) for line in found)
    assert [(line["contact"], line["outcome"], line["reason"]) for line in found] == [
        ("ops", "sent", ""),
        ("boss", "suppressed", "over before it was sent"),
    ]
    assert "S3CRET" not in str(found)
    then = api.get("/v1/tasks/web/why?at=2027-01-15T08:02:00", headers=READER).json()["notified"]
    assert [line["text"] for line in then] == []  # that is still to come


def test_a_problem_has_its_timeline(api: ApiClient) -> None:
    found = api.get("/v1/problems/1", headers=READER).json()["timeline"]
    assert all(list(entry) == list(TimelineEntry.__struct_fields__) for entry in found)
    assert [entry["kind"] for entry in found] == ["opened", "sent", "suppressed", "closed", "sent"]


def test_contacts_say_which_place_fails(api: ApiClient) -> None:
    found = api.get("/v1/contacts/ops", headers=READER).json()["places"]
    assert [(place["failing"], place["latest"]["id"]) for place in found] == [(True, 2)]
    found = api.get("/v1/contacts/boss", headers=READER).json()["places"]
    assert [(place["failing"], place["latest"]) for place in found] == [(False, None)]
