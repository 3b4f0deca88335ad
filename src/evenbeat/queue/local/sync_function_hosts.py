"""The sync hosts: a pool of processes for ordinary functions, started on demand, one run at a time each.

An ordinary function may hang in a way that only the end of its process stops. So a host gets another run only while it
has none, or while all of its runs are known to be quick.
"""

import asyncio
import heapq
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import sub
from typing import Final

from evenbeat.child_processes.orphan_guard import OrphanGuard
from evenbeat.child_processes.supervisor import ProcessSupervisor
from evenbeat.core.worker_deaths import HOST_DIED
from evenbeat.model import SECOND, Outcome
from evenbeat.queue.local.command_workers import results_without_worker
from evenbeat.queue.local.host_environment import HostLauncher
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.plain_results import MessageToNode, PlainResults, Results, tokens_of
from evenbeat.wire.worker_frames import (
    EARLY_DELIVERY,
    READ_NOW,
    TOKEN_OF,
    CancelFrame,
    ClockFrame,
    ReadyFrame,
    ResultsFrame,
    RunSpec,
    StartedFrame,
    WrongHostFrame,
)

_PROGRAM: Final = ("evenbeat.work.host", "sync")
_MAX_QUEUED_WORK: Final = 5_000
"""Microseconds of work that may be queued on one host."""
_MAX_QUEUED_RUNS: Final = 128
_UNKNOWN_DURATION: Final = _MAX_QUEUED_WORK + 1
"""Assumed duration of a function that has not run yet: more than may be queued."""
_HISTORY_WEIGHT: Final = 8
"""Weight of the earlier runs in the mean duration of a function."""
_QUICK_DURATION: Final = 500
"""Microseconds: only a function that lasts no longer may take a host before it is due, as it blocks the host till
then."""
_POLL_INTERVAL: Final = 0.05
"""Seconds between two checks of the current runs."""
_REPORT_START_AFTER: Final = 0.1
"""Seconds after which a run that has not ended is reported as started."""
IMPORT_TIMEOUT: Final = 60.0
"""Seconds an import may take. It does not count against the timebox of the run that needs it."""


