import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process_server import InProcessServer
from starlette.requests import Request

from evenbeat.admin.tokens import TOKEN_PREFIX, create_api_token, secret_matches, split_token
from evenbeat.api.application import ROUTES
from evenbeat.api.auth import authenticator, cookie_sessions
from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.route import Role, Route
from evenbeat.api.openapi.reference_page import routes as reference_routes
from evenbeat.api.routes import health, metrics, session
from evenbeat.model import HOUR, Instant, Invalid
from evenbeat.store.contract import Conflict
from evenbeat.wire.requests import ApiToken, RoleName

OWN = (*session.ROUTES, *health.ROUTES, *metrics.ROUTES)
ALL = (*ROUTES, *OWN, *reference_routes((*ROUTES, *OWN)))
STREAM = "text/event-stream"
ROLES: tuple[RoleName, ...] = ("read", "operate", "admin")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InProcessServer]:
    with InProcessServer(tmp_path) as server:
        yield server


@pytest.fixture(scope="module")
def with_tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InProcessServer, dict[str, str]]]:
    with InProcessServer(tmp_path_factory.mktemp("roles")) as server:
        yield server, {role: server.token(role, role) for role in ROLES}


def path_of(route: Route) -> str:
    """With something in place of each variable."""
    return "/".join("x" if segment.startswith("{") else segment for segment in route.path.split("/"))


