"""Splitting: a message that is too large for its receiver is sent again as two smaller ones, which tell the same."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from evenbeat.core.alerts import resend
from evenbeat.node.alerts.engine_state import AlertState
from evenbeat.node.alerts.messages import encode_parts
from evenbeat.node.alerts.messages_under_way import Delivery
from evenbeat.store.alert_records import AlertDecision, MessagePart, MessageRecord
from evenbeat.wire.sender_documents import MessageDocument, MessageItem, message_decoder

PART_ITEMS: Final = 100
"""Items that are committed at once, in a few milliseconds."""
SPLIT: Final = "too large before"
"""The reason of the decision to send something in a smaller message."""


class AlertsChanged(Exception):
    """The store knows otherwise of alerts that a smaller message was to take over: they are decided anew first."""


class MessageSplitter:
    """Makes the smaller messages, each committed with the alerts that it takes over; the larger one ends then.

    If the node ends meanwhile, the larger message still tells what no smaller one has taken over.
    """

    def __init__(self, state: AlertState) -> None:
        self._state = state

    async def split(self, delivery: Delivery) -> list[int] | None:
        """The ids of the smaller messages; none if all that it told is in others already. None if it cannot be split,
        as it has one item. Raise AlertsChanged.
        """
        text = await self._read(delivery)
        if text is None:
            return None
        document = await asyncio.to_thread(message_decoder.decode, text)
        if len(document.items) < 2:
            return None
        cases = {case.id for case in self._state.cases.told_in(delivery.message)}
        items = [item for item in document.items if item.problem in cases]
        first, second = halves(items)
        ids = []
        for some, following in (first, len(second)), (second, 0):
            if not some:
                continue
            id_ = await asyncio.to_thread(self._state.store.reserve_messages, 1)
            more = document.more + following
            if not await self._send(delivery, id_, replace(document, message=id_, items=some, more=more)):
                raise AlertsChanged
            ids.append(id_)
        return ids

    async def _read(self, delivery: Delivery) -> bytes | None:
        if delivery.document is not None:
            return delivery.document
        return await asyncio.to_thread(self._state.store.message_document, delivery.message)

    async def _send(self, delivery: Delivery, id_: int, document: MessageDocument) -> bool:
        """A smaller message leaves, part by part; False if the store refused it."""
        record = MessageRecord(
            id_,
            delivery.channel,
            delivery.contact,
            self._state.now(),
            0,
            possible_repetition=delivery.may_have_arrived,
            is_complete=False,
        )
        parts = await asyncio.to_thread(encode_parts, document, PART_ITEMS)
        for number, text in enumerate(parts, 1):
            some = document.items[(number - 1) * PART_ITEMS : number * PART_ITEMS]
            for item in some:
                self._take_over(delivery, id_, item)
                await self._state.slices.yield_to_turns()
            is_last = number == len(parts)
            if number > 1:
                self._state.writer.put_part(MessagePart(id_, len(some), text, is_last))
            else:
                self._state.writer.put_message(replace(record, items=len(some), document=text, is_complete=is_last))
            refused = await self._state.commit()
            if id_ in refused.messages:
                break
            record = replace(record, items=record.items + len(some), is_complete=is_last)
        if record.items:
            self._state.deliveries.add(record)
        return record.is_complete

    def _take_over(self, delivery: Delivery, id_: int, item: MessageItem) -> None:
        case = self._state.cases.get(item.problem)
        known = None if case is None else case.find(delivery.channel)
        if case is None or known is None or known.alert.message != delivery.message:
            return
        self._state.keep(case, known.channel, known.contact, resend(known.alert, id_))
        word = "reminder" if item.reminder else item.kind
        self._state.writer.note(
            AlertDecision(self._state.now(), case.id, known.channel, known.contact, "sent", SPLIT, id_, word)
        )


def halves(items: Sequence[MessageItem]) -> tuple[list[MessageItem], list[MessageItem]]:
    """About half of the items of a message each, in their order. What it says of one task stays together, so that
    neither passes the other; but for a message about a single task.
    """
    half = (len(items) + 1) // 2
    of_task = Counter(item.task for item in items)
    if len(of_task) <= 1:
        return list(items[:half]), list(items[half:])
    first, size = set[str](), 0
    for task, count in of_task.items():
        if size < half:
            first.add(task)
            size += count
    return [item for item in items if item.task in first], [item for item in items if item.task not in first]
