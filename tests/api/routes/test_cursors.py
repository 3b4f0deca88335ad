import pytest
from api_client import ApiClient, RoleNameAuthenticator
from waiting import eventually

from evenbeat.api.http.context import ApiContext
from evenbeat.core.scope import Scope


def test_a_cursor_is_read_set_and_reset(api: ApiClient) -> None:
    api.add("news")
    path = "/v1/tasks/news/cursor"
    assert api.get(path).json() == {"task": "news", "cursor": None}
    assert api.ask("PUT", path, json={"cursor": "page 7"}).json() == {
        "task": "news",
        "before": None,
        "cursor": "page 7",
    }
    assert api.get(path).json() == {"task": "news", "cursor": "page 7"}
    assert api.ask("DELETE", path).json() == {"task": "news", "before": "page 7", "cursor": None}
    changes = api.get("/v1/tasks/news/changes").json()["changes"]
    assert {"cursor set", "cursor reset"} <= {change["action"] for change in changes}


@pytest.mark.parametrize("body", [{}, {"cursor": None}, {"cursor": [1]}, {"cursor": "x", "more": 1}, {"cursor": ""}])
def test_what_is_no_cursor_is_refused(api: ApiClient, body: dict[str, object]) -> None:
    if api.get("/v1/tasks/pages").status_code == 404:
        api.add("pages")
    assert api.ask("PUT", "/v1/tasks/pages/cursor", json=body).status_code == 422
    assert api.get("/v1/tasks/pages/cursor").json()["cursor"] is None


def test_it_is_refused_while_a_run_is_under_way(api: ApiClient) -> None:
    api.add("nap", command=["sleep", "600"])
    api.post("/v1/tasks/nap/run")
    eventually(lambda: api.get("/v1/tasks/nap").json()["running_since"])
    refused = api.ask("DELETE", "/v1/tasks/nap/cursor")
    assert (refused.status_code, "'nap' runs now" in refused.text) == (409, True)
    api.post("/v1/tasks/nap/stop?wait=true")
    assert api.ask("DELETE", "/v1/tasks/nap/cursor").status_code == 200


def test_who_may_read_it_and_who_may_change_it(api: ApiClient, context: ApiContext) -> None:
    api.add("secret", labels={"team": "ops"})
    for who, changed in (("reader", 403), ("operator", 403), ("admin", 200)):
        caller = ApiClient(context, RoleNameAuthenticator(), who=who)
        assert caller.get("/v1/tasks/secret/cursor").status_code == 200
        assert caller.ask("PUT", "/v1/tasks/secret/cursor", json={"cursor": "x"}).status_code == changed
        assert caller.ask("DELETE", "/v1/tasks/secret/cursor").status_code == changed
        caller.close()
    other = ApiClient(context, RoleNameAuthenticator(Scope(None, {"team": "web"})))
    assert other.get("/v1/tasks/secret/cursor").status_code == 404
    assert other.ask("DELETE", "/v1/tasks/secret/cursor").status_code == 404
    other.close()
    assert api.get("/v1/tasks/nobody/cursor").status_code == 404
