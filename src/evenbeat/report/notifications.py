"""Notifications: every decision to send something to a contact, or not to, with its reason, newest first."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from evenbeat.core.scope import Scope
from evenbeat.model import Instant, Invalid
from evenbeat.report.documents import iso_time
from evenbeat.report.notification_reader import NotificationReader
from evenbeat.report.notification_words import GIVEN_UP, decision_words
from evenbeat.report.words import first_line
from evenbeat.store.alert_records import AlertDecisionFilter, MessageRecord, NumberedDecision
from evenbeat.store.contract import Filter, ProblemFilter, Store
from evenbeat.when.zone import zone
from evenbeat.wire.documents import NotificationDocument

_UTC: Final = zone("UTC")
_PAGE_SIZE: Final = 500
_MOST_SEARCHED: Final = 5_000
"""Decisions among which one answer looks for those that a limited caller may see."""
_MAX_DIGITS: Final = 18


class NotificationsFound(NamedTuple):
    """A page of notifications."""

    notifications: list[NotificationDocument]
    next: str | None
    """Before this decision the next page begins; None if there is none."""


def read_notifications(
    store: Store, only: AlertDecisionFilter, now: Instant, scope: Scope | None = None
) -> NotificationsFound:
    """What was decided, newest first; with a scope, about problems of its tasks.

    Then a page may be shorter than requested, and still be followed by another.
    """
    reader = NotificationReader(store, None, now, _UTC, is_limited=scope is not None)
    found: list[NotificationDocument] = []
    before, searched = only.before, 0
    for some in _pages(store, only):
        seen = some if scope is None else _within(store, some, scope)
        messages = reader.messages(one.decision for one in seen)
        for one in some:
            if len(found) == only.most or (scope is not None and searched == _MOST_SEARCHED):
                return NotificationsFound(found, None if before is None else f"{before[0]}-{before[1]}")
            before, searched = (one.decision.at, one.number), searched + 1
            if one in seen:
                found.append(_document(reader, one, messages.get(one.decision.message)))
    return NotificationsFound(found, None)


def parse_position(text: str) -> tuple[int, int]:
    """A position that `next` has named; raise Invalid."""
    at, _, number = text.partition("-")
    if not all(part.isascii() and part.isdecimal() and len(part) <= _MAX_DIGITS for part in (at, number)):
        raise Invalid(f"{text[:64]!r} is no position, accepted: the `next` of the page before")
    return int(at), int(number)


def _pages(store: Store, only: AlertDecisionFilter) -> Iterator[list[NumberedDecision]]:
    before, size = only.before, min(only.most + 1, _PAGE_SIZE)
    while page := store.alert_decisions(replace(only, before=before, most=size)):
        yield page
        if len(page) < size:
            return
        before = page[-1].decision.at, page[-1].number


def _within(store: Store, some: Sequence[NumberedDecision], scope: Scope) -> list[NumberedDecision]:
    """Those about problems of tasks of the scope."""
    ids = tuple({one.decision.problem for one in some})
    tasks = Filter(owner=scope.owner, labels=scope.labels)
    seen = {record.id for record in store.problems(ProblemFilter(tasks, is_open=None, ids=ids, most=len(ids)))}
    return [one for one in some if one.decision.problem in seen]


def _document(
    reader: NotificationReader, numbered: NumberedDecision, message: MessageRecord | None
) -> NotificationDocument:
    decision = numbered.decision
    place = reader.place(decision.channel)
    at = iso_time(Instant(decision.at))
    assert at is not None
    error = decision.reason if decision.decision == GIVEN_UP else "" if message is None else message.error
    return NotificationDocument(
        at=at,
        task=numbered.task,
        problem=decision.problem,
        contact=decision.contact,
        place=place,
        decision=decision.decision,
        item=decision.item,
        reason="" if decision.decision == GIVEN_UP else decision.reason,
        message=decision.message or None,
        delivery="" if message is None else message.state,
        error=first_line(error),
        text=decision_words(decision, message, place, reader.now, reader.where),
    )
