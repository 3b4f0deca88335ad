"""The one thread of a store that records in PostgreSQL: whatever waits is committed together, in one round trip."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

import psycopg

from evenbeat.store.contract import NONE_WITHDRAWN, Batch, StoreError, WithdrawnTasks
from evenbeat.store.postgres.batch_statements import Statement, batch_statements
from evenbeat.store.postgres.connect import PostgresAddress, is_lost
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.write_session import RECOVERY_TIMEOUT, ConfirmedCommits, SessionLease, WriteSession

_MOST_TOGETHER: Final = 64
"""Calls of `record` in one commit: enough to share its cost, few enough that the first does not wait long."""
_TRIES: Final = 3


class _WaitingBatches(NamedTuple):
    batches: Sequence[Batch]
    future: Future[WithdrawnTasks]
    held: SessionLease | None
    """The lease that was held when it was submitted: what was decided under one is nothing under another."""


class _PreparedBatches(NamedTuple):
    statements: list[Statement]
    future: Future[WithdrawnTasks]
    held: SessionLease | None


class BatchRecorder:
    """Takes batches from any thread and records them in the order they came."""

    def __init__(
        self, address: PostgresAddress, held: Callable[[], SessionLease | None], confirmed: ConfirmedCommits
    ) -> None:
        """`held` says what lease must be there, if any."""
        self._address = address
        self._held = held
        self.session = WriteSession(address, confirmed, by_key=True)
        self._jobs: queue.SimpleQueue[_WaitingBatches | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed_at: float | None = None
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name="evenbeat store", daemon=True)
        self._thread.start()

    def submit(self, batches: Sequence[Batch]) -> Future[WithdrawnTasks]:
        """Done when they are durable."""
        future: Future[WithdrawnTasks] = Future()
        with self._closing:
            if self._closed_at is not None:
                raise StoreError(f"{self._address}: the store is closed")
            self._jobs.put(_WaitingBatches(batches, future, self._held()))
        return future

    def close(self) -> None:
        """Record everything that was submitted, then stop."""
        with self._closing:
            if self._closed_at is None:
                self._closed_at = time.monotonic()
                self._jobs.put(None)
        self._thread.join()
        self.session.drop()

    def _run(self) -> None:
        is_open = True
        while is_open:
            jobs: list[_PreparedBatches] = []
            job = self._jobs.get()
            while job is not None:
                if jobs and jobs[0].held != job.held:
                    self._commit(jobs)
                    jobs = []
                # From now on it cannot be cancelled; one that was is not recorded.
                if job.future.set_running_or_notify_cancel():
                    jobs += _ready(job)
                if len(jobs) >= _MOST_TOGETHER or self._jobs.empty():
                    break
                job = self._jobs.get()
            is_open = job is not None
            if jobs:
                self._commit(jobs)
                # What was recorded is no longer ours to hold while we wait.
                jobs, job = [], None

    def _commit(self, jobs: list[_PreparedBatches]) -> None:
        """All in one transaction. If that fails, each in its own, so that one that cannot be kept harms no other."""
        try:
            withdrawn = self._keep(jobs)
        except psycopg.Error as e:
            if len(jobs) > 1:
                for job in jobs:
                    self._commit([job])
            else:
                jobs[0].future.set_exception(self._address.explain(e))
        except Exception as e:
            for job in jobs:
                job.future.set_exception(e)
        else:
            self.commits += 1
            for job, some in zip(jobs, withdrawn, strict=True):
                job.future.set_result(some)

    def _keep(self, jobs: list[_PreparedBatches]) -> list[WithdrawnTasks]:
        """Commit them; of each the tasks whose claims were not kept, because they had been removed."""
        for _ in range(_TRIES):
            connection, number, held = self.session.connection(), self.session.next_number(), jobs[0].held
            try:
                self.session.be_called(held)
                # What is sent until the pipeline ends is one transaction, and the server answers at its end.
                with connection.pipeline():
                    self.session.begin(connection, number, held)
                    answers = [[connection.execute(s.text, s.values, prepare=True) for s in j.statements] for j in jobs]
                withdrawn = [_withdrawn(job, some) for job, some in zip(jobs, answers, strict=True)]
            except psycopg.Error as e:
                self.session.recover(e)
                if not is_lost(e):
                    raise
                if not self.session.was_kept(number, self._deadline):
                    continue
                withdrawn = [self._not_claimed(job) for job in jobs]
            self.session.transaction_confirmed(number, held)
            return withdrawn
        raise StoreError(f"{self._address}: the connection was lost {_TRIES} times in a row; nothing was kept")

    def _not_claimed(self, job: _PreparedBatches) -> WithdrawnTasks:
        """The same of a job that was kept, but whose answer got lost: none of its runs has been started yet."""
        claims = [claim for statement in job.statements for claim in statement.claims]
        if not claims:
            return NONE_WITHDRAWN
        tasks = [claim.task for claim in claims]
        connection = self.session.connection()
        found = connection.execute(query("claimed_by"), (tasks, [claim.token for claim in claims]))
        return frozenset(tasks) - {task for (task,) in found}

    def _deadline(self) -> float:
        """What was sent and not answered is waited for as long as the store is open."""
        return float("inf") if self._closed_at is None else max(self._closed_at, 0.0) + RECOVERY_TIMEOUT


def _withdrawn(job: _PreparedBatches, answers: Sequence[psycopg.Cursor[tuple[Any, ...]]]) -> WithdrawnTasks:
    made = [answer for statement, answer in zip(job.statements, answers, strict=True) if statement.claims]
    return frozenset(task for answer in made for (task,) in answer.fetchall()) if made else NONE_WITHDRAWN


def _ready(job: _WaitingBatches) -> list[_PreparedBatches]:
    try:
        return [
            _PreparedBatches(
                [statement for batch in job.batches for statement in batch_statements(batch)], job.future, job.held
            )
        ]
    except Exception as e:
        job.future.set_exception(e)
        return []