class _SyncHostQueue:
    """A sync host and its outstanding runs; the first of them is the one that it is executing."""

    def __init__(self, worker: WorkerHandle) -> None:
        self.worker = worker
        self.costs: dict[int, tuple[str, int]] = {}
        """Function and expected duration of each outstanding run."""
        self.cost = 0
        self.imported: set[str] = set()
        self.batch: list[RunSpec] = []
        self.since = 0.0
        """When it began with the current run, as far as we know."""
        self.is_start_reported = False
        self.is_told_to_end = False
        self.kill_reason: tuple[int, Outcome, str] | None = None
        """If we killed the host, or told its run to end: because of which run, and the outcome and output of that."""
        self.kill_at = float("inf")
        """When it is killed if its run, which was told to end, has not ended."""

    @property
    def current_run(self) -> RunSpec | None:
        return next(iter(self.worker.outstanding.values()), None)

    def add(self, runs: list[RunSpec], function: str, cost: int) -> None:
        if not self.costs:
            self.turn_to_next(time.monotonic())
        self.costs.update(zip(map(TOKEN_OF, runs), repeat((function, cost)), strict=False))
        self.cost += cost * len(runs)
        self.batch += runs

    def room_for(self, cost: int) -> int:
        """How many more runs of this cost fit; at least one if the host has none."""
        if not self.costs:
            return max(1, min(_MAX_QUEUED_WORK // cost, _MAX_QUEUED_RUNS))
        return max(0, min((_MAX_QUEUED_WORK - self.cost) // cost, _MAX_QUEUED_RUNS - len(self.costs)))

    def age(self, head: RunSpec, now: float, wall: int) -> float:
        """Seconds that the current run has taken; waiting until the run is due does not count."""
        age = now - self.since
        waited = max(age - (wall - head.due) / SECOND, 0.0)
        return max(age - min(waited, 2 * EARLY_DELIVERY / SECOND), 0.0)

    def remove(self, token: int) -> str:
        """The run has left this host; the function of the run, "" if the host did not have it."""
        self.worker.outstanding.pop(token, None)
        function, cost = self.costs.pop(token, ("", 0))
        self.cost -= cost
        if self.kill_reason is not None and self.kill_reason[0] == token:
            self.kill_reason, self.kill_at = None, float("inf")
        return function

    def turn_to_next(self, now: float) -> None:
        self.since, self.is_start_reported, self.is_told_to_end = now, False, False


def _queued_cost(host: _SyncHostQueue) -> int:
    return host.cost if host.costs else -1


def _begins_next_run(host: _SyncHostQueue, message: MessageToNode) -> bool:
    """Has the host moved on to its next run, or just finished an import? The timebox is counted from then on."""
    match message:
        case StartedFrame(starts):
            return any(host.costs[token][0] not in host.imported for token, _ in starts if token in host.costs)
        case ReadyFrame():
            return not host.worker.is_ready
    return True


def _durations(results: Results) -> Iterable[int]:
    if isinstance(results, PlainResults):
        return map(sub, results.ended, results.started)
    return [result.ended - result.started for result in results]


class SyncHosts:
    """Sync hosts, and the runs that wait for one."""

    def __init__(
        self,
        size: int,
        results: Callable[[Results], None],
        started: Callable[[list[tuple[int, int]]], None],
        on_wrong_host: Callable[[list[tuple[RunSpec, str]]], None],
        now: Callable[[], int],
        kill_after: Callable[[int], int],
        orphan_guard: OrphanGuard,
        launcher: HostLauncher,
    ) -> None:
        self._launcher = launcher
        self._size = size
        self._orphan_guard = orphan_guard
        self._results = results
        self._started = started
        self._on_wrong_host = on_wrong_host
        self._now = now
        self._kill_after = kill_after
        self._offset = 0
        self._hosts: dict[WorkerHandle, _SyncHostQueue] = {}
        self._early: list[tuple[int, int, RunSpec, str]] = []
        """Runs that are not due yet and not known to be quick, as a heap of due time, token, run and function."""
        self._early_timer: asyncio.TimerHandle | None = None
        """Set for the due time of the first of them."""
        self._waiting: deque[tuple[RunSpec, str]] = deque()
        self._durations: dict[str, int] = {}
        self._supervisor = ProcessSupervisor(self._new_host, self._assign)
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
        return f"function hosts cannot be started: {problem}" if problem else ""

    def set_clock(self, offset: int, by: int = 0) -> None:
        self._offset = offset
        if by:
            for run in (*(run for _, _, run, _ in self._early), *(run for run, _ in self._waiting)):
                run.move(by)
            self._early = [(run.due, token, run, function) for _, token, run, function in self._early]
            for worker in self._hosts:
                worker.move(by)
        for worker in self._hosts:
            worker.send(ClockFrame(offset, by))

    def give(self, runs: list[tuple[RunSpec, str]]) -> None:
        """Runs and their functions; runs that are not due yet come last."""
        now = self._now()
        if runs and runs[-1][0].wait(now):
            for run, function in runs:
                if run.wait(now) and self._durations.get(function, _UNKNOWN_DURATION) > _QUICK_DURATION:
                    heapq.heappush(self._early, (run.due, run.token, run, function))
                else:
                    self._waiting.append((run, function))
        else:
            self._waiting.extend(runs)
        self._assign()

    def cancel(self, tokens: set[int]) -> None:
        """End these runs, or all if none is named."""
        unsent = [run for run, _ in self._waiting if not tokens or run.token in tokens]
        unsent += [run for _, token, run, _ in self._early if not tokens or token in tokens]
        self._waiting = deque((r, f) for r, f in self._waiting if tokens and r.token not in tokens)
        self._early = [early for early in self._early if tokens and early[1] not in tokens]
        heapq.heapify(self._early)
        self._resolve(unsent, Outcome.CANCELLED, "not started")
        for worker, host in self._hosts.items():
            found = [t for t in worker.outstanding if not tokens or t in tokens]
            if found:
                worker.send(CancelFrame(found))
                head = host.current_run
                if head is not None and head.token in found:
                    host.kill_reason = (head.token, Outcome.CANCELLED, "it did not end when told to")
                    host.kill_at = time.monotonic() + self._kill_after(head.timebox) / SECOND
                    if worker.is_ready:
                        worker.signal(signal.SIGTERM)

    def close(self) -> None:
        """Kill all hosts, and their runs with them."""
        self._supervisor.is_stopping = True
        for worker in self._hosts:
            worker.signal(signal.SIGKILL)

    def _assign(self) -> None:
        if self._early:
            self._queue_due_runs()
        while self._waiting and not self._supervisor.is_stopping:
            function = self._waiting[0][1]
            cost = self._durations.get(function, _UNKNOWN_DURATION)
            living = [host for host in self._hosts.values() if not host.worker.is_gone]
            host = min(living, key=_queued_cost, default=None)
            if host is None or not host.room_for(cost):
                if len(self._hosts) >= self._size or self._supervisor.is_pausing:
                    break
                host = self._start_one()
                if host is None:
                    break
            room = host.room_for(cost)
            some: list[RunSpec] = []
            while len(some) < room and self._waiting and self._waiting[0][1] == function:
                some.append(self._waiting.popleft()[0])
            host.add(some, function, cost)
        for host in self._hosts.values():
            if host.batch:
                batch, host.batch = host.batch, []
                host.worker.give(batch)
        if self._check_timer is None and any(host.costs for host in self._hosts.values()):
            self._check_timer = asyncio.get_running_loop().call_later(_POLL_INTERVAL, self._check_current_runs)

    def _queue_due_runs(self) -> None:
        """Queue early runs that are due by now, and set the timer for the next one."""
        now, wait = self._now(), 0
        while self._early and not (wait := self._early[0][2].wait(now)):
            _, _, run, function = heapq.heappop(self._early)
            self._waiting.append((run, function))
        if self._early_timer is not None:
            self._early_timer.cancel()
            self._early_timer = None
        if self._early:
            self._early_timer = asyncio.get_running_loop().call_later(wait / SECOND, self._assign)

    def _new_host(self) -> WorkerHandle:
        worker = self._launcher.start(_PROGRAM, self._on_frames, self._has_ended, self._orphan_guard)
        worker.read_signal = READ_NOW
        return worker

    def _start_one(self) -> _SyncHostQueue | None:
        worker = self._supervisor.start()
        if worker is None:
            return None
        worker.send(ClockFrame(self._offset))
        host = self._hosts[worker] = _SyncHostQueue(worker)
        return host

    def _on_frames(self, worker: WorkerHandle, messages: list[MessageToNode]) -> None:
        host = self._hosts[worker]
        messages = self._launcher.trusted_part(worker, messages, self._now())
        if any(_begins_next_run(host, message) for message in messages):
            host.turn_to_next(worker.last_heard)
        ended: list[Results] = []
        for message in messages:
            match message:
                case PlainResults():
                    ended.append(message)
                    host.is_start_reported = False
                case ResultsFrame(results):
                    ended.append(results)
                    host.is_start_reported = False
                case StartedFrame(starts):
                    host.is_start_reported = True
                    host.imported.update(host.costs[token][0] for token, _ in starts if token in host.costs)
                    self._started(starts)
                case WrongHostFrame(tokens):
                    runs = [(worker.outstanding[t], host.costs[t][0]) for t in tokens if t in worker.outstanding]
                    for token in tokens:
                        host.remove(token)
                    self._on_wrong_host(runs)
                case ReadyFrame():
                    worker.is_ready = True
        for reported in ended:
            self._record_durations(host, reported)
        # A host with enough work is not given one more run per result, but several when it has little left.
        if self._waiting and len(host.costs) <= _MAX_QUEUED_RUNS // 2:
            self._assign()
        for reported in ended:
            self._results(reported)

    def _record_durations(self, host: _SyncHostQueue, ended: Results) -> None:
        """Update the mean durations of functions from runs that have ended together."""
        lasted: dict[str, list[int]] = {}
        functions = map(host.remove, tokens_of(ended))
        for function, duration in zip(functions, _durations(ended), strict=True):
            lasted.setdefault(function, []).append(duration)
        lasted.pop("", None)
        for function, durations in lasted.items():
            duration = sum(durations) // len(durations)
            before = self._durations.get(function)
            mean = duration if before is None else before + (duration - before) // _HISTORY_WEIGHT
            self._durations[function] = max(mean, 1)

    def _check_current_runs(self) -> None:
        self._check_timer = None
        now = time.monotonic()
        starts = []
        for worker, host in self._hosts.items():
            head = host.current_run
            if head is None or not worker.is_ready:
                continue
            if host.kill_reason is not None and now > host.kill_at:
                self._kill(host, host.kill_reason)
                continue
            function = host.costs[head.token][0]
            age = host.age(head, now, self._now())
            if function not in host.imported:
                if age > IMPORT_TIMEOUT:
                    reason = f"{function}: importing it took longer than {IMPORT_TIMEOUT:g} s"
                    self._kill(host, (head.token, Outcome.BROKEN, reason))
                continue
            if not host.is_start_reported and age > _REPORT_START_AFTER:
                host.is_start_reported = True
                starts.append((head.token, self._now() - int(age * SECOND)))
            if age * SECOND > head.timebox + self._kill_after(head.timebox):
                self._kill(host, host.kill_reason or (head.token, Outcome.TIMEBOXED, "it did not end when told to"))
            elif age * SECOND > head.timebox and not host.is_told_to_end:
                host.is_told_to_end = True
                worker.signal(signal.SIGTERM)
        if starts:
            self._started(starts)
        if any(host.costs for host in self._hosts.values()):
            self._check_timer = asyncio.get_running_loop().call_later(_POLL_INTERVAL, self._check_current_runs)

    def _kill(self, host: _SyncHostQueue, reason: tuple[int, Outcome, str]) -> None:
        host.kill_reason = reason
        host.worker.signal(signal.SIGKILL)

    def _has_ended(self, worker: WorkerHandle) -> None:
        """A host has ended: its current run is over, the runs queued behind it have not started."""
        host = self._hosts.pop(worker)
        pause = self._supervisor.ended(worker, as_wanted=host.kill_reason is not None)
        orphans = [(run, host.costs[token][0]) for token, run in worker.outstanding.items()]
        if self._supervisor.is_stopping:
            self._resolve([run for run, _ in orphans], Outcome.CANCELLED, "the node was stopped")
            return
        if worker.is_ready and orphans:
            head = orphans.pop(0)[0]
            token, outcome, reason = host.kill_reason or (head.token, Outcome.LOST, HOST_DIED)
            if token != head.token:
                outcome, reason = Outcome.LOST, HOST_DIED
            self._resolve([head], outcome, reason, int(host.age(head, time.monotonic(), self._now()) * SECOND))
        self._waiting.extendleft(reversed(orphans))
        if not worker.is_ready and self._supervisor.is_hopeless:
            hopeless = [run for run, _ in self._waiting]
            self._waiting.clear()
            self._resolve(hopeless, Outcome.BROKEN, "no function host can be started: see the node's log")
        if not pause:
            self._assign()

    def _resolve(self, runs: list[RunSpec], outcome: Outcome, reason: str, age: int = 0) -> None:
        if runs:
            now = self._now()
            self._results(
                results_without_worker(runs, outcome, reason, now, dict.fromkeys((r.token for r in runs), now - age))
            )
