"""Which node decides about which tasks: rendezvous hashing, and steps that converge."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.core import partition_ownership
from evenbeat.core.partition_ownership import (
    LEASE_DURATION,
    LEASE_MARGIN,
    acts_until,
    is_over,
    partition_owners,
    partition_steps,
)
from evenbeat.model import PARTITION_COUNT, SECOND

nodes = st.lists(st.text("abcdef0123456789", min_size=4, max_size=8), min_size=1, max_size=5, unique=True)


def test_a_node_stops_before_its_lease_can_be_taken() -> None:
    # The store counts from when it was asked, or later.
    assert acts_until(0, LEASE_DURATION) == LEASE_DURATION - LEASE_MARGIN
    assert not is_over(LEASE_DURATION, LEASE_DURATION)
    assert is_over(LEASE_DURATION, LEASE_DURATION + 1)


@settings(max_examples=30)
@given(nodes)
def test_every_partition_has_one_owner_whatever_the_order_of_the_nodes(names: list[str]) -> None:
    found = partition_owners(names)
    assert len(found) == PARTITION_COUNT
    assert set(found) <= set(names)
    shuffled = sorted(names, reverse=True)
    assert partition_owners(shuffled) == found


@settings(max_examples=30)
@given(nodes)
def test_who_joins_or_leaves_moves_only_its_own_share(names: list[str]) -> None:
    *rest, newcomer = names
    before, after = partition_owners(rest), partition_owners(names)
    assert all(new in (old, newcomer) for old, new in zip(before, after, strict=True))


def test_shares_of_partitions_are_about_the_same() -> None:
    found = partition_owners([f"node {i}" for i in range(4)])
    assert all(PARTITION_COUNT / 8 < found.count(f"node {i}") < PARTITION_COUNT / 2 for i in range(4))


def test_without_any_node_nobody_owns_anything() -> None:
    assert set(partition_owners([])) == {""}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Partitions, so that there are many tries."""
    monkeypatch.setattr(partition_ownership, "PARTITION_COUNT", 8)
    return 8


class Store:
    """Leases and partitions: each step is one transaction."""

    def __init__(self, partitions: int) -> None:
        self.leases: dict[str, int] = {}
        self.holders: list[str | None] = [None] * partitions

    def apply(self, me: str, leases: dict[str, int], holders: list[str | None], now: int) -> None:
        """What a node does that has seen this, at some time before."""
        found = partition_steps(me, leases, holders, now)
        for dead in found.bury:
            if is_over(self.leases.get(dead, now), now):
                del self.leases[dead]
                self.holders = [None if h == dead else h for h in self.holders]
        if me not in self.leases:
            return
        for p in found.release:
            assert self.holders[p] in (me, None)
            self.holders[p] = None
        for p in found.take:
            self.holders[p] = me if self.holders[p] is None else self.holders[p]


Events = st.sampled_from(["join", "see", "act", "renew"])
Moves = st.lists(st.tuples(st.sampled_from("abcd"), Events), max_size=60)


@given(Moves)
def test_steps_of_all_nodes_converge_whatever_happened_before(moves: list[tuple[str, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_ownership, "PARTITION_COUNT", 8)
        store, now = Store(8), 0
        views: dict[str, tuple[dict[str, int], list[str | None]]] = {}
        for node, what in moves:
            now += 1
            if what in ("join", "renew"):
                store.leases[node] = now + 5
            elif what == "see":
                views[node] = (dict(store.leases), list(store.holders))
            elif what == "act" and node in views:
                # However old the view is: what it takes is taken only if nobody holds it.
                held = list(store.holders)
                store.apply(node, *views.pop(node), now)
                taken = [p for p in range(8) if store.holders[p] == node != held[p]]
                assert all(held[p] is None or held[p] not in store.leases for p in taken)
        live_node = sorted({node for node, _ in moves[-3:]} | {"a"})
        now += 100
        for _ in range(3):
            for node in live_node:
                store.leases[node] = now + 5
                store.apply(node, dict(store.leases), list(store.holders), now)
        assert sorted(store.leases) == live_node
        assert list(store.holders) == partition_owners(live_node)
        assert all(not any(partition_steps(n, store.leases, store.holders, now)) for n in live_node)


def test_a_node_without_a_lease_takes_nothing(few: int) -> None:
    found = partition_steps("a", {"b": 10, "c": 3}, [None] * few, 5)
    assert found == (["c"], [], [])


def test_one_does_not_bury_itself(few: int) -> None:
    assert partition_steps("a", {"a": 3}, ["a"] * few, 5) == ([], [], [])


def test_an_election_of_the_queues_servers_moves_no_tasks(few: int) -> None:
    """All nodes meet it: who noticed first would hand all its tasks over, and get them back."""
    longest = 9 * SECOND  # of NATS, as it comes
    assert not partition_ownership.is_unwell(longest + 3 * SECOND, is_cut_off=False)
    assert partition_ownership.is_unwell(longest, is_cut_off=True)
    assert partition_ownership.is_unwell(60 * SECOND, is_cut_off=False)
