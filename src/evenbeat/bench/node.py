"""`evenbeat bench node`: a whole node on 100,000 tasks that return at once, beside a bare loop of the same path.

Throughput: every task is forced, once; each run is claimed in SQLite, framed, made, framed back and finished in SQLite.
Lateness: half as many runs per second as that, by the clock, beside the bare loop under the same load.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.bench.bare_node import BaselineNode
from evenbeat.bench.measure import Comparison
from evenbeat.model import HOUR, SECOND, Instant, Job, Missed, Schedule, Task
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.listen import ListenAddress
from evenbeat.node.process.run_node import run_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import ALL_TASKS
from evenbeat.store.sqlite.sqlite_store import SqliteStore

TASKS: Final = 100_000
WORKERS: Final = 2
_WARM: Final = 10_000
"""Runs that do not count."""
SLOTS: Final = 8_000
_SECONDS: Final = 13
_WARM_UP_SECONDS: Final = 5
"""Seconds of a lateness measurement that are discarded: runs that became due during the start are late."""
_JOBS: Final = {
    "function": ("functions that return at once", Job(function="evenbeat.bench.bare_node:no_op")),
    "noop": ("the command `noop`", Job(command=("noop",))),
}


def comparisons(pairs: int) -> Iterator[tuple[str, Comparison]]:
    """Every measure, as soon as it is taken."""
    capacity = 0.0
    for key, (title, job) in _JOBS.items():
        rates = []
        for i in range(pairs):
            bare = BaselineNode.throughput(TASKS) if i % 2 else 0.0
            ours = throughput(job, TASKS, _WARM, SLOTS)
            rates.append((ours, bare or BaselineNode.throughput(TASKS)))
        measure = comparison_of(f"A node with {TASKS:,} tasks, {title}: runs", "evenbeat", "bare path", rates)
        capacity = capacity or measure.ours
        yield f"node_{key}", measure
    late = []
    for _ in range(pairs):
        p99 = _lateness(_JOBS["function"][1], capacity / 2)
        late.append((1 / p99, 1 / BaselineNode.lateness(capacity / 2, _SECONDS)))
    title = f"Lateness at half of that ({capacity / 2:,.0f} runs/s): 1 / p99"
    yield "node_lateness", comparison_of(title, "evenbeat", "bare timer loop", late)


def comparison_of(title: str, ours: str, bare: str, rates: list[tuple[float, float]]) -> Comparison:
    middle = median(o for o, _ in rates), median(b for _, b in rates), median(o / b for o, b in rates)
    return Comparison(title, ours, bare, *middle, rates)


def throughput(job: Job, tasks: int, warm: int, slots: int) -> float:
    """Runs per second of a node whose tasks are all forced at once; the first runs are discarded."""
    seconds = 0.0
    forcing: list[asyncio.Task[None]] = []

    def up(node: Scheduler) -> None:
        forcing.append(asyncio.get_running_loop().create_task(force(node)))

    async def force(node: Scheduler) -> None:
        nonlocal seconds
        try:
            node.live.force(list(node.store.entries(ALL_TASKS)))
            await wait_for_runs(node, warm)  # workers are up, and that all are forced is in the store
            start, before = time.perf_counter(), _ended(node)
            await wait_for_runs(node, tasks)
            await node.outbox.empty()
            seconds = (time.perf_counter() - start) * tasks / (tasks - before)
        finally:
            node.stop("measured")

    run_bench_node(job, tasks, HOUR, slots, up)
    forcing[0].result()
    return tasks / seconds


async def wait_for_runs(node: Scheduler, runs: int) -> None:
    """Wait for the runs without waking the node: polling would distort the measurement."""
    reached = asyncio.Event()

    def look(*_: object) -> None:
        if _ended(node) >= runs:
            reached.set()

    node.turns.on_finished.append(look)
    look()
    await reached.wait()
    node.turns.on_finished.remove(look)


def _ended(node: Scheduler) -> int:
    return sum(node.turns.counts.outcomes.values())


def _lateness(job: Job, rate: float) -> float:
    """The 99th percentile of lateness, in seconds, of a node with evenly spread tasks at this interval."""
    late: list[float] = []

    def up(node: Scheduler) -> None:
        asyncio.get_running_loop().call_later(_SECONDS, end, node)

    def end(node: Scheduler) -> None:
        runs = node.store.runs(most=int(rate * (_SECONDS - _WARM_UP_SECONDS)))
        late.extend((run.started - run.nominal) / SECOND for run in runs if run.started is not None)
        node.stop("measured")

    run_bench_node(job, TASKS, int(TASKS / rate * SECOND), SLOTS, up)
    return float(np.percentile(late, 99))


def run_bench_node(
    job: Job, tasks: int, every: int, slots: int, up: Callable[[Scheduler], None], listen: ListenAddress | None = None
) -> None:
    """Run a node on a new database with these tasks, until it is told to stop."""
    with TemporaryDirectory(prefix="evenbeat-bench-") as folder:
        database = Path(folder) / "node.db"
        store = SqliteStore(database)
        schedule = Schedule(every=every)
        new = [Task(f"task {i}", schedule, job, missed=Missed.SKIP) for i in range(tasks)]
        TaskAdmin(store, lambda: Instant(time.time_ns() // 1_000)).add(new, "bench", "bench")
        store.close()
        del new  # a node does not have them either
        options = NodeOptions(workers=WORKERS, max_concurrent=slots, grace=5, listen=listen)
        asyncio.run(run_node(database, options, up, signals=False))
