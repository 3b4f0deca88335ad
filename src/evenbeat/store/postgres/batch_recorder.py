"""Records batches in PostgreSQL: one statement for all rows of a kind, and whatever waits is committed together, in one
round trip.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import psycopg

from evenbeat.store.common.batch_rows import with_distinct_tasks
from evenbeat.store.common.group_writer import GroupRefused, GroupWriter
from evenbeat.store.contract import (
    NONE_WITHDRAWN,
    Batch,
    Claim,
    Finish,
    Refusal,
    Skip,
    StoreError,
    SubmittedResult,
    WithdrawnTasks,
)
from evenbeat.store.postgres.connect import PostgresAddress, is_lost
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.text import numbers, texts
from evenbeat.store.postgres.write_session import RECOVERY_TIMEOUT, ConfirmedCommits, SessionLease, WriteSession
from evenbeat.store.problem_records import ProblemChange

_TRIES: Final = 3
_OUTPUT_OF_FINISH = Finish._fields.index("output")
_CURSOR = Finish._fields.index("cursor")
_OUTPUT_OF_RESULT = SubmittedResult._fields.index("output")
_REASON_OF_SKIP = Skip._fields.index("reason")
_REASON_OF_REFUSAL = Refusal._fields.index("reason")
_REASON_OF_CHANGE = ProblemChange._fields.index("reason")


class Statement(NamedTuple):
    """A statement and its parameters."""

    text: str
    values: Sequence[object]
    claims: Sequence[Claim] = ()
    """The claims that it makes; it returns the tasks that were removed before."""


class LeasedBatches(NamedTuple):
    """Batches to record, all or none."""

    batches: Sequence[Batch]
    held: SessionLease | None
    """The lease that was held when they were submitted: what was decided under one lease is void under another."""


class BatchRecorder:
    """The session that records; `changes` takes batches from any thread."""

    def __init__(self, address: PostgresAddress, confirmed: ConfirmedCommits) -> None:
        self._address = address
        self.session = WriteSession(address, confirmed, by_key=True)
        self._closed_at: float | None = None
        self.changes: GroupWriter[LeasedBatches, WithdrawnTasks] = GroupWriter(
            address, self._commit, group_key=lambda work: work.held
        )

    def close(self) -> None:
        """Record everything that was submitted, then stop."""
        if self._closed_at is None:
            self._closed_at = time.monotonic()
        self.changes.close()
        self.session.drop()

    def _commit(self, works: list[LeasedBatches]) -> list[WithdrawnTasks]:
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


def batch_statements(batch: Batch) -> Iterator[Statement]:
    """The statements of a batch, in the order of the contract."""
    if batch.starts:
        yield Statement(query("start"), _columns(batch.starts))
    if batch.finishes:
        yield from _finish(batch.finishes)
    for submitted in with_distinct_tasks(batch.told):
        yield Statement(query("submit"), _columns(submitted, _OUTPUT_OF_RESULT))
    for records in with_distinct_tasks(batch.standings):
        yield Statement(query("record_progress"), _columns(records))
    for skips in with_distinct_tasks(batch.skips):
        yield Statement(query("skip"), _columns(skips, _REASON_OF_SKIP))
    for refusals in with_distinct_tasks(batch.refusals):
        yield Statement(query("refuse"), _columns(refusals, _REASON_OF_REFUSAL))
    if batch.claims:
        yield Statement(query("claim"), _columns(batch.claims), batch.claims)
    if batch.settled:
        yield Statement(query("settle_definitions"), _columns(batch.settled))
    if batch.problems:
        yield Statement(query("lock_problems"), ())
    for changes in with_distinct_tasks(batch.problems):
        columns = _columns(changes, _REASON_OF_CHANGE)
        for name in ("supersede_problems", "change_problems", "add_problems"):
            yield Statement(query(name), columns)


def _columns(rows: Sequence[tuple[object, ...]], text: int = -1) -> list[str]:
    """One array per column; `text` is the index of the column that holds arbitrary texts."""
    return [texts(column) if i == text else numbers(column) for i, column in enumerate(zip(*rows, strict=True))]


def _finish(finishes: Sequence[Finish]) -> Iterator[Statement]:
    columns = list(zip(*finishes, strict=True))
    arrays = [
        texts(column) if i == _OUTPUT_OF_FINISH else numbers(column) for i, column in enumerate(columns) if i != _CURSOR
    ]
    yield Statement(query("finish"), arrays)
    saved = [(finish.task, finish.cursor) for finish in finishes if finish.cursor is not None]
    if saved:
        yield Statement(query("save_cursors"), [[task for task, _ in saved], [cursor for _, cursor in saved]])
