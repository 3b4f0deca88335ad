"""A small cluster of real things: PostgreSQL, NATS, a worker, and two nodes with their API processes."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from waiting import PATIENCE, eventually

from evenbeat.admin.tokens import create_api_token
from evenbeat.client.node_or_database import open_client
from evenbeat.model import Instant
from evenbeat.node.cluster.membership import ClusterMembership
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.listen import ListenAddress
from evenbeat.node.process.run_cluster_node import run_cluster_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.queue.nats.address import parse_queue_address
from evenbeat.testing.nats_server import NatsServer
from evenbeat.testing.postgres_server import PostgresServer

T = TypeVar("T")
WORKER_SECRETS = {
    "EVENBEAT_TOKEN": "evb_of-the-worker",
    "EVENBEAT_DB": "postgresql://me:of-the-worker@nowhere/x",
    "PGPASSWORD": "of-the-worker",
}
"""What the worker has in its environment, and nothing that it runs."""


def admin_token(dsn: str) -> str:
    """For the tests: a cluster makes none by itself."""
    new = create_api_token("tests", "admin", Instant(time.time_ns() // 1_000))
    with open_client(dsn, "tests") as client:
        client.add_token(new)
    return new.text


class LiveScheduler:
    """`with LiveScheduler(dsn, queue) as member: member.get("/v1/cluster")` - a scheduler on a loop of its own."""

    def __init__(self, dsn: str, queue: str, token: str, replicas: int = 1) -> None:
        self._dsn = dsn
        self._where = parse_queue_address(queue, replicas)
        self._token = token
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self.error: BaseException | None = None
        self.node: Scheduler
        self.membership: ClusterMembership
        self.client: httpx.Client

    def _live(self) -> None:
        options = NodeOptions(grace=0.5, listen=ListenAddress("127.0.0.1", 0))
        try:
            asyncio.run(run_cluster_node(self._dsn, self._where, options, self._up, signals=False))
        except BaseException as e:
            self.error = e
        self._ready.set()

    def _up(self, node: Scheduler) -> None:
        assert isinstance(node.membership, ClusterMembership)
        self.node, self.membership = node, node.membership
        self._ready.set()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        headers = {"authorization": f"Bearer {self._token}"}
        self.client = httpx.Client(base_url=self.node.page, headers=headers, timeout=PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self.node.loop.call_soon_threadsafe(self.node.stop, "the test is over")
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def on_loop(self, question: Callable[[], T]) -> T:
        """Look at the node where it lives."""

        async def asking() -> T:
            return question()

        return asyncio.run_coroutine_threadsafe(asking(), self.node.loop).result(PATIENCE)

    def has(self, task: str) -> bool:
        return self.on_loop(lambda: self.node.tasks.names.find(task) is not None)

    def ask(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        answer = self.client.request(method, path, **more)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, params=query)

    def post(self, path: str, expected: int = 200, **body: Any) -> Any:
        return self.ask("POST", path, expected, json=body)


class LiveCluster:
    """Two members; the first is asked, the second has half of the tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self.dsn: str
        self.token: str
        self.first: LiveScheduler
        self.second: LiveScheduler

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.postgres = PostgresServer(durable=False)
            stack.callback(self.postgres.close)
            self.dsn = self.postgres.start().create_database()
            nats = NatsServer(self.folder / "nats")
            stack.callback(nats.stop)
            nats.start()
            self.worker = self._worker(nats.url)
            stack.callback(self._end_worker)
            self.token = admin_token(self.dsn)
            self.first = stack.enter_context(LiveScheduler(self.dsn, nats.url, self.token))
            self.second = stack.enter_context(LiveScheduler(self.dsn, nats.url, self.token))
            eventually(self._is_settled)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _worker(self, queue: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "evenbeat", "worker", "--name", "smith", "--workers", "1", "--grace", "1s"]
        command += ["--pass-env", "SITE"]
        log = (self.folder / "worker.log").open("wb")
        with log:
            environment = {**os.environ, **WORKER_SECRETS, "EVENBEAT_QUEUE": queue, "SITE": "berlin", "OTHER": "paris"}
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def _end_worker(self) -> None:
        self.worker.terminate()
        try:
            self.worker.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.worker.kill()
            self.worker.wait()

    def _is_settled(self) -> bool:
        found = self.first.client.get("/v1/cluster")
        if found.status_code != 200:
            return False
        cluster = found.json()
        counts = [node["partition_count"] for node in cluster["nodes"]]
        return len(counts) == 2 and min(counts) > 64 and not cluster["unheld"] and bool(cluster["workers"])

    def tasks(self, prefix: str, **keys: Any) -> tuple[str, str]:
        """Two tasks that do nothing, once a day: one of the first node, one of the second."""
        found: dict[bool, str] = {}
        for i in range(60):
            name = f"{prefix} {i}"
            task = {"name": name, "every": "1d", "command": ["noop"], **keys}
            self.first.post("/v1/tasks", 201, **{key: value for key, value in task.items() if value is not None})
            is_first = eventually(partial(self.holder, name)) is self.first
            found.setdefault(is_first, name)
            if len(found) == 2:
                break
        return found[True], found[False]

    def holder(self, name: str) -> LiveScheduler | None:
        """Who has a task."""
        return next((member for member in (self.first, self.second) if member.has(name)), None)
