"""Whoever is let in, or refused, leaves a trace: sign-ins and tokens in the audit, refusals in log and metrics."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process_server import HERE, InProcessServer
from live_node import LiveNode

from evenbeat.admin.tokens import add_token, create_api_token, remove_token
from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.http.context import ApiContext
from evenbeat.api.server import protected_application
from evenbeat.model import Instant


class ServerBesideNode(InProcessServer):
    """The same beside a node: what the audit is to know goes through it."""

    def __init__(self, live_node: LiveNode) -> None:
        self.context = ApiContext(live_node.database)
        self.admin = live_node.node.admin
        self._store = live_node.node.store  # type: ignore[assignment]
        self.now = 1_000.0
        self.access = TokenAuthenticator(self.context, HERE, now=lambda: self.now)
        self.app = protected_application(self.context, self.access)
        self.url = f"http://{HERE}:8629"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerBesideNode]:
    with LiveNode(tmp_path / "evenbeat.db", grace=0.1) as live_node:
        server = ServerBesideNode(live_node)
        yield server
        server.context.close()


def test_tokens_and_sign_ins_are_in_the_audit_and_no_secret_is(server: ServerBesideNode) -> None:
    text = server.token("ana", "operate", Instant(server.context.now() + 10**12))
    for _ in range(12):
        assert server("POST", "/v1/session", json={"token": text}, client="10.1.2.3").status_code == 200
    server.remove("ana")
    found = server.admin.store.changes("token ana")
    # Ten sign-ins a minute of one token from one address: nobody fills the audit by signing in.
    assert [(c.action, c.who) for c in found] == [
        ("removed", "ana"),
        *[("signed in", "10.1.2.3")] * 10,
        ("created", "ana"),
    ]
    keys = {field.key: field.new for field in found[-1].fields}
    assert (keys["role"], set(keys)) == ("operate", {"role", "expires"})
    assert next(field[:2] for field in found[0].fields) == ("role", "operate")
    assert not any(text[4:] in repr(change) or text[12:] in repr(change) for change in found)


def test_a_session_begins_though_the_audit_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with InProcessServer(tmp_path) as server:  # no node
        text = server.token("ana", "read")
        assert server("POST", "/v1/session", json={"token": text}).status_code == 200
    assert "a sign-in is not in the audit" in caplog.text


def test_who_is_refused_is_logged_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with InProcessServer(tmp_path) as server:
        reader = server.token("grafana", "read")
        caplog.set_level(logging.WARNING)
        server("GET", "/v1/tasks", client="10.0.0.1")
        server("GET", "/v1/tasks", reader + "x", client="10.0.0.2")
        server("DELETE", "/v1/tasks/some-name", reader, client="10.0.0.3")
        server("POST", "/v1/validate", reader, json={"a": ["x" * 70_000] * 20}, client="10.0.0.4")
        counts = {reason: count for reason, count in server.context.refusals.counts.items() if count}
        lines = [record.__dict__ for record in caplog.records if record.__dict__.get("action") == "refused"]
        metrics = server("GET", "/metrics", reader).text
    assert counts == {"unauthenticated": 2, "forbidden": 1, "too-large": 1}
    assert [(line["reason"], line["address"], line.get("route"), line.get("who")) for line in lines] == [
        ("unauthenticated", "10.0.0.1", "GET /v1/tasks", None),
        ("unauthenticated", "10.0.0.2", "GET /v1/tasks", None),
        ("forbidden", "10.0.0.3", "DELETE /v1/tasks/{name}", "grafana"),
        ("too-large", "10.0.0.4", "POST /v1/validate", None),
    ]
    assert not any(word in repr(lines) for word in (reader[4:], "some-name"))
    assert 'evenbeat_api_refused_total{reason="unauthenticated"} 2.0' in metrics
    assert 'evenbeat_api_refused_total{reason="too-many"} 0.0' in metrics


def test_nobody_hides_a_change_by_making_more_of_them(tmp_path: Path) -> None:
    """The names of tokens cannot be used again for another story: each line stays."""
    with InProcessServer(tmp_path) as server:
        for _ in range(3):
            new = create_api_token("ci", "admin", Instant(0))
            add_token(server.admin, new.id, new.token, "mallory")
            remove_token(server.admin, "ci", "mallory")
        assert [c.action for c in server.admin.store.changes("token ci")] == ["removed", "created"] * 3
