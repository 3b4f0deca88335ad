"""How a node is: what `status` tells."""

import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.core.freshness import LATE_AFTER, are_stale
from evenbeat.core.task import Bools, Flag
from evenbeat.model import MINUTE, SECOND, Instant, RunKind, State
from evenbeat.node.loop.packed_jobs import NodeColumns
from evenbeat.when.instant import format_instant
from evenbeat.when.windows import FOREVER, NEVER
from evenbeat.when.zone import zone

if TYPE_CHECKING:
    from evenbeat.node.scheduler import Scheduler

UNCHECKED: Final = "unchecked"
"""Beside the states: checks that have no result yet."""

_LATENESS_CLASSES: Final = {"1-10 s": SECOND, "10-60 s": 10 * SECOND, "1-10 min": MINUTE, "> 10 min": 10 * MINUTE}
"""From how late on a task is in each of these."""


class Lateness(Struct):
    """Of the latest runs, in seconds after they were due."""

    p50: float
    p99: float
    max: float


class WorkerProcess(Struct, frozen=True):
    """One that a node has running."""

    pid: int
    kind: str
    """commands, functions, async functions: what it runs."""


class NodeIdentity(Struct, frozen=True):
    """Which node this is."""

    id: str
    """A random word of this start, as in its feed."""
    pid: int
    started: Instant
    version: str
    workers: list[WorkerProcess]
    database: str


class LimitStatus(Struct):
    """A limit: how many runs at the same time, how many there are, and who says so."""

    most: int
    running: int
    source: str


class Status(Struct):
    """A node at a glance."""

    tasks: int
    idle: int
    pending: int
    slots: int
    waiting: int
    """Due, and held back by slots or limits."""
    late: int
    """Due for more than a second."""
    stale: int
    """Their result should have been there by now."""
    disabled: int
    states: dict[str, int]
    """Of checks; those without any result yet are `unchecked`."""
    runs: int
    outcomes: dict[str, int]
    skipped: dict[str, int]
    runs_per_second: float
    lateness: Lateness
    uptime: float
    generation: int
    store: str
    """"ok", or why it cannot take anything."""
    late_by: dict[str, int] = {}
    """Those that are late, by how late they are."""
    first_runs_to_come: int = 0
    """New checks that wait for their first run, on the planned slope; late ones are not among them."""
    catch_ups_to_come: int = 0
    """Tasks that wait for a run that makes up for what was missed."""
    to_come_until: str | None = None
    """When the last of them is planned; None if there are none."""
    problems: list[str] = []
    """What keeps it from executing or recording anything: a failing store, a queue out of reach, no process."""
    executes: bool = True
    slots_source: str = ""
    """Who says how many slots there are: default, command line, a file, or "set by" somebody."""
    limits: dict[str, LimitStatus] = {}
    """False if it was started without workers: then it only schedules, takes results and shows."""
    files: str = "ok"
    """"ok", or why the node's files could not be applied; then what was last applied of them counts."""


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
