"""What can go wrong in a cluster: each of these breaks something for a while, and sees to it that it was really broken.

When one returns, everything has healed and every task has run again.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from typing import Final

from breakable_cluster import BreakableCluster, children_of, is_called
from cluster_tasks import BOUNDARY, LONGEST
from run_oracle import Line
from waiting import eventually

from evenbeat.core.partition_ownership import LEASE_DURATION
from evenbeat.core.run_lease import RUN_LEASE_DURATION
from evenbeat.core.run_lease import RUN_LEASE_MARGIN as ENDING
from evenbeat.model import SECOND

Fault = Callable[[BreakableCluster, random.Random], None]
_FRESH: Final = 7.0
"""Seconds: a run that began so lately goes on when its worker should have ended it."""
_WHILE: Final = (RUN_LEASE_DURATION + 2 * ENDING) / SECOND
"""Seconds: who is cut off for so long has lost all it ran."""


def kill_scheduler(cluster: BreakableCluster, chance: random.Random) -> None:
    victim = cluster.programs[chance.choice(["s0", "s1"])]
    cluster.wait_for_run("long", "slow")
    with cluster.fault("kill-scheduler"):
        node = cluster.nodes()[victim.name]
        victim.kill()
        victim.start()
        victim.wait_until_ready()
        _wait_until_buried(cluster, node)


def stop_scheduler(cluster: BreakableCluster, chance: random.Random) -> None:
    """In order, right at a moment when tasks are due, and another comes."""
    leaving = cluster.programs[chance.choice(["s0", "s1"])]
    with cluster.fault("stop-scheduler"):
        moment = (time.time() // BOUNDARY + 1) * BOUNDARY
        sleep_until(moment, chance)
        leaving.terminate()
        leaving.wait_until_stopped()
        leaving.start()
        leaving.wait_until_ready()


def swap_at_the_minute(cluster: BreakableCluster, chance: random.Random) -> None:
    """The same at a full minute, with one that comes while the other leaves."""
    leaving, coming = cluster.programs["s0"], cluster.programs["s1"]
    with cluster.fault("swap"):
        coming.terminate()
        coming.wait_until_stopped()
        moment = ((time.time() + 5) // 60 + 1) * 60
        time.sleep(max(0.0, moment - time.time() - 1.0))
        coming.start()
        sleep_until(moment, chance)
        leaving.terminate()
        leaving.wait_until_stopped()
        coming.wait_until_ready()
        leaving.start()
        leaving.wait_until_ready()


def hold_scheduler(cluster: BreakableCluster, chance: random.Random) -> None:
    """Past its lease: it wakes up as a node that was buried, with all that it wanted to do."""
    victim = cluster.programs[chance.choice(["s0", "s1"])]
    cluster.wait_for_run("long", "slow")
    with cluster.fault("hold-scheduler"):
        node = cluster.nodes()[victim.name]
        victim.hold()
        _wait_until_buried(cluster, node)
        victim.go_on()


def kill_worker(cluster: BreakableCluster, chance: random.Random) -> None:
    run, victim = cluster.wait_for_run(LONGEST, "long", "slow", "forks")
    with cluster.fault("kill-worker"):
        victim.kill()
        victim.start()
        victim.wait_until_ready()
        _wait_until_lost(cluster, run)


def kill_all_of_a_worker(cluster: BreakableCluster, chance: random.Random) -> None:
    """The worker and every process it has started but the runs, as `pkill -9 -f` does: nobody sees another end."""
    run, victim = cluster.wait_for_run(LONGEST, fresh=_FRESH)
    with cluster.fault("kill-all-of-a-worker"):
        helpers = [pid for pid in children_of(victim.pid) if chance.random() < 0.5 or is_called(pid, b"evenbeat")]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (victim.pid, *helpers):
                os.kill(pid, number)
        victim.kill()
        victim.start()
        victim.wait_until_ready()
        _wait_until_lost(cluster, run)


def stop_worker(cluster: BreakableCluster, chance: random.Random) -> None:
    """In order: what does not end within its grace is made up for elsewhere."""
    run, leaving = cluster.wait_for_run(LONGEST, fresh=_FRESH)
    with cluster.fault("stop-worker"):
        leaving.terminate()
        leaving.wait_until_stopped()
        leaving.start()
        leaving.wait_until_ready()
        eventually(lambda: cluster.outcome(run) in ("interrupted", "lost"), "its run has ended")


def hold_worker(cluster: BreakableCluster, chance: random.Random) -> None:
    """For so long that all it ran is lost; then it wakes up."""
    run, victim = cluster.wait_for_run(LONGEST, fresh=_FRESH)
    with cluster.fault("hold-worker"):
        victim.hold()
        _wait_until_lost(cluster, run)
        victim.go_on()


def kill_nats_leader(cluster: BreakableCluster, chance: random.Random) -> None:
    nats = cluster.servers.nats
    with cluster.fault("kill-nats-leader"):
        leader = nats.leader(cluster.stream)
        nats.kill(leader)
        eventually(lambda: nats.leader(cluster.stream) not in (-1, leader), "another leads")
        nats.start(leader)


def part_nats_servers(cluster: BreakableCluster, chance: random.Random) -> None:
    """One of the three cannot talk to the others, and whoever is connected to it can talk to nobody else."""
    nats, network = cluster.servers.nats, cluster.servers.network
    assert network is not None
    with cluster.fault("part-nats-servers"):
        leader = nats.leader(cluster.stream)
        alone = chance.choice([leader, *range(nats.count)])
        silently = chance.random() < 0.5
        for name, link in network.links.items():
            if f"nats{alone}" in name:
                link.cut(silently=silently)
        time.sleep(_WHILE)
        eventually(lambda: nats.leader(cluster.stream, without=alone) not in (-1, alone), "another leads")
        network.heal()


def restart_postgres(cluster: BreakableCluster, chance: random.Random) -> None:
    with cluster.fault("restart-postgres"):
        cluster.servers.postgres.restart("immediate" if chance.random() < 0.5 else "fast")


def cut_node_store(cluster: BreakableCluster, chance: random.Random) -> None:
    name = chance.choice(["s0", "s1"])
    link = cluster.link(f"{name}-store")
    with cluster.fault("cut-node-store"):
        node = cluster.nodes()[name]
        link.cut(silently=chance.random() < 0.5)
        _wait_until_buried(cluster, node)
        link.heal()


def cut_node_queue(cluster: BreakableCluster, chance: random.Random) -> None:
    link = cluster.link(chance.choice(["s0-queue", "s1-queue"]))
    with cluster.fault("cut-node-queue"):
        link.cut(silently=chance.random() < 0.5)
        time.sleep(_WHILE)
        link.heal()


def cut_worker_queue(cluster: BreakableCluster, chance: random.Random) -> None:
    run, worker = cluster.wait_for_run(LONGEST, fresh=_FRESH)
    link = cluster.link(f"{worker.name}-queue")
    with cluster.fault("cut-worker-queue"):
        link.cut(silently=chance.random() < 0.5)
        _wait_until_lost(cluster, run)
        link.heal()


def slow_links(cluster: BreakableCluster, chance: random.Random) -> None:
    """Everything arrives, late."""
    with cluster.fault("slow-links"):
        for link in cluster.network.links.values():
            link.delay = chance.choice([0.0, 0.05, 0.3])
        time.sleep(LEASE_DURATION / SECOND)
        cluster.network.heal()


def sleep_until(moment: float, chance: random.Random) -> None:
    """Within 10 ms of it, before or after."""
    moment += chance.uniform(-0.010, 0.010)
    time.sleep(max(0.0, moment - time.time() - 0.002))
    while time.time() < moment:
        pass


def _wait_until_buried(cluster: BreakableCluster, node: str) -> None:
    eventually(lambda: node not in cluster.leases(), f"{node} is taken for dead")


def _wait_until_lost(cluster: BreakableCluster, run: Line) -> None:
    eventually(lambda: cluster.outcome(run) == "lost", f"the run of {run.name} is lost")


FAULTS: Final[dict[str, Fault]] = {
    fault.__name__.replace("_", " "): fault
    for fault in (
        kill_scheduler,
        stop_scheduler,
        swap_at_the_minute,
        hold_scheduler,
        kill_worker,
        kill_all_of_a_worker,
        stop_worker,
        hold_worker,
        kill_nats_leader,
        part_nats_servers,
        restart_postgres,
        cut_node_store,
        cut_node_queue,
        cut_worker_queue,
        slow_links,
    )
}
