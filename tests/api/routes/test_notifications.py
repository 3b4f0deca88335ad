"""Notifications over HTTP: pages, filters, who sees which."""

from collections.abc import Iterator
from typing import Any

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from notification_seeds import seed_notifications

from evenbeat.api.http.context import ApiContext
from evenbeat.core.scope import Scope
from evenbeat.store.sqlite.sqlite_store import SqliteStore

READER = {"authorization": "Bearer reader"}
ALL = [("web", "ops"), ("web", "boss"), ("db", "ops"), ("web", "ops")]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiContext]:
    """A database whose node has stopped."""
    path = tmp_path_factory.mktemp("notifications") / "evenbeat.db"
    store = SqliteStore(path)
    seed_notifications(store)
    store.close()
    context = ApiContext(path)
    yield context
    context.close()


@pytest.fixture(scope="module")
def api(context: ApiContext) -> Iterator[ApiClient]:
    api = ApiClient(context, RoleNameAuthenticator())
    yield api
    api.close()


def page(api: ApiClient, **query: Any) -> tuple[list[tuple[str, str]], str | None]:
    answer = api.get("/v1/notifications", params=query, headers=READER)
    assert answer.status_code == 200, answer.text
    assert "S3CRET" not in answer.text
    found = answer.json()
    return [(one["task"], one["contact"]) for one in found["notifications"]], found["next"]


def test_they_come_newest_first_by_task_contact_and_time(api: ApiClient) -> None:
    assert page(api) == (ALL, None)
    assert page(api, name="db") == (ALL[2:3], None)
    assert page(api, contact="boss") == (ALL[1:2], None)
    assert page(api, since="2027-01-15T08:01") == (ALL[:2], None)
    assert page(api, name="nothing") == ([], None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_pages_have_each_of_them_once(api: ApiClient, limit: int) -> None:
    seen, before = page(api, limit=limit)
    while before is not None:
        more, before = page(api, limit=limit, before=before)
        assert more
        seen += more
    assert seen == ALL


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "before=1", "before=-1-2", "before=a-b", "since=soon", "contact=", "unknown=1"]
)
def test_what_no_page_can_be_is_refused(api: ApiClient, query: str) -> None:
    assert api.get(f"/v1/notifications?{query}", headers=READER).status_code == 422


def test_who_has_no_role_is_refused(api: ApiClient) -> None:
    assert api.get("/v1/notifications", headers={"authorization": "Bearer nobody"}).status_code == 401


@pytest.mark.parametrize(("team", "seen"), [("ops", ["web", "web", "web"]), ("data", ["db"]), ("else", [])])
def test_a_limited_token_sees_those_of_its_tasks(context: ApiContext, team: str, seen: list[str]) -> None:
    limited = ApiClient(context, RoleNameAuthenticator(Scope(None, {"team": team})))
    answer = limited.get("/v1/notifications")
    assert [one["task"] for one in answer.json()["notifications"]] == seen
    assert "gathered" not in answer.text
    limited.close()
