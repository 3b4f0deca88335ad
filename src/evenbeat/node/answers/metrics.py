"""What a live node measures of itself, for monitoring: counters, gauges and histograms."""

import os

from evenbeat.model import SECOND, State
from evenbeat.node.answers.status import status_of
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.node.scheduler import Scheduler
from evenbeat.wire.metrics import AlertMetrics, NodeMetrics


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
        problems=_problems_by_state(node.tasks),
        alerts=alert_metrics_of(node),
        retries=node.tasks.lifecycle.retries.begun_count,
    )


def alert_metrics_of(node: Scheduler) -> AlertMetrics:
    """What this node has done and has to do about notifications."""
    engine, now = node.alerts.engine, node.clock.now()
    left = [delivery.left for delivery in engine.deliveries]
    return AlertMetrics(
        outcomes=dict(engine.counts.outcomes),
        messages=len(left),
        oldest=max(now - min(left, default=now), 0) / SECOND,
        sender_restarts=node.alerts.sender.restarts,
    )


def _problems_by_state(tasks: TaskTable) -> dict[str, int]:
    of_results, timed = tasks.problems.count_by_state(), tasks.timed_problems.count_by_state()
    return {state.name.lower(): of_results.get(state, 0) + timed.get(state, 0) for state in State}
