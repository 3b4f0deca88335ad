"""Fetch messages of one pool, as many as the worker has room for; the servers keep the request until there are some."""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from nats.aio.msg import Msg

from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.connection import NatsConnection, NatsRefused, NatsUnavailable, response_status
from evenbeat.queue.nats.stream import ensure_pool_consumer

_FETCH_TIMEOUT: Final = 1.0
"""Seconds that servers keep a request. It is short: messages sent to a worker that was stopped meanwhile reach other
workers late, and a request to a leader that dies is lost."""
_ANSWER_TIMEOUT: Final = 0.5
_RETRY_DELAY: Final = 0.5
"""Seconds until a missing stream is looked for again."""
_FULL_DELAY: Final = 0.25
"""Seconds until a worker without room checks again, unless it is woken before."""
_NOTHING_NOW: Final = ("404", "408")
_STILL_THERE: Final = "100"
_log: Final = logging.getLogger("evenbeat.worker")


class RunOfferFetcher:
    """Requests messages of one pool again and again."""

    def __init__(
        self,
        address: QueueAddress,
        connection: NatsConnection,
        pool: str,
        room: Callable[[], int],
        take: Callable[[Msg], None],
    ) -> None:
        self._address = address
        self._connection = connection
        self._pool = pool
        self._room = room
        self._take = take
        self._inbox = f"{address.inbox}.{secrets.token_hex(11)}"
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{address.stream}.{address.consumer(pool)}"
        self._messages_to_come = 0
        self._is_missing = True
        self._is_answered = asyncio.Event()
        self._has_room = asyncio.Event()
        connection.subscribe(self._inbox, self._on_message)

    def wake(self) -> None:
        """There may be room again."""
        self._has_room.set()

    def on_reconnect(self) -> None:
        """There is a new connection: requests on the last one are not answered any more."""
        self._is_answered.set()
        self._has_room.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if self._is_missing and self._connection.is_up:
                await self._make_consumer()
            room = self._room() if self._connection.is_up and not self._is_missing else 0
            if not room:
                self._has_room.clear()
                await _within(self._has_room, _FULL_DELAY)
                continue
            self._messages_to_come = room
            self._is_answered.clear()
            request = {"batch": room, "expires": int(_FETCH_TIMEOUT * 1_000_000_000)}
            if self._connection.send(self._subject, json.dumps(request).encode(), self._inbox):
                await _within(self._is_answered, _FETCH_TIMEOUT + _ANSWER_TIMEOUT)

    async def _make_consumer(self) -> None:
        try:
            await ensure_pool_consumer(self._address, self._connection, self._pool)
            self._is_missing = False
        except (NatsRefused, NatsUnavailable) as e:
            _log.debug("pool %s: %s", self._pool, e, extra={"action": "pool_missing"})
            await asyncio.sleep(_RETRY_DELAY)

    def _on_message(self, message: Msg) -> None:
        status = response_status(message)
        if status == _STILL_THERE:
            return
        if not status:
            self._messages_to_come -= 1
            self._take(message)
            if self._messages_to_come > 0:
                return
        elif status not in _NOTHING_NOW:
            # The stream or the consumer is gone, or has moved: create it again if necessary.
            self._is_missing = True
        self._is_answered.set()


async def _within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
