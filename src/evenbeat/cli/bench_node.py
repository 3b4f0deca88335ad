"""`evenbeat bench node`: a whole node on 100,000 tasks that return at once, beside a bare loop of the same path.

Throughput: every task is forced, once; each run is claimed in SQLite, framed, made, framed back and finished in SQLite.
Lateness: half as many runs per second as that, by the clock, beside the bare loop under the same load.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np

from evenbeat.cli.bare_node import BareNode
from evenbeat.cli.bench import Measure
from evenbeat.model import HOUR, SECOND, Instant, Job, Missed, Schedule, Task
from evenbeat.node.desk import Desk
from evenbeat.node.live import live
from evenbeat.node.service import Node, Options
from evenbeat.store.contract import EVERYTHING
from evenbeat.store.sqlite import SqliteStore

TASKS: Final = 100_000
WORKERS: Final = 2
SLOTS: Final = 4_000
_SECONDS: Final = 10
"""Of a measurement of lateness, the first two of which do not count."""
_JOBS: Final = {
    "function": ("functions that return at once", Job(function="evenbeat.cli.bare_node:quick")),
    "noop": ("the command `noop`", Job(command=("noop",))),
}


class Lateness(NamedTuple):
    """Of the runs of a few seconds, in seconds after they were due."""

    p50: float
    p99: float


def measures(pairs: int) -> Iterator[tuple[str, Measure]]:
    """Every measure, as soon as it is taken."""
    capacity = 0.0
    for key, (title, job) in _JOBS.items():
        rates = []
        for i in range(pairs):
            sides = [_ours, _bare] if i % 2 == 0 else [_bare, _ours]
            found = {side: side(job, TASKS) for side in sides}
            rates.append((found[_ours], found[_bare]))
        measure = _measure(f"A node with {TASKS:,} tasks, {title}: runs", "evenbeat", "bare path", rates)
        capacity = capacity or measure.ours
        yield f"node_{key}", measure
    late = []
    for _ in range(pairs):
        ours, bare = _our_lateness(_JOBS["function"][1], capacity / 2), BareNode.lateness(capacity / 2, _SECONDS)
        late.append((1 / ours.p99, 1 / bare))
    title = f"Lateness at half of that ({capacity / 2:,.0f} runs/s): 1 / p99"
    yield "node_lateness", _measure(title, "evenbeat", "bare timer loop", late)


def _measure(title: str, ours: str, bare: str, rates: list[tuple[float, float]]) -> Measure:
    middle = median(o for o, _ in rates), median(b for _, b in rates), median(o / b for o, b in rates)
    return Measure(title, ours, bare, *middle, rates)


def _bare(job: Job, tasks: int) -> float:  # noqa: ARG001 - it does nothing in either case
    return BareNode.throughput(tasks)


def _ours(job: Job, tasks: int) -> float:
    """Runs per second of a node whose tasks are all forced at once."""
    seconds = 0.0

    def up(node: Node) -> None:
        asyncio.get_running_loop().create_task(force(node))

    async def force(node: Node) -> None:
        nonlocal seconds
        entries = list(node.store.entries(EVERYTHING))
        node.force(entries[:1])
        await _until(node, 1)  # a host is up
        start = time.perf_counter()
        node.force(entries)
        await _until(node, 1 + tasks)
        seconds = time.perf_counter() - start
        node.stop("measured")

    _live_on(job, tasks, HOUR, up)
    return tasks / seconds


async def _until(node: Node, runs: int) -> None:
    while sum(node.beat.counts.outcomes.values()) < runs or node.outbox.waiting:
        await asyncio.sleep(0.01)


def _our_lateness(job: Job, rate: float) -> Lateness:
    """Of a node whose tasks are due so often, spread evenly."""
    every = int(TASKS / rate * SECOND)
    late: list[float] = []

    def up(node: Node) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(2, node.beat.counts.lateness.clear)

        def end() -> None:
            late.extend(node.beat.counts.lateness)
            node.stop("measured")

        loop.call_later(_SECONDS, end)

    _live_on(job, TASKS, every, up)
    p50, p99 = np.percentile(late, (50, 99)).tolist()
    return Lateness(p50, p99)


def _live_on(job: Job, tasks: int, every: int, up: "object") -> None:
    with TemporaryDirectory(prefix="evenbeat-bench-") as folder:
        database = Path(folder) / "node.db"
        store = SqliteStore(database)
        schedule = Schedule(every=every)
        new = [Task(f"task {i}", schedule, job, missed=Missed.SKIP) for i in range(tasks)]
        Desk(store, lambda: Instant(time.time_ns() // 1_000)).add(new, "bench", "bench")
        store.close()
        asyncio.run(live(database, Options(workers=WORKERS, max_concurrent=SLOTS, grace=5), up, signals=False))  # type: ignore[arg-type]
