"""What only a live node knows of one task: whether it waits, for what, and when its next run is due."""

import numpy as np

from evenbeat.core.check_states import retry_after_opening
from evenbeat.core.next_time import TimetablePosition
from evenbeat.core.next_time import next_run_at as place_next
from evenbeat.core.task import Flag
from evenbeat.model import Instant, RunKind
from evenbeat.node.answers.problems import obstacles_of
from evenbeat.node.live_tasks import waiting_reason
from evenbeat.node.scheduler import Scheduler
from evenbeat.wire.cluster_messages import DEFAULT_POOL
from evenbeat.wire.live_runs import LiveTaskState


def live_task_state_of(node: Scheduler, number: int) -> LiveTaskState | None:
    """The state of a task; None if it is not live here."""
    row = node.tasks.row(number)
    if row is None:
        return None
    life, flags = node.tasks.lifecycle, int(node.tasks.columns.flags[row])
    due, kind = _next_planned(node, row)
    waiting = waiting_reason(node.tasks, row, node.clock.now()) if flags & (Flag.WAITING | Flag.FORCED) else ""
    return LiveTaskState(
        *(due, kind, waiting, life.pending, life.slots, *_waits_for_worker(node, row, number)),
        is_claimed=bool(flags & Flag.RUNNING),
        obstacles=obstacles_of(node),
        deaths=node.turns.worker_deaths.deaths(number),
        stopping=_stop_of(node, number) if flags & Flag.RUNNING else "",
    )


def _stop_of(node: Scheduler, number: int) -> str:
    """Who has asked to stop its run."""
    turns = node.turns
    return next((turns.stops.words(token) for token, run in turns.pending_runs.items() if run.number == number), "")


def next_run_time(node: Scheduler, row: int) -> Instant | None:
    """When a task is due next, or since when it waits; None if it is paused or nothing is planned."""
    return _next_planned(node, row)[0]


def _next_planned(node: Scheduler, row: int) -> tuple[Instant | None, RunKind]:
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
        )
        if flags & Flag.CHECK
        else None,
    )

    def after(t: int) -> int:
        return int(times.next_after(one, Instant(t))[0])

    found = place_next(place, None if number < 0 else times.period(number), after, node.clock.now())
    if found is None:
        return None, RunKind.GRID
    return found.at, RunKind.CHAIN if flags & Flag.CHAINED and found.kind is RunKind.GRID else found.kind


def _waits_for_worker(node: Scheduler, row: int, number: int) -> tuple[bool, float | None]:
    """Whether a run of it waits for a worker, and for how many seconds its pool has had none."""
    if node.others is None or not int(node.tasks.columns.flags[row]) & Flag.RUNNING:
        return False, None
    token = next((token for token, run in node.turns.pending_runs.items() if run.number == number), None)
    if token is None or token in node.turns.started_runs:
        return False, None
    pool = node.tasks.pools[int(node.tasks.columns.pool[row])] or DEFAULT_POOL
    pools = node.others.metrics().pools
    return True, pools[pool].without_worker_for if pool in pools else None
