"""Dispatch: orders the deliveries of messages that have left, and records what becomes of them."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from evenbeat.core.alerts import NotSent, end
from evenbeat.core.delivery_pace import holds_up, retry_at
from evenbeat.node.alerts.engine_state import AlertState
from evenbeat.node.alerts.messages import MessageComposer
from evenbeat.node.alerts.messages_under_way import Delivery
from evenbeat.node.alerts.sender_orders import order_of
from evenbeat.node.alerts.too_large_messages import AlertsChanged, MessageSplitter
from evenbeat.store.alert_records import (
    WAITING,
    AlertDecision,
    MessageAttempt,
    MessageEnd,
    MessageFilter,
    MessagePart,
)
from evenbeat.wire.sender_documents import DeliveryEnd, DeliveryOrder

DELIVERED: Final = "delivered"
GIVEN_UP: Final = "given up"
_log: Final = logging.getLogger("evenbeat.alerts")


class MessageDispatch:
    """Between the messages that the store has and the sender."""

    def __init__(self, state: AlertState, composer: MessageComposer, order: Callable[[DeliveryOrder], None]) -> None:
        """`order` has a message delivered once; `delivery_ended` is called with what becomes of it."""
        self._state = state
        self._composer = composer
        self._order = order
        self._splitter = MessageSplitter(state)
        self._ends: deque[DeliveryEnd] = deque()

    @property
    def has_ends(self) -> bool:
        """Have deliveries ended that are not recorded?"""
        return bool(self._ends)

    def delivery_ended(self, ended: DeliveryEnd) -> None:
        """The sender reports the end of a delivery."""
        self._ends.append(ended)

    async def start_due(self) -> None:
        """Start what is due. That it was started is committed first: so a repetition can be told from the first."""
        due = [
            delivery
            for delivery in self._state.deliveries.due(self._state.now())
            if not self._state.leaves(delivery.contact)
        ]
        orders = [(delivery, await self._order_for(delivery)) for delivery in due if await self._complete(delivery)]
        starting = [(delivery, order) for delivery, order in orders if order is not None]
        now = self._state.now()
        for delivery, _ in starting:
            arrived = delivery.may_have_arrived
            attempt = MessageAttempt(delivery.message, delivery.attempts + 1, None, now, possible_repetition=arrived)
            self._state.writer.put_attempt(attempt)
        refused = await self._state.commit()
        for delivery, order in starting:
            if delivery.message in refused.messages:  # another node has recorded its end
                self._state.deliveries.remove(delivery)
                continue
            delivery.attempts += 1
            delivery.is_ordered = True
            self._order(order)

    async def _complete(self, delivery: Delivery) -> bool:
        """A message of which a node has not recorded all parts is delivered as it is; what it does not tell goes with
        the next one. False if another node has recorded more of it, or its end.
        """
        if delivery.is_complete:
            return True
        ending = self._composer.end(0, self._state.now())
        self._state.writer.put_part(MessagePart(delivery.message, 0, ending, is_last=True))
        refused = await self._state.commit()
        if delivery.message in refused.messages:
            self._state.deliveries.remove(delivery)
            self._state.news.is_there.set()  # what became of it is read at once
            return False
        delivery.is_complete = True
        return True

    async def _order_for(self, delivery: Delivery) -> DeliveryOrder | None:
        """What the sender is to do; None if the message has ended, as there is nothing to deliver or nowhere to."""
        channel = self._state.contacts.channel(delivery.channel)
        if channel is None:
            await self._end_message(delivery, GIVEN_UP, NotSent.CONTACT_REMOVED.value, "")
            self._state.news.is_there.set()  # decide at once what follows: the contact may soon be there again
            return None
        if delivery.document is None:
            delivery.document = await asyncio.to_thread(self._state.store.message_document, delivery.message)
        if delivery.document is None:
            await self._end_message(delivery, GIVEN_UP, "the message is not kept any more", "")
            return None
        contact, repeated = self._state.contacts.contacts[channel.contact].contact, delivery.may_have_arrived
        return order_of(delivery.message, channel, contact, delivery.document, possible_repetition=repeated)

    async def take_ends(self) -> None:
        """Record what became of deliveries."""
        while self._ends:
            ended = self._ends.popleft()
            delivery = self._state.deliveries.find(ended.message, ended.channel)
            if delivery is None or not delivery.is_ordered:
                continue
            if ended.is_delivered:
                self._state.deliveries.note_delivery(delivery.channel, delivery.contact, is_failing=False)
                await self._end_message(delivery, DELIVERED, ended.error, ended.detail)
                continue
            refusal = ended.refusal
            if refusal == "too large":
                try:
                    if await self._send_smaller(delivery, ended):
                        continue
                except AlertsChanged:
                    refusal = ""
            now = self._state.now()
            again_at = None if refusal else retry_at(delivery.attempts, delivery.left, now)
            _log.warning(
                "a message to %s was not delivered: %s",
                delivery.contact,
                ended.error,
                extra={"action": "not_delivered", "contact": delivery.contact, "message_id": delivery.message},
            )
            self._state.counts.add("failed")
            self._state.deliveries.note_delivery(delivery.channel, delivery.contact, is_failing=True)
            if again_at is None:
                await self._end_message(delivery, GIVEN_UP, ended.error, ended.detail)
                continue
            delivery.is_ordered, delivery.next_attempt = False, again_at
            delivery.may_have_arrived |= ended.may_have_arrived
            arrived = delivery.may_have_arrived
            if not holds_up(delivery.failed):
                delivery.document = None  # there may soon be more of them: it is read again
            self._state.writer.put_attempt(
                MessageAttempt(delivery.message, delivery.attempts, again_at, None, ended.error, ended.detail, arrived)
            )
        await self._state.commit()

    async def _send_smaller(self, delivery: Delivery, ended: DeliveryEnd) -> bool:
        """The receiver refuses so large a message: smaller ones tell the same. False if there can be none."""
        ids = await self._splitter.split(delivery)
        if ids is None:
            return False
        smaller = " and ".join(map(str, ids)) or "others"
        error = f"{ended.error}: sent again as {smaller}, which {'is' if len(ids) == 1 else 'are'} smaller"
        _log.warning(
            "a message to %s was too large: %s",
            delivery.contact,
            error,
            extra={"action": "split", "contact": delivery.contact, "message_id": delivery.message},
        )
        await self._end_message(delivery, GIVEN_UP, error, ended.detail, counted="split")
        return True

    async def _end_message(self, delivery: Delivery, state: str, error: str, detail: str, counted: str = "") -> None:
        """A message has ended, which is committed first; what its channel knows now follows."""
        self._state.writer.put_end(MessageEnd(delivery.message, self._state.now(), state, error, detail))
        self._state.deliveries.remove(delivery)
        refused = await self._state.commit()
        if delivery.message in refused.messages:  # another node has recorded its end
            self._state.news.is_there.set()
            return
        self._state.counts.add(counted or state)
        await self._end_in_cases(delivery.message, state, error)

    async def _end_in_cases(self, message: int, state: str, error: str) -> None:
        """What a channel knows now that this message to it has ended so."""
        for case in self._state.cases.told_in(message):
            for known in case.alerts:
                if known.alert.message == message:
                    after = end(known.alert, message, is_delivered=state == DELIVERED)
                    self._state.keep(case, known.channel, known.contact, after)
                    if state == GIVEN_UP:
                        given_up = known.channel, known.contact, GIVEN_UP, error, message
                        self._state.writer.note(AlertDecision(self._state.now(), case.id, *given_up))
            self._state.cases.decide_anew(case)
            self._state.cases.decide_later_ones(case)
            await self._state.commit_if_many()
            await self._state.slices.yield_to_turns()
        await self._state.commit()

    async def resolve_unknown(self) -> None:
        """Alerts name messages that another node has sent, and whose end it may have recorded."""
        unknown = self._state.cases.messages() - {delivery.message for delivery in self._state.deliveries}
        for message in unknown:
            records = await asyncio.to_thread(self._state.store.messages, MessageFilter(ids=(message,)))
            if any(record.state == WAITING for record in records):
                self._state.deliveries.restore_late(records, self._state.now())
                continue
            for record in records:
                await self._end_in_cases(message, record.state, record.error)
            if not records:
                await self._end_in_cases(message, "", "")
