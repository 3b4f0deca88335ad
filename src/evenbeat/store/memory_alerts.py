"""The alerts of the store in memory: what channels know of problems, the log of decisions, and the messages."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice

from msgspec import structs

from evenbeat.model import Instant
from evenbeat.store.alert_records import (
    DOCUMENT_KEPT,
    WAITING,
    AlertBatch,
    AlertDecision,
    AlertDecisionFilter,
    AlertRecord,
    AlertRefusals,
    MessageFilter,
    MessageRecord,
    NumberedDecision,
)
from evenbeat.store.common.alert_refusals import (
    KnownAlert,
    KnownMessage,
    check_alert_batch,
    known_of,
    messages_of,
    problems_of,
    without_refused,
)
from evenbeat.store.contract import FOREVER, NEVER


class MemoryAlerts:
    """Alerts by problem and channel, decisions and messages by number. The caller holds the lock of the store."""

    def __init__(self) -> None:
        self._alerts: dict[int, dict[str, AlertRecord]] = defaultdict(dict)
        self._decisions: dict[int, AlertDecision] = {}
        self._last_decision = 0
        self._messages: dict[int, MessageRecord] = {}
        self._documents: dict[int, bytes] = {}
        self._last_message = 0

    def record(self, batch: AlertBatch, problems: Container[int]) -> AlertRefusals:
        """Keep what no other has recorded otherwise; `problems` are those that exist."""
        check_alert_batch(batch)
        rows = [row for problem in problems_of(batch) for row in self._alerts.get(problem, {}).values()]
        found = [self._messages[id_] for id_ in messages_of(batch) if id_ in self._messages]
        messages = {message.id: KnownMessage(message.state, message.is_complete) for message in found}
        known = {row.key: KnownAlert(row.version, row.message) for row in rows}
        kept, refused = without_refused(batch, known_of(known, problems, messages))
        for row in kept.alerts:
            self._alerts[row.problem][row.channel] = row._replace(version=row.version + 1)
        for decision in kept.decisions:
            self._last_decision += 1
            self._decisions[self._last_decision] = decision
        for new in kept.messages:
            self._messages[new.id] = structs.replace(new, document=b"")
            self._documents[new.id] = new.document
            self._last_message = max(self._last_message, new.id)
        for part in kept.parts:
            before = self._messages[part.message]
            self._messages[part.message] = structs.replace(
                before, items=before.items + part.items, is_complete=part.is_last
            )
            self._documents[part.message] = self._documents.get(part.message, b"") + part.document
        for id_, attempts, next_attempt, started, error, detail, possible in kept.attempts:
            self._messages[id_] = structs.replace(
                self._messages[id_],
                attempts=attempts,
                next_attempt=_instant(next_attempt),
                started_attempt=_instant(started),
                error=error,
                detail=detail,
                possible_repetition=possible,
            )
        for id_, at, state, error, detail in kept.message_ends:
            self._messages[id_] = structs.replace(
                self._messages[id_],
                state=state,
                ended=Instant(at),
                next_attempt=None,
                started_attempt=None,
                error=error,
                detail=detail,
            )
        return refused

    def reserve_messages(self, count: int) -> int:
        """The first of some ids that no message has or had."""
        first = self._last_message + 1
        self._last_message += count
        return first

    def of_problem(self, problem: int) -> list[AlertRecord]:
        """What is known of a problem, by channel."""
        return [row for _, row in sorted(self._alerts.get(problem, {}).items())]

    def is_over(self, problem: int) -> bool:
        """Whether no channel will ever be sent anything more about a problem."""
        return all(row.is_over for row in self._alerts.get(problem, {}).values())

    def not_over(self) -> list[int]:
        """The problems with an alert that is not over."""
        return [problem for problem in self._alerts if not self.is_over(problem)]

    def decisions(self, only: AlertDecisionFilter, tasks: Mapping[int, str]) -> list[NumberedDecision]:
        """The decisions that a filter selects; `tasks` are the names of the tasks of problems."""
        since = NEVER if only.since is None else only.since
        until = FOREVER if only.until is None else only.until
        before = only.before or (FOREVER, 0)
        newest_first = sorted(((d.at, number, d) for number, d in self._decisions.items()), reverse=True)
        found = (
            NumberedDecision(number, tasks[d.problem], d)
            for at, number, d in newest_first
            if only.problem in (None, d.problem)
            and only.task in (None, tasks[d.problem])
            and only.contact in (None, d.contact)
            and since <= at < until
            and (at, number) < before
        )
        return list(islice(found, only.most))

    def messages(self, only: MessageFilter) -> list[MessageRecord]:
        """The messages that a filter selects, newest first."""
        since = NEVER if only.since is None else only.since
        before = FOREVER if only.before is None else only.before
        found = (
            message
            for id_, message in sorted(self._messages.items(), reverse=True)
            if only.channel in (None, message.channel)
            and only.contact in (None, message.contact)
            and only.state in (None, message.state)
            and (not only.ids or id_ in only.ids)
            and message.created >= since
            and id_ < before
        )
        return list(islice(found, only.most))

    def unfinished_messages(self) -> list[MessageRecord]:
        """The messages that have not ended, oldest first."""
        return [message for _, message in sorted(self._messages.items()) if message.state == WAITING]

    def document(self, id_: int) -> bytes | None:
        """The document of a message, if it is kept."""
        return self._documents.get(id_)

    def forget(self, problems: Iterable[int]) -> int:
        """Forget what is known of problems that are forgotten; return how many rows that were."""
        gone = set(problems)
        rows = sum(len(self._alerts.pop(problem, ())) for problem in gone)
        return rows + self._keep_decisions([n for n, d in self._decisions.items() if d.problem not in gone])

    def prune(self, now: int, cutoff: int) -> int:
        """Forget decisions and messages before the cutoff, and documents that are not needed any more."""
        gone = self._keep_decisions([number for number, d in self._decisions.items() if d.at >= cutoff])
        old = [m.id for m in self._messages.values() if m.ended is not None and m.ended < cutoff]
        done = [m.id for m in self._messages.values() if m.ended is not None and m.ended < now - DOCUMENT_KEPT]
        for id_ in old:
            del self._messages[id_]
        dropped = [self._documents.pop(id_) for id_ in {*old, *done} if id_ in self._documents]
        return gone + len(old) + len(dropped)

    def _keep_decisions(self, numbers: Sequence[int]) -> int:
        gone = len(self._decisions) - len(numbers)
        if gone:
            self._decisions = {number: self._decisions[number] for number in numbers}
        return gone


def _instant(at: int | None) -> Instant | None:
    return None if at is None else Instant(at)
