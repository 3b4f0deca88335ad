"""The status of a live node, and its identity."""

import os
from importlib.metadata import version
from typing import Any

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.freshness import LATE_AFTER, are_stale
from evenbeat.core.task import Bools, Flag
from evenbeat.model import SECOND, Instant, RunKind, State
from evenbeat.node.answers.problems import node_problems_of
from evenbeat.node.loop.packed_jobs import NodeColumns
from evenbeat.node.scheduler import Scheduler
from evenbeat.report.status import UNCHECKED, count_by_lateness
from evenbeat.when.instant import format_instant
from evenbeat.when.windows import FOREVER, NEVER
from evenbeat.when.zone import zone
from evenbeat.wire.status import Lateness, LimitStatus, NodeIdentity, Status, WorkerProcess


def node_identity_of(node: Scheduler) -> NodeIdentity:
    """The identity of a live node."""
    workers = [WorkerProcess(pid, kind) for pid, kind in node.queue.workers]
    return NodeIdentity(node.start_id, os.getpid(), node.started_at, version("evenbeat"), workers, node.database)


def status_of(node: Scheduler) -> Status:
    """The status of this node alone; at a million tasks it takes some milliseconds."""
    now, c, life, counts = node.clock.now(), node.tasks.columns, node.tasks.lifecycle, node.turns.counts
    here = c.used & (c.flags & int(Flag.REMOVED) == 0)
    enabled = here & (c.flags & int(Flag.ENABLED) != 0)
    due = np.flatnonzero(enabled & ((c.nominal < now - LATE_AFTER) | (c.off_grid_due < now - LATE_AFTER)))
    active = due[c.flags[due] & int(Flag.PASSIVE) == 0]
    late = active[c.flags[active] & int(Flag.RUNNING) == 0]
    lateness = np.array(counts.lateness or [0.0])
    uptime = max((node.clock.elapsed() - node.started_elapsed) / SECOND, 1e-6)
    tasks = int(np.count_nonzero(here))
    return Status(
        tasks=tasks,
        idle=life.idle,
        pending=life.pending,
        slots=life.slots,
        waiting=len(life.waiting),
        late=len(late),
        stale=_count_stale(node, active, now) + _count_missing(node),
        disabled=tasks - int(np.count_nonzero(enabled)),
        states=_count_states(c, here),
        runs=counts.runs,
        outcomes=dict(counts.outcomes),
        skipped=dict(counts.skipped),
        runs_per_second=round(counts.runs / uptime, 3),
        lateness=Lateness(*(round(float(v), 6) for v in (*np.percentile(lateness, (50, 99)), lateness.max()))),
        uptime=round(uptime, 3),
        generation=life.generation,
        store=node.outbox.store_error or "ok",
        files=node.files_error or "ok",
        late_by=count_by_lateness(now - np.minimum(c.nominal[late], c.off_grid_due[late])),
        problems=node_problems_of(node),
        executes=node.membership.has_workers,
        slots_source=node.live.slots.source,
        limits=_limit_statuses(node),
        history=node.history_status,
        **_off_grid_to_come(node, enabled, now),
        **_messages(node),
    )


def _messages(node: Scheduler) -> dict[str, Any]:
    """Which messages to contacts wait, and where they do not arrive."""
    deliveries = node.alerts.engine.deliveries
    since = deliveries.waiting_since()
    return {
        "messages_waiting": len(deliveries),
        "messages_waiting_since": None if since is None else format_instant(Instant(since), zone("UTC")),
        "failing_contacts": node.alerts.engine.failing_contacts(),
    }


def _limit_statuses(node: Scheduler) -> dict[str, LimitStatus]:
    numbers, running = node.tasks.limit_numbers, node.tasks.lifecycle.pending_by_limit
    found = {}
    for name, capacity in node.live.limits.items():
        number = numbers.get(name, 0)
        count = int(running[number]) if 0 < number < len(running) else 0
        found[name] = LimitStatus(capacity.most, count, capacity.source)
    return found


def _off_grid_to_come(node: Scheduler, enabled: Bools, now: Instant) -> dict[str, Any]:
    """The number of planned first and catch-up runs, and when the last of them is due."""
    c = node.tasks.columns
    rows = np.flatnonzero(enabled & (c.off_grid_due > now) & (c.off_grid_due < FOREVER))
    rows = rows[node.tasks.lifecycle.is_paced(rows)]
    first = int(np.count_nonzero(c.off_grid_kind[rows] == RunKind.FIRST))
    return {
        "first_runs_to_come": first,
        "catch_ups_to_come": len(rows) - first,
        "to_come_until": format_instant(Instant(int(c.off_grid_due[rows].max())), zone("UTC")) if len(rows) else None,
    }


def _count_stale(node: Scheduler, due: Ints, now: Instant) -> int:
    """How many of the due rows should have a result by now. Nothing is expected of an unreachable task."""
    c = node.tasks.columns
    some = due[(c.nominal[due] < now) & (c.flags[due] & int(Flag.REACHABLE) != 0)]
    nominal = c.nominal[some]
    interval = node.tasks.times.interval(some, nominal)
    return int(np.count_nonzero(are_stale(nominal, c.timebox[some], c.longer_than[some], interval, now)))


def _count_missing(node: Scheduler) -> int:
    """How many passive checks have no result that was expected."""
    rows = np.array(sorted(node.turns.passive.stale_rows), dtype=np.int64)
    return int(np.count_nonzero(node.tasks.columns.flags[rows] & int(Flag.REACHABLE)))


def _count_states(c: NodeColumns, here: Bools) -> dict[str, int]:
    checks = here & (c.flags & int(Flag.CHECK) != 0)
    known = checks & (c.result_at > NEVER)
    found = {state.name.lower(): int(np.count_nonzero(known & (c.state == state))) for state in State}
    return found | {UNCHECKED: int(np.count_nonzero(checks)) - int(np.count_nonzero(known))}
