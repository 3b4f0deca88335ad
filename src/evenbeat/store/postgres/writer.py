"""Records batches in PostgreSQL: whatever waits is committed together, in one round trip."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

import psycopg

from evenbeat.store.common.group_writer import GroupRefused, GroupWriter
from evenbeat.store.contract import NONE_WITHDRAWN, Batch, StoreError, WithdrawnTasks
from evenbeat.store.postgres.batch_statements import Statement, batch_statements
from evenbeat.store.postgres.connect import PostgresAddress, is_lost
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.write_session import RECOVERY_TIMEOUT, ConfirmedCommits, SessionLease, WriteSession

_TRIES: Final = 3


class _LeasedBatches(NamedTuple):
    batches: Sequence[Batch]
    held: SessionLease | None
    """The lease that was held when they were submitted: what was decided under one lease is void under another."""


class BatchRecorder:
    """Takes batches from any thread and records them in the order in which they came."""

    def __init__(
        self, address: PostgresAddress, held: Callable[[], SessionLease | None], confirmed: ConfirmedCommits
    ) -> None:
        """`held` returns the lease that must exist when batches are recorded, if any."""
        self._address = address
        self._held = held
        self.session = WriteSession(address, confirmed, by_key=True)
        self._closed_at: float | None = None
        self._group: GroupWriter[_LeasedBatches, WithdrawnTasks] = GroupWriter(
            address, self._commit, group_key=lambda work: work.held
        )

    def submit(self, batches: Sequence[Batch]) -> Future[WithdrawnTasks]:
        """The future of batches: done when they are durable. Raise StoreError after `close`."""
        return self._group.submit(_LeasedBatches(batches, self._held()))

    def close(self) -> None:
        """Record everything that was submitted, then stop."""
        if self._closed_at is None:
            self._closed_at = time.monotonic()
        self._group.close()
        self.session.drop()

    def _commit(self, works: list[_LeasedBatches]) -> list[WithdrawnTasks]:
        # A batch with values that cannot be sent fails here, before anything is sent.
        jobs = [[statement for batch in work.batches for statement in batch_statements(batch)] for work in works]
        try:
            return self._keep(jobs, works[0].held)
        except psycopg.Error as e:
            raise self._address.explain(e) from e
        except Exception as e:
            raise GroupRefused(e) from e

    def _keep(self, jobs: list[list[Statement]], held: SessionLease | None) -> list[WithdrawnTasks]:
        """Commit the statements of several calls; return of each call the tasks that were removed before its claims."""
        for _ in range(_TRIES):
            connection, number = self.session.connection(), self.session.next_number()
            try:
                self.session.name_connection(held)
                # What is sent until the pipeline ends is one transaction, and the server answers at its end.
                with connection.pipeline():
                    self.session.begin(connection, number, held)
                    answers = [[connection.execute(s.text, s.values, prepare=True) for s in job] for job in jobs]
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

    def _not_claimed(self, job: Sequence[Statement]) -> WithdrawnTasks:
        """The tasks whose claims were not kept, when the answer was lost. None of their runs has been started yet."""
        claims = [claim for statement in job for claim in statement.claims]
        if not claims:
            return NONE_WITHDRAWN
        tasks = [claim.task for claim in claims]
        connection = self.session.connection()
        found = connection.execute(query("claimed_by"), (tasks, [claim.token for claim in claims]))
        return frozenset(tasks) - {task for (task,) in found}

    def _deadline(self) -> float:
        """Until when to wait for a lost answer: for as long as the store is open, and a while after."""
        return float("inf") if self._closed_at is None else max(self._closed_at, 0.0) + RECOVERY_TIMEOUT


def _withdrawn(job: Sequence[Statement], answers: Sequence[psycopg.Cursor[tuple[Any, ...]]]) -> WithdrawnTasks:
    made = [answer for statement, answer in zip(job, answers, strict=True) if statement.claims]
    return frozenset(task for answer in made for (task,) in answer.fetchall()) if made else NONE_WITHDRAWN
