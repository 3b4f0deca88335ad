"""Fetching messages of one pool, as many as there is room for; what is not there yet is waited for on the servers."""

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
"""Seconds that servers keep a request. What they send to a worker that was stopped meanwhile comes back to others late,
and a request to a leader that dies is lost, so it is short."""
_ANSWER_TIMEOUT: Final = 0.5
_RETRY_DELAY: Final = 0.5
"""Seconds until a stream that was not there is looked for again."""
_FULL_DELAY: Final = 0.25
"""Seconds until a worker without room looks again, unless it is told before."""
_NOTHING_NOW: Final = ("404", "408")
_STILL_THERE: Final = "100"
_log: Final = logging.getLogger("evenbeat.worker")


class RunOfferFetcher:
    """Asks for messages of one pool again and again."""

    def __init__(
        self, where: QueueAddress, link: NatsConnection, pool: str, room: Callable[[], int], take: Callable[[Msg], None]
    ) -> None:
        self._where = where
        self._link = link
        self._pool = pool
        self._room = room
        self._take = take
        self._inbox = f"{where.inbox}.{secrets.token_hex(11)}"
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{where.stream}.{where.consumer(pool)}"
        self._awaited = 0
        self._is_missing = True
        self._is_answered = asyncio.Event()
        self._has_room = asyncio.Event()
        link.subscribe(self._inbox, self._hear)

    def wake(self) -> None:
        """There may be room again."""
        self._has_room.set()

    def up(self) -> None:
        """There is a new connection: what was asked for on the last one does not come."""
        self._is_answered.set()
        self._has_room.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if self._is_missing and self._link.is_up:
                await self._make()
            room = self._room() if self._link.is_up and not self._is_missing else 0
            if not room:
                self._has_room.clear()
                await _within(self._has_room, _FULL_DELAY)
                continue
            self._awaited = room
            self._is_answered.clear()
            request = {"batch": room, "expires": int(_FETCH_TIMEOUT * 1_000_000_000)}
            if self._link.send(self._subject, json.dumps(request).encode(), self._inbox):
                await _within(self._is_answered, _FETCH_TIMEOUT + _ANSWER_TIMEOUT)

    async def _make(self) -> None:
        try:
            await ensure_pool_consumer(self._where, self._link, self._pool)
            self._is_missing = False
        except (NatsRefused, NatsUnavailable) as e:
            _log.debug("pool %s: %s", self._pool, e, extra={"action": "pool_missing"})
            await asyncio.sleep(_RETRY_DELAY)

    def _hear(self, message: Msg) -> None:
        status = response_status(message)
        if status == _STILL_THERE:
            return
        if not status:
            self._awaited -= 1
            self._take(message)
            if self._awaited > 0:
                return
        elif status not in _NOTHING_NOW:
            # The stream or what we fetch from is gone, or has moved: made again, if need be.
            self._is_missing = True
        self._is_answered.set()


async def _within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
