"""A node's shares of the limits of its cluster: what it needs, what the store grants, what the live tasks may use."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from evenbeat.clock.system_clock import boot_time
from evenbeat.core.columns import Ints
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.limit_shares import (
    ALL_SLOTS_KEY,
    SMALL_LIMIT_PAUSE,
    LimitDemand,
    LimitShares,
    ShareRequest,
    SharesView,
)
from evenbeat.core.partition_ownership import LEASE_RENEWAL_INTERVAL
from evenbeat.core.task import Flag
from evenbeat.model import SECOND
from evenbeat.node.cluster.lease import HeldLease
from evenbeat.node.scheduler import Scheduler
from evenbeat.report.cluster_view import decode_node_info
from evenbeat.store.cluster_contract import ClusterSnapshot, ClusterStore

_MIN_INTERVAL: Final = 0.02
"""Seconds between two looks at the demand, at least."""


class LimitSharing:
    """Applies the shares of this node to its live tasks, and has the store decide about them anew."""

    def __init__(self, node: Scheduler, store: ClusterStore, lease: HeldLease, lock: asyncio.Lock) -> None:
        """Held while partitions come and go, the `lock` keeps shares from changing with them."""
        self._node = node
        self._store = store
        self._lease = lease
        self._lock = lock
        self.shares = LimitShares()
        self._slots = 0
        self._limits: dict[str, int] = {}
        """The maximum for all nodes together."""
        self.is_wanted = asyncio.Event()
        """Shares should be decided about before the next interval ends."""
        self.needs_changed = asyncio.Event()
        """What this node needs has changed: the others should see it before the lease is due for renewal."""
        self._looked = 0.0

    def set_limits(self, slots: int, limits: dict[str, int]) -> None:
        """The maximum of runs at the same time, for all nodes together, is now this."""
        self._slots, self._limits = slots, limits
        self.apply()

    def apply(self) -> None:
        """Let the live tasks use the shares that this node has."""
        tasks = self._node.tasks
        life = tasks.lifecycle
        before = life.slots, life.limits.tolist()
        life.slots = self.shares.room(ALL_SLOTS_KEY)
        tasks.set_limits({name: self.shares.room(name) for name in self._limits})
        if (life.slots, life.limits.tolist()) != before:
            self._node.turns.plan_turn_soon()

    def look_at_demand(self) -> None:
        """After a turn: have runs begun to wait for a limit, or is something unused that other nodes wait for?"""
        now = self._node.loop.time()
        if now - self._looked < _MIN_INTERVAL:
            return
        self._looked = now
        if not self.shares.wanted_by_others and not len(self._node.tasks.lifecycle.waiting):
            return
        if self.shares.is_to_be_settled(self._demands()):
            self.is_wanted.set()

    async def keep_settled(self) -> None:
        """One round: wait for a reason or an interval, then have the store decide.

        A job apart from the lease: what is decided among all nodes may have to wait for another node.
        """
        longest = SMALL_LIMIT_PAUSE if self.shares.is_soon_again else LEASE_RENEWAL_INTERVAL
        with suppress(TimeoutError):
            await asyncio.wait_for(self.is_wanted.wait(), longest / SECOND)
        self.is_wanted.clear()
        if self._lease.may_act():
            await self._settle(await asyncio.to_thread(self._store.view))

    async def _settle(self, snapshot: ClusterSnapshot) -> None:
        needed: dict[str, dict[str, int]] = {}
        for lease in snapshot.leases:
            about = decode_node_info(lease)
            for key in about.needs if lease.node != self._lease.id else ():
                needed.setdefault(key, {})[lease.node] = about.waits_since.get(key, snapshot.now)
        async with self._lock:
            demands = self._demands()
            before = self.shares.waits_since.copy()
            wishes = self.shares.wish(self._lease.id, _shares_view_of(snapshot), needed, demands, boot_time())
            unused = [key for key in self.shares.ours if key not in demands]
            self.apply()
            if wishes or unused:
                decided = await asyncio.to_thread(_ask_for_shares, self._store, wishes, unused)
                self.shares.learn(decided, boot_time())
                for key in unused:
                    self.shares.ours.pop(key, None)
                self.apply()
        if self.shares.waits_since != before:
            self.needs_changed.set()

    def _demands(self) -> dict[str, LimitDemand]:
        """What this node needs at this moment."""
        life, numbers = self._node.tasks.lifecycle, self._node.tasks.limit_numbers
        c = life.columns
        waiting = np.bincount(c.limit[life.waiting], minlength=len(life.limits)) if len(life.waiting) else None
        found = {ALL_SLOTS_KEY: LimitDemand(self._slots, life.pending, len(life.waiting))}
        for name, limit in self._limits.items():
            number = numbers[name]
            held_back = 0 if waiting is None else int(waiting[number])
            found[name] = LimitDemand(limit, int(life.pending_by_limit[number]), held_back)
        return found

    def forget(self) -> None:
        """Every share is another node's."""
        self.shares.forget()
        self.apply()


def _shares_view_of(snapshot: ClusterSnapshot) -> SharesView:
    """What decides about shares, of all that the store says."""
    return SharesView(snapshot.now, [lease.node for lease in snapshot.leases], snapshot.shares)


def _ask_for_shares(store: ClusterStore, wishes: Mapping[str, ShareRequest], unused: Sequence[str]) -> dict[str, int]:
    """Have the store decide about these shares, and drop those of `unused` keys; the new shares. Blocks."""
    for key in unused:
        store.set_share(key, 0, lambda _: 0)
    return {
        key: store.set_share(key, wish.demand.limit, wish.decide, wish.demand.running) for key, wish in wishes.items()
    }


def running_by_key(life: Lifecycle, rows: Ints, numbers: Mapping[str, int]) -> dict[str, int]:
    """How many of some tasks run, by the keys of their limits."""
    c = life.columns
    running = rows[c.flags[rows] & int(Flag.RUNNING) != 0]
    found = {ALL_SLOTS_KEY: len(running)}
    for name, number in numbers.items():
        found[name] = int(np.count_nonzero(c.limit[running] == number))
    return {key: count for key, count in found.items() if count}
