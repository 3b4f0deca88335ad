"""Two of three NATS servers are gone: the one that is left answers, but confirms nothing, and that is said."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from budget import IS_FULL
from live_cluster import LiveScheduler, admin_token
from waiting import eventually

from conftest import Evenbeat
from evenbeat.testing.nats_server import NatsServer
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries

pytestmark = pytest.mark.skipif(not find_postgres_binaries(), reason="no PostgreSQL here")

WORDS = {
    "leader": "NATS has no majority: 2 of the 3 servers of stream evenbeat-runs are out of reach",
    "follower": "stream evenbeat-runs has no leader: NATS is electing one, or has no majority of its servers",
}
"""What the server that stays says of the others. A leader without them gives up after a while."""


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    servers = NatsServer(tmp_path / "nats", 3)
    servers.start()
    yield servers
    servers.kill()


@pytest.fixture
def dsn() -> Iterator[str]:
    postgres = PostgresServer(durable=False).start()
    yield postgres.create_database()
    postgres.close()


def test_it_is_said_by_why_status_and_readyz_until_they_are_back(
    nats: NatsServer, dsn: str, evenbeat: Evenbeat
) -> None:
    with LiveScheduler(dsn, nats.url, admin_token(dsn), replicas=3) as member:
        member.post("/v1/tasks", 201, name="t", every="1s", command=["noop"])
        for stays, words in list(WORDS.items())[: None if IS_FULL else 1]:
            eventually(lambda: member.client.get("/readyz").status_code == 200)
            leader = eventually(lambda: nats.leader("evenbeat-runs") + 1) - 1
            others = [place for place in range(3) if place != leader]
            gone = others if stays == "leader" else [leader, others[0]]
            for place in gone:
                nats.kill(place)
            eventually(lambda: any(words in problem for problem in member.get("/v1/status")["problems"]))  # noqa: B023
            ready = member.client.get("/readyz")
            assert ready.status_code == 503
            assert ready.json()["problems"] == ["the queue is out of reach; the node's log says why"]
            # What a node tells the others of itself is up to a second old.
            eventually(lambda: "no majority" in evenbeat("status", "--db", dsn).out)
            assert evenbeat("status", "--db", dsn).code == 1
            assert "no majority" in evenbeat("why", "t", "--db", dsn).out
            for place in gone:
                nats.start(place)
        eventually(lambda: member.client.get("/readyz").status_code == 200)
        assert member.get("/v1/status")["problems"] == []
