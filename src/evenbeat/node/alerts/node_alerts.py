"""Notifications of a node: the engine, the sender process, and messages that do not wait for the engine: tests."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from evenbeat.core.channels import Channel
from evenbeat.model import Contact, Instant
from evenbeat.node.alerts.messages import encode_test_message
from evenbeat.node.alerts.node_services import NodeServices
from evenbeat.node.alerts.notification_engine import AlertEngine
from evenbeat.node.alerts.sender_orders import order_of
from evenbeat.node.alerts.sender_process import SenderProcess
from evenbeat.store.contract import Change, Store
from evenbeat.wire.replies import ContactTestOutcome, NotFound
from evenbeat.wire.sender_documents import DeliveryEnd, DeliveryOrder

TESTED: Final = "tested"
"""The action in the audit."""
_FIRST_TURN_POLL: Final = 0.05
"""Seconds between two looks whether the node has made its first turn."""


class NodeAlerts:
    """One of each node. The sender process is started with the first message."""

    def __init__(self, store: Store, node: NodeServices, make_sender: Callable[..., SenderProcess]) -> None:
        """`make_sender` makes the sender process, which reports ends to the callback that it is given."""
        self._store = store
        self._node = node
        self.engine = AlertEngine(store, node, self.order)
        self.sender = make_sender(self.delivery_ended)
        self._is_sender_started = False
        self._awaited: dict[tuple[int, str], asyncio.Future[DeliveryEnd]] = {}
        """Deliveries that are in no store, and whose ends somebody waits for."""
        self._last_id = 0

    async def run(self) -> None:
        """Go on until cancelled. The first turn comes first: there may be many problems to read."""
        while not self._node.has_turned():
            await asyncio.sleep(_FIRST_TURN_POLL)
        await self.engine.run()

    async def stop(self) -> None:
        """End the sender process. What should end before was waited for: see `AlertEngine.finish`."""
        if self._is_sender_started:
            await self.sender.stop(0)

    def order(self, order: DeliveryOrder) -> None:
        """Have a message delivered, once."""
        if not self._is_sender_started:
            self._is_sender_started = True
            self.sender.start()
        self.sender.order(order)

    def delivery_ended(self, ended: DeliveryEnd) -> None:
        """The sender reports the end of a delivery."""
        awaited = self._awaited.pop((ended.message, ended.channel), None)
        if awaited is None:
            self.engine.delivery_ended(ended)
        elif not awaited.done():
            awaited.set_result(ended)

    async def deliver_now(
        self, channels: Iterable[tuple[Channel, Contact]], document: Callable[[int, str, Instant], bytes]
    ) -> list[DeliveryEnd]:
        """Deliver a message that no store has, once, to each of some channels; `document` makes it from its id, the
        name of the contact, and the time.
        """
        now = self._node.now()
        # The ids of messages that a store has are small: these are times.
        message = self._last_id = max(now, self._last_id + 1)
        ends: list[asyncio.Future[DeliveryEnd]] = []
        for channel, contact in channels:
            ends.append(asyncio.get_running_loop().create_future())
            self._awaited[message, channel.key] = ends[-1]
            self.order(order_of(message, channel, contact, document(message, channel.contact, now)))
        return await asyncio.gather(*ends)

    async def test(self, contact: str, who: str) -> list[ContactTestOutcome]:
        """Send a message to each channel of a contact, now, and say what became of it. Raise NotFound."""
        usable = (await self.engine.news.read_contacts()).get(contact)
        if usable is None:
            raise NotFound(f"there is no contact {contact!r}")
        await asyncio.to_thread(self._store.note, [Change(self._node.now(), who, TESTED, f"contact {contact}")])

        def document(message: int, name: str, now: Instant) -> bytes:
            return encode_test_message(message, name, self._node.link(), now)

        ends = await self.deliver_now([(channel, usable.contact) for channel in usable.channels], document)
        return [
            ContactTestOutcome(channel.kind, channel.shown, ended.is_delivered, ended.error, ended.detail)
            for channel, ended in zip(usable.channels, ends, strict=True)
        ]
