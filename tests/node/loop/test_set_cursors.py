"""People set where the next run of a task goes on: which run has it, whenever the node dies."""

import pytest
from hand_driven_node import T0, HandDrivenNode, RecordingStore

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.task_cursors import set_stored_cursor
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import MINUTE
from evenbeat.store.contract import Conflict
from evenbeat.wire.cursor_values import unpacked_cursor
from evenbeat.wire.replies import HeldByOtherNode
from evenbeat.wire.requests import SetCursor


def node_with_cursor(store: RecordingStore | None = None) -> HandDrivenNode:
    """Its task `t` has run once a minute, and left its cursor at `old`."""
    driven = HandDrivenNode(store=store)
    driven.add("t")
    driven.turn(MINUTE)
    driven.end("t", cursor=b"old")
    driven.turn()
    return driven


def set_cursor(driven: HandDrivenNode, cursor: bytes | None) -> bytes | None:
    return driven.node.live.set_cursor(driven.admin.find_or_raise("t"), cursor)


@pytest.mark.parametrize("cursor", [b"new", None])
def test_the_next_run_has_it(cursor: bytes | None) -> None:
    driven = node_with_cursor()
    assert set_cursor(driven, cursor) == b"old"
    assert [run.cursor for run in driven.turn(MINUTE)] == [cursor]
    driven.end("t")
    assert [run.cursor for run in driven.turn(MINUTE)] == [cursor], "a run that sets none leaves it as it is"


@pytest.mark.parametrize("cursor", [b"new", None])
def test_it_outlives_the_node(cursor: bytes | None) -> None:
    driven = node_with_cursor()
    set_cursor(driven, cursor)
    driven.restart()
    assert [run.cursor for run in driven.turn(MINUTE)] == [cursor]


def test_it_is_committed_before_the_claim_that_has_it() -> None:
    driven = node_with_cursor()
    driven.store.is_slow = True
    set_cursor(driven, b"new")
    assert driven.turn(MINUTE) == []
    driven.store.commit()
    driven.loop.wait(0.1)
    assert driven.dispatched[-1].cursor == b"new"
    (changed,) = [i for i, batch in enumerate(driven.store.batches) if batch.cursors]
    claims = [i for i, batch in enumerate(driven.store.batches) if batch.claims]
    assert claims[0] < changed < claims[1]


def test_a_task_that_no_node_has_seen_has_it_too() -> None:
    store = RecordingStore()
    admin = TaskAdmin(store, lambda: T0)
    keys = {"every": "1m", "phase": "0s", "command": ["true"]}
    admin.add([task_from_table("t", keys, check=False)], "ana", "ana")
    set_stored_cursor(admin, SetCursor("t", "ana", "page 7"))
    driven = HandDrivenNode(store=store)
    assert [unpacked_cursor(run.cursor) for run in driven.turn(MINUTE)] == ["page 7"]


def test_one_that_was_not_committed_has_not_happened() -> None:
    driven = node_with_cursor()
    driven.store.is_failing = True
    set_cursor(driven, b"new")
    driven.store.is_failing = False
    driven.restart()
    assert [run.cursor for run in driven.turn(MINUTE)] == [b"old"]


def test_it_is_refused_from_the_claim_of_a_run_until_its_end_is_learned() -> None:
    driven = node_with_cursor()
    driven.turn(MINUTE)
    words = "'t' runs now, and its run may set the cursor: wait for its end, or stop it"
    with pytest.raises(Conflict, match=words):
        set_cursor(driven, None)
    driven.end("t", cursor=b"next")
    with pytest.raises(Conflict, match=words):
        set_cursor(driven, None)
    driven.turn()
    assert set_cursor(driven, None) == b"next"
    driven.restart()
    assert [run.cursor for run in driven.turn(MINUTE)] == [None]


def test_another_task_keeps_its_own() -> None:
    driven = node_with_cursor()
    driven.add("other")
    set_cursor(driven, b"new")
    assert {run.name: run.cursor for run in driven.turn(MINUTE)} == {"t": b"new", "other": None}


def test_a_task_that_is_not_live_here_is_for_another_node() -> None:
    driven = node_with_cursor()
    entry = driven.admin.find_or_raise("t")
    driven.remove("t")
    with pytest.raises(HeldByOtherNode):
        driven.node.live.set_cursor(entry, b"new")
