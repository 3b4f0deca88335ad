"""A node's record of open runs: which worker each is granted to, and whose results are being stored.

`core.run_lease` decides; this module remembers the decisions. Times are by boot_time of this node.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from evenbeat.core import run_lease
from evenbeat.core.run_lease import RunFate, RunLease
from evenbeat.model import SECOND
from evenbeat.queue.nats.batches import HandedOverRun
from evenbeat.wire.cluster_messages import RunReport, StartRequest, WorkerStatus
from evenbeat.wire.plain_results import PlainResults, decode_records, full_results
from evenbeat.wire.worker_frames import RunResult

_STORED_REMEMBERED_FOR: Final = 6 * SECOND
"""A stored result is remembered for so long at least: a worker that reports it again has missed the confirmation."""
_MAX_REMEMBERED: Final = 200_000


class WorkerStatusEffect(NamedTuple):
    """What follows from the status of a worker."""

    renewed: list[int]
    not_ours: list[int]
    to_cancel: list[int]
    reopened: list[HandedOverRun]


class RunReportEffect(NamedTuple):
    """What follows from a report."""

    starts: list[tuple[int, int]]
    results: list[RunResult]
    safe: list[int]
    """Tokens of runs whose results are no longer needed."""
    late: list[tuple[int, RunResult]]
    plain: PlainResults
    """More results."""


class HandedOverRuns:
    """Every run that was offered or adopted, until its result is stored."""

    def __init__(self, owns: Callable[[int], bool]) -> None:
        self._owns = owns
        self.open: dict[int, HandedOverRun] = {}
        self._granted: dict[str, set[int]] = {}
        """The tokens of the runs that each worker was granted."""
        self._being_stored: dict[int, str] = {}
        """Runs whose results are being stored, and the workers that reported them."""
        self._stored: dict[int, str] = {}
        self._stored_before: dict[int, str] = {}
        self._rotated_at = 0

    def remove(self, item: HandedOverRun) -> None:
        """The run has ended, or another node owns it."""
        self.open.pop(item.token, None)
        self._unlink(item)

    def forget(self, tokens: Sequence[int]) -> list[HandedOverRun]:
        """Another node owns these runs; those of them that were open."""
        for token in tokens:
            self._being_stored.pop(token, None)
        found = [self.open[token] for token in tokens if token in self.open]
        for item in found:
            self.remove(item)
        return found

    def grant(self, request: StartRequest, now: int) -> tuple[list[HandedOverRun], list[int]]:
        """Answer a StartRequest: the runs that the worker may start, and the tokens that it must forget."""
        granted: list[HandedOverRun] = []
        refused: list[int] = []
        leases: dict[RunLease, RunLease | None] = {}  # most runs of a request have the same one: none
        for token, task in request.runs:
            item = self.open.get(token)
            lease = None
            if item is not None:
                if item.lease not in leases:
                    leases[item.lease] = run_lease.granted_lease(item.lease, request.worker, request.asked, now)
                lease = leases[item.lease]
            if item is not None and lease is not None:
                item.lease = lease
                granted.append(item)
            elif item is not None or token in self._being_stored or self._owns(task):
                refused.append(token)
        if granted:
            self._granted.setdefault(request.worker, set()).update(item.token for item in granted)
        return granted, refused

    def apply_status(self, status: WorkerStatus, now: int) -> WorkerStatusEffect:
        """Renew the runs that a worker holds, find those that are not its own, and reopen those that it will never
        start.
        """
        worker = status.worker
        effect = WorkerStatusEffect([], [], [], [])
        for token, task in status.held:
            item = self.open.get(token)
            lease = None if item is None else run_lease.renewed_lease(item.lease, worker, now)
            if item is not None and lease is not None:
                if item.lease.worker != worker:
                    self._granted.setdefault(worker, set()).add(token)
                item.lease = lease
                effect.renewed.append(token)
                if item.is_cancelled:
                    effect.to_cancel.append(token)
            elif item is not None or (
                self._being_stored[token] != worker if token in self._being_stored else self._owns(task)
            ):
                effect.not_ours.append(token)
        if granted_tokens := self._granted.get(worker):
            for token in granted_tokens.difference([token for token, _ in status.held]):
                item = self.open[token]
                if run_lease.was_never_started(item.lease, worker, status.settled):
                    self._unlink(item)
                    item.lease = RunLease()
                    effect.reopened.append(item)
        return effect

    def apply_report(self, report: RunReport) -> RunReportEffect:
        """Take starts and results; each result counts once, and only from the worker that held the run.

        Raise ValueError if plain results cannot be read.
        """
        plain = decode_records(report.plain)
        if len(plain.tokens) != len(report.plain_tasks):
            raise ValueError(f"{len(plain.tokens)} plain results of {len(report.plain_tasks)} tasks")
        worker = report.worker
        effect = RunReportEffect([], [], [], [], PlainResults([], [], []))
        for token, _, when in report.starts:
            item = self.open.get(token)
            if item is not None and item.lease.worker in ("", worker):
                item.started = when
                effect.starts.append((token, when))
        for task, result in report.results:
            if self._counts(worker, result.token):
                effect.results.append(result)
            else:
                self._take_repeated(worker, task, result, effect)
        self._take_plain(worker, report.plain_tasks, plain, effect)
        return effect

    def _take_plain(self, worker: str, tasks: list[int], reported: PlainResults, effect: RunReportEffect) -> None:
        counting = [i for i, token in enumerate(reported.tokens) if self._counts(worker, token)]
        if len(counting) == len(reported.tokens):
            for column, more in zip(effect.plain, reported, strict=True):
                column.extend(more)
            return
        for column, more in zip(effect.plain, reported, strict=True):
            column.extend([more[i] for i in counting])
        first_time = set(counting)
        for i, (task, result) in enumerate(zip(tasks, full_results(reported), strict=True)):
            if i not in first_time:
                self._take_repeated(worker, task, result, effect)

    def _counts(self, worker: str, token: int) -> bool:
        """Is this the first result of a run that this worker holds? It is being stored from now on."""
        item = self.open.get(token)
        if item is None or item.lease.worker not in ("", worker):
            return False
        self.remove(item)
        self._being_stored[token] = worker
        return True

    def _take_repeated(self, worker: str, task: int, result: RunResult, effect: RunReportEffect) -> None:
        token = result.token
        if self._being_stored.get(token) == worker:
            return
        if self._recall(token) == worker:
            effect.safe.append(token)
        elif token in self.open or token in self._being_stored or self._owns(task):
            self._stored[token] = worker
            effect.safe.append(token)
            effect.late.append((task, result))

    def mark_stored(self, tokens: Sequence[int], now: int) -> dict[str, list[int]]:
        """These are in the store: who is to be told."""
        if now - self._rotated_at > _STORED_REMEMBERED_FOR or len(self._stored) > _MAX_REMEMBERED:
            self._stored_before, self._stored, self._rotated_at = self._stored, {}, now
        workers: dict[str, list[int]] = {}
        for token in tokens:
            worker = self._being_stored.pop(token, None)
            if worker is not None:
                self._stored[token] = worker
                workers.setdefault(worker, []).append(token)
        return workers

    def take_lost(self, now: int) -> list[HandedOverRun]:
        """Runs whose workers are gone; they are not open any more."""
        longest = now - run_lease.RUN_LEASE_DURATION
        silent = [item for item in self.open.values() if item.lease.renewed_at <= longest]
        found = [item for item in silent if run_lease.run_fate(item.lease, now) == RunFate.LOST]
        for item in found:
            self.remove(item)
        return found

    def _recall(self, token: int) -> str | None:
        return self._stored.get(token) or self._stored_before.get(token)

    def _unlink(self, item: HandedOverRun) -> None:
        granted_tokens = self._granted.get(item.lease.worker)
        if granted_tokens is not None:
            granted_tokens.discard(item.token)
            if not granted_tokens:
                del self._granted[item.lease.worker]
