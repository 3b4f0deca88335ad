"""Two versions of evenbeat in one cluster, as during an upgrade: schedulers and workers of each, killed and replaced.

EVENBEAT_BEFORE is the Python of an environment that has the version before; without it these tests are skipped.
"""

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from breakable_cluster import BreakableCluster, Servers
from cluster_edits import Editor
from cluster_faults import FAULTS
from cluster_tasks import mixed
from waiting import eventually

from evenbeat.testing.nats_server import NatsServer
from evenbeat.testing.postgres_server import PostgresServer

NEW: Final = sys.executable
OLD: Final = os.environ.get("EVENBEAT_BEFORE", "")
pytestmark = pytest.mark.skipif(not OLD, reason="EVENBEAT_BEFORE names no Python with the version before")
MIXES: Final = {
    "old schedulers, new workers": {"s0": OLD, "s1": OLD},
    "new schedulers, old workers": {"w0": OLD, "w1": OLD},
    "one of each": {"s0": OLD, "w0": OLD},
    "one of each, crosswise": {"s0": OLD, "w1": OLD},
}
STEPS: Final = (
    "edit",
    "force",
    "move",
    "kill_scheduler",
    "pause",
    "force",
    "restart_scheduler",
    "edit_in_file",
    "force",
)

Make = Callable[..., BreakableCluster]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    postgres = PostgresServer(durable=False).start()
    nats = NatsServer(tmp_path_factory.mktemp("nats"), 3, options=("--no_advertise",))
    nats.start()
    yield Servers(postgres, nats)
    nats.kill()
    postgres.close()


@pytest.fixture
def make(tmp_path: Path, servers: Servers) -> Iterator[Make]:
    made: list[BreakableCluster] = []

    def cluster(tasks: str, **options: Any) -> BreakableCluster:
        made.append(BreakableCluster(tmp_path, servers, tasks, **options))
        made[-1].begin()
        return made[-1]

    yield cluster
    for one in made:
        one.close()


def replace(cluster: BreakableCluster, name: str, python: str, *, by_kill: bool) -> None:
    """The program ends, killed or in order, and comes back with this version; then every task runs again."""
    program = cluster.programs[name]
    with cluster.fault(f"replace-{name}"):
        node = cluster.nodes().get(name, "")
        if by_kill:
            program.kill()
        else:
            program.terminate()
            program.wait_until_stopped()
        program.python = python
        program.start()
        program.wait_until_ready()
        eventually(lambda: node not in cluster.leases(), f"{name} is taken for dead")


def run_by_hand(cluster: BreakableCluster) -> None:
    """The command of either version has runs made by whichever node has the task."""
    for python in (OLD, NEW):
        for name in ("plain0", "plain1", "slow", "forks"):
            (run,) = json.loads(cluster.evenbeat("run", name, "--wait", "--json", python=python))["runs"]
            assert run["outcome"] == "succeeded"


@pytest.mark.parametrize("mix", MIXES)
def test_versions_side_by_side(make: Make, tmp_path: Path, mix: str) -> None:
    cluster = make(mixed(tmp_path), pythons=MIXES[mix])
    chance = random.Random(mix)
    run_by_hand(cluster)
    for name in ("s0", "s1"):  # the other takes over, and gives back
        replace(cluster, name, cluster.programs[name].python, by_kill=True)
        assert cluster.lasting_findings() == [], cluster.tails()
    run_by_hand(cluster)
    for fault in ("stop scheduler", "kill worker", "stop worker"):
        FAULTS[fault](cluster, chance)
        assert cluster.lasting_findings() == [], cluster.tails()
    outcomes = cluster.outcomes()
    print(f"{mix}: {sum(outcomes.values())} runs, {outcomes}")  # noqa: T201


@pytest.mark.parametrize("by_kill", [False, True], ids=["in order", "by kill -9"])
def test_a_cluster_is_upgraded_program_by_program_and_back(make: Make, tmp_path: Path, by_kill: bool) -> None:
    names = ("s0", "w0", "s1", "w1")
    cluster = make(mixed(tmp_path), pythons=dict.fromkeys(("apply", *names), OLD))
    for python in (NEW, OLD):
        for name in names:
            replace(cluster, name, python, by_kill=by_kill)
            assert cluster.lasting_findings() == [], cluster.tails()
        run_by_hand(cluster)
    outcomes = cluster.outcomes()
    print(f"upgrade and back: {sum(outcomes.values())} runs, {outcomes}")  # noqa: T201


@pytest.mark.parametrize("mix", ["one of each", "one of each, crosswise"])
def test_edits_reach_nodes_of_either_version(servers: Servers, tmp_path: Path, mix: str) -> None:
    editor = Editor(tmp_path, random.Random(mix))
    cluster = BreakableCluster(tmp_path, servers, editor.text(), pythons=MIXES[mix])
    try:
        cluster.begin()
        editor.begin(cluster)
        for name in STEPS:
            getattr(editor, name)()
        until = editor.finish()
        assert editor.findings(until) == [], cluster.tails()
    finally:
        editor.close()
        cluster.close()
