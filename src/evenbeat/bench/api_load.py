"""`evenbeat bench node --with-api-load`: does the scheduler get late while others read over HTTP?

The same node at the same load, without readers and with 1,000 requests per second, in turn; as in all that is measured
here, of the runs as they really start.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import numpy as np

from evenbeat.bench.measure import Comparison
from evenbeat.bench.node import TASKS, comparison_of, run_bench_node
from evenbeat.model import SECOND, Job
from evenbeat.node.process.listen import LOOPBACK, ListenAddress
from evenbeat.node.scheduler import Scheduler

REQUESTS_PER_SECOND: Final = 1_000
"""Runs per second, and requests per second."""
_SETTLE: Final = 3.0
"""Seconds until a node that starts is as it will be."""
_SECONDS: Final = 10.0
_SLOTS: Final = 500


def comparisons(pairs: int) -> Iterator[tuple[str, Comparison]]:
    """Lateness with and without readers, and how many requests were really answered."""
    late, served = [], []
    for i in range(pairs):
        bare = _lateness(0)[0] if i % 2 else 0.0
        busy, requests = _lateness(REQUESTS_PER_SECOND)
        late.append((1 / busy, 1 / (bare or _lateness(0)[0])))
        served.append((requests / _SECONDS, float(REQUESTS_PER_SECOND)))
    title = f"Lateness of {TASKS:,} tasks at {REQUESTS_PER_SECOND:,} runs/s while others read: 1 / p99"
    yield "node_with_api_load", comparison_of(title, f"{REQUESTS_PER_SECOND:,} requests/s", "no requests", late)
    yield "api_requests", comparison_of("Requests answered meanwhile", "answered", "asked for", served)


def _lateness(rate: int) -> tuple[float, int]:
    """The 99th percentile, in seconds, and how many requests were answered with 200."""
    late: list[float] = []
    answered = 0

    def up(node: Scheduler) -> None:
        asyncio.get_running_loop().create_task(measure(node))

    async def measure(node: Scheduler) -> None:
        nonlocal answered
        await asyncio.sleep(_SETTLE)
        start = node.clock.now()
        if rate:
            port = node.page.rstrip("/").rpartition(":")[2]
            command = [sys.executable, "-m", "evenbeat.bench.api_readers", port, str(rate), str(_SECONDS)]
            answered = int((await asyncio.to_thread(_read, command, node)).split()[1])
        else:
            await asyncio.sleep(_SECONDS)
        runs = node.store.runs(most=int(REQUESTS_PER_SECOND * _SECONDS))
        late.extend((r.started - r.nominal) / SECOND for r in runs if r.started is not None and r.nominal > start)
        node.stop("measured")

    def _read(command: list[str], node: Scheduler) -> str:
        assert node.token_file is not None
        environment = {**os.environ, "EVENBEAT_TOKEN": node.token_file.read_text().strip()}
        return subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout  # noqa: S603

    job = Job(command=("noop",))
    run_bench_node(job, TASKS, int(TASKS / REQUESTS_PER_SECOND * SECOND), _SLOTS, up, ListenAddress(LOOPBACK, 0))
    return float(np.percentile(late, 99)), answered
