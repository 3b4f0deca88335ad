"""History in layers in PostgreSQL: two nodes that make the same step, readers meanwhile, and how blocks are found."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from evenbeat.store.history_contract import Layer, PartGone
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.postgres.statements import query
from evenbeat.testing.samples import T0
from evenbeat.testing.store_history import minutes_later, record_run
from evenbeat.testing.store_layers import a_run, fill_history, history_of, merge_all, pack_all, runs_of_layer
from evenbeat.testing.store_runs import number_of


@pytest.fixture
def open_store(dsn: str) -> Iterator[Callable[[], PostgresStore]]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(PostgresStore(dsn)))


def both(*steps: Callable[[], object]) -> list[type | None]:
    """Make steps at the same time; how each was refused, if it was."""
    start = threading.Barrier(len(steps))

    def make(step: Callable[[], object]) -> type | None:
        start.wait()
        try:
            step()
        except PartGone as e:
            return type(e)
        return None

    with ThreadPoolExecutor(len(steps)) as threads:
        return list(threads.map(make, steps))


def test_of_two_nodes_that_pack_the_same_runs_one_does(open_store: Callable[[], PostgresStore]) -> None:
    a, b = open_store(), open_store()
    tasks = fill_history(a)
    before = history_of(a, tasks)
    while (unpacked := a.unpacked(5)).runs:
        steps = [lambda store=store: store.pack(unpacked, [(T0, unpacked.runs)]) for store in (a, b)]
        assert sorted(map(str, both(*steps))) == sorted(map(str, [None, PartGone]))
    assert history_of(b, tasks) == before


def test_of_two_nodes_that_merge_the_same_parts_one_does(open_store: Callable[[], PostgresStore]) -> None:
    a, b = open_store(), open_store()
    tasks = fill_history(a)
    pack_all(a, 7)
    before = history_of(a, tasks)
    old = [part.number for part in a.parts(Layer.RECENT)]
    runs = sorted(runs_of_layer(a, Layer.RECENT), key=lambda run: run[:3])
    parts = [store.begin_part(Layer.RUNS, T0) for store in (a, b)]
    for store, part in zip((a, b), parts, strict=True):
        store.add_runs(part, runs)
    steps = [
        lambda store=store, part=part: store.complete([part], old) for store, part in zip((a, b), parts, strict=True)
    ]
    assert sorted(map(str, both(*steps))) == sorted(map(str, [None, PartGone]))
    assert history_of(a, tasks) == before


def test_a_node_that_clears_up_stops_the_other(open_store: Callable[[], PostgresStore]) -> None:
    a, b = open_store(), open_store()
    part = a.begin_part(Layer.RUNS, T0)
    a.add_runs(part, [a_run(1)])
    b.discard_unfinished()
    with pytest.raises(PartGone):
        a.add_runs(part, [a_run(1, 1)])
    assert b.sweep(10) == 1
    with pytest.raises(PartGone):
        a.complete([part], [])


def test_readers_see_each_run_once_while_runs_are_packed_and_merged(open_store: Callable[[], PostgresStore]) -> None:
    store, reader = open_store(), open_store()
    tasks = [number_of(store, name) for name in "abc"]
    for minute in range(15):
        for task in tasks:
            record_run(store, task, minutes_later(minute), outcome="failed" if minute % 3 else "succeeded")
    before = history_of(store, tasks)
    answers: list[list[object]] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set() or not answers:
            answers.append(history_of(reader, tasks))

    thread = threading.Thread(target=read)
    thread.start()
    for most in range(1, 9):
        unpacked = store.unpacked(most)
        store.pack(unpacked, [(T0, unpacked.runs)])
        merge_all(store)
        store.sweep(3)
    pack_all(store)
    is_over.set()
    thread.join()
    assert all(answer == before for answer in answers)


def test_a_run_that_is_committed_late_is_not_lost(open_store: Callable[[], PostgresStore], dsn: str) -> None:
    """Its id is smaller than those of runs that were packed before it was seen."""
    store = open_store()
    a = number_of(store)
    columns = "task, nominal, claimed, started, ended, generation, status, attempt, kind, state, hard, outcome, output"
    insert = f"INSERT INTO evenbeat.plain_runs ({columns}) SELECT {columns} FROM evenbeat.plain_runs"
    record_run(store, a, T0)
    with psycopg.connect(dsn) as late:
        late.execute(insert)
        record_run(store, a, minutes_later(1))
        unpacked = store.unpacked(10)
        assert len(unpacked.runs) == 2
        late.commit()
    store.pack(unpacked, [(T0, unpacked.runs)])
    assert len(store.runs(a)) == 3
    assert len(store.unpacked(10).runs) == 1


@pytest.mark.parametrize("name", ["blocks_of_task", "summary_blocks_of_task"])
def test_the_blocks_of_a_task_are_found_by_an_index_of_each_part(
    open_store: Callable[[], PostgresStore], dsn: str, name: str
) -> None:
    store = open_store()
    for _ in range(3):
        part = store.begin_part(Layer.RUNS, T0)
        for task in range(1, 100, 10):
            store.add_runs(part, [a_run(task), a_run(task + 9)])
        store.complete([part], [])
    asked = {"task": 55, "before": T0 * 2, "layer": "hours", "since": 0, "until": T0 * 2}
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path = evenbeat")
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        ((plan,),) = connection.execute(f"EXPLAIN (FORMAT json) {query(name)}", asked).fetchall()
    (condition,) = [step["Index Cond"] for step in steps_of(plan[0]["Plan"]) if step.get("Alias") == "blocks"]
    assert "part = p.number" in condition
    assert "last_task <= COALESCE" in condition
    with store._parts_now() as parts:
        assert len(parts.blocks_of_task(55, T0, T0 * 2)) == 3


def steps_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from steps_of(below)