@pytest.mark.parametrize("route", ALL, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_for_its_role_and_those_above(
    route: Route, with_tokens: tuple[InProcessServer, dict[str, str]]
) -> None:
    server, tokens = with_tokens
    path = path_of(route)
    server.later(1)
    if route.role is not Role.ANYBODY:
        nobody = server(route.method, path)
        assert nobody.status_code == 401
        assert nobody.headers["www-authenticate"].startswith("Bearer")
    for role in ROLES:
        if Role[role.upper()] < route.role:
            refused = server(route.method, path, tokens[role])
            assert refused.status_code == 403
            assert role in refused.json()["detail"]
        elif route.media != STREAM:  # it would never end
            assert server(route.method, path, tokens[role]).status_code not in (401, 403)


def test_the_table_of_routes_has_all_roles_in_it() -> None:
    assert {route.role for route in ALL} == set(Role)
    assert {route.path for route in ALL if route.role is Role.ANYBODY} >= {"/healthz", "/readyz", "/v1/session"}
    assert all(route.role is Role.ADMIN for route in ALL if route.method in ("PUT", "PATCH"))


def test_a_token_is_an_id_and_a_secret_of_which_only_a_hash_is_kept(server: InProcessServer) -> None:
    text = server.token("ci", "read")
    assert len(text) == 44
    found = split_token(text)
    assert found is not None
    id_, secret = found
    kept = server.admin.store.settings(TOKEN_PREFIX)
    assert kept.keys() == {TOKEN_PREFIX + id_}
    assert secret not in kept[TOKEN_PREFIX + id_]
    new = create_api_token("x", "admin", Instant(0))
    assert secret_matches(new.token, split_token(new.text)[1])  # type: ignore[index]
    assert not secret_matches(new.token, secret)
    assert split_token(text[:-1]) is None
    assert split_token(f"{text}x") is None


def test_names_of_tokens_are_plain_and_unique(server: InProcessServer) -> None:
    server.token("ci", "read")
    with pytest.raises(Conflict, match="token rm ci"):
        server.token("ci", "admin")
    for name in ("", "a b", "x" * 65, "\n"):
        with pytest.raises(Invalid, match="cannot name a token"):
            create_api_token(name, "read", Instant(0))
    with pytest.raises(Invalid, match="there is no token 'nobody'"):
        server.remove("nobody")
    assert [(change.action, change.name, change.detail) for change in server.admin.store.changes()] == [
        ("created", "token ci", "read")
    ]


def test_without_tokens_nobody_gets_in_unless_the_node_is_open(tmp_path: Path) -> None:
    with InProcessServer(tmp_path, is_open=False) as server:
        refused = server("GET", "/v1/tasks")
        assert refused.status_code == 401
        assert "`evenbeat token add NAME --role ROLE` makes one" in refused.json()["detail"]
        assert server("GET", "/v1/session").json() == {"role": None, "needs_token": True}
        assert server("GET", "/healthz").status_code == 200
        text = server.token("ana", "admin")
        assert server("GET", "/v1/tasks", text).status_code == 200
        server.remove("ana")
        server.later(3)
        assert server("GET", "/v1/tasks").status_code == server("GET", "/v1/tasks", text).status_code == 401


def test_without_tokens_everybody_on_this_machine_is_admin(server: InProcessServer) -> None:
    assert server("GET", "/v1/tasks").status_code == 200
    assert server("DELETE", "/v1/tasks/x").status_code not in (401, 403)
    assert server("GET", "/v1/session").json() == {"role": "admin", "needs_token": False}


def test_the_first_token_shuts_the_open_door(server: InProcessServer) -> None:
    server.token("ana", "admin")
    assert server("GET", "/v1/tasks").status_code == 401
    assert server("GET", "/v1/session").json() == {"role": None, "needs_token": True}


def test_elsewhere_nobody_gets_in_without_a_token_even_if_there_is_none(tmp_path: Path) -> None:
    with InProcessServer(tmp_path, "192.0.2.7") as server:
        assert server("GET", "/v1/tasks").status_code == 401
        text = server.token("ana", "read")
        assert server("GET", "/v1/tasks", text).status_code == 200


def test_a_removed_token_works_for_seconds_at_most(server: InProcessServer) -> None:
    server.token("other", "admin")
    text = server.token("ci", "read")
    assert server("GET", "/v1/tasks", text).status_code == 200
    server.remove("ci")
    server.later(2.5)
    assert server("GET", "/v1/tasks", text).status_code == 401


def test_a_token_that_is_over_works_no_more(server: InProcessServer, monkeypatch: pytest.MonkeyPatch) -> None:
    text = server.token("ci", "read", Instant(server.context.now() + HOUR))
    assert server("GET", "/v1/tasks", text).status_code == 200
    over = Instant(server.context.now() + HOUR)
    monkeypatch.setattr(server.context, "now", lambda: over)
    refused = server("GET", "/v1/tasks", text)
    assert refused.status_code == 401
    assert "expired" in refused.json()["detail"]


def test_a_damaged_token_opens_no_door(server: InProcessServer) -> None:
    server.admin.store.set_settings({TOKEN_PREFIX + "AAAAAAAA": "{"})
    assert server("GET", "/v1/tasks").status_code == 503


def test_scrypt_is_worked_once_for_many_requests(server: InProcessServer, monkeypatch: pytest.MonkeyPatch) -> None:

    worked: list[str] = []

    def counting(token: ApiToken, secret: str) -> bool:
        worked.append(token.name)
        return secret_matches(token, secret)

    monkeypatch.setattr(authenticator, "secret_matches", counting)
    text = server.token("ci", "read")

    async def at_once() -> list[str]:
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "client": ("127.0.0.1", 1)}
        headers = [(b"authorization", f"Bearer {text}".encode())]
        requests = [Request({**scope, "headers": headers}) for _ in range(50)]
        return [
            caller.who for caller in await asyncio.gather(*(server.access.authenticate(r, Role.READ) for r in requests))
        ]

    assert asyncio.run(at_once()) == ["ci"] * 50
    server.later(59)
    assert server("GET", "/v1/tasks", text).status_code == 200
    assert worked == ["ci"]
    server.later(61)
    assert server("GET", "/v1/tasks", text).status_code == 200
    assert worked == ["ci", "ci"]


def test_wrong_tokens_are_limited_and_right_ones_are_not_shut_out(server: InProcessServer) -> None:
    text = server.token("ci", "read")
    stranger = create_api_token("x", "admin", Instant(0)).text
    answers = [server("GET", "/v1/tasks", stranger).status_code for _ in range(11)]
    assert answers == [401] * 10 + [429]
    limited = server("GET", "/v1/tasks", stranger)
    assert 1 <= int(limited.headers["retry-after"]) <= 6
    assert server("GET", "/v1/tasks", text).status_code == 200
    assert server("GET", "/v1/tasks", stranger, client="127.0.0.2").status_code == 401
    server.later(7)
    assert server("GET", "/v1/tasks", stranger).status_code == 401


def test_guessing_the_secret_of_a_token_is_limited_too(server: InProcessServer) -> None:
    text = server.token("ci", "read")
    wrong = text[:-1] + ("A" if text[-1] != "A" else "B")
    assert [server("GET", "/v1/tasks", wrong).status_code for _ in range(11)] == [401] * 10 + [429]


# Sessions


