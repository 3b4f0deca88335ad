"""Checks of other nodes that tasks of this one depend on: what their stored progress says."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from hand_driven_node import HandDrivenNode

from evenbeat.core.task import Flag
from evenbeat.model import HOUR, MINUTE, Entry, Instant
from evenbeat.node.cluster.foreign_parents import ForeignParents
from evenbeat.node.cluster.forwarded_requests import ForwardedRequests
from evenbeat.node.cluster.runs_on_other_nodes import FreshRunsElsewhere
from evenbeat.store.cluster_contract import CheckPosition
from evenbeat.store.contract import Filter, Store


class SharedStore:
    """A store that is asked for tasks of any partition, as that of a cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def positions_of(self, names: Sequence[str]) -> list[CheckPosition]:
        found = self._store.conditions(Filter(names=tuple(names)))
        return [
            CheckPosition(t.name, number, c.entry.version, t.check, t.paused, int(c.state or 0), c.hard, p.result_at)
            for c in found
            for t, number in [(c.entry.task, c.entry.number)]
            for p in self._store.progress()
            if p.task == number
        ]

    def entries_named(self, names: Sequence[str]) -> list[Entry]:
        return list(self._store.entries(Filter(names=tuple(names))))


def test_a_check_of_another_node_counts_until_its_result_is_overdue() -> None:
    node = HandDrivenNode()
    node.add("gateway", check=True, every="1h", phase="30m", attempts=1)
    node.add("a", depends=["gateway"])
    node.turns.passive.submit(node.row("gateway"), 2, "", Instant(node.now), Instant(node.now))
    node.turn()
    node.turns.release_tasks(np.array([node.row("gateway")]))
    store: Any = SharedStore(node.store)
    parents = ForeignParents(node.node, store, FreshRunsElsewhere(node.node, ForwardedRequests(store)))

    def is_unreachable() -> bool:
        asyncio.run(parents.look())
        node.turns.tasks.reachability.settle()
        return not node.columns.flags[node.row("a")] & int(Flag.REACHABLE)

    assert is_unreachable()
    node.now += 29 * MINUTE
    assert is_unreachable(), "it is not due yet"
    node.now += HOUR
    assert not is_unreachable()
