"""Stop in order: end the runs, run the @shutdown tasks, and have everything committed."""

import asyncio
import logging
import time
from typing import Final

import numpy as np

from evenbeat.core.task import Flag
from evenbeat.node.scheduler import Scheduler
from evenbeat.report.status import NO_WORKERS_TEXT
from evenbeat.when.windows import FOREVER

_CANCEL_WAIT: Final = 10.0
"""Seconds that interrupted runs have to end."""
_log: Final = logging.getLogger("evenbeat.node")


async def end_all_runs(node: Scheduler) -> None:
    """Stop claiming, let runs end, run the @shutdown tasks, and have everything committed."""
    turns, tasks = node.turns, node.tasks
    _log.info("stopping: %s", node.reason, extra={"action": "stopping", "running": len(turns.pending_runs)})
    turns.is_claiming = False
    await _wait_for_runs(node)
    shutdown = np.array(sorted(tasks.occasions["@shutdown"]), dtype=np.int64)
    if len(shutdown) and not node.membership.has_workers:
        fields = {"action": "shutdown_tasks_not_run", "tasks": len(shutdown)}
        _log.warning("the @shutdown tasks do not run: %s", NO_WORKERS_TEXT, extra=fields)
    elif len(shutdown) and not node.stop_now.is_set():
        life = tasks.lifecycle
        # The positions of all tasks are stored; in this process nothing but @shutdown is due any more.
        every_row = tasks.all_rows()
        life.set_flag(life.waiting, Flag.WAITING, on=False)
        life.waiting = life.waiting[:0]
        life.timetable.set_due(every_row, np.full(len(every_row), FOREVER))
        life.trigger_node_event(shutdown, node.clock.now())
        turns.is_claiming = True
        turns.turn(node.clock.now())
        await _wait_for_runs(node)
        turns.is_claiming = False
    await _flush_outbox(node)


async def _wait_for_runs(node: Scheduler) -> None:
    """Wait for runs that are running or may still be claimed; after the grace period they are interrupted."""
    deadline = time.monotonic() + node.live.stop_grace
    while _is_busy(node) and time.monotonic() < deadline and not node.stop_now.is_set():
        await asyncio.sleep(0.02)
    node.turns.is_claiming = False
    if node.turns.pending_runs:
        node.turns.end_undispatched()
        node.queue.cancel()
        deadline = time.monotonic() + _CANCEL_WAIT
        while _runs_something(node) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)


def _is_busy(node: Scheduler) -> bool:
    if node.outbox.is_store_damaged:
        return _runs_something(node)
    return bool(node.turns.pending_runs) or (node.turns.is_claiming and len(node.tasks.lifecycle.waiting) > 0)


def _runs_something(node: Scheduler) -> bool:
    """Runs whose claims a failing store has not committed were not started, and will not be."""
    not_begun = node.outbox.unsafe_claims() if node.outbox.store_error else set()
    return any(run.number not in not_begun for run in node.turns.pending_runs.values())


async def _flush_outbox(node: Scheduler) -> None:
    """Commit everything. A failing store is waited for as long as runs are, unless the stop is to be fast."""
    deadline = time.monotonic() + node.live.stop_grace
    outbox = node.outbox
    while outbox.waiting:
        if node.failure is not None:
            raise node.failure
        in_vain = outbox.is_store_damaged or node.stop_now.is_set() or time.monotonic() > deadline
        if outbox.store_error and in_vain:
            node.uncommitted_reason = outbox.store_error
            _log.error("not everything is committed: %s", outbox.store_error, extra={"action": "store_failing"})
            return
        await asyncio.sleep(0.005)
