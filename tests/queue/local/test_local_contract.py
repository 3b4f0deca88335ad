"""The local queue keeps the contract of a queue."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from queue_node import clock_offset

from evenbeat.core.timebox import kill_after
from evenbeat.queue.contract import Queue
from evenbeat.queue.local.local_queue import LocalQueue
from evenbeat.testing.queue import QueueContract, ResultsCallback, StartedCallback


class TestLocalQueue(QueueContract):
    @asynccontextmanager
    async def running_queue(
        self, folder: Path, on_results: ResultsCallback, on_started: StartedCallback
    ) -> AsyncIterator[Queue]:
        queue = LocalQueue(1, on_results, on_started, kill_after=kill_after, clock_offset=clock_offset(), hosts=1)
        queue.start()
        yield queue
        await queue.stop(0)
