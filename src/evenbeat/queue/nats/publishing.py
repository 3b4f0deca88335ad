"""Publish messages with runs into the stream: send without waiting, send again if they are missing there."""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import Final

from nats.aio.msg import Msg

from evenbeat.core import run_lease
from evenbeat.model import SECOND
from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.batches import (
    HandedOverRun,
    OutgoingOffer,
    packed_offer,
    packed_size,
    split_into_offers,
)
from evenbeat.queue.nats.connection import NO_RESPONDERS, NatsConnection, NatsUnavailable, response_status
from evenbeat.queue.nats.stream import RunStream
from evenbeat.wire.cluster_messages import MAX_MESSAGE_SIZE

_CONFIRM_TIMEOUT: Final = SECOND
"""A message that the servers have not confirmed by then is sent again; they recognise it by its id."""
_BROKEN_STREAM_POLL_INTERVAL: Final = 0.5
"""Seconds between two checks of a stream that has a problem."""
_STREAM_CHECK_AGE: Final = 5 * SECOND
"""Microseconds between two checks whether a message that no worker has fetched is still in the stream."""
_MAX_STREAM_CHECKS: Final = 20
"""Messages checked at the same time."""
_IN_PROCESS: Final = 10158
"""JetStream's error code for a message with the id of one that is being replicated."""
_log: Final = logging.getLogger("evenbeat.queue")


class OfferPublisher:
    """All messages with runs that no worker has been granted."""

    def __init__(self, address: QueueAddress, connection: NatsConnection, node: str, now: Callable[[], int]) -> None:
        self._address = address
        self._connection = connection
        self._node = node
        self._now = now
        self._stream = RunStream(address, connection)
        self._messages: dict[str, OutgoingOffer] = {}
        self._name = secrets.token_hex(6)
        self._count = 0
        self._inbox = f"{address.inbox}.{secrets.token_hex(11)}"
        self._is_missed = asyncio.Event()
        self.problem = ""
        """What is wrong with the stream, or ""."""
        self.redispatched = 0
        connection.subscribe(f"{self._inbox}.*", self._on_confirmation)

    @property
    def messages(self) -> Iterable[OutgoingOffer]:
        return self._messages.values()

    def send(self, items: list[HandedOverRun], workers: Callable[[str], int]) -> list[HandedOverRun]:
        """Send these runs; returns those that are too large for any message."""
        too_large = [item for item in items if item.run is not None and packed_size(item.run) > MAX_MESSAGE_SIZE]
        if too_large:
            left = {item.token for item in items}.difference(item.token for item in too_large)
            items = [item for item in items if item.token in left]
        groups: dict[tuple[str, int], list[HandedOverRun]] = {}
        for item in items:
            assert item.run is not None
            groups.setdefault((item.pool, run_lease.timebox_class(item.run.timebox)), []).append(item)
        for (pool, _), group in groups.items():
            for piece in split_into_offers(group, workers(pool)):
                self._count += 1
                message = OutgoingOffer(f"{self._name}{self._count:x}", pool, self._now())
                message.waiting = {item.token: item for item in piece}
                for item in piece:
                    item.message = message
                self._messages[message.id] = message
                self._send(message)
        return too_large

    def remove(self, item: HandedOverRun) -> None:
        """The run is granted to a worker, or has ended."""
        if item.message is not None:
            item.message.waiting.pop(item.token, None)
            if not item.message.waiting:
                self._messages.pop(item.message.id, None)

    def reopen(self, item: HandedOverRun) -> None:
        """The grant of this run was not used: it waits again, in the same message."""
        if item.message is not None:
            item.message.waiting[item.token] = item
            self._messages[item.message.id] = item.message

    def waiting(self) -> dict[str, int]:
        """The number of waiting runs by pool."""
        counts: dict[str, int] = {}
        for message in self._messages.values():
            counts[message.pool] = counts.get(message.pool, 0) + len(message.waiting)
        return counts

    def on_reconnect(self) -> None:
        """There is a new connection: send again what was not confirmed."""
        self._is_missed.set()
        for message in self._messages.values():
            if not message.sequence:
                self._send(message)

    async def keep_stream(self, seconds: float) -> None:
        """Create the stream, and again whenever it is missing; check it every `seconds` seconds."""
        self.problem = await self._stream.set_replicas()
        while True:
            try:
                await asyncio.wait_for(
                    self._is_missed.wait(), _BROKEN_STREAM_POLL_INTERVAL if self.problem else seconds
                )
            except TimeoutError:
                pass
            else:
                self._is_missed.clear()
            if not self._connection.is_up:
                continue
            created, was_wrong = self._stream.created, bool(self.problem)
            try:
                self.problem = await self._stream.ensure()
            except Exception:
                _log.exception("the stream could not be checked", extra={"action": "queue_failed"})
            if self._stream.created != created or (was_wrong and not self.problem):
                self._resend_unconfirmed(0)

    async def check_stream(self) -> list[HandedOverRun]:
        """Send messages again that are missing in the stream; returns runs that were sent too often already."""
        now = self._now()
        if not self._connection.is_up or self.problem:
            return []
        self._resend_unconfirmed(_CONFIRM_TIMEOUT)
        held = [m for m in self._messages.values() if m.sequence]
        gone = [m for m in held if m.stream_id != self._stream.created]
        suspects = sorted(
            (m for m in held if m.stream_id == self._stream.created and now - m.when > _STREAM_CHECK_AGE), key=_when
        )
        suspects = suspects[:_MAX_STREAM_CHECKS]
        found = await asyncio.gather(*(self._stream.has(m.sequence) for m in suspects), return_exceptions=True)
        for message, is_there in zip(suspects, found, strict=True):
            if is_there is False:
                gone.append(message)
            elif isinstance(is_there, BaseException) and not isinstance(is_there, NatsUnavailable):
                raise is_there
            else:
                message.when = now
        set_aside: list[HandedOverRun] = []
        for message in gone:
            if message.attempt >= run_lease.MAX_DISPATCH_ATTEMPTS:
                set_aside += message.waiting.values()
            elif message.waiting:
                message.attempt += 1
                self.redispatched += len(message.waiting)
                self._send(message)
        return set_aside

    def _resend_unconfirmed(self, age: int) -> None:
        now = self._now()
        for message in list(self._messages.values()):
            if not message.sequence and now - message.when >= age:
                self._send(message)

    def _send(self, message: OutgoingOffer) -> None:
        name = f"{message.id}-{message.attempt}"
        message.sequence = 0
        message.when = self._now()
        data = packed_offer(message, self._node)
        self._connection.send(self._address.runs(message.pool), data, f"{self._inbox}.{name}", {"Nats-Msg-Id": name})

    def _on_confirmation(self, answer: Msg) -> None:
        if response_status(answer) == NO_RESPONDERS:
            self._is_missed.set()
            return
        name, _, attempt = answer.subject.rpartition(".")[2].partition("-")
        message = self._messages.get(name)
        content = json.loads(answer.data)
        if "error" in content and content["error"].get("err_code") == _IN_PROCESS:
            return  # it was sent again before the first was confirmed; that confirmation is still to come
        if "error" in content:
            self.problem = f"stream {self._address.stream}: {content['error'].get('description', '')}"
            self._is_missed.set()
        elif message is not None and str(message.attempt) == attempt:
            message.sequence = int(content["seq"])
            message.stream_id = self._stream.created


def _when(message: OutgoingOffer) -> int:
    return message.when
