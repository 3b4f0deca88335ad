"""A real node on a loop of its own, in a thread of the test: with its database, its socket and its workers."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from waiting import PATIENCE

from evenbeat.client.node_or_database import open_client
from evenbeat.client.store_based import LocalClient
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_node import run_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import RunRecord
from evenbeat.store.sqlite.sqlite_store import SqliteStore


class LiveNode:
    """`with LiveNode(database, grace=1) as node: ...` - it is up when the block begins, and stopped after it."""

    def __init__(self, database: Path, **options: Any) -> None:
        self.database = database
        self._options = NodeOptions(**{"workers": 1, "grace": 10.0, **options})
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: BaseException | None = None
        self.node: Scheduler

    def _run(self) -> None:
        try:
            asyncio.run(run_node(self.database, self._options, self._up, signals=False))
        except BaseException as e:
            self.error = e
        self._ready.set()

    def _up(self, node: Scheduler) -> None:
        self.node = node
        self._ready.set()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_alive:
            self.do(lambda: self.node.stop("the test is over"))
        self.has_stopped()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def do(self, work: Callable[[], None]) -> None:
        """On the loop of the node."""
        self.node.loop.call_soon_threadsafe(work)

    def has_stopped(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def client(self) -> LocalClient:
        return open_client(self.database, "ana")

    def runs(self, name: str) -> list[RunRecord]:
        store = SqliteStore(self.database, read_only=True)
        try:
            entry = store.find(name)
            return store.runs(entry.number) if entry is not None else []
        finally:
            store.close()
