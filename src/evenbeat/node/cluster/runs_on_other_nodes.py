"""Fresh runs of checks of other nodes: problems of this node's tasks wait for them before they are told.

The node that holds a check is asked for a run; that it was made, and what came of it, is read in the store. A request
that is lost is sent again after a while, and means no second run to a node that got it. See `core.problem_holds`.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from evenbeat.core.problem_holds import ASK_AGAIN_AFTER
from evenbeat.core.reachability import ForeignAsk
from evenbeat.model import SECOND, Instant, partition_of
from evenbeat.node.cluster.forwarded_requests import ForwardedRequests
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import StoreError
from evenbeat.wire.requests import AskForFreshRuns

_PATIENCE: Final = ASK_AGAIN_AFTER / SECOND
"""Seconds in which a node has to answer, before it is asked again."""
_log: Final = logging.getLogger("evenbeat.cluster")


class FreshRunsElsewhere:
    """Asks other nodes for runs of the checks that the problems of this one wait for."""

    def __init__(self, node: Scheduler, requests: ForwardedRequests) -> None:
        self._node = node
        self._requests = requests
        self._asking: set[asyncio.Task[None]] = set()

    def ask(self) -> None:
        """Send what is to be asked now: one request for each partition. Answers are taken when they come."""
        asks = self._node.turns.holds.foreign_asks()
        for partition in {partition_of(ask.number) for ask in asks.values()}:
            some = {name: ask for name, ask in asks.items() if partition_of(ask.number) == partition}
            task = asyncio.create_task(self._ask(some))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, asks: Mapping[str, ForeignAsk]) -> None:
        request = AskForFreshRuns({ask.number: Instant(ask.since) for ask in asks.values()})
        try:
            reply = await self._requests.forward(next(iter(request.checks)), request, _PATIENCE)
        except StoreError as e:
            _log.debug("a node was not asked for runs: %s", e, extra={"action": "node_silent"})
            return
        unable = {name: ask for name, ask in asks.items() if ask.number in (reply.unable or ())}
        self._node.tasks.reachability.learn_unable(unable)
