"""One token asks for all event streams: it has some of them, the others are for others."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from http_server import HttpServer, all_of
from waiting import eventually

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tokens import add_token, create_api_token
from evenbeat.api.routes.streams import MAX_STREAMS, MAX_STREAMS_PER_CALLER
from evenbeat.model import Instant
from evenbeat.store.sqlite.sqlite_store import SqliteStore


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[HttpServer, str, str]]:
    with HttpServer(tmp_path) as serving:
        store = SqliteStore(tmp_path / "serving.db")
        admin = TaskAdmin(store, lambda: Instant(0))
        greedy, modest = (create_api_token(name, "read", Instant(0), None) for name in ("greedy", "modest"))
        for new in (greedy, modest):
            add_token(admin, new.id, new.token, "ana")
        store.close()
        yield serving, greedy.text, modest.text


def listen(serving: HttpServer, token: str) -> socket.socket:
    connection = serving.connect()
    head = f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def begin(connection: socket.socket) -> bytes:
    heard = b""
    while b"\r\n\r\n" not in heard:
        heard += connection.recv(65_536)
    return heard


def test_a_token_has_some_streams_and_others_have_theirs(serving: tuple[HttpServer, str, str]) -> None:
    server, greedy, modest = serving
    assert MAX_STREAMS_PER_CALLER < MAX_STREAMS
    with ExitStack() as stack:
        streams = [stack.enter_context(listen(server, greedy)) for _ in range(MAX_STREAMS_PER_CALLER)]
        assert all(begin(stream).startswith(b"HTTP/1.1 200") for stream in streams)
        refused = begin(stack.enter_context(listen(server, greedy)))
        assert refused.startswith(b"HTTP/1.1 429")
        assert b"retry-after: 10" in refused.lower()
        assert server.context.refusals.counts["too-many"] == 1
        assert begin(stack.enter_context(listen(server, modest))).startswith(b"HTTP/1.1 200")
        # A stream that ends makes room for another.
        streams[0].close()
        eventually(lambda: server.context.live_feed.streams_of["greedy"] < MAX_STREAMS_PER_CALLER)
        assert begin(stack.enter_context(listen(server, greedy))).startswith(b"HTTP/1.1 200")
    eventually(lambda: server.context.live_feed.streams == 0)
    assert not server.context.live_feed.streams_of


def test_the_reason_is_said(serving: tuple[HttpServer, str, str]) -> None:
    server, greedy, _ = serving
    server.context.live_feed.streams_of["greedy"] = MAX_STREAMS_PER_CALLER
    head = f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {greedy}\r\nConnection: close\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(head.encode())
        answer = all_of(connection)
    server.context.live_feed.streams_of.clear()
    assert b"greedy has 25 streams already; accepted: so many of one token or address" in answer
