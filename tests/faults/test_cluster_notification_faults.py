"""Schedulers, senders, workers and receivers fail while checks of a cluster turn bad and good: who is told what?

`make test` makes one short tour, `make faults` (EVENBEAT_FAULTS=full) storms.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from breakable_cluster import Servers
from budget import IS_FULL
from notification_oracle import findings
from notifying_cluster import NotifyingCluster
from notifying_node import Receivers

from evenbeat.testing.nats_server import NatsServer
from evenbeat.testing.postgres_server import PostgresServer

TOUR = ("kill_scheduler", "kill_sender", "stop_scheduler")
LOUD = (*TOUR, "hold_scheduler", "kill_workers")
SEEDS = range(1, 11) if IS_FULL else ()
STEPS = 12
_FLIPS = 20
"""Between two of them."""


def storm(seed: int) -> tuple[str, ...]:
    chance = random.Random(seed)
    return tuple(chance.choice(LOUD) for _ in range(STEPS))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    postgres = PostgresServer(durable=False).start()
    nats = NatsServer(tmp_path_factory.mktemp("nats"), 3, options=("--no_advertise",))
    nats.start()
    yield Servers(postgres, nats)
    nats.kill()
    postgres.close()


@pytest.mark.parametrize("names", [TOUR, *map(storm, SEEDS)], ids=["tour", *map("storm {}".format, SEEDS)])
def test_contacts_are_told_while_schedulers_come_and_go(
    servers: Servers, tmp_path: Path, names: tuple[str, ...]
) -> None:
    chance = random.Random(str(names))
    with Receivers() as receivers:
        world = NotifyingCluster(tmp_path, servers, receivers, chance)
        try:
            for name in names:
                for _ in range(_FLIPS):
                    world.flip_and_more()
                    time.sleep(chance.random() / 10)
                getattr(world, name)()
            world.calm_down()
            assert findings(world.evidence()) == [], world.cluster.tails()
        finally:
            world.close()
