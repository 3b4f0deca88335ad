"""Shares of a limit never add up to more than the limit, whatever the nodes do in between."""

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.limit_shares import fair_limit_share, limit_share

nodes = st.lists(st.text("abcdef0123456789", min_size=4, max_size=8), min_size=1, max_size=5, unique=True)


class Limited:
    """Nodes that have shares of one limit, and use them."""

    def __init__(self, limit: int, count: int) -> None:
        self.limit = limit
        self.names = [f"node {i}" for i in range(count)]
        self.shares, self.running, self.waiting = [0] * count, [0] * count, [0] * count

    def decide(self, i: int, turn: int) -> None:
        others = [j for j in range(len(self.names)) if j != i]
        self.shares[i] = limit_share(
            self.limit,
            sum(self.shares[j] for j in others),
            self.running[i] + self.waiting[i],
            fair_limit_share(self.limit, self.names, self.names[i], turn),
            others_need=any(self.running[j] + self.waiting[j] > self.shares[j] for j in others),
            running=self.running[i],
        )

    def begin(self, i: int) -> None:
        while self.waiting[i] and self.running[i] < self.shares[i]:
            self.waiting[i] -= 1
            self.running[i] += 1


Uses = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["want", "decide", "begin", "end"]), st.integers(0, 9)))


@given(st.integers(0, 6), st.integers(1, 4), Uses)
def test_shares_never_add_up_to_more_than_the_limit_and_what_runs_is_never_cut(
    limit: int, count: int, uses: list[tuple[int, str, int]]
) -> None:
    all_ = Limited(limit, count)
    for node, what, number in uses:
        i = node % count
        if what == "want":
            all_.waiting[i] += number
        elif what == "decide":
            all_.decide(i, number)
        elif what == "begin":
            all_.begin(i)
        else:
            all_.running[i] = max(all_.running[i] - number, 0)
        assert sum(all_.shares) <= limit
        assert all(r <= s for r, s in zip(all_.running, all_.shares, strict=True))


@given(st.integers(1, 6), st.integers(1, 4))
def test_nobody_starves_also_if_there_are_fewer_slots_than_nodes(limit: int, count: int) -> None:
    all_ = Limited(limit, count)
    begun = [0] * count
    for turn in range(3 * count):
        for i in range(count):
            all_.waiting[i] = 50
        # The last decides first, so that nothing depends on the order.
        for i in [*reversed(range(count)), *range(count)]:
            all_.decide(i, turn)
            all_.begin(i)
            begun[i] += all_.running[i]
        all_.running = [0] * count
    assert min(begun) > 0


@given(st.integers(0, 300), nodes, st.integers(0, 9))
def test_fair_shares_add_up_to_the_limit(limit: int, names: list[str], turn: int) -> None:
    found = [fair_limit_share(limit, names, me, turn) for me in names]
    assert sum(found) == limit
    assert max(found) - min(found) <= 1
    assert fair_limit_share(limit, names, "nobody", turn) == 0


def test_a_lowered_limit_is_kept_as_soon_as_nodes_decide_again() -> None:
    assert limit_share(2, 2, 2, 1, others_need=False) == 0
    assert limit_share(2, 0, 2, 1, others_need=False) == 2


def test_what_came_with_a_partition_is_counted_even_if_it_is_too_much() -> None:
    assert limit_share(2, 2, 2, 1, others_need=False, running=2) == 2
