"""How a node is: what `status` tells."""

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from evenbeat.core.task import Flag
from evenbeat.model import SECOND, State

if TYPE_CHECKING:
    from evenbeat.node.service import Node


class Lateness(Struct):
    """Of the latest runs, in seconds after they were due."""

    p50: float
    p99: float
    max: float


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
    runs: int
    outcomes: dict[str, int]
    skipped: dict[str, int]
    runs_per_second: float
    lateness: Lateness
    uptime: float
    generation: int
    store: str
    """"ok", or why it cannot take anything."""


def status_of(node: "Node") -> Status:
    """Look at a live node."""
    now, c, life = node.clock.now(), node.roster.columns, node.roster.lifecycle
    rows = node.roster.all_rows()
    flags = c.flags[rows]
    due = np.minimum(c.nominal[rows], c.extra[rows])
    running = flags & int(Flag.RUNNING) != 0
    disabled = flags & int(Flag.ENABLED) == 0
    checks = rows[flags & int(Flag.CHECK) != 0]
    states = np.bincount(c.state[checks], minlength=4).tolist()
    late = np.array(node.beat.counts.lateness or [0.0])
    uptime = max((now - node.started_at) / SECOND, 1e-6)
    return Status(
        tasks=len(rows),
        idle=life.idle,
        pending=life.pending,
        slots=life.slots,
        waiting=len(life.waiting),
        late=int(((due < now - SECOND) & ~running & ~disabled).sum()),
        stale=int(((c.nominal[rows] < now - c.timebox[rows] - SECOND) & ~disabled).sum()),
        disabled=int(disabled.sum()),
        states={state.name.lower(): states[state] for state in State},
        runs=node.beat.counts.runs,
        outcomes=dict(node.beat.counts.outcomes),
        skipped=dict(node.beat.counts.skipped),
        runs_per_second=round(node.beat.counts.runs / uptime, 3),
        lateness=Lateness(*(round(float(v), 6) for v in (*np.percentile(late, (50, 99)), late.max()))),
        uptime=round(uptime, 3),
        generation=life.generation,
        store=node.outbox.failing or "ok",
    )
