"""Records batches in PostgreSQL: one statement for all rows of a kind, and whatever waits is committed together, in one
round trip.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

import psycopg

from evenbeat.store.alert_records import AlertBatch, AlertRefusals
from evenbeat.store.chain_records import ChainEnd
from evenbeat.store.common.alert_refusals import without_refused
from evenbeat.store.common.batch_rows import with_distinct_tasks
from evenbeat.store.common.group_writer import GroupRefused, GroupWriter
from evenbeat.store.contract import (
    NONE_WITHDRAWN,
    Batch,
    Claim,
    Finish,
    Refusal,
    Returned,
    RunStop,
    Skip,
    StoreError,
    SubmittedResult,
    WithdrawnTasks,
)
from evenbeat.store.postgres.alert_changes import ask, known, lock_contacts, write
from evenbeat.store.postgres.connect import PostgresAddress, is_lost
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.text import numbers, one_value, texts
from evenbeat.store.postgres.write_session import RECOVERY_TIMEOUT, ConfirmedCommits, SessionLease, WriteSession
from evenbeat.store.problem_records import ProblemChange, ProblemHold

_TRIES: Final = 3
_OUTPUT_OF_RESULT = SubmittedResult._fields.index("output")
_REASON_OF_SKIP = Skip._fields.index("reason")
_REASON_OF_REFUSAL = Refusal._fields.index("reason")
_REASON_OF_CHANGE = ProblemChange._fields.index("reason")
_WORDS_OF_STOP = RunStop._fields.index("by")
_HOLD_OF_HOLD = ProblemHold._fields.index("hold")


class Statement(NamedTuple):
    """A statement and its parameters."""

    text: str
    values: Sequence[object] | Mapping[str, object]
    claims: Sequence[Claim] = ()
    """The claims that it makes; it returns the tasks that were removed before."""


class LeasedBatches(NamedTuple):
    """Batches to record, all or none."""

    batches: Sequence[Batch]
    held: SessionLease | None
    """The lease that was held when they were submitted: what was decided under one lease is void under another."""


class LeasedAlerts(NamedTuple):
    """An alert batch to record, under the lease that was held when it was submitted."""

    batch: AlertBatch
    held: SessionLease | None


class BatchRecorder:
    """The session that records; `changes` takes batches from any thread.

    Alert batches take a round trip more, as what is kept of one depends on what the database has; so they are
    committed together with each other, and not with other batches.
    """

    def __init__(self, address: PostgresAddress, confirmed: ConfirmedCommits) -> None:
        self._address = address
        self.session = WriteSession(address, confirmed, by_key=True)
        self._closed_at: float | None = None
        self.changes: GroupWriter[LeasedBatches | LeasedAlerts, Any] = GroupWriter(
            address, self._commit, group_key=lambda work: (type(work), work.held)
        )

    def close(self) -> None:
        """Record everything that was submitted, then stop."""
        if self._closed_at is None:
            self._closed_at = time.monotonic()
        self.changes.close()
        self.session.drop()

    def alerts(self, work: LeasedAlerts) -> Future[AlertRefusals]:
        """The future of an alert batch."""
        return self.changes.submit(work)

    def _commit(self, works: list[LeasedBatches | LeasedAlerts]) -> Sequence[WithdrawnTasks | AlertRefusals]:
        # A batch with values that cannot be sent fails here, before anything is sent.
        jobs = [
            [statement for batch in work.batches for statement in batch_statements(batch)]
            for work in works
            if isinstance(work, LeasedBatches)
        ]
        alerts = [work.batch for work in works if isinstance(work, LeasedAlerts)]
        try:
            return self._keep_alerts(alerts, works[0].held) if alerts else self._keep(jobs, works[0].held)
        except psycopg.Error as e:
            raise self._address.explain(e) from e
        except (TypeError, ValueError):
            raise  # values of an alert batch that cannot be sent: the others are committed without it
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

    def _keep_alerts(self, batches: list[AlertBatch], held: SessionLease | None) -> list[AlertRefusals]:
        """Commit several alert batches, in their order; return what was not kept of each."""
        for _ in range(_TRIES):
            connection, number = self.session.connection(), self.session.next_number()
            refusals: list[AlertRefusals] = []
            try:
                self.session.name_connection(held)
                with connection.pipeline():
                    connection.execute("BEGIN")
                    self.session.begin(connection, number, held)
                    lock_contacts(connection, batches)
                    asked = ask(connection, batches[0])
                for following in (*batches[1:], None):
                    batch, refused = without_refused(batches[len(refusals)], known(connection, asked))
                    refusals.append(refused)
                    with connection.pipeline():
                        write(connection, batch)
                        if following is None:
                            connection.execute("COMMIT")
                        else:
                            asked = ask(connection, following)
            except psycopg.Error as e:
                self.session.recover(e)
                if not is_lost(e):
                    raise
                if len(refusals) < len(batches) or not self.session.was_kept(number, self._deadline):
                    continue
            except BaseException:
                self.session.roll_back()
                raise
            self.session.transaction_confirmed(number, held)
            return refusals
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
        yield from _finish(batch.finishes, batch.returned)
    if batch.cursors:
        yield _save_cursors(dict(batch.cursors))
    for submitted in with_distinct_tasks(batch.told):
        yield Statement(query("submit"), _columns(submitted, _OUTPUT_OF_RESULT))
    for records in with_distinct_tasks(batch.standings):
        yield Statement(query("record_progress"), _columns(records))
    for skips in with_distinct_tasks(batch.skips):
        yield Statement(query("skip"), _columns(skips, _REASON_OF_SKIP))
    for refusals in with_distinct_tasks(batch.refusals):
        yield Statement(query("refuse"), _columns(refusals, _REASON_OF_REFUSAL))
    if batch.claims:
        yield Statement(query("claim"), _named_columns(Claim._fields, batch.claims), batch.claims)
    if batch.settled:
        yield Statement(query("settle_definitions"), _columns(batch.settled))
    if batch.stops:
        yield Statement(query("stop_runs"), _columns(batch.stops, _WORDS_OF_STOP))
    yield from (Statement(query("add_output"), output) for output in batch.outputs)
    if batch.problems or batch.holds:
        yield from _problems(batch)
    yield from _chains(batch)


def _problems(batch: Batch) -> Iterator[Statement]:
    yield Statement(query("lock_problems"), ())
    for changes in with_distinct_tasks(batch.problems):
        columns = _columns(changes, _REASON_OF_CHANGE)
        for name in ("supersede_problems", "change_problems", "add_problems"):
            yield Statement(query(name), columns)
    for holds in with_distinct_tasks(batch.holds):
        yield Statement(query("hold_problems"), _columns(holds, _HOLD_OF_HOLD))


def _chains(batch: Batch) -> Iterator[Statement]:
    if batch.chain_ends:
        latest = {(end.task, end.succeeded): end for end in batch.chain_ends}
        yield Statement(query("keep_chain_ends"), _named_columns(ChainEnd._fields, list(latest.values())))
    if not batch.chain_uses:
        return
    uses = dict(batch.chain_uses)
    kept = {task: used for task, used in uses.items() if used}
    yield Statement(query("forget_chain_uses"), [sorted(uses.keys() - kept.keys())])
    yield Statement(query("keep_chain_uses"), [list(kept), list(kept.values())])


def _columns(rows: Sequence[tuple[object, ...]], text: int = -1) -> list[str]:
    """One array per column; `text` is the index of the column that holds arbitrary texts."""
    return [texts(column) if i == text else numbers(column) for i, column in enumerate(zip(*rows, strict=True))]


def _named_columns(
    names: Sequence[str], rows: Sequence[tuple[object, ...]], text: str = "", but: str = ""
) -> dict[str, object]:
    """One array per column, by its name; of a column whose values are all the same, one value instead.

    The server reads an array value by value, and most columns of a batch have one value. The first column is always an
    array: it says how many rows there are. `text` is the column that holds arbitrary texts, `but` one that is omitted.
    """
    columns: dict[str, object] = {}
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        if name == but:
            continue
        first = column[0]
        is_same = name != names[0] and column.count(first) == len(column)
        columns[f"same_{name}"] = one_value(first) if is_same else None
        columns[name] = "{}" if is_same else texts(column) if name == text else numbers(column)
    return columns


def _finish(finishes: Sequence[Finish], returned: Sequence[Returned]) -> Iterator[Statement]:
    yield Statement(query("finish"), _named_columns(Finish._fields, finishes, text="output", but="cursor"))
    if returned:
        yield Statement(query("keep_returned"), [list(column) for column in zip(*returned, strict=True)])
    if saved := {finish.task: finish.cursor for finish in finishes if finish.cursor is not None}:
        yield _save_cursors(saved)


def _save_cursors(cursors: Mapping[int, bytes | None]) -> Statement:
    return Statement(query("save_cursors"), [list(cursors), list(cursors.values())])
