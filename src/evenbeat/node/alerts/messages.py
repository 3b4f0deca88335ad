"""Composes the document of a message part by part: what it says of each problem, in pieces between turns."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from shlex import quote
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from evenbeat.core.alerts import ItemKind
from evenbeat.core.telling_lines import tells_at_its_end
from evenbeat.model import SEVERITY, Cause, Instant, State
from evenbeat.store.alert_records import AlertRecord
from evenbeat.store.contract import ProblemFilter, Store
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.when.instant import format_instant
from evenbeat.when.zone import zone
from evenbeat.wire.sender_documents import MAX_DOCUMENT_SIZE, TOLD_LIMIT, MessageDocument, MessageItem

_PIECE: Final = 50
"""Items that are read and encoded at once, in about a millisecond."""
_FULL_OUTPUTS: Final = 100
"""Up to so many items have their whole outputs."""
_SHORT_OUTPUT: Final = 256
"""Bytes of each output in a longer message."""
_FULL_SIZE: Final = MAX_DOCUMENT_SIZE // 4
"""Bytes of items after which no more are added: what is left out goes with the next message."""
_encoder: Final = msgspec.json.Encoder()


class PlannedItem(NamedTuple):
    """What a message is to say about one problem."""

    problem: int
    kind: ItemKind
    is_reminder: bool
    sent: int = 0
    """The severity that the channel was sent last; 0 for none."""
    severities: frozenset[int] = frozenset()
    """Only these are sent to the channel; empty for all."""

    def is_unwanted(self, record: ProblemRecord) -> bool:
        """Has the state changed since this was planned, so that the channel is not to be sent it any more?"""
        if self.kind is not ItemKind.PROBLEM or record.closed is not None or record.state is State.OK:
            return False  # one that flaps counts as it did while it is OK
        severity = SEVERITY[record.state]
        is_selected = not self.severities or severity in self.severities
        return not is_selected or (severity <= self.sent and not self.is_reminder)


class _Head(Struct):
    """How a MessageDocument begins. Its items follow, and then its tail."""

    message: int
    contact: str


class _Tail(Struct):
    """How a MessageDocument ends."""

    more: int
    link: str
    created: str
    possible_repetition: bool = False


class DocumentPart(NamedTuple):
    """A further part of the document of a message."""

    text: bytes
    states: list[State | None]
    """What it says of the first of the problems that were planned: there may be more than fit. None for a problem that
    is no longer kept, and is left out.
    """
    is_full: bool
    """Nothing more fits."""
    unwanted: frozenset[int] = frozenset()
    """Problems that are left out, as their state has changed since they were planned: see `PlannedItem.is_unwanted`."""

    @property
    def has_items(self) -> bool:
        """Does it say anything?"""
        return sum(state is not None for state in self.states) > len(self.unwanted)


class GrowingDocument:
    """The document of one message, whose parts are added one after the other; each is kept before the next is made."""

    def __init__(self, composer: "MessageComposer", message: int, contact: str, planned: int) -> None:
        """`planned` is how many items it is to have."""
        self._composer = composer
        self._head = _encoder.encode(_Head(message, contact))[:-1] + b',"items":['
        self._contact = contact
        self._longest = None if planned <= _FULL_OUTPUTS else _SHORT_OUTPUT
        self._size = 0
        self._has_items = False

    async def next_part(self, planned: Sequence[PlannedItem]) -> DocumentPart:
        """What follows for these items, as far as they fit."""
        items: list[bytes] = []
        states: list[State | None] = []
        unwanted: set[int] = set()
        size = self._size
        while len(states) < len(planned) and size <= _FULL_SIZE:
            piece = planned[len(states) : len(states) + _PIECE]
            encoded_items = await asyncio.to_thread(self._composer.encode_items, piece, self._contact, self._longest)
            for item, (encoded, state) in zip(piece, encoded_items, strict=True):
                size += len(encoded)
                if size > _FULL_SIZE and (items or self._has_items):
                    break
                states.append(state)
                if encoded:
                    items.append(encoded)
                elif state is not None:
                    unwanted.add(item.problem)
        lead = self._head + (b"," if self._has_items and items else b"")
        return DocumentPart(lead + b",".join(items), states, size > _FULL_SIZE, frozenset(unwanted))

    def keep(self, part: DocumentPart) -> None:
        """This part is recorded: the next one follows it."""
        self._head = b""
        self._size += len(part.text)
        self._has_items |= part.has_items


class MessageComposer:
    """Reads what messages say about problems from the store, in a thread, and encodes it."""

    def __init__(self, store: Store, link: Callable[[], str]) -> None:
        self._store = store
        self._link = link

    def begin(self, message: int, contact: str, planned: int) -> GrowingDocument:
        """A document without any part."""
        return GrowingDocument(self, message, contact, planned)

    def end(self, more: int, now: Instant) -> bytes:
        """The end of any document; `more` is how many items it does not tell."""
        return b"]," + _encoder.encode(_Tail(more, self._link(), time_text(now)))[1:]

    def encode_items(
        self, planned: Sequence[PlannedItem], contact: str, longest: int | None
    ) -> list[tuple[bytes, State | None]]:
        """Each as JSON, with the state that it says; nothing of a problem that is no longer kept, and the state alone
        of one that is unwanted.
        """
        ids = tuple(item.problem for item in planned)
        found = {record.id: record for record in self._store.problems(ProblemFilter(is_open=None, ids=ids))}
        told = {problem.id: _told(alerts, contact) for problem, alerts in self._store.alert_problems(ids)}

        def encode(item: PlannedItem) -> tuple[bytes, State | None]:
            record = found.get(item.problem)
            if record is None:
                return b"", None
            if item.is_unwanted(record):
                return b"", record.state
            return _encoder.encode(_item_of(item, record, told.get(item.problem, []), longest)), record.state

        return list(map(encode, planned))


def encode_test_message(message: int, contact: str, link: str, now: Instant) -> bytes:
    """The document of a message that somebody asks for to see whether messages arrive."""
    document = MessageDocument(message, contact, possible_repetition=False, items=[], link=link, test=True)
    document.created = time_text(now)
    return _encoder.encode(document)


def encode_items(message: int, contact: str, items: list[MessageItem], link: str, now: Instant) -> bytes:
    """The document of a message with these items."""
    document = MessageDocument(
        message, contact, possible_repetition=False, items=items, link=link, created=time_text(now)
    )
    return _encoder.encode(document)


def encode_parts(document: MessageDocument, size: int) -> list[bytes]:
    """A document in parts of so many items, which follow each other."""
    head = _encoder.encode(_Head(document.message, document.contact))[:-1] + b',"items":['
    items = list(map(_encoder.encode, document.items))
    parts = [b",".join(items[start : start + size]) for start in range(0, len(items), size)]
    tail = _encoder.encode(_Tail(document.more, document.link, document.created or ""))
    texts = [(b"," if number else head) + part for number, part in enumerate(parts)]
    texts[-1] += b"]," + tail[1:]
    return texts


def _item_of(planned: PlannedItem, record: ProblemRecord, told: list[str], longest: int | None) -> MessageItem:
    ack = record.acknowledgement
    is_told = planned.kind is ItemKind.ACKNOWLEDGED and ack is not None
    return MessageItem(
        kind=planned.kind.value,
        reminder=planned.is_reminder,
        task=record.task,
        cause=record.cause,
        state=record.state.name.lower(),  # type: ignore[arg-type] # the names of states are StateWord
        flapping=record.flapping,
        problem=record.id,
        since=time_text(record.opened),
        output=_cut_output(record, longest),
        labels=dict(record.labels),
        reason=record.reason,
        told=told,
        acknowledge=_acknowledge_command(planned, record),
        closed=None if record.closed is None else time_text(record.closed),
        who=ack.who if is_told and ack is not None else "",
        comment=ack.comment if is_told and ack is not None else "",
    )


def _told(alerts: Iterable[AlertRecord], contact: str) -> list[str]:
    """Other contacts that were sent the problem."""
    return sorted({alert.contact for alert in alerts if alert.sent and alert.contact != contact})[:TOLD_LIMIT]


def _acknowledge_command(planned: PlannedItem, record: ProblemRecord) -> str:
    if planned.kind is not ItemKind.PROBLEM or record.closed is not None:
        return ""
    return f"evenbeat ack {quote(record.task)}"


def time_text(t: Instant) -> str:
    """A time as messages say it."""
    return format_instant(t, zone("UTC"))


def _cut_output(record: ProblemRecord, longest: int | None) -> str:
    """Its output, or the part of it that says most."""
    output = record.output.rstrip()
    if longest is None:
        return output
    at_end = tells_at_its_end(output, is_check=record.cause == Cause.STATE, has_failed=True)
    data = output.encode()
    return (data[-longest:] if at_end else data[:longest]).decode("utf-8", "ignore")
