"""The limits of a cluster, as one node has its share of them: all slots under the key "", each limit under its name."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from evenbeat.core.authority import fair_share, share
from evenbeat.store.cluster import ClusterStore, View

if TYPE_CHECKING:
    from evenbeat.node.roster import Roster

ALL_SLOTS: Final = ""
_TURN: Final = 10_000_000
"""Microseconds after which what cannot be divided goes to the next node."""


class Demand:
    """Of one key: how many there may be in all nodes, how many run here, how many wait here for one to end."""

    def __init__(self, limit: int, running: int, waiting: int) -> None:
        self.limit = limit
        self.running = running
        self.waiting = waiting


def _decide(demand: Demand, need: int, fair: int, others_need: bool, had: int, others: int) -> int:  # noqa: FBT001
    """What our share is to be, given what it was and what the others have. What runs here keeps its part."""
    return max(share(demand.limit, had, others, need, fair, others_need=others_need), min(had, demand.running))


class Shares:
    """What is ours, decided anew as often as the lease is renewed."""

    def __init__(self) -> None:
        self.ours: dict[str, int] = {}
        self.needs: set[str] = set()
        """Keys of which we want more than we have: others who see it give back what they do not need."""

    def forget(self) -> None:
        self.ours, self.needs = {}, set()

    def settle(
        self,
        store: ClusterStore,
        me: str,
        view: View,
        needed: Mapping[str, Sequence[str]],
        demands: Mapping[str, Demand],
    ) -> bool:
        """Ask for what is needed and give back what is not; whether anything has changed. Blocks.

        `needed` says which nodes want more of each key.
        """
        nodes = sorted({lease.node for lease in view.leases} | {me})
        before = dict(self.ours)
        for key, demand in demands.items():
            fair = fair_share(demand.limit, nodes, me, view.now // _TURN)
            others_need = any(node != me for node in needed.get(key, ()))
            mine = self.ours.get(key, 0)
            busy = demand.running + demand.waiting
            need = busy + max(1, fair // 4) if others_need else max(fair, busy)
            need = min(need, demand.limit)

            decide = partial(_decide, demand, need, fair, others_need)
            known = view.shares.get(key, {})
            others = sum(amount for node, amount in known.items() if node != me)
            if key not in self.ours or decide(mine, others) != mine:
                self.ours[key] = store.set_share(key, demand.limit, decide)
            if demand.waiting and self.ours[key] <= demand.running:
                self.needs.add(key)
            else:
                self.needs.discard(key)
        for key in [key for key in self.ours if key not in demands]:
            store.set_share(key, 0, lambda _had, _others: 0)
            del self.ours[key]
        return self.ours != before


def demands_of(
    roster: "Roster", slots: int, limits: Mapping[str, int], numbers: Mapping[str, int]
) -> dict[str, Demand]:
    """What a live node needs at this moment."""
    life, c = roster.lifecycle, roster.columns
    waiting = np.bincount(c.limit[life.waiting], minlength=len(life.limits)) if len(life.waiting) else None
    found = {ALL_SLOTS: Demand(slots, life.pending, len(life.waiting))}
    for name, limit in limits.items():
        number = numbers[name]
        held_back = 0 if waiting is None else int(waiting[number])
        found[name] = Demand(limit, int(life.pending_by_limit[number]), held_back)
    return found
