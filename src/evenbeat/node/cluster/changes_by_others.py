"""What any node or program has changed: read from the store and made true of the live tasks of this node."""

import asyncio
from contextlib import suppress
from typing import Final

from evenbeat.model import Instant
from evenbeat.node.cluster.foreign_parents import ForeignParents
from evenbeat.node.cluster.forwarded_requests import ForwardedRequests
from evenbeat.node.cluster.partitions import HeldPartitions
from evenbeat.node.cluster.runs_on_other_nodes import FreshRunsElsewhere
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.cluster_contract import ClusterStore, CommitsForgotten, StoreChanges
from evenbeat.store.contract import PastDefinition
from evenbeat.wire.replies import ChangeResult

POLL_INTERVAL: Final = 1.0
"""Seconds between two looks into the store, should a hint have been lost."""


class StoreNews:
    """Reads changes of tasks and settings since a stamp of the store."""

    def __init__(
        self,
        node: Scheduler,
        store: ClusterStore,
        partitions: HeldPartitions,
        requests: ForwardedRequests,
        lock: asyncio.Lock,
    ) -> None:
        """Held while news is applied, the `lock` keeps partitions from coming and going."""
        self._node = node
        self._store = store
        self._partitions = partitions
        self._lock = lock
        self._parents = ForeignParents(node, store, FreshRunsElsewhere(node, requests))
        self.stamp = 0
        """What was changed up to this stamp is true of the live tasks."""
        self.is_there = asyncio.Event()
        """The store has hinted at news."""

    def look_back_to(self, stamp: int) -> None:
        """Tasks were read at this stamp: what was changed after it is news."""
        self.stamp = min(self.stamp, stamp)
        self.is_there.set()

    async def wait_and_apply(self) -> None:
        """One round: wait for a hint or an interval, then apply what there is, and look at checks of other nodes."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.is_there.wait(), POLL_INTERVAL)
        self.is_there.clear()
        await self.apply()
        await self._parents.look()

    async def apply(self) -> None:
        """When this returns, everything changed before the call is true of the live tasks."""
        async with self._lock:
            news = await asyncio.to_thread(self._store.changes_since, self.stamp, sorted(self._partitions.held))
            if news.stamp < self.stamp:
                raise CommitsForgotten("the database has forgotten changes of tasks that it had confirmed")
            past = await asyncio.to_thread(self._past_definitions) if news.settings else []
            self._apply(news, Instant(max((some.until for some in past if some.periods is not None), default=0)))
            self.stamp = max(self.stamp, news.stamp)

    def _past_definitions(self) -> list[PastDefinition]:
        return list(self._store.past_definitions_in(sorted(self._partitions.held)))

    def _apply(self, news: StoreChanges, settings_at: Instant) -> None:
        tasks = self._node.tasks
        here = {entry.number: tasks.row(entry.number) is not None for entry in news.entries}
        changed = ChangeResult(
            created=[entry for entry in news.entries if not here[entry.number]],
            changed=[entry for entry in news.entries if here[entry.number]],
            removed=[entry for entry in news.removed if tasks.row(entry.number) is not None],
            settings=news.settings,
            settings_at=settings_at,
        )
        if changed.created or changed.changed or changed.removed or changed.settings:
            self._node.live.apply(changed)
