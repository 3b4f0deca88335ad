"""The part of the PostgreSQL store that alerts need, see `alert_contract`, and the problems that have changed."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Final

from evenbeat.store.alert_records import (
    ALL_DECISIONS,
    ALL_MESSAGES,
    WAITING,
    AlertBatch,
    AlertDecisionFilter,
    AlertProblem,
    AlertRecord,
    AlertRefusals,
    MessageFilter,
    MessageRecord,
    NumberedDecision,
    ProblemKey,
)
from evenbeat.store.cluster_contract import ChangedProblems, ProblemRevision
from evenbeat.store.common import alert_rows
from evenbeat.store.common.alert_refusals import check_alert_batch
from evenbeat.store.common.problem_ids import possible_ids
from evenbeat.store.contract import FOREVER, StoreError
from evenbeat.store.postgres import rows
from evenbeat.store.postgres.alert_filters import decision_conditions, message_conditions
from evenbeat.store.postgres.base import PostgresBase
from evenbeat.store.postgres.batch_recorder import LeasedAlerts
from evenbeat.store.postgres.connect import Connection
from evenbeat.store.postgres.statements import fill_in, query
from evenbeat.store.postgres.text import numbers, texts

_OPEN: Final = """p.id IN (
    SELECT id FROM problems WHERE closed IS NULL UNION SELECT problem FROM alerts WHERE NOT is_over
) AND (
    (p.closed IS NULL AND t.removed IS NULL)
    OR EXISTS (SELECT FROM alerts o WHERE o.problem = p.id AND NOT o.is_over)
)"""
_CHANGED: Final = """p.id IN (
    SELECT id FROM problems
    WHERE changed_by >= %s AND changed_by < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    UNION SELECT o.id FROM tasks c JOIN problems o ON o.task = c.number AND o.closed IS NULL WHERE c.stamp > %s
)"""
"""Transactions have larger numbers in a database that was restored from a dump: those say nothing here."""


class PostgresAlertStore(PostgresBase):
    """Keeps alerts, decisions and messages."""

    def problem_ids(self, keys: Sequence[ProblemKey]) -> list[int | None]:
        if not keys:
            return []
        tasks, causes, opened = zip(*keys, strict=True)
        found: dict[int, int] = dict(
            self._readers.all(query("problem_ids"), (numbers(tasks), texts(causes), numbers(opened)))
        )
        return [found.get(place) for place in range(1, len(keys) + 1)]

    def open_alert_problems(self) -> Iterator[tuple[AlertProblem, list[AlertRecord]]]:
        found = self._readers.many(fill_in("alert_problems", ":filter", _OPEN))
        return alert_rows.alert_problems(map(rows.plain, found))

    def alert_problems(self, ids: Sequence[int]) -> list[tuple[AlertProblem, list[AlertRecord]]]:
        found = self._readers.all(fill_in("alert_problems", ":filter", "p.id = ANY(%s)"), (possible_ids(ids),))
        return list(alert_rows.alert_problems(map(rows.plain, found)))

    def record_alerts(self, batch: AlertBatch) -> Future[AlertRefusals]:
        try:
            check_alert_batch(batch)
        except StoreError as e:
            refused: Future[AlertRefusals] = Future()
            refused.set_exception(e)
            return refused
        return self._record().alerts(LeasedAlerts(batch, self._held))

    def reserve_messages(self, count: int) -> int:
        def work(connection: Connection) -> int:
            ((first,),) = connection.execute(query("reserve_messages"), {"count": count}).fetchall()
            return int(first)

        return self._writers.transaction(work)

    def alerts(self, problem: int) -> list[AlertRecord]:
        found = self._readers.all(query("alerts"), (possible_ids([problem]),))
        return [alert_rows.alert_record(rows.plain(row)) for row in found]

    def alert_decisions(self, only: AlertDecisionFilter = ALL_DECISIONS) -> list[NumberedDecision]:
        condition, values = decision_conditions(only)
        found = self._readers.all(fill_in("alert_decisions", ":filter", condition), [*values, only.most])
        return [alert_rows.numbered_decision(rows.plain(row)) for row in found]

    def messages(self, only: MessageFilter = ALL_MESSAGES) -> list[MessageRecord]:
        condition, values = message_conditions(only)
        found = self._readers.all(fill_in("messages", ":filter", condition), [*values, only.most])
        return [alert_rows.message_record(rows.plain(row)) for row in found]

    def unfinished_messages(self) -> list[MessageRecord]:
        return self.messages(MessageFilter(state=WAITING, most=FOREVER))[::-1]

    def message_document(self, id_: int) -> bytes | None:
        found = self._readers.all(query("message_document"), (possible_ids([id_]),))
        return b"".join(document for (document,) in found) if found else None

    # Problems of all partitions

    def problem_revision(self) -> ProblemRevision:
        """The present revision."""
        return ProblemRevision(*self._readers.all(query("problem_revision"))[0])

    def problems_changed_since(self, since: ProblemRevision) -> ChangedProblems:
        """The problems that have changed since a revision, by id."""
        # The revision first: a change between the two reads is returned twice, but never missed.
        ((revision,), found) = self._readers.pipelined(
            (query("problem_revision"), ()), (fill_in("alert_problems", ":filter", _CHANGED), since)
        )
        problems = alert_rows.alert_problems(map(rows.plain, found))
        return ChangedProblems(ProblemRevision(*revision), [problem for problem, _ in problems])
