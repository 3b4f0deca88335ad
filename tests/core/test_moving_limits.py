"""Limits of a cluster as they go from node to node, on a virtual clock: who waits for one, and for how long."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.core.limit_shares import LimitDemand, LimitShares, SharesView, limit_share
from evenbeat.model import SECOND

TICK = 5_000
WAY = 20_000
"""Microseconds until a hint is heard, and acted upon."""
RENEW = SECOND


class Store:
    """The shares of one key, as the store has them: never more than the limit together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.shares: dict[str, int] = {}
        self.waits: dict[str, dict[str, int]] = {}

    def set_share(self, node: str, decide: Callable[[int], int], running: int) -> int:
        others = sum(amount for name, amount in self.shares.items() if name != node)
        mine, wanted = self.shares.get(node, 0), decide(others)
        if wanted > mine:
            wanted = max(mine, min(wanted, self.limit - others))
        self.shares[node] = max(wanted, running)
        assert sum(self.shares.values()) <= self.limit
        return self.shares[node]


class Node:
    """One that has some tasks, and looks at its shares when it has a reason, or every second."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store
        self.shares = LimitShares()
        self.waiting: list[int] = []
        self.ends: list[int] = []
        self.settle_at = 0
        self.late: list[int] = []

    @property
    def demand(self) -> dict[str, LimitDemand]:
        return {"one": LimitDemand(self.store.limit, len(self.ends), len(self.waiting))}

    def hint(self, at: int) -> None:
        self.settle_at = min(self.settle_at, at)

    def turn(self, now: int, lasts: int) -> None:
        self.ends = [end for end in self.ends if end > now]
        while self.waiting and len(self.ends) < self.shares.room("one"):
            self.late.append(now - self.waiting.pop(0))
            self.ends.append(now + lasts)
        if self.shares.is_to_be_settled(self.demand):
            self.hint(now + TICK)

    def settle(self, now: int, others: list["Node"]) -> None:
        before, waits = self.store.shares.get(self.name, 0), self.shares.waits_since.copy()
        nodes = [self.name, *(other.name for other in others)]
        view = SharesView(now, nodes, {"one": dict(self.store.shares)})
        needed = {"one": {name: some["one"] for name, some in self.store.waits.items() if "one" in some}}
        for key, wish in self.shares.wish(self.name, view, needed, self.demand, now).items():
            decided = self.store.set_share(self.name, wish.decide, wish.demand.running)
            self.shares.learn({key: decided}, now)
        self.settle_at = now + (SECOND // 10 if self.shares.is_soon_again else RENEW)
        gave = self.store.shares.get(self.name, 0) < before
        if self.shares.waits_since != waits:
            self.store.waits[self.name] = self.shares.waits_since.copy()
        if gave or self.shares.waits_since != waits:
            for other in others:
                other.hint(now + WAY)


def live(holders: list[int], nodes: int, limit: int, every: int, lasts: int, seconds: int) -> tuple[list[int], int]:
    """How late each run was, of tasks that are spread evenly over their interval; and how many did not run."""
    store = Store(limit)
    all_ = [Node(f"n{i}", store) for i in range(nodes)]
    phases = [i * every // len(holders) // TICK * TICK for i in range(len(holders))]
    due = 0
    for now in range(0, seconds * SECOND, TICK):
        for phase, holder in zip(phases, holders, strict=True):
            if now % every == phase and now < (seconds - 5) * SECOND:
                all_[holder].waiting.append(now)
                due += 1
        for node in all_:
            node.turn(now, lasts)
            if now >= node.settle_at:
                node.settle(now, [other for other in all_ if other is not node])
    late = [one for node in all_ for one in node.late]
    return late, due - len(late)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), min_size=3))))
def test_a_limit_of_one_is_where_it_is_needed_wherever_its_tasks_are(cluster: tuple[int, list[int]]) -> None:
    nodes, holders = cluster
    late, missing = live(holders[:3], nodes, 1, 4 * SECOND, 300_000, 30)
    assert missing == 0
    assert max(late) < SECOND // 2


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("holders", [[0, 0, 0, 1], [0, 1, 0, 1], [0, 1, 2, 2]])
def test_no_node_starves_while_others_always_want_more(limit: int, holders: list[int]) -> None:
    """Twice as much is wanted as there is: each node has runs all the time."""
    store = Store(limit)
    nodes = [Node(f"n{i}", store) for i in range(max(holders) + 1)]
    for now in range(0, 20 * SECOND, TICK):
        for node in nodes:
            node.waiting = node.waiting or [now, now]
            node.turn(now, 300_000)
            if now >= node.settle_at:
                node.settle(now, [other for other in nodes if other is not node])
    begun = [len(node.late) for node in nodes]
    assert min(begun) > 20 * limit / (0.3 + 0.25) / len(nodes) / 2, "half of what would be fair, with all the ways"


def test_who_needs_a_small_limit_again_and_again_and_is_alone_keeps_it() -> None:
    late, missing = live([1, 1, 1], 2, 1, 4 * SECOND, 300_000, 30)
    assert missing == 0
    assert sorted(late)[-2] <= TICK, "only the first waits until it has it"


def test_a_small_limit_is_never_more_than_it_is() -> None:
    wish = LimitShares().wish("a", SharesView(0, [], {"one": {"b": 1}}), {}, {"one": LimitDemand(1, 0, 3)}, 0)
    assert wish["one"].decide(1) == 0
    assert limit_share(1, 1, 3, 1, others_need=False) == 0
