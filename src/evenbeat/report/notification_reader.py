"""Reads what is known of notifications about a task: its contacts, decisions about its problems, and messages."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from evenbeat.admin.alert_routes import ContactBook, Route, route_of
from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.contacts import usable_contacts
from evenbeat.core.delivery_pace import may_leave_at
from evenbeat.model import HOUR, Instant, Task
from evenbeat.report.notification_words import place_words
from evenbeat.store.alert_records import (
    WAITING,
    AlertDecision,
    AlertDecisionFilter,
    MessageFilter,
    MessageRecord,
)
from evenbeat.store.contract import Store
from evenbeat.when.instant import spoken_instant
from evenbeat.when.period import CompiledPeriod, compile_periods
from evenbeat.when.zone import Zone

_MOST_UNDER_WAY: Final = 1_000
"""Messages of one channel: far more than the pace of delivery lets leave within a day."""
_MOST_DECISIONS: Final = 1_000
"""About one problem, that are looked at: the latest."""


class NotificationReader:
    """Of one task, at one moment; reads what it is asked for, and contacts at once."""

    def __init__(self, store: Store, task: Task | None, now: Instant, where: Zone, *, is_limited: bool = False) -> None:
        """Without a task: it is gone. A limited caller learns nothing of what messages say of other tasks."""
        self.store = store
        self.now = now
        self.where = where
        self._is_limited = is_limited
        self.route = Route() if task is None else route_of(task)
        self.book = ContactBook(self._find_period)
        self.book.define(usable_contacts(store, permission_of(store)))
        self._periods: dict[str, CompiledPeriod] | None = None

    def _find_period(self, name: str) -> CompiledPeriod | None:
        if self._periods is None:
            known = {name: period for name, (_, period) in self.store.periods().items()}
            self._periods = dict(compile_periods(known))
        return self._periods.get(name)

    def at(self, t: int) -> str:
        """A time in words."""
        return spoken_instant(Instant(t), self.where)

    def place(self, key: str) -> str:
        """The place of a channel in words."""
        return place_words(self.book, key)

    def decisions(self, problem: int, until: Instant | None = None) -> list[AlertDecision]:
        """What was decided about a problem, newest first."""
        only = AlertDecisionFilter(problem=problem, until=until, most=_MOST_DECISIONS)
        return [numbered.decision for numbered in self.store.alert_decisions(only)]

    def messages(self, decisions: Iterable[AlertDecision]) -> dict[int, MessageRecord]:
        """The messages that decisions are about, by id."""
        ids = tuple({decision.message for decision in decisions if decision.message})
        if not ids:
            return {}
        found = self.store.messages(MessageFilter(ids=ids, most=len(ids)))
        return {message.id: replace(message, items=1) if self._is_limited else message for message in found}

    def under_way(self, key: str) -> list[MessageRecord]:
        """The messages of a channel that have not ended, latest first."""
        found = self.store.messages(MessageFilter(channel=key, state=WAITING, most=_MOST_UNDER_WAY))
        return [replace(message, error="", detail="") if self._is_limited else message for message in found]

    def may_leave_at(self, key: str, contact: str) -> int:
        """When the rate of a contact lets the next message of this channel leave."""
        per_hour = self.book.contacts[contact].contact.per_hour
        since = Instant(self.now - HOUR + 1)
        lately = self.store.messages(MessageFilter(channel=key, since=since, most=per_hour))
        return may_leave_at([message.created for message in reversed(lately)], per_hour, self.now)
