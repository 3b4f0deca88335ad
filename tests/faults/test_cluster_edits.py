"""Tasks are edited by every path while schedulers come and go: each nominal time is accounted for exactly once."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from breakable_cluster import BreakableCluster, Servers
from budget import IS_FULL
from cluster_edits import Editor

from evenbeat.testing.nats_server import NatsServer
from evenbeat.testing.postgres_server import PostgresServer

QUIET = ("edit", "edit_in_file", "move", "pause", "force")
LOUD = ("kill_scheduler", "restart_scheduler", "restart_all")
TOUR = ("edit", "restart_all", "move", "pause", "kill_scheduler", "edit_in_file")
SEEDS = range(1, 11) if IS_FULL else ()
STEPS = 20


def storm(seed: int) -> tuple[str, ...]:
    """Each third step is a loud one."""
    chance = random.Random(seed)
    return tuple(chance.choice(LOUD if step % 3 == 2 else QUIET) for step in range(STEPS))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    postgres = PostgresServer(durable=False).start()
    nats = NatsServer(tmp_path_factory.mktemp("nats"), 3, options=("--no_advertise",))
    nats.start()
    yield Servers(postgres, nats)
    nats.kill()
    postgres.close()


@pytest.mark.parametrize("names", [TOUR, *map(storm, SEEDS)], ids=["tour", *map("storm {}".format, SEEDS)])
def test_edits_by_every_path_while_schedulers_come_and_go(
    servers: Servers, tmp_path: Path, names: tuple[str, ...]
) -> None:
    chance = random.Random(str(names))
    editor = Editor(tmp_path, chance)
    cluster = BreakableCluster(tmp_path, servers, editor.text())
    try:
        cluster.begin()
        editor.begin(cluster)
        for name in names:
            getattr(editor, name)()
            time.sleep(chance.uniform(0.5, 4.0))
        until = editor.finish()
        assert editor.findings(until) == [], cluster.tails()
    finally:
        editor.close()
        cluster.close()
