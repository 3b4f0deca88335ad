"""Requests that only the node that holds a task can perform: other nodes forward them through the store."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from evenbeat.model import Entry
from evenbeat.store.cluster_contract import ClusterStore, ForwardedRequest
from evenbeat.store.contract import Filter, StoreError
from evenbeat.wire.replies import HeldByOtherNode, Reply, raise_if_refused
from evenbeat.wire.requests import RELAY_TIMEOUT, ForceTasks, Request, StopRuns

_POLL_INTERVAL: Final = 0.2
"""Seconds between two looks for an answer, should the hint have been lost."""
_log: Final = logging.getLogger("evenbeat.cluster")
_request_decoder: Final = msgspec.json.Decoder(Request)


def passed_on(entry: Entry, request: ForceTasks) -> ForceTasks:
    """The request for one of its tasks, as the node gets it that holds the task."""
    return ForceTasks((entry.id,), request.who, request.wait, is_passed_on=True, arguments=request.arguments)


class ForwardedRequests:
    """Forwards requests to other nodes, and performs those of others."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._doing: set[asyncio.Task[None]] = set()
        self.perform: Callable[[Request], Awaitable[Reply | None]] | None = None
        """Performs a request on this node."""
        self.are_there = asyncio.Event()
        """The store has hinted at requests for this node."""
        self.answered = asyncio.Event()
        """The store has hinted at an answer."""

    async def perform_for_others(self, partitions: Collection[int], prepare: Callable[[], Awaitable[None]]) -> None:
        """Begin with the requests for tasks in these partitions; `prepare` for it first."""
        found = await asyncio.to_thread(self._store.take_requests, sorted(partitions))
        if found:
            await prepare()
        for request in found:
            task = asyncio.create_task(self._perform(request))
            self._doing.add(task)
            task.add_done_callback(self._doing.discard)

    async def _perform(self, forwarded: ForwardedRequest) -> None:
        assert self.perform is not None
        try:
            try:
                reply = await self.perform(_request_decoder.decode(forwarded.request))
            except HeldByOtherNode:
                # Its partition was handed over meanwhile: the new holder performs it.
                await asyncio.to_thread(self._store.return_request, forwarded.id)
            else:
                assert reply is not None, "subscriptions are not forwarded"
                await asyncio.to_thread(self._store.answer, forwarded.id, msgspec.json.encode(reply))
        except (StoreError, msgspec.DecodeError) as e:
            _log.error("a forwarded request was not performed: %s", e, extra={"action": "order_failed"})

    async def forward(self, number: int, request: Request, patience: float | None = RELAY_TIMEOUT) -> Reply:
        """Have a request performed by the node that holds this task; without `patience` wait for ever."""
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

    async def forward_force(self, entries: Sequence[Entry], request: ForceTasks) -> list[Reply]:
        """Have these tasks run by the nodes that hold them; raise what one of those nodes refuses."""
        return await self._forward_all(
            [(entry.number, passed_on(entry, request)) for entry in entries],
            is_patient=request.wait,
        )

    async def forward_stop(self, entries: Sequence[Entry], request: StopRuns) -> list[Reply]:
        """Have the runs of these tasks stopped by the nodes that hold them; raise what one of those nodes refuses."""
        return await self._forward_all(
            [(e.number, replace(request, only=Filter(names=(e.id,)))) for e in entries], is_patient=request.wait
        )

    async def _forward_all(self, requests: Sequence[tuple[int, Request]], *, is_patient: bool) -> list[Reply]:
        patience = None if is_patient else RELAY_TIMEOUT
        replies = await asyncio.gather(*(self.forward(number, request, patience) for number, request in requests))
        for reply in replies:
            raise_if_refused(reply)
        return replies
