"""Messages for people and programs: what was sent to contacts, what became of it, and which deliveries fail."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from evenbeat.admin.contacts import contacts_with_owners
from evenbeat.core.channels import Channel, channels_of
from evenbeat.core.scope import Scope
from evenbeat.model import Instant
from evenbeat.report.documents import iso_time
from evenbeat.report.notification_words import GIVEN_UP, delivery_words
from evenbeat.store.alert_records import WAITING, AlertDecisionFilter, MessageFilter, MessageRecord
from evenbeat.store.contract import Filter, ProblemFilter, Store
from evenbeat.when.zone import zone
from evenbeat.wire.documents import SentMessage

_UTC: Final = zone("UTC")
_PAGE_SIZE: Final = 1_000
_ITEMS_AT_ONCE: Final = 1_000
_MOST_SEARCHED: Final = 1_000
"""Messages among which one answer looks for those that a limited caller may see."""


class MessagesFound(NamedTuple):
    """A page of messages."""

    messages: list[SentMessage]
    next: int | None
    """Before this id the next page begins; None if there is none."""


def read_messages(store: Store, only: MessageFilter, now: Instant, scope: Scope | None = None) -> MessagesFound:
    """The messages that the filter selects, newest first; with a scope, those about problems of its tasks.

    Then a page may be shorter than requested, and still be followed by another.
    """
    places = _channels_by_key(store)
    found: list[SentMessage] = []
    before = only.before
    for searched, record in enumerate(_records(store, only)):
        if len(found) == only.most or (scope is not None and searched == _MOST_SEARCHED):
            return MessagesFound(found, before)
        before = record.id
        items = record.items if scope is None else _count_items_within(store, record, scope)
        if items or scope is None:
            found.append(_message_of(record, items, places, now))
    return MessagesFound(found, None)


def _records(store: Store, only: MessageFilter) -> Iterator[MessageRecord]:
    """The messages that the filter selects, without regard to `most`."""
    before, size = only.before, min(only.most + 1, _PAGE_SIZE)
    while page := store.messages(replace(only, before=before, most=size)):
        yield from page
        if len(page) < size:
            break
        before = page[-1].id


def latest_messages(store: Store, channels: Sequence[Channel], now: Instant) -> dict[str, SentMessage]:
    """The latest message of each of these channels that has one, by the key of the channel."""
    places = {channel.key: channel for channel in channels}
    found: dict[str, SentMessage] = {}
    for key in places:
        for record in store.messages(MessageFilter(channel=key, most=1)):
            found[key] = _message_of(record, record.items, places, now)
    return found


def is_failing(message: SentMessage | None) -> bool:
    """Has the latest delivery of the channel with this latest message failed?"""
    return message is not None and (message.state == GIVEN_UP or (message.state == WAITING and bool(message.error)))


def _channels_by_key(store: Store) -> dict[str, Channel]:
    found = contacts_with_owners(store)
    return {channel.key: channel for name, (_, contact) in found.items() for channel in channels_of(name, contact)}


def _message_of(record: MessageRecord, items: int, places: Mapping[str, Channel], now: Instant) -> SentMessage:
    channel = places.get(record.channel)
    created = iso_time(record.created)
    assert created is not None
    return SentMessage(
        id=record.id,
        contact=record.contact,
        kind=_kind_of(record.channel),
        place="" if channel is None else channel.shown,
        created=created,
        items=items,
        state=record.state,  # type: ignore[arg-type] # the states of messages
        attempts=record.attempts,
        next_attempt=iso_time(record.next_attempt),
        ended=iso_time(record.ended),
        error=record.error,
        detail=record.detail,
        possible_repetition=record.possible_repetition,
        text=delivery_words(record, now, _UTC),
    )


def _kind_of(key: str) -> str:
    """The key of a channel is contact/kind/digest."""
    return key.rsplit("/", 2)[1] if key.count("/") > 1 else ""


def _count_items_within(store: Store, message: MessageRecord, scope: Scope) -> int:
    """How many items of a message are about tasks of the scope: its decisions were recorded when it left."""
    left = AlertDecisionFilter(
        contact=message.contact,
        since=message.created,
        until=Instant(message.created + 1),
        most=_ITEMS_AT_ONCE,
    )
    tasks = Filter(owner=scope.owner, labels=scope.labels)
    count = 0
    while True:
        some = store.alert_decisions(left)
        ids = tuple({one.decision.problem for one in some if one.decision.message == message.id})
        if ids:
            count += store.count_problems(ProblemFilter(tasks, is_open=None, ids=ids))
        if len(some) < _ITEMS_AT_ONCE:
            return count
        left = replace(left, before=(some[-1].decision.at, some[-1].number))
