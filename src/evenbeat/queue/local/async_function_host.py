"""Supervise the async host, one process for all asynchronous functions.

The host enforces timeboxes itself; it is killed when its event loop is blocked.
"""

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Final

from evenbeat.child_processes.orphan_guard import OrphanGuard
from evenbeat.child_processes.supervisor import ProcessSupervisor
from evenbeat.core.worker_deaths import HOST_DIED
from evenbeat.model import SECOND, Outcome
from evenbeat.queue.local.command_workers import results_without_worker
from evenbeat.queue.local.host_environment import HostLauncher
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.plain_results import MessageToNode, Results
from evenbeat.wire.worker_frames import (
    CancelFrame,
    ClockFrame,
    ReadyFrame,
    ResultsFrame,
    RunSpec,
    StartedFrame,
)

_PROGRAM: Final = ("evenbeat.work.host", "async")
_POLL_INTERVAL: Final = 1.0
"""Seconds between two checks for runs that should have ended."""
UNRESPONSIVE_AFTER: Final = 30.0
"""Seconds: a host with an overdue run that does not answer a ping for so long has a function that blocks its loop."""


class AsyncHostSupervisor:
    """The async host: started with the first run, replaced when it dies."""

    def __init__(
        self,
        results: Callable[[Results], None],
        started: Callable[[list[tuple[int, int]]], None],
        now: Callable[[], int],
        kill_after: Callable[[int], int],
        orphan_guard: OrphanGuard,
        launcher: HostLauncher,
    ) -> None:
        self._launcher = launcher
        self._orphan_guard = orphan_guard
        self._results = results
        self._started = started
        self._now = now
        self._kill_after = kill_after
        self._offset = 0
        self._supervisor = ProcessSupervisor(self._new_host, self._resume)
        self._overdue_at: dict[int, float] = {}
        """When each outstanding run must have ended at the latest."""
        self._waiting: list[RunSpec] = []
        self._pinged_at: float | None = None
        self._check_timer: asyncio.TimerHandle | None = None

    @property
    def workers(self) -> list[WorkerHandle]:
        return self._supervisor.processes

    @property
    def restarts(self) -> int:
        """Hosts that ended before they were told to."""
        return self._supervisor.restarts

    @property
    def problem(self) -> str:
        """Why functions cannot be started now, or ""."""
        problem = self._supervisor.start_problem
        return f"the host of async functions cannot be started: {problem}" if problem else ""

    def set_clock(self, offset: int, by: int = 0) -> None:
        self._offset = offset
        if by:
            for run in self._waiting:
                run.move(by)
            for worker in self.workers:
                worker.move(by)
        for worker in self.workers:
            worker.send(ClockFrame(offset, by))

    def give(self, runs: list[RunSpec]) -> None:
        """Send all runs at once: an asynchronous run costs little while it waits."""
        worker = None if self._supervisor.is_pausing or self._supervisor.is_stopping else self._living_host()
        if worker is None:
            self._waiting += runs
            return
        now = time.monotonic()
        self._overdue_at.update((run.token, now + run.timebox / SECOND + self._end_seconds(run)) for run in runs)
        worker.give(runs)
        if self._check_timer is None:
            self._check_timer = asyncio.get_running_loop().call_later(_POLL_INTERVAL, self._check_overdue)

    def _living_host(self) -> WorkerHandle | None:
        """The running host, started if there is none; None if it has just ended, or cannot be started now."""
        if self.workers:
            return None if self.workers[0].is_gone else self.workers[0]
        worker = self._supervisor.start()
        if worker is not None:
            worker.send(ClockFrame(self._offset))
        return worker

    def _new_host(self) -> WorkerHandle:
        return self._launcher.start(_PROGRAM, self._on_frames, self._has_ended, self._orphan_guard)

    def cancel(self, tokens: set[int]) -> None:
        """End these runs, or all if none is named."""
        unsent = [run for run in self._waiting if not tokens or run.token in tokens]
        self._waiting = [run for run in self._waiting if tokens and run.token not in tokens]
        self._resolve(unsent, Outcome.CANCELLED, "not started")
        for worker in self.workers:
            found = [t for t in worker.outstanding if not tokens or t in tokens]
            if found:
                worker.send(CancelFrame(found))
            now = time.monotonic()
            for token in found:
                latest = now + self._end_seconds(worker.outstanding[token])
                self._overdue_at[token] = min(self._overdue_at[token], latest)

    def close(self) -> None:
        """Kill the host, and its runs with it."""
        self._supervisor.is_stopping = True
        for worker in self.workers:
            worker.signal(signal.SIGKILL)

    def _on_frames(self, worker: WorkerHandle, messages: list[MessageToNode]) -> None:
        for message in self._launcher.trusted_part(worker, messages, self._now()):
            match message:
                case ResultsFrame(results):
                    for result in results:
                        worker.outstanding.pop(result.token, None)
                        worker.reported_running.pop(result.token, None)
                        self._overdue_at.pop(result.token, None)
                    self._results(results)
                case StartedFrame(starts):
                    worker.reported_running.update(starts)
                    self._started(starts)
                case ReadyFrame():
                    worker.is_ready = True

    def _overdue(self, worker: WorkerHandle, now: float) -> list[int]:
        return [token for token in worker.outstanding if now > self._overdue_at[token]]

    def _end_seconds(self, run: RunSpec) -> float:
        """How long a run may take to end that was told to."""
        return self._kill_after(run.timebox) / SECOND + _POLL_INTERVAL

    def _check_overdue(self) -> None:
        self._check_timer = None
        worker, now = next(iter(self.workers), None), time.monotonic()
        if worker is None or not worker.outstanding:
            return
        self._check_timer = asyncio.get_running_loop().call_later(_POLL_INTERVAL, self._check_overdue)
        if self._pinged_at is not None and worker.last_heard > self._pinged_at:
            self._pinged_at = None
        elif self._pinged_at is not None and now - self._pinged_at > UNRESPONSIVE_AFTER:
            worker.signal(signal.SIGKILL)
        elif self._pinged_at is None and self._overdue(worker, now):
            self._pinged_at = now
            worker.send(ClockFrame(self._offset))

    def _has_ended(self, worker: WorkerHandle) -> None:
        self._supervisor.ended(worker)
        pinged_at, self._pinged_at = self._pinged_at, None
        orphans = list(worker.outstanding.values())
        if self._supervisor.is_stopping:
            self._resolve(orphans, Outcome.CANCELLED, "the node was stopped", worker.reported_running)
        elif worker.is_ready:
            overdue = set(self._overdue(worker, time.monotonic())) if pinged_at is not None else set()
            self._resolve(
                [run for run in orphans if run.token in overdue],
                Outcome.TIMEBOXED,
                "a function blocked the loop of its host",
                worker.reported_running,
            )
            self._resolve(
                [run for run in orphans if run.token not in overdue],
                Outcome.LOST,
                HOST_DIED,
                worker.reported_running,
            )
        elif self._supervisor.is_hopeless:
            orphans, self._waiting = orphans + self._waiting, []
            self._resolve(orphans, Outcome.BROKEN, "no function host can be started: see the node's log")
        else:
            self._waiting = orphans + self._waiting
        self._overdue_at.clear()

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self.give(waiting)

    def _resolve(
        self, runs: list[RunSpec], outcome: Outcome, reason: str, starts: dict[int, int] | None = None
    ) -> None:
        if runs:
            self._results(results_without_worker(runs, outcome, reason, self._now(), starts or {}))
