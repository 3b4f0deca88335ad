"""The part of the SQLite store that alerts need, see `alert_contract`."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
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
from evenbeat.store.common import alert_rows
from evenbeat.store.common.alert_refusals import check_alert_batch
from evenbeat.store.common.problem_ids import possible_ids
from evenbeat.store.contract import FOREVER, StoreError
from evenbeat.store.sqlite.alert_changes import record_alerts, reserve_messages
from evenbeat.store.sqlite.alert_filters import (
    decision_conditions,
    decisions_source,
    message_conditions,
    messages_source,
)
from evenbeat.store.sqlite.base import SqliteBase
from evenbeat.store.sqlite.statements import as_list, fill_in, query

_OPEN: Final = """p.id IN (
    SELECT id FROM problems INDEXED BY problems_open WHERE closed IS NULL
    UNION SELECT problem FROM alerts INDEXED BY alerts_not_over WHERE NOT is_over
) AND (
    (p.closed IS NULL AND t.removed IS NULL)
    OR EXISTS (SELECT 1 FROM alerts o WHERE o.problem = p.id AND NOT o.is_over)
)"""


class SqliteAlertStore(SqliteBase):
    """Keeps alerts, decisions and messages."""

    def problem_ids(self, keys: Sequence[ProblemKey]) -> list[int | None]:
        found: dict[int, int] = dict(self._select(query("problem_ids"), (as_list(keys),)))
        return [found.get(i) for i in range(len(keys))]

    def open_alert_problems(self) -> Iterator[tuple[AlertProblem, list[AlertRecord]]]:
        return alert_rows.alert_problems(self._select(fill_in("alert_problems", ":filter", _OPEN)))

    def alert_problems(self, ids: Sequence[int]) -> list[tuple[AlertProblem, list[AlertRecord]]]:
        statement = fill_in("alert_problems", ":filter", "p.id IN (SELECT value FROM json_each(?))")
        return list(alert_rows.alert_problems(self._select(statement, (as_list(possible_ids(ids)),))))

    def record_alerts(self, batch: AlertBatch) -> Future[AlertRefusals]:
        try:
            check_alert_batch(batch)
        except StoreError as e:
            refused: Future[AlertRefusals] = Future()
            refused.set_exception(e)
            return refused
        return self.writer.changes.submit(partial(record_alerts, batch=batch))

    def reserve_messages(self, count: int) -> int:
        return self._do(partial(reserve_messages, count=count))

    def alerts(self, problem: int) -> list[AlertRecord]:
        found = self._select(query("alerts"), (as_list(possible_ids([problem])),))
        return list(self._converted(alert_rows.alert_record, found))

    def alert_decisions(self, only: AlertDecisionFilter = ALL_DECISIONS) -> list[NumberedDecision]:
        condition, values = decision_conditions(only)
        statement = fill_in("alert_decisions", ":filter", condition).replace(":decisions", decisions_source(only))
        return list(self._converted(alert_rows.numbered_decision, self._select(statement, [*values, only.most])))

    def messages(self, only: MessageFilter = ALL_MESSAGES) -> list[MessageRecord]:
        condition, values = message_conditions(only)
        statement = fill_in("messages", ":filter", condition).replace(":messages", messages_source(only))
        return list(self._converted(alert_rows.message_record, self._select(statement, [*values, only.most])))

    def unfinished_messages(self) -> list[MessageRecord]:
        return self.messages(MessageFilter(state=WAITING, most=FOREVER))[::-1]

    def message_document(self, id_: int) -> bytes | None:
        found = self._select(query("message_document"), (as_list(possible_ids([id_])),))
        parts = [document for (document,) in found]
        return b"".join(parts) if parts else None
