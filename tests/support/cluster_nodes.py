"""Nodes of a cluster on one loop, each with a store of its own on the same database, and a worker for them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from evenbeat.client.node_or_database import open_client
from evenbeat.client.store_based import LocalClient
from evenbeat.core.timebox import kill_after
from evenbeat.model import Job, Schedule, Task
from evenbeat.node.cluster.membership import ClusterMembership
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_cluster_node import run_cluster_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.queue.nats.address import QueueAddress, parse_queue_address
from evenbeat.queue.nats.worker import ClusterWorker, WorkerOptions
from evenbeat.store.postgres.postgres_store import PostgresStore

SECOND = 1_000_000


def task(name: str, every: float = 1, *command: str, **more: Any) -> Task:
    return Task(name, Schedule(every=round(every * SECOND)), Job(command=command or ("noop",)), **more)


def sleeping(name: str, *command: str, **more: Any) -> Task:
    """One that runs when it is forced, and not by itself within the test."""
    return Task(name, Schedule(at="2099-01-01"), Job(command=command or ("noop",)), **more)


class Member:
    """A node that lives until it is told to stop."""

    def __init__(self, node: Scheduler, life: "asyncio.Task[Scheduler]") -> None:
        assert isinstance(node.membership, ClusterMembership)
        self.node, self.membership = node, node.membership
        self._life = life

    async def stop(self) -> None:
        self.node.stop("the test is over")
        await self._life

    async def die(self) -> None:
        """Without handing anything over: its lease has to end."""
        self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)

    @property
    def names(self) -> set[str]:
        """The tasks that it has."""
        tasks = self.node.tasks
        return set(tasks.names.names(tasks.all_rows()))


class Cluster:
    """One database, one queue; whoever was started is stopped at the end."""

    def __init__(self, dsn: str, queue: str, folder: Path) -> None:
        self.dsn = dsn
        self.folder = folder
        self.where: QueueAddress = parse_queue_address(f"{queue}/t{time.monotonic_ns()}", 1)
        self.members: list[Member] = []
        self.workers: list[ClusterWorker] = []
        self.store = PostgresStore(dsn)

    async def start(self, **options: Any) -> Member:
        ready: asyncio.Future[Scheduler] = asyncio.get_running_loop().create_future()
        options = {"grace": 5.0, **options}
        life = asyncio.create_task(
            run_cluster_node(
                self.dsn,
                self.where,
                NodeOptions(**options),
                ready.set_result,
                signals=False,
            )
        )
        await asyncio.wait([ready, life], return_when=asyncio.FIRST_COMPLETED)
        if life.done():
            life.result()
        member = Member(ready.result(), life)
        self.members.append(member)
        return member

    async def start_worker(self, *pools: str) -> ClusterWorker:
        worker = ClusterWorker(self.where, WorkerOptions(kill_after, pools or ("default",), slots=20))
        await worker.start()
        self.workers.append(worker)
        return worker

    async def add(self, *tasks: Task) -> None:
        await self.do(lambda client: client.add(tasks, "test"))

    async def do(self, what: Callable[[LocalClient], Any]) -> Any:
        """As a command would, from a process that is no node."""

        def work() -> Any:
            with open_client(self.dsn, "somebody") as client:
                return what(client)

        return await asyncio.to_thread(work)

    def runs(self, name: str) -> list[Any]:
        entry = self.store.find(name)
        return [] if entry is None else self.store.runs(entry.number, most=1_000)

    async def close(self) -> None:
        for member in self.members:
            await member.stop()
        for worker in self.workers:
            await worker.stop()
        self.store.close()


@asynccontextmanager
async def cluster(dsn: str, queue: str, folder: Path) -> AsyncIterator[Cluster]:
    made = Cluster(dsn, queue, folder)
    try:
        yield made
    finally:
        await made.close()
