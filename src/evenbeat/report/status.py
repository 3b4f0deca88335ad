"""How a node is: what `status` tells."""

import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.core.freshness import LATE_AFTER, are_stale
from evenbeat.core.task import Bools, Flag
from evenbeat.model import MINUTE, SECOND, Instant, RunKind, State
from evenbeat.node.loop.packed_jobs import NodeColumns
from evenbeat.when.instant import format_instant
from evenbeat.when.windows import FOREVER, NEVER
from evenbeat.when.zone import zone
from evenbeat.wire.status import Lateness, LimitStatus, NodeIdentity, Status, WorkerProcess

if TYPE_CHECKING:
    from evenbeat.node.scheduler import Scheduler

UNCHECKED: Final = "unchecked"
"""Beside the states: checks that have no result yet."""

_LATENESS_CLASSES: Final = {"1-10 s": SECOND, "10-60 s": 10 * SECOND, "1-10 min": MINUTE, "> 10 min": 10 * MINUTE}
"""From how late on a task is in each of these."""


def node_identity_of(node: "Scheduler") -> NodeIdentity:
    """Who a live node is."""
    workers = [WorkerProcess(pid, kind) for pid, kind in node.queue.workers]
    return NodeIdentity(node.start_id, os.getpid(), node.started_at, version("evenbeat"), workers, node.database)


def status_of(node: "Scheduler") -> Status:
    """Look at a live node; at a million tasks, in some milliseconds."""
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
        stale=_count_stale(node, active, now) + len(node.turns.passive.stale_rows),
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
        problems=node.problems(),
        executes=node.has_workers,
        slots_source=node.slots.source,
        limits=_limit_statuses(node),
        **_off_grid_to_come(node, enabled, now),
    )


def _limit_statuses(node: "Scheduler") -> dict[str, LimitStatus]:
    numbers, running = node.tasks.limit_numbers, node.tasks.lifecycle.pending_by_limit
    found = {}
    for name, capacity in node.limits.items():
        number = numbers.get(name, 0)
        count = int(running[number]) if 0 < number < len(running) else 0
        found[name] = LimitStatus(capacity.most, count, capacity.source)
    return found


def _off_grid_to_come(node: "Scheduler", enabled: Bools, now: Instant) -> dict[str, Any]:
    """First and catch-up runs that are planned."""
    c = node.tasks.columns
    rows = np.flatnonzero(enabled & (c.off_grid_due > now) & (c.off_grid_due < FOREVER))
    rows = rows[node.tasks.lifecycle.is_paced(rows)]
    first = int(np.count_nonzero(c.off_grid_kind[rows] == RunKind.FIRST))
    return {
        "first_runs_to_come": first,
        "catch_ups_to_come": len(rows) - first,
        "to_come_until": format_instant(Instant(int(c.off_grid_due[rows].max())), zone("UTC")) if len(rows) else None,
    }


def _count_stale(node: "Scheduler", due: Ints, now: Instant) -> int:
    """Of the rows that are due: whose result should be there by now."""
    c = node.tasks.columns
    some = due[c.nominal[due] < now]
    nominal = c.nominal[some]
    return int(np.count_nonzero(are_stale(nominal, c.timebox[some], node.tasks.times.interval(some, nominal), now)))


def count_by_lateness(delays: NDArray[np.int64]) -> dict[str, int]:
    """How many of these delays, all of more than a second, are how long."""
    places = np.searchsorted(list(_LATENESS_CLASSES.values())[1:], delays, side="right")
    found = np.bincount(places, minlength=len(_LATENESS_CLASSES))
    return dict(zip(_LATENESS_CLASSES, map(int, found), strict=True))


def _count_states(c: NodeColumns, here: Bools) -> dict[str, int]:
    checks = here & (c.flags & int(Flag.CHECK) != 0)
    known = checks & (c.result_at > NEVER)
    found = {state.name.lower(): int(np.count_nonzero(known & (c.state == state))) for state in State}
    return found | {UNCHECKED: int(np.count_nonzero(checks)) - int(np.count_nonzero(known))}
