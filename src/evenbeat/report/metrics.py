"""What a node measures of itself, for machines that watch it: counters, gauges, histograms, signs of life."""

import os
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from evenbeat.core.authority import is_over
from evenbeat.core.run_lease import WORKER_SILENT_AFTER
from evenbeat.model import SECOND
from evenbeat.node.loop.clock import boot_time
from evenbeat.node.loop.counters import Histogram
from evenbeat.queue.nats.known_workers import PoolView
from evenbeat.report.status import Status, status_of

if TYPE_CHECKING:
    from evenbeat.node.cluster.cluster_scheduler import ClusterScheduler
    from evenbeat.node.scheduler import Scheduler


class ClusterMetrics(Struct):
    """What a node of a cluster measures of its place in it."""

    nodes: int
    """That are alive, itself among them."""
    partitions: int
    """That it holds."""
    unheld: int
    """Partitions that no living node holds."""
    lease: float
    """Seconds for which it may act; below 0 it may not."""
    queue: str
    """"ok", or why it cannot be reached."""
    takeovers: int
    """Nodes whose lease it took away when that had ended."""
    fenced: int
    """How often its own was taken away."""
    handing: dict[str, int]
    """What happened to runs that were handed over."""
    pools: dict[str, PoolView]
    """As this node sees them."""
    processes: int
    """Of all workers that it hears."""


class NodeMetrics(Struct):
    """Counted since the node was started; times in seconds."""

    status: Status
    """Runs, outcomes, skips by reason, idle, pending, slots, waiting, late, stale, disabled, states."""
    lateness: Histogram
    """Of all runs that were handed over, after they were due."""
    duration: Histogram
    """Of all runs that really started and ended."""
    commit_time: Histogram
    """How long the store took to keep what it was offered; its count is that of commits."""
    worker_restarts: int
    workers: int
    """Processes that are up now; of a cluster, the workers that were heard of lately."""
    unsafe: int
    """Batches on their way into the store."""
    oldest_unsafe: float
    """Age of the first of them; 0 if there is none."""
    last_turn: float
    """Age of the last turn of the beat; a beat that is well has one every second."""
    cpu: float
    """Processor time that the node itself has used, without its workers."""
    cluster: ClusterMetrics | None = None
    """None of a node that is alone."""
    queue: str = ""
    """Why runs cannot be handed over or started, if so."""


def node_metrics_of(node: "Scheduler") -> NodeMetrics:
    """Read all meters of a live node."""
    counts, outbox, used = node.turns.counts, node.outbox, os.times()
    return NodeMetrics(
        status=status_of(node),
        lateness=counts.late.read(),
        duration=counts.lasted.read(),
        commit_time=outbox.commit_seconds.read(),
        worker_restarts=node.queue.restarts,
        workers=len(node.queue.workers),
        unsafe=outbox.waiting,
        oldest_unsafe=outbox.oldest_age(),
        last_turn=(node.clock.elapsed() - (node.turns.last_turn or node.started_elapsed)) / SECOND,
        cpu=used.user + used.system,
        cluster=node.membership(),
        queue=node.queue.problem,
    )


def cluster_metrics_of(node: "ClusterScheduler") -> ClusterMetrics:
    """Look at a node's place among others."""
    view, queue, now = node.view, node.queue, node.clock.now()
    living = set() if view is None else {lease.node for lease in view.leases if not is_over(lease.expires, now)}
    holders = [] if view is None else view.holders
    return ClusterMetrics(
        nodes=len(living),
        partitions=len(node.lease.holds),
        unheld=sum(holder not in living for holder in holders),
        lease=(node.lease.until - boot_time()) / SECOND,
        queue=queue.problem or "ok",
        takeovers=node.takeovers,
        fenced=node.fenced,
        handing=asdict(queue.counts),
        pools=queue.pools,
        processes=sum(
            worker.processes for worker in queue.worker_views if worker.silent_for * SECOND < WORKER_SILENT_AFTER
        ),
    )
