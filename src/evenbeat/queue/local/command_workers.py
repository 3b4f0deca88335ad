"""The worker processes for commands: one per core, runs spread evenly over them, each replaced when it dies."""

from collections.abc import Callable, Sequence
from typing import Final

from evenbeat.child_processes.orphan_guard import OrphanGuard
from evenbeat.child_processes.supervisor import ProcessSupervisor
from evenbeat.core.worker_deaths import WORKER_DIED
from evenbeat.model import Outcome
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.plain_results import MessageToNode, Results, decode_records, tokens_of
from evenbeat.wire.worker_frames import (
    CancelFrame,
    ClockFrame,
    OutOfResourcesFrame,
    ReadyFrame,
    ResultsFrame,
    RunResult,
    RunSpec,
    StartedFrame,
)

_PROGRAM: Final = ("evenbeat.work.runner",)
_BUSY_BACKLOG: Final = 100
"""Unstarted runs that keep a worker busy, at about half a millisecond each, until the node can send more."""


class CommandWorkers:
    """The command workers, and the runs that wait for one of them to come up."""

    def __init__(
        self,
        size: int,
        results: Callable[[Results], None],
        started: Callable[[list[tuple[int, int]]], None],
        now: Callable[[], int],
        orphan_guard: OrphanGuard,
        pass_env: Sequence[str] = (),
    ) -> None:
        self._size = size
        self._program = (*_PROGRAM, ",".join(pass_env))
        self._orphan_guard = orphan_guard
        self._results = results
        self._started = started
        self._now = now
        self._offset = 0
        self._supervisor = ProcessSupervisor(self._new_worker, self._start_one)
        self._waiting: list[RunSpec] = []

    @property
    def problem(self) -> str:
        """Why commands cannot be started now, or ""."""
        if self._supervisor.start_problem:
            return f"worker processes cannot be started: {self._supervisor.start_problem}"
        if stuck := next((worker.cleanup_problem for worker in self.workers if worker.cleanup_problem), ""):
            return f"what a dead worker process left behind cannot be ended: {stuck}"
        if self._size and not self._living and not self._supervisor.is_stopping:
            return "no worker process is up"
        full = next((worker.resource_problem for worker in self.workers if worker.resource_problem), "")
        return f"workers wait to start commands: {full}" if full else ""

    @property
    def workers(self) -> list[WorkerHandle]:
        return self._supervisor.processes

    @property
    def restarts(self) -> int:
        """Workers that ended before they were told to."""
        return self._supervisor.restarts

    @property
    def _living(self) -> list[WorkerHandle]:
        return [worker for worker in self.workers if not worker.is_gone]

    @property
    def is_busy(self) -> bool:
        """Does every worker have many runs that it could not start yet?"""
        return bool(self.workers) and all(w.unstarted_count >= _BUSY_BACKLOG for w in self.workers)

    def start(self, offset: int) -> None:
        """Start all workers."""
        self._offset = offset
        for _ in range(self._size):
            self._start_one()

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
        """Spread these runs over the workers so that their backlogs become even."""
        living = self._living
        if not living:
            self._waiting += runs
            return
        by_backlog = sorted(living, key=lambda w: (w.backlog, len(w.outstanding)))
        given = 0
        for left, worker in zip(range(len(by_backlog), 0, -1), by_backlog, strict=True):
            others = sum(w.backlog for w in by_backlog[-left:])
            level = -(-(others + len(runs) - given) // left)
            share = max(0, level - worker.backlog)
            if part := runs[given : given + share]:
                worker.give(part)
            given += len(part)

    def cancel(self, tokens: set[int]) -> None:
        """End these runs, or all if none is named."""
        unsent = [run for run in self._waiting if not tokens or run.token in tokens]
        self._waiting = [run for run in self._waiting if tokens and run.token not in tokens]
        self._resolve(unsent, Outcome.CANCELLED, "not started", {})
        for worker in self.workers:
            found = [t for t in worker.outstanding if not tokens or t in tokens]
            if found:
                worker.send(CancelFrame(found))

    def close(self) -> None:
        """Tell all workers to end, and their runs with them."""
        self._supervisor.is_stopping = True
        for worker in self.workers:
            worker.close()

    def _new_worker(self) -> WorkerHandle:
        return WorkerHandle(self._program, self._on_frames, self._has_ended, self._orphan_guard, lifeline=False)

    def _start_one(self) -> None:
        worker = self._supervisor.start()
        if worker is None:
            return
        worker.send(ClockFrame(self._offset))
        waiting, self._waiting = self._waiting, []
        self.give(waiting)

    def _on_frames(self, worker: WorkerHandle, messages: list[MessageToNode]) -> None:
        for message in messages:
            match message:
                case ResultsFrame(results, accepted, plain):
                    worker.accepted_count = accepted
                    if results:
                        self._take(worker, results)
                    if plain:
                        self._take(worker, decode_records(plain))
                case StartedFrame(starts):
                    worker.reported_running.update(starts)
                    self._started(starts)
                case ReadyFrame():
                    worker.is_ready = True
                case OutOfResourcesFrame(reason):
                    worker.resource_problem = reason

    def _take(self, worker: WorkerHandle, results: Results) -> None:
        worker.have_ended(tokens_of(results))
        self._results(results)

    def _has_ended(self, worker: WorkerHandle) -> None:
        self._supervisor.ended(worker)
        orphans = list(worker.outstanding.values())
        if self._supervisor.is_stopping:
            self._resolve(orphans, Outcome.CANCELLED, "the node was stopped", worker.reported_running)
        elif worker.is_ready:
            self._resolve(orphans, Outcome.LOST, WORKER_DIED, worker.reported_running)
        elif self._supervisor.is_hopeless:
            orphans, self._waiting = orphans + self._waiting, []
            self._resolve(orphans, Outcome.BROKEN, "no worker process can be started: see the node's log", {})
        else:
            self._waiting = orphans + self._waiting

    def _resolve(self, runs: list[RunSpec], outcome: Outcome, reason: str, starts: dict[int, int]) -> None:
        if runs:
            self._results(results_without_worker(runs, outcome, reason, self._now(), starts))


def results_without_worker(
    runs: list[RunSpec], outcome: Outcome, reason: str, now: int, starts: dict[int, int]
) -> list[RunResult]:
    """Results of runs whose worker cannot report them. A run whose start is unknown counts as started when it ended."""
    return [RunResult(run.token, outcome, None, starts.get(run.token, now), now, reason.encode()) for run in runs]
