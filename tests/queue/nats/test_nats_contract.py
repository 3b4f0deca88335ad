"""The NATS queue keeps the contract of a queue: one node and one worker on a real server."""

import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from nats_nodes import hurry
from waiting import eventually_async

from evenbeat.core.timebox import kill_after
from evenbeat.queue.contract import Queue
from evenbeat.queue.nats import worker
from evenbeat.queue.nats.address import parse_queue_address
from evenbeat.queue.nats.nats_queue import NatsQueue
from evenbeat.queue.nats.worker import ClusterWorker, WorkerOptions
from evenbeat.testing.queue import QueueContract, ResultsCallback, StartedCallback


class TestNatsQueue(QueueContract):
    prefixes: ClassVar = itertools.count()

    @pytest.fixture(autouse=True)
    def server(self, nats_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        hurry(monkeypatch)
        monkeypatch.setattr(worker, "_CONFIRM_TIMEOUT", 0.3)
        self.url = nats_url

    @asynccontextmanager
    async def running_queue(
        self, folder: Path, on_results: ResultsCallback, on_started: StartedCallback
    ) -> AsyncIterator[Queue]:
        where = parse_queue_address(f"{self.url}/contract-{next(self.prefixes)}")
        queue = NatsQueue(
            where,
            "node",
            on_results=on_results,
            on_started=on_started,
            on_late=lambda worker, results: None,
            now=lambda: time.time_ns() // 1_000,
            owns=lambda task: True,
            may_answer=lambda: True,
        )
        await queue.start()
        executor = ClusterWorker(where, WorkerOptions(kill_after, hosts=1))
        await executor.start()
        await eventually_async(lambda: queue.workers and executor.has_recent_answer)
        yield queue
        await executor.stop()
        await queue.stop(0)
