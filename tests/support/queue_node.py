"""A node as far as the local queue can tell: it dispatches runs, and waits for their results."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
from waiting import PATIENCE

from evenbeat.core.timebox import kill_after
from evenbeat.model import SECOND, Job
from evenbeat.queue.local.local_queue import LocalQueue
from evenbeat.wire.plain_results import Results, full_results
from evenbeat.wire.worker_frames import RunResult, RunSpec

NEVER = -(2**63)


def clock_offset() -> int:
    return (time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) // 1_000


class QueueNode:
    """Dispatches jobs one by one or many at a time; `results` and `started` are by token."""

    def __init__(self, workers: int = 1, hosts: int = 2, records: Path | None = None) -> None:
        self.results: dict[int, RunResult] = {}
        self.started: dict[int, int] = {}
        self.repeated: list[int] = []
        self._tokens = 0
        self.queue = LocalQueue(
            workers,
            self._take,
            self.started.update,
            kill_after=kill_after,
            clock_offset=clock_offset(),
            hosts=hosts,
            records=records,
        )

    def _take(self, results: Results) -> None:
        for result in full_results(results):
            if result.token in self.results:
                self.repeated.append(result.token)
            self.results[result.token] = result

    def send(self, *jobs: Job, timebox: float = 10, **fields: Any) -> list[int]:
        """Dispatch runs of these jobs; their tokens."""
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
        tokens = range(self._tokens, self._tokens + len(jobs))
        self._tokens += len(jobs)
        runs = [
            RunSpec(token=token, job=msgspec.Raw(msgspec.msgpack.encode(job)), **wanted)
            for token, job in zip(tokens, jobs, strict=True)
        ]
        self.queue.dispatch(runs, [job.function for job in jobs])
        return list(tokens)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something that will happen soon; fail if it does not."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline, "it did not happen"
            await asyncio.sleep(0.002)

    async def answers(self, tokens: list[int]) -> list[RunResult]:
        await self.until(lambda: all(token in self.results for token in tokens))
        return [self.results[token] for token in tokens]

    async def run(self, job: Job, timebox: float = 10, **fields: Any) -> RunResult:
        (result,) = await self.answers(self.send(job, timebox=timebox, **fields))
        return result

    async def command(self, *words: str, timebox: float = 10, **job: Any) -> RunResult:
        return await self.run(Job(command=words, **job), timebox=timebox)

    async def shell(self, line: str, timebox: float = 10, **job: Any) -> RunResult:
        return await self.run(Job(command=(line,), shell=True, **job), timebox=timebox)


Scene = Callable[[QueueNode], Coroutine[Any, Any, None]]


def play(scene: Scene, workers: int = 1, hosts: int = 2) -> QueueNode:
    """Run a scene with a queue that is started before and stopped after it."""

    async def whole() -> QueueNode:
        queue_node = QueueNode(workers, hosts)
        queue_node.queue.start()
        try:
            await scene(queue_node)
        finally:
            await queue_node.queue.stop(0)
        assert queue_node.queue.pending == 0
        assert queue_node.repeated == []
        return queue_node

    return asyncio.run(whole())


def is_alive(process: int) -> bool:
    """Does it run? A process that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descriptors(process: int | str = "self") -> set[str]:
    return {entry.name for entry in os.scandir(f"/proc/{process}/fd")}
