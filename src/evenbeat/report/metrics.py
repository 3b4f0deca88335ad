"""What a node measures of itself, for machines that watch it: counters, gauges, histograms, signs of life."""

import os
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from evenbeat.core.authority import is_over
from evenbeat.core.run_lease import WORKER_SILENT_AFTER
from evenbeat.model import SECOND
from evenbeat.node.loop.clock import boot_time
from evenbeat.report.status import status_of
from evenbeat.wire.metrics import ClusterMetrics, NodeMetrics

if TYPE_CHECKING:
    from evenbeat.node.cluster.cluster_scheduler import ClusterScheduler
    from evenbeat.node.scheduler import Scheduler


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
