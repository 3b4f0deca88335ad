"""Nodes as far as the queue of a cluster can tell, workers for them, and ways to disturb both."""

import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import nats
import pytest
from nats.aio.client import Client
from waiting import PATIENCE, eventually_async

from evenbeat.core import run_lease
from evenbeat.core.timebox import kill_after
from evenbeat.model import SECOND, Job
from evenbeat.queue.nats import fetched_messages, nats_queue
from evenbeat.queue.nats import stream as nats_stream
from evenbeat.queue.nats import worker as nats_worker
from evenbeat.queue.nats.address import QueueAddress, parse_queue_address
from evenbeat.queue.nats.nats_queue import NatsQueue
from evenbeat.queue.nats.worker import ClusterWorker, WorkerOptions
from evenbeat.wire.plain_results import Results, full_results
from evenbeat.wire.worker_frames import RunResult, RunSpec

NEVER = -(2**63)

QUICK = {
    "WORKER_STATUS_INTERVAL": 200_000,
    "PERMISSION_DURATION": SECOND,
    "RUN_LEASE_DURATION": 2 * SECOND,
    "WORKER_SILENT_AFTER": 1_500_000,
    "NO_WORKER_TIMEOUT": SECOND,
}
"""Durations of the protocol for tests that wait for them; what must be longer than what still is."""


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in QUICK.items():
        monkeypatch.setattr(run_lease, name, value)
    monkeypatch.setattr(nats_queue, "_POLL_INTERVAL", 0.1)
    monkeypatch.setattr(nats_queue, "_STREAM_POLL_INTERVAL", 0.3)
    monkeypatch.setattr(nats_worker, "_POLL_INTERVAL", 0.03)
    monkeypatch.setattr(nats_stream, "ACK_WAIT", 1.0)
    monkeypatch.setattr(fetched_messages, "IN_PROGRESS_INTERVAL", 0.3)


class Node:
    """Dispatches runs and takes their results, as a node with a store would."""

    _tokens = itertools.count(1)

    def __init__(self, where: QueueAddress, name: str = "node") -> None:
        self.results: dict[int, RunResult] = {}
        self.started: dict[int, int] = {}
        self.late: list[tuple[int, RunResult]] = []
        self.repeated: list[int] = []
        self.has_lease = True
        self.is_storing = True
        self.owned: Callable[[int], bool] = lambda task: True
        self.queue = NatsQueue(
            where,
            name,
            on_results=self._take,
            on_started=self.started.update,
            on_late=lambda worker, results: self.late.extend(results),
            now=lambda: time.time_ns() // 1_000,
            owns=lambda task: bool(self.owned(task)),
            may_answer=lambda: self.has_lease,
        )

    def _take(self, reported: Results) -> None:
        results = full_results(reported)
        for result in results:
            if result.token in self.results:
                self.repeated.append(result.token)
            self.results[result.token] = result
        if self.is_storing:
            self.queue.confirm_stored([result.token for result in results])

    def send(self, *jobs: Job, timebox: float = 30, pool: str | None = None, **fields: Any) -> list[int]:
        """Dispatch runs of these jobs, each of a task with the number of its token; their tokens."""
        now = time.time_ns() // 1_000
        wanted = {
            "name": "a task",
            "nominal": now,
            "kind": 0,
            "timebox": int(timebox * SECOND),
            "latest_start": now + 60 * SECOND,
            "last_start": NEVER,
            "interval": 60 * SECOND,
            "tolerance": 0,
            "attempt": 1,
            "cursor": None,
            **fields,
        }
        runs = [
            RunSpec(token=next(self._tokens), job=msgspec.Raw(msgspec.msgpack.encode(job)), **wanted) for job in jobs
        ]
        tokens = [run.token for run in runs]
        self.queue.dispatch(runs, [job.function for job in jobs], tokens, [pool] * len(runs))
        return tokens

    def noops(self, count: int) -> list[int]:
        return self.send(*[Job(command=("noop",))] * count)

    def commands(self, line: str, count: int = 1, **fields: Any) -> list[int]:
        return self.send(*[Job(command=(line,), shell=True)] * count, **fields)

    async def answers(self, tokens: list[int]) -> list[RunResult]:
        await eventually_async(lambda: all(token in self.results for token in tokens))
        return [self.results[token] for token in tokens]


class NatsScene:
    """Everything of one test: a prefix of its own on the servers, nodes, and workers in this process or in others."""

    _prefixes = itertools.count()

    def __init__(self, url: str) -> None:
        self.where = parse_queue_address(f"{url}/test-{os.getpid()}-{next(self._prefixes)}")
        self._stack = AsyncExitStack()
        self._processes: list[subprocess.Popen[bytes]] = []

    async def __aenter__(self) -> "NatsScene":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        await self._stack.aclose()

    def replicate(self, replicas: int) -> None:
        self.where = msgspec.structs.replace(self.where, replicas=replicas)

    async def node(self, name: str = "node") -> Node:
        node = Node(self.where, name)
        await node.queue.start()
        self._stack.push_async_callback(node.queue.stop, 0)
        return node

    async def worker(self, *nodes: Node, is_heard: bool = True, **options: Any) -> ClusterWorker:
        """In this process; these nodes and it know each other when this returns."""
        worker = ClusterWorker(self.where, WorkerOptions(kill_after, **{"hosts": 2, **options}))
        await worker.start()
        self._stack.push_async_callback(worker.stop)
        await eventually_async(lambda: all(worker.id in [w.id for w in node.queue.worker_views] for node in nodes))
        if is_heard and nodes:
            await eventually_async(lambda: worker.has_recent_answer)
        return worker

    async def process(self, node: Node, *arguments: str, name: str = "w") -> subprocess.Popen[bytes]:
        """`evenbeat worker` in a process of its own, with the durations that hold here."""
        code = (
            "import sys; from evenbeat.core import run_lease; "
            + "; ".join(f"run_lease.{n} = {getattr(run_lease, n)}" for n in QUICK)
            + "; from evenbeat.cli.main import main; sys.exit(main(sys.argv[1:]))"
        )
        url = f"{self.where}"
        command = [sys.executable, "-c", code, "worker", "--queue", url, "--name", name, "--workers", "1", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self._processes.append(process)
        await eventually_async(lambda: any(w.pid == process.pid for w in node.queue.worker_views))
        return process

    async def client(self) -> Client:
        """A connection for tests that disturb."""
        client = await nats.connect(list(self.where.urls), max_reconnect_attempts=-1)
        self._stack.push_async_callback(client.close)
        return client


def play(url: str, scene: Callable[[NatsScene], Any]) -> None:
    async def whole() -> None:
        async with NatsScene(url) as cluster:
            async with asyncio.timeout(2 * PATIENCE):
                await scene(cluster)

    asyncio.run(whole())


def lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []
