"""The limits of a cluster, as one node has its share of them: all slots under the key "", each limit under its name."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from evenbeat.core.authority import fair_limit_share, is_small_limit, limit_share, small_limit_need
from evenbeat.core.columns import Ints
from evenbeat.core.task import Flag
from evenbeat.store.cluster_contract import ClusterSnapshot, ClusterStore

if TYPE_CHECKING:
    from evenbeat.node.loop.task_table import TaskTable

ALL_SLOTS_KEY: Final = ""
_ROTATION: Final = 10_000_000
"""Microseconds after which what cannot be divided goes to the next node."""


class LimitDemand(NamedTuple):
    """Of one key: how many there may be in all nodes, how many run here, how many wait here for one to end."""

    limit: int
    running: int
    waiting: int


class ShareRequest(NamedTuple):
    """What we want of one key, and by what it is decided."""

    demand: LimitDemand
    need: int
    fair: int
    others_need: bool

    def room(self, others: int) -> int:
        """Up to how many we may begin more, given what the others have ..."""
        return limit_share(self.demand.limit, others, self.need, self.fair, others_need=self.others_need)

    def decide(self, others: int) -> int:
        """... and what our share is to be: what runs here keeps its part, until it ends."""
        return max(self.room(others), self.demand.running)


class LimitShares:
    """What is ours, decided anew as often as the lease is renewed.

    What we give back we stop using before others can have it; what we get, we use when it is ours.
    """

    def __init__(self) -> None:
        self.ours: dict[str, int] = {}
        """By the store ..."""
        self._rooms: dict[str, int] = {}
        """... and what of it may be used by what begins: less, while more runs here than should."""
        self.needs: set[str] = set()
        """Keys of which we want more than we have: others who see it give back what they do not need."""
        self.waits_since: dict[str, int] = {}
        """Since when we have had nothing more of these keys, by the clock of the store."""
        self.wanted_by_others: set[str] = set()
        """Small limits that other nodes wait for, while we have some of them."""
        self._got: dict[str, int] = {}
        self._free_since: dict[str, int] = {}
        """When our share of a small limit last grew, and since when some of it is seen to be free."""
        self.is_soon_again = False
        """Something waits here that may ask for more in a moment, or is to begin with what it got."""

    def forget(self) -> None:
        """Somebody else has it all."""
        self.ours, self._rooms, self.needs = {}, {}, set()
        self.waits_since, self.wanted_by_others, self._got, self._free_since = {}, set(), {}, {}

    def room(self, key: str) -> int:
        """How many may run here when another one begins."""
        ours = self.ours.get(key, 0)
        return min(ours, self._rooms.get(key, ours))

    def carry(self, shares: Mapping[str, int]) -> None:
        """We have taken partitions, and with them the share of what runs there."""
        self.ours |= shares

    def put_down(self, running: Mapping[str, int]) -> None:
        """What runs is another node's in a moment, and so is its share."""
        for key, count in running.items():
            self.ours[key] = max(self.ours.get(key, 0) - count, 0)

    def wish(
        self,
        me: str,
        view: ClusterSnapshot,
        needed: Mapping[str, Mapping[str, int]],
        demands: Mapping[str, LimitDemand],
        now: int,
    ) -> dict[str, ShareRequest]:
        """What to ask the store for. What is to be given back is not ours any more when this returns.

        `needed` says which nodes want more of each key, and since when; `now` is on a clock that nobody sets.
        """
        nodes = sorted({lease.node for lease in view.leases} | {me})
        wishes: dict[str, ShareRequest] = {}
        self.is_soon_again = False
        for key, demand in demands.items():
            waiting = {node: since for node, since in needed.get(key, {}).items() if node != me}
            mine = self.ours.get(key, 0)
            others = sum(amount for node, amount in view.shares.get(key, {}).items() if node != me)
            if is_small_limit(demand.limit, len(nodes)):
                place = self.waits_since.get(key, view.now), me
                is_first = all(place < (since, node) for node, since in waiting.items())
                is_free = others + mine < demand.limit
                _track_since(self._free_since, key, now, is_so=is_free)
                wish = self._wish_of_small(key, demand, others_need=bool(waiting), is_first=is_first, now=now)
            else:
                wish = _request_for_large_limit(demand, nodes, me, view.now // _ROTATION, others_need=bool(waiting))
            wanted = wish.decide(others)
            self._rooms[key] = wish.room(others)
            if wanted != mine or key not in self.ours:
                wishes[key] = wish
                self.ours[key] = min(mine, wanted)
            is_needed = bool(demand.waiting) and self.room(key) <= demand.running
            (self.needs.add if is_needed else self.needs.discard)(key)
            _track_since(self.waits_since, key, view.now, is_so=is_needed)
        return wishes

    def _wish_of_small(
        self, key: str, demand: LimitDemand, *, others_need: bool, is_first: bool, now: int
    ) -> ShareRequest:
        mine = self.ours.get(key, 0)
        need = small_limit_need(
            demand.running,
            demand.waiting,
            mine,
            others_need=others_need,
            is_first=is_first,
            since_got=now - self._got.get(key, 0),
            since_free=now - self._free_since.get(key, now),
        )
        if others_need and demand.waiting and need < demand.running + demand.waiting:
            self.is_soon_again = True
        if others_need and mine:
            self.wanted_by_others.add(key)
        else:
            self.wanted_by_others.discard(key)
        return ShareRequest(demand, min(need, demand.limit), demand.limit, others_need=False)

    def is_to_be_settled(self, demands: Mapping[str, LimitDemand]) -> bool:
        """Has something begun to wait that no other node knows of, or is something idle that others wait for?"""
        for key, demand in demands.items():
            if demand.waiting and key not in self.needs and self.room(key) <= demand.running < demand.limit:
                return True
            if key in self.wanted_by_others and demand.running < self.ours.get(key, 0):
                return True
        return False

    def learn(self, shares: Mapping[str, int], now: int) -> None:
        """What the store has decided."""
        for key, amount in shares.items():
            if amount > self.ours.get(key, 0):
                self._got[key] = now
                self.waits_since.pop(key, None)
            self.ours[key] = amount

    def ask(self, store: ClusterStore, wishes: Mapping[str, ShareRequest], unused: Sequence[str]) -> dict[str, int]:
        """Tell the store: how much of each key it is now. Blocks."""
        for key in unused:
            store.set_share(key, 0, lambda _: 0)
        return {
            key: store.set_share(key, wish.demand.limit, wish.decide, wish.demand.running)
            for key, wish in wishes.items()
        }


def _track_since(times: dict[str, int], key: str, now: int, *, is_so: bool) -> None:
    """Remember since when something is so of a key."""
    if is_so:
        times.setdefault(key, now)
    else:
        times.pop(key, None)


def _request_for_large_limit(
    demand: LimitDemand, nodes: Sequence[str], me: str, turn: int, *, others_need: bool
) -> ShareRequest:
    fair = fair_limit_share(demand.limit, nodes, me, turn)
    busy = demand.running + demand.waiting
    need = busy + max(1, fair // 4) if others_need else max(fair, busy)
    return ShareRequest(demand, min(need, demand.limit), fair, others_need)


def limit_demands_of(
    roster: "TaskTable", slots: int, limits: Mapping[str, int], numbers: Mapping[str, int]
) -> dict[str, LimitDemand]:
    """What a live node needs at this moment."""
    life, c = roster.lifecycle, roster.columns
    waiting = np.bincount(c.limit[life.waiting], minlength=len(life.limits)) if len(life.waiting) else None
    found = {ALL_SLOTS_KEY: LimitDemand(slots, life.pending, len(life.waiting))}
    for name, limit in limits.items():
        number = numbers[name]
        held_back = 0 if waiting is None else int(waiting[number])
        found[name] = LimitDemand(limit, int(life.pending_by_limit[number]), held_back)
    return found


def running_by_key(roster: "TaskTable", rows: Ints, numbers: Mapping[str, int]) -> dict[str, int]:
    """How many of some tasks run, by the keys of their limits."""
    c = roster.columns
    running = rows[c.flags[rows] & int(Flag.RUNNING) != 0]
    found = {ALL_SLOTS_KEY: len(running)}
    for name, number in numbers.items():
        found[name] = int(np.count_nonzero(c.limit[running] == number))
    return {key: count for key, count in found.items() if count}
