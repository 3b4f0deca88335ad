"""What a live node knows of one task at this moment, and nobody else: does it wait, for what, and what comes next."""

from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from evenbeat.core.check import retry_after_opening
from evenbeat.core.gate import Reason
from evenbeat.core.next_time import TimetablePosition
from evenbeat.core.next_time import next_run_at as place_next
from evenbeat.core.task import Flag
from evenbeat.model import Instant, RunKind
from evenbeat.report.obstacles import obstacles_of
from evenbeat.wire.cluster_messages import DEFAULT_POOL
from evenbeat.wire.live_runs import LiveTaskState, RunningRun, RunningRuns

if TYPE_CHECKING:
    from evenbeat.node.loop.turn import TurnLoop
    from evenbeat.node.scheduler import Scheduler


def live_task_state_of(node: "Scheduler", number: int) -> LiveTaskState | None:
    """Look at a task; None if the node does not have it."""
    row = node.tasks.row(number)
    if row is None:
        return None
    life, flags = node.tasks.lifecycle, int(node.tasks.columns.flags[row])
    due, kind = _next_planned(node, row)
    waiting = waiting_reason(node, row) if flags & (Flag.WAITING | Flag.FORCED) else ""
    return LiveTaskState(
        *(due, kind, waiting, life.pending, life.slots, *_waits_for_worker(node, row, number)),
        is_claimed=bool(flags & Flag.RUNNING),
        obstacles=obstacles_of(node),
    )


def next_run_time(node: "Scheduler", row: int) -> Instant | None:
    """When a task is due next, or since when it waits; None if it is paused or nothing is planned."""
    return _next_planned(node, row)[0]


def _next_planned(node: "Scheduler", row: int) -> tuple[Instant | None, RunKind]:
    c, times = node.tasks.columns, node.tasks.times
    flags, number, one = int(c.flags[row]), int(c.period[row]), np.array([row], dtype=np.int64)
    place = TimetablePosition(
        int(c.nominal[row]),
        int(c.off_grid_due[row]),
        RunKind(int(c.off_grid_kind[row])),
        is_enabled=bool(flags & Flag.ENABLED) and bool(flags & (Flag.PERMITTED | Flag.PASSIVE)),
        is_forced=bool(flags & Flag.FORCED) and bool(flags & Flag.PERMITTED),
        catches_up=bool(flags & Flag.CATCHING_UP),
        runs_nothing=bool(flags & Flag.NOTHING_TO_RUN) or not flags & Flag.PERMITTED,
        retry_after_opening=int(
            retry_after_opening(c.phase[one], c.every[one], c.second[one].astype(np.int64), c.retry[one])[0]
        ),
    )

    def after(t: int) -> int:
        return int(times.next_after(one, Instant(t))[0])

    found = place_next(place, None if number < 0 else times.period(number), after, node.clock.now())
    return (None, RunKind.GRID) if found is None else (found.at, found.kind)


def waiting_reason(node: "Scheduler", row: int) -> str:
    """What a run of this task waits for, or a forced one would wait for now, in the words of `Reason`; empty if it need
    not wait.
    """
    reason = node.tasks.lifecycle.reason_to_wait(row, node.clock.now())
    return "" if reason is Reason.NONE else reason.value


def _waits_for_worker(node: "Scheduler", row: int, number: int) -> tuple[bool, float | None]:
    """Does a run of it wait for a worker, and for how long has there been none?"""
    place = node.membership()
    if place is None or not int(node.tasks.columns.flags[row]) & Flag.RUNNING:
        return False, None
    token = next((token for token, run in node.turns.pending_runs.items() if run.number == number), None)
    if token is None or token in node.turns.started_runs:
        return False, None
    pool = node.tasks.pools[int(node.tasks.columns.pool[row])] or DEFAULT_POOL
    return True, place.pools[pool].without_worker_for if pool in place.pools else None


def running_runs_of(node: "Scheduler", most: int) -> RunningRuns:
    """Look at what runs."""
    beat = node.turns
    since = [(beat.started_runs.get(token, run.claimed), token) for token, run in beat.pending_runs.items()]
    return RunningRuns([_running_run(beat, token) for _, token in nsmallest(most, since)], len(since))


def _running_run(beat: "TurnLoop", token: int) -> RunningRun:
    run, started = beat.pending_runs[token], beat.started_runs.get(token)
    return RunningRun(
        beat.name_of(run),
        Instant(run.nominal),
        RunKind(run.kind),
        Instant(run.claimed),
        None if started is None else Instant(started),
        run.timebox,
        run.number,
    )
