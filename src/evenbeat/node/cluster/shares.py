"""The limits of a cluster, as one node sees and asks for its shares of them: see `core.limit_shares`."""

from collections.abc import Mapping, Sequence

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.limit_shares import ALL_SLOTS_KEY, LimitDemand, ShareRequest, SharesView
from evenbeat.core.task import Flag
from evenbeat.store.cluster_contract import ClusterSnapshot, ClusterStore


def shares_view_of(snapshot: ClusterSnapshot) -> SharesView:
    """What decides about shares, of all that the store says."""
    return SharesView(snapshot.now, [lease.node for lease in snapshot.leases], snapshot.shares)


def ask_for_shares(store: ClusterStore, wishes: Mapping[str, ShareRequest], unused: Sequence[str]) -> dict[str, int]:
    """Have the store decide about these shares, and drop those of `unused` keys; the new shares. Blocks."""
    for key in unused:
        store.set_share(key, 0, lambda _: 0)
    return {
        key: store.set_share(key, wish.demand.limit, wish.decide, wish.demand.running) for key, wish in wishes.items()
    }


def limit_demands_of(
    life: Lifecycle, slots: int, limits: Mapping[str, int], numbers: Mapping[str, int]
) -> dict[str, LimitDemand]:
    """What a live node needs at this moment. `numbers` are those of the limits in its columns."""
    c = life.columns
    waiting = np.bincount(c.limit[life.waiting], minlength=len(life.limits)) if len(life.waiting) else None
    found = {ALL_SLOTS_KEY: LimitDemand(slots, life.pending, len(life.waiting))}
    for name, limit in limits.items():
        number = numbers[name]
        held_back = 0 if waiting is None else int(waiting[number])
        found[name] = LimitDemand(limit, int(life.pending_by_limit[number]), held_back)
    return found


def running_by_key(life: Lifecycle, rows: Ints, numbers: Mapping[str, int]) -> dict[str, int]:
    """How many of some tasks run, by the keys of their limits."""
    c = life.columns
    running = rows[c.flags[rows] & int(Flag.RUNNING) != 0]
    found = {ALL_SLOTS_KEY: len(running)}
    for name, number in numbers.items():
        found[name] = int(np.count_nonzero(c.limit[running] == number))
    return {key: count for key, count in found.items() if count}
