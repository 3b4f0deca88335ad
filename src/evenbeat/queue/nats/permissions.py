"""The books of a node: which runs are out, who has their permission, whose results are being stored.

The decisions are `core.run_lease`'s; this is only where they are written down. Times are on the node's own clock.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from evenbeat.core import run_lease
from evenbeat.core.run_lease import RunFate, RunLease
from evenbeat.model import SECOND
from evenbeat.queue.nats.batches import HandedOverRun
from evenbeat.wire.cluster_messages import RunReport, StartRequest, WorkerStatus
from evenbeat.wire.worker_frames import RunResult

_STORED_REMEMBERED_FOR: Final = 6 * SECOND
"""A result that was stored is known so long at least: a worker that tells it again has not heard of it."""
_MAX_REMEMBERED: Final = 200_000


class WorkerStatusEffect(NamedTuple):
    """What the tidings of a worker come to."""

    renewed: list[int]
    not_ours: list[int]
    to_cancel: list[int]
    reopened: list[HandedOverRun]


class RunReportEffect(NamedTuple):
    """What a report comes to."""

    starts: list[tuple[int, int]]
    results: list[RunResult]
    safe: list[int]
    """Tokens whose results nobody waits for any more."""
    late: list[tuple[int, RunResult]]


class HandedOverRuns:
    """Every run that was handed over or adopted, until its result is stored."""

    def __init__(self, owns: Callable[[int], bool]) -> None:
        self._owns = owns
        self.open: dict[int, HandedOverRun] = {}
        self._given: dict[str, set[int]] = {}
        """What each worker has the permission for."""
        self._being_stored: dict[int, str] = {}
        """Results that are on their way into the store, and who told them."""
        self._stored: dict[int, str] = {}
        self._stored_before: dict[int, str] = {}
        self._turned = 0

    def remove(self, item: HandedOverRun) -> None:
        """It is over, or no business of ours any more."""
        self.open.pop(item.token, None)
        self._unlink(item)

    def forget(self, tokens: Sequence[int]) -> list[HandedOverRun]:
        """Another node has them; those that were open."""
        for token in tokens:
            self._being_stored.pop(token, None)
        found = [self.open[token] for token in tokens if token in self.open]
        for item in found:
            self.remove(item)
        return found

    def grant(self, question: StartRequest, now: int) -> tuple[list[HandedOverRun], list[int]]:
        """What the worker that asks may start, and what it must forget."""
        granted: list[HandedOverRun] = []
        refused: list[int] = []
        for token, task in question.runs:
            item = self.open.get(token)
            hand = None if item is None else run_lease.granted_lease(item.lease, question.worker, question.asked, now)
            if item is not None and hand is not None:
                item.lease = hand
                granted.append(item)
            elif item is not None or token in self._being_stored or self._owns(task):
                refused.append(token)
        if granted:
            self._given.setdefault(question.worker, set()).update(item.token for item in granted)
        return granted, refused

    def apply_status(self, tidings: WorkerStatus, now: int) -> WorkerStatusEffect:
        """What a worker has: renewed, or not its own; and what it has the permission for and will not use."""
        worker = tidings.worker
        told = WorkerStatusEffect([], [], [], [])
        for token, task in tidings.held:
            item = self.open.get(token)
            hand = None if item is None else run_lease.renewed_lease(item.lease, worker, now)
            if item is not None and hand is not None:
                if item.lease.worker != worker:
                    self._given.setdefault(worker, set()).add(token)
                item.lease = hand
                told.renewed.append(token)
                if item.is_cancelled:
                    told.to_cancel.append(token)
            elif item is not None or (
                self._being_stored[token] != worker if token in self._being_stored else self._owns(task)
            ):
                told.not_ours.append(token)
        if given := self._given.get(worker):
            for token in given.difference([token for token, _ in tidings.held]):
                item = self.open[token]
                if run_lease.was_never_started(item.lease, worker, tidings.settled):
                    self._unlink(item)
                    item.lease = RunLease()
                    told.reopened.append(item)
        return told

    def apply_report(self, report: RunReport) -> RunReportEffect:
        """What has started and ended; each result counts once, and only from who had the run."""
        worker = report.worker
        reported = RunReportEffect([], [], [], [])
        for token, _, when in report.starts:
            item = self.open.get(token)
            if item is not None and item.lease.worker in ("", worker):
                item.started = when
                reported.starts.append((token, when))
        for task, result in report.results:
            token = result.token
            item = self.open.get(token)
            if item is not None and item.lease.worker in ("", worker):
                self.remove(item)
                self._being_stored[token] = worker
                reported.results.append(result)
            elif self._being_stored.get(token) == worker:
                continue
            elif self._recall(token) == worker:
                reported.safe.append(token)
            elif item is not None or token in self._being_stored or self._owns(task):
                self._stored[token] = worker
                reported.safe.append(token)
                reported.late.append((task, result))
        return reported

    def mark_stored(self, tokens: Sequence[int], now: int) -> dict[str, list[int]]:
        """These are in the store: who is to be told."""
        if now - self._turned > _STORED_REMEMBERED_FOR or len(self._stored) > _MAX_REMEMBERED:
            self._stored_before, self._stored, self._turned = self._stored, {}, now
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
        given = self._given.get(item.lease.worker)
        if given is not None:
            given.discard(item.token)
            if not given:
                del self._given[item.lease.worker]
