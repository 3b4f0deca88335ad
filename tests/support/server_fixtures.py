"""Fixtures: PostgreSQL and NATS, one server of each per test process. Tests take databases or prefixes of their own."""

from collections.abc import Callable, Iterator

import pytest

from evenbeat.testing.nats_server import NatsServer
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries


@pytest.fixture(scope="session", autouse=True)
def _templates(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All test processes of a run share what `initdb` makes."""
    base = tmp_path_factory.getbasetemp()
    PostgresServer.templates = base.parent if base.name.startswith("popen-") else base


@pytest.fixture(scope="session")
def postgres_of_version() -> Iterator[Callable[[int], PostgresServer]]:
    """The server of a version, started when it is first asked for; its data need not survive a power loss."""
    started: dict[int, PostgresServer] = {}

    def server(version: int) -> PostgresServer:
        if version not in started:
            started[version] = PostgresServer(find_postgres_binaries()[version], durable=False).start()
        return started[version]

    yield server
    for each in started.values():
        each.close()


@pytest.fixture(scope="session")
def newest_postgres(postgres_of_version: Callable[[int], PostgresServer]) -> PostgresServer:
    return postgres_of_version(max(find_postgres_binaries()))


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server.url
    server.stop()
