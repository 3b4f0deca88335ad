import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from virtual_node import START, Node

from evenbeat.core.gate import split_front
from evenbeat.core.task import Flag
from evenbeat.model import MINUTE, SECOND, Instant


def crowded(front: int, priorities: list[int], slots: int) -> Node:
    """More tasks than slots, all due within a minute; of their queue only the front is looked at."""
    node = Node(slots)
    n = len(priorities)
    rows = node.add(n, every=10 * MINUTE, phase=np.arange(1, n + 1) * SECOND // 3)
    node.columns.priority[rows] = priorities
    node.lifecycle.front = front
    return node


@given(st.lists(st.integers(-3, 3), min_size=5, max_size=40), st.integers(1, 4), st.integers(0, 5), st.data())
def test_looking_at_the_front_of_a_queue_only_starts_the_same_runs_in_the_same_order(
    priorities: list[int], slots: int, front: int, data: st.DataObject
) -> None:
    short, whole = crowded(front, priorities, slots), crowded(10_000, priorities, slots)
    begun: dict[Node, list[tuple[int, int]]] = {short: [], whole: []}
    now = START
    for _ in range(3 * len(priorities)):
        now = Instant(now + data.draw(st.integers(0, 8)) * SECOND)
        ended = data.draw(st.booleans())
        for node in (short, whole):
            running = np.flatnonzero(node.columns.flags & int(Flag.RUNNING))
            node.lifecycle.complete(running if ended else running[:1])
            claims = node.lifecycle.release(now).claims
            begun[node] += sorted(zip(claims.rows.tolist(), claims.nominal.tolist(), strict=True))
        assert begun[short] == begun[whole]
        assert sorted(short.lifecycle.waiting) == sorted(whole.lifecycle.waiting)


def test_who_waits_behind_the_front_is_skipped_when_its_turn_comes() -> None:
    node = crowded(0, [0] * 10, slots=1)
    life = node.lifecycle
    now = Instant(START + MINUTE)
    first = life.release(now)
    assert first.claims.rows.tolist() == [0]
    life.set_flag(np.arange(1, 9), Flag.ENABLED, on=False)
    life.complete(first.claims.rows)
    second = life.release(now)
    assert second.claims.rows.tolist() == [9]
    assert sorted(row for skips in second.skips for row in skips.rows.tolist()) == list(range(1, 9))
    assert not len(life.waiting)


def test_a_nominal_time_that_finds_its_task_running_is_coalesced_though_a_long_queue_waits() -> None:
    node = crowded(0, [0] * 10, slots=1)
    life = node.lifecycle
    assert life.release(Instant(START + MINUTE)).claims.rows.tolist() == [0]
    released = life.release(Instant(START + 10 * MINUTE + SECOND // 2))
    assert [skips.rows.tolist() for skips in released.skips] == [[0]]
    assert len(life.waiting) == 9


@given(st.lists(st.integers(0, 5), min_size=2, max_size=50), st.data())
def test_the_front_of_a_queue_has_the_smallest_keys_and_of_equal_ones_the_first(
    keys: list[int], data: st.DataObject
) -> None:
    size = data.draw(st.integers(0, len(keys) - 1))
    front, rest = split_front(np.array(keys), size)
    in_order = sorted(range(len(keys)), key=keys.__getitem__)
    assert front.tolist() == sorted(in_order[:size])
    assert rest.tolist() == sorted(in_order[size:])


def test_tasks_that_are_forced_together_start_in_the_order_of_their_rows() -> None:
    node = crowded(8, [0] * 1_000, slots=10)
    node.lifecycle.force(np.arange(1_000))
    started = []
    while len(rows := node.lifecycle.release(START).claims.rows):
        started += rows.tolist()
        node.lifecycle.complete(rows)
    assert started == list(range(1_000))
