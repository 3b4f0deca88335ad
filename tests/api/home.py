"""A house with a node in it: the real thing, on a loop of its own in a thread of the test."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from evenbeat.api.http.context import ApiContext
from evenbeat.node.process.run_node import run_node
from evenbeat.node.scheduler import NodeOptions, Scheduler

WAIT = 60.0
"""Seconds; only a broken node needs them."""
T = TypeVar("T")


def eventually(question: Callable[[], T]) -> T:
    """The answer, as soon as there is one."""
    deadline = time.monotonic() + WAIT
    while not (answer := question()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)
    return answer


class Home:
    """`with Home(database) as home: home.house.ask(...)`; afterwards the node has stopped, and the house is there."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self.node: Scheduler

    def _live(self) -> None:
        options = NodeOptions(workers=1, grace=0.1)
        asyncio.run(run_node(self._database, options, self._up, signals=False))

    def _up(self, node: Scheduler) -> None:
        self.node = node
        self._ready.set()

    def do(self, work: Callable[[], None]) -> None:
        """On the loop of the node."""
        self.node.loop.call_soon_threadsafe(work)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(WAIT)
        self.house = ApiContext(self._database)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.do(lambda: self.node.stop("the test is over"))
        self._thread.join(WAIT)
        assert not self._thread.is_alive()
