"""What only the node that holds a task can do: others give it an order, through the store, and wait for the answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Final

import msgspec

from evenbeat.store.cluster_contract import ClusterStore, ForwardedRequest
from evenbeat.store.contract import StoreError
from evenbeat.wire.replies import HeldByOtherNode, Reply
from evenbeat.wire.requests import RELAY_TIMEOUT, Request

_POLL_INTERVAL: Final = 0.2
"""Seconds between two looks for an answer, should the hint have been lost."""
_log: Final = logging.getLogger("evenbeat.cluster")
_request_decoder: Final = msgspec.json.Decoder(Request)


class ForwardedRequests:
    """Those that we give, and those that we do."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._doing: set[asyncio.Task[None]] = set()
        self.perform: Callable[[Request], Awaitable[Reply | None]] | None = None
        """How one is done."""
        self.answered = asyncio.Event()
        """Some order of somebody's has its answer."""

    async def do(self, partitions: Collection[int], prepare: Callable[[], Awaitable[None]]) -> None:
        """Begin with what is asked of the tasks in these partitions; `prepare` for it first."""
        found = await asyncio.to_thread(self._store.take_orders, sorted(partitions))
        if found:
            await prepare()
        for order in found:
            task = asyncio.create_task(self._do(order))
            self._doing.add(task)
            task.add_done_callback(self._doing.discard)

    async def _do(self, order: ForwardedRequest) -> None:
        assert self.perform is not None
        try:
            try:
                reply = await self.perform(_request_decoder.decode(order.request))
            except HeldByOtherNode:
                # It has left us meanwhile: whoever has it now does it.
                await asyncio.to_thread(self._store.give_back_order, order.id)
            else:
                assert reply is not None, "nobody watches by an order"
                await asyncio.to_thread(self._store.answer, order.id, msgspec.json.encode(reply))
        except (StoreError, msgspec.DecodeError) as e:
            _log.error("an order was not done: %s", e, extra={"action": "order_failed"})

    async def give(self, number: int, request: Request, patience: float | None = RELAY_TIMEOUT) -> Reply:
        """Have it done by the node that has this task."""
        loop = asyncio.get_running_loop()
        id_ = await asyncio.to_thread(self._store.forward_request, number, msgspec.json.encode(request))
        deadline = None if patience is None else loop.time() + patience
        while True:
            self.answered.clear()
            reply = await asyncio.to_thread(self._store.reply, id_)
            if reply is not None:
                return msgspec.json.decode(reply, type=Reply)
            if deadline is not None and loop.time() > deadline:
                raise StoreError("no node has answered for this task: the cluster is without one at the moment")
            with suppress(TimeoutError):
                await asyncio.wait_for(self.answered.wait(), _POLL_INTERVAL)
