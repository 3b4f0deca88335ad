"""Real clusters are broken in every way we know, and an oracle looks at what the runs wrote down and the store kept.

`make test` makes one short tour of the faults, `make faults` (EVENBEAT_FAULTS=full) each of them several times, and
storms of them.
"""

import random
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from breakable_cluster import BreakableCluster, Servers
from budget import IS_FULL
from cluster_faults import FAULTS
from cluster_tasks import STOPPED, idle, mixed
from network_proxy import Address, Network
from run_oracle_jobs import CHAIN
from waiting import eventually

from evenbeat.core.partition_ownership import LEASE_DURATION
from evenbeat.core.run_lease import RUN_LEASE_DURATION, RUN_LEASE_MARGIN
from evenbeat.model import SECOND
from evenbeat.testing.nats_server import NatsServer
from evenbeat.testing.postgres_server import PostgresServer

TOURS = (
    [(name,) * 3 for name in FAULTS] if IS_FULL else [("hold scheduler", "kill nats leader", "kill all of a worker")]
)
STORMS = range(1, 11) if IS_FULL else range(0)
KILLS = 20 if IS_FULL else 1
APART = 300
"""Seconds between the wall clocks of the nodes."""

RETRY = 3
"""The kind of a run in the store."""
Make = Callable[..., BreakableCluster]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    postgres = PostgresServer(durable=False).start()
    # Servers that tell clients of each other would lead them past the links.
    nats = NatsServer(tmp_path_factory.mktemp("nats"), 3, options=("--no_advertise",))
    network = Network()
    for i in range(3):
        others = [j for j in range(3) if j != i]
        links = [network.link(f"nats{i}-nats{j}", [Address("127.0.0.1", nats.routes[j])]) for j in others]
        nats.routes_of[i] = [link.ports[0] for link in links]
    nats.start()
    yield Servers(postgres, nats, network)
    nats.kill()
    network.close()
    postgres.close()


@pytest.fixture
def make(tmp_path: Path, servers: Servers) -> Iterator[Make]:
    made: list[BreakableCluster] = []

    def cluster(tasks: str | None = None, **options: Any) -> BreakableCluster:
        made.append(BreakableCluster(tmp_path, servers, mixed(tmp_path) if tasks is None else tasks, **options))
        made[-1].begin()
        return made[-1]

    yield cluster
    for one in made:
        one.close()


def skewed() -> dict[str, dict[str, Any]]:
    """No two of these processes agree on the time."""
    return {"s0": {"clock": APART / 2}, "s1": {"clock": -APART / 2}, "w0": {"clock": -APART}, "w1": {"clock": APART}}


@pytest.mark.parametrize("names", TOURS, ids="; ".join)
def test_a_cluster_is_broken_and_heals(make: Make, names: tuple[str, ...]) -> None:
    cluster = make(planted=skewed())
    # They are on one host, and that is not who they are.
    ids = set(cluster.nodes().values())
    assert len(ids) == 2
    assert not any(socket.gethostname() in one for one in ids)
    chance = random.Random(str(names))
    for name in names:
        cluster.stop_run(STOPPED)
        FAULTS[name](cluster, chance)
        found = cluster.lasting_findings(is_timed=IS_FULL)
        assert found == [], "\n".join([*found[:20], cluster.tails()])
    assert cluster.outcomes()["cancelled"]
    kinds = {run.kind for task in cluster.records().evidence.tasks for run in task.runs}
    assert {RETRY, CHAIN} <= kinds


@pytest.mark.parametrize("seed", STORMS)
def test_a_storm(make: Make, seed: int) -> None:
    cluster = make()
    chance = random.Random(seed)
    for name in chance.choices(list(FAULTS), k=6):
        cluster.stop_run(STOPPED)
        FAULTS[name](cluster, chance)
    assert cluster.lasting_findings(is_timed=True) == [], cluster.tails()


