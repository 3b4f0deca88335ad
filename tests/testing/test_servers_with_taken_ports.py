"""A port that another program takes between its reservation and the start of a server fails no test."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Timer

import psycopg
import pytest

from evenbeat.testing.nats_server import NatsServer
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries


@contextmanager
def taken(port: int) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", port)) as listener:
        yield listener


@pytest.mark.parametrize("ports", ["ports", "routes"])
def test_nats_servers_move_to_other_ports_at_their_first_start(tmp_path: Path, ports: str) -> None:
    servers = NatsServer(tmp_path, 3)
    before = getattr(servers, ports)[1]
    with taken(before):
        servers.start()
        try:
            assert before not in getattr(servers, ports)
            assert servers.url == "nats://" + ",".join(f"127.0.0.1:{port}" for port in servers.ports)
            for port in servers.ports:
                socket.create_connection(("127.0.0.1", port)).close()
        finally:
            servers.stop()


def test_a_nats_server_that_is_started_again_waits_for_its_port(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    server.start()
    url = server.url
    server.stop()
    listener = socket.create_server(("127.0.0.1", server.ports[0]))
    release = Timer(1.0, listener.close)
    release.start()
    try:
        server.start()
        assert server.url == url
    finally:
        release.join()
        server.stop()


def test_a_nats_server_that_ends_for_another_reason_says_so_and_leaves_none_behind(tmp_path: Path) -> None:
    servers = NatsServer(tmp_path, 2, options=("-c", str(tmp_path / "missing.conf")))
    with pytest.raises(RuntimeError, match=r"missing\.conf"):
        servers.start()
    for port in servers.ports:
        with taken(port):
            pass


@pytest.mark.skipif(not find_postgres_binaries(), reason="there is no PostgreSQL")
def test_a_postgresql_server_moves_to_another_port_at_its_first_start() -> None:
    with closing(PostgresServer(durable=False)) as server, taken(server.port):
        before = server.port
        server.start()
        assert server.port != before
        psycopg.connect(server.dsn).close()
        server.restart()
        psycopg.connect(server.dsn).close()