def signed_in(server: InProcessServer, text: str, **headers: str) -> str:
    answer = server("POST", "/v1/session", json={"token": text}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.headers["set-cookie"]


def cookie(set_cookie: str) -> dict[str, str]:
    return {"cookie": set_cookie.partition(";")[0]}


def test_a_session_stands_for_its_token(server: InProcessServer) -> None:
    text = server.token("ana", "operate")
    said = signed_in(server, text)
    assert all(word in said for word in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"))
    assert "Secure" not in said
    assert text not in said
    headers = cookie(said)
    assert server("GET", "/v1/tasks", headers=headers).status_code == 200
    assert server("GET", "/v1/session", headers=headers).json() == {"role": "operate", "needs_token": False}
    assert server("DELETE", "/v1/tasks/x", headers={**headers, "x-evenbeat": "1"}).status_code == 403  # needs admin
    assert server("DELETE", "/v1/session", headers=headers).status_code == 204
    assert server("GET", "/v1/tasks", headers=headers).status_code == 401


def test_a_session_ends_with_its_token_and_after_twelve_hours(server: InProcessServer) -> None:
    server.token("other", "admin")
    first, second = (cookie(signed_in(server, server.token(name, "read"))) for name in ("ana", "bob"))
    server.remove("ana")
    server.later(3)
    assert server("GET", "/v1/tasks", headers=first).status_code == 401
    assert server("GET", "/v1/tasks", headers=second).status_code == 200
    server.later(12 * 3600)
    assert server("GET", "/v1/tasks", headers=second).status_code == 401


def test_the_cookie_is_secure_with_tls_here_or_before_us(server: InProcessServer, tmp_path: Path) -> None:
    text = server.token("ana", "read")
    assert "Secure" in signed_in(server, text, origin="https://127.0.0.1:8629")
    other = tmp_path / "other"
    other.mkdir()
    with InProcessServer(other, is_secure=True) as secure:
        assert "Secure" in signed_in(secure, secure.token("ana", "read"))


def test_wrong_tokens_begin_no_session(server: InProcessServer) -> None:
    server.token("ana", "read")
    stranger = create_api_token("x", "admin", Instant(0)).text
    for text in (stranger, "", "evb_", "x" * 200):
        refused = server("POST", "/v1/session", json={"token": text})
        assert refused.status_code == 401
        assert "set-cookie" not in refused.headers
    assert server("POST", "/v1/session", json={"token": "x" * 201}).status_code == 422
    assert server("POST", "/v1/session", json={"token": 1}).status_code == 422


def test_wrong_links_are_limited_and_log_no_code(server: InProcessServer, caplog: pytest.LogCaptureFixture) -> None:
    text, code = server.token("ana", "read"), "B" * 43
    answers = [server("POST", "/v1/session/link", json={"code": code}) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert "`evenbeat token link` makes another" in answers[0].json()["detail"]
    assert not any("set-cookie" in answer.headers for answer in answers)
    assert [record.__dict__.get("address") for record in caplog.records if "refused" in record.message]
    assert code not in caplog.text
    assert server("GET", "/v1/tasks", text).status_code == 200
    for body in ({}, {"code": 1}, {"code": "x" * 201}, {"token": text}):
        assert server("POST", "/v1/session/link", json=body).status_code == 422


def test_nodes_on_two_ports_of_a_host_have_cookies_of_their_own(server: InProcessServer) -> None:
    found = [TokenAuthenticator(server.context, "127.0.0.1", port).cookie for port in (8629, 8630, None)]
    assert found == ["evenbeat_session_8629", "evenbeat_session_8630", "evenbeat_session"]


def test_sessions_are_bounded() -> None:
    sessions = cookie_sessions.InMemorySessions()
    words = [sessions.create("id", "hash") for _ in range(cookie_sessions.MAX_SESSIONS + 1)]
    assert sessions.find(words[0]) is None
    assert all(sessions.find(word) for word in words[1:])
    assert sessions.find("") is None


def test_a_problem_names_no_secret(server: InProcessServer, caplog: pytest.LogCaptureFixture) -> None:
    text = server.token("ci", "read")
    wrong = text[:-1] + ("A" if text[-1] != "A" else "B")
    refused = server("GET", "/v1/tasks", wrong)
    assert wrong[4:] not in refused.text
    assert [(r.__dict__["action"], r.__dict__["address"]) for r in caplog.records] == [("refused", "127.0.0.1")]
    assert wrong[4:] not in caplog.text
    with pytest.raises(HttpError):
        asyncio.run(server.access.authenticate(Request({"type": "http", "method": "GET", "headers": []}), Role.READ))
