"""Real PostgreSQL servers: the oldest and the newest version on this machine, one server of each per test process."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

import pytest
from kept_connection import KeptConnection

from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries

_FOUND: Final = find_postgres_binaries()
_VERSIONS: Final = sorted({min(_FOUND), max(_FOUND)}) if _FOUND else []
_TABLES: Final = (
    "tasks", "progress", "claims", "outputs", "plain_runs", "notable_runs", "skips", "changes", "periods", "settings",
    "writers", "leases", "shares", "orders", "problems", "parts", "blocks", "past_definitions", "pauses",
    "messages", "chain_ends", "chain_uses",
)  # fmt: skip
_EMPTY: Final = "; ".join(
    [
        "SET search_path = evenbeat",
        *(f"DELETE FROM {table}" for table in _TABLES),
        "UPDATE marks SET stamp = 0, settings_stamp = 0, last_number = 0",
        "ALTER TABLE problems ALTER id RESTART",
        "ALTER TABLE alert_decisions ALTER id RESTART",
        "UPDATE last_message SET number = 0",
        "UPDATE partitions SET holder = NULL, is_new = true",
    ]
).encode()


@pytest.fixture(scope="session", params=_VERSIONS, ids=lambda version: f"pg{version}")
def postgres(request: pytest.FixtureRequest, postgres_of_version: Callable[[int], PostgresServer]) -> PostgresServer:
    return postgres_of_version(request.param)


@pytest.fixture(scope="session")
def _shared(postgres: PostgresServer) -> str:
    dsn = postgres.create_database()
    PostgresStore(dsn).close()
    return dsn


@pytest.fixture(scope="session")
def empty_database(_shared: str) -> Iterator[Callable[[], None]]:
    """Empties the database: creating one takes a third of a second."""
    with closing(KeptConnection(_shared)) as connection:
        yield lambda: connection.run(_EMPTY)


@pytest.fixture
def dsn(_shared: str, empty_database: Callable[[], None]) -> str:
    """An empty database, the same for each test."""
    empty_database()
    return _shared