def test_a_planted_double_claim_is_found(make: Make) -> None:
    cluster = make(planted={"s0": {"two minds": True}})
    sleeper = cluster.programs["s0"]
    cluster.note("fault", "two-minds")
    for _ in range(10):  # what it does may also contradict the store at once, which ends it before it has done any harm
        node = cluster.nodes()["s0"]
        sleeper.hold()
        eventually(lambda: node not in cluster.leases(), "it is taken for dead")  # noqa: B023
        sleeper.go_on()
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            if any("is accounted for 2 times" in finding for finding in cluster.findings()):
                return
            if not sleeper.is_alive:
                deadline = min(deadline, time.monotonic() + 1)
            time.sleep(0.2)
        if sleeper.is_alive:
            sleeper.kill()
        for program in cluster.programs.values():  # the other may have met a contradiction too
            if not program.is_alive:
                program.start()
                program.wait_until_ready()
        eventually(lambda: "s0" in cluster.nodes(), "it is one of them again")
    pytest.fail("the oracle did not find it")


@pytest.mark.skipif(not IS_FULL, reason="half a minute: only in `make faults`")
def test_a_planted_lost_run_is_found(make: Make) -> None:
    cluster = make(planted={name: {"deaf": 50} for name in ("s0", "s1")})
    eventually(lambda: any("was never stored" in f for f in cluster.findings()), "the oracle finds it")


def test_the_gap_in_claims_after_a_kill(make: Make) -> None:
    cluster = make(idle(60 if IS_FULL else 40), workers=1)
    gaps, laggards = [], []
    for i in range(KILLS):
        victim = cluster.programs[f"s{i % 2}"]
        numbers = cluster.tasks_of(cluster.nodes()[victim.name])
        victim.kill()
        killed = time.time_ns() // 1_000
        eventually(lambda: all(cluster.claimed(numbers, killed).values()), "all its tasks are claimed again")  # noqa: B023
        claims = cluster.claimed(numbers, killed - 5 * SECOND).values()
        last = max(at for times in claims for at in times if at < killed)
        again = [min(at for at in times if at >= killed) for times in claims]
        gaps.append((min(again) - last) / SECOND)
        laggards.append((max(again) - last) / SECOND)
        victim.start()
        victim.wait_until_ready()
        eventually(lambda: len(cluster.tasks_of(cluster.nodes().get(victim.name, ""))) > 10, "it has its share again")  # noqa: B023
    print(f"gap in claims over {KILLS} kills: p50 {statistics.median(gaps):.2f} s, max {max(gaps):.2f} s")  # noqa: T201
    print(f"until the last task was claimed: p50 {statistics.median(laggards):.2f} s, max {max(laggards):.2f} s")  # noqa: T201
    assert not IS_FULL or max(gaps) <= LEASE_DURATION / SECOND + 2


@pytest.mark.skipif(not IS_FULL, reason="half a minute each: only in `make faults`")
@pytest.mark.parametrize("seconds", [8, 12])
def test_a_killed_scheduler_that_comes_back_makes_nobody_wait_again(make: Make, seconds: int) -> None:
    """Runs that it had claimed are lost 9 s after the others took over, however often they change hands until then."""
    cluster = make(idle(200), workers=1)
    stalls = []
    for i in range(3):
        victim = cluster.programs[f"s{i % 2}"]
        numbers = cluster.tasks_of(cluster.nodes()[victim.name])
        victim.kill()
        killed = time.time_ns() // 1_000
        time.sleep(seconds)
        victim.start()
        victim.wait_until_ready()
        eventually(lambda: all(cluster.claimed(numbers, killed).values()), "all its tasks are claimed again")  # noqa: B023
        claims = cluster.claimed(numbers, killed).values()
        stalls.append((max(min(times) for times in claims) - killed) / SECOND)
        eventually(lambda: len(cluster.tasks_of(cluster.nodes().get(victim.name, ""))) > 10, "it has its share again")  # noqa: B023
    print(f"until the last task was claimed again: {', '.join(f'{stall:.1f} s' for stall in stalls)}")  # noqa: T201
    assert max(stalls) <= (LEASE_DURATION + RUN_LEASE_DURATION + RUN_LEASE_MARGIN) / SECOND + 3
