"""What a live node measures of itself, for monitoring: counters, gauges and histograms."""

import os

from evenbeat.model import SECOND
from evenbeat.node.answers.status import status_of
from evenbeat.node.scheduler import Scheduler
from evenbeat.wire.metrics import NodeMetrics


def node_metrics_of(node: Scheduler) -> NodeMetrics:
    """Read all meters of a live node."""
    counts, outbox, others, used = node.turns.counts, node.outbox, node.others, os.times()
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
        cluster=None if others is None else others.metrics(),
        queue=node.queue.problem,
        problems={state.name.lower(): count for state, count in node.tasks.problems.count_by_state().items()},
    )
