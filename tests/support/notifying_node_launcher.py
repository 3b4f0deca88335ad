"""A node that notifies, in a process of its own, killed at a planted point: DATABASE FILE POINT NTH.

POINT is where it dies, at its NTH crossing: `before` or `after` a commit of alerts, or `ordered`, when the sender has
its order; or `never`. Once it is up, there is a file `up-PID`.
"""

import asyncio
import os
import signal
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn

from evenbeat.node.alerts.node_alerts import NodeAlerts
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_node import run_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.sender_documents import DeliveryOrder


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives that")


def plant(point: str, nth: int) -> None:
    """Die at this crossing of the point."""
    record, order = SqliteStore.record_alerts, NodeAlerts.order
    crossings = 0

    def is_now(here: str) -> bool:
        nonlocal crossings
        crossings += here == point
        return here == point and crossings == nth

    def planted_record(self: SqliteStore, batch: Any) -> Future[Any]:
        if is_now("before"):
            die()
        future = record(self, batch)
        if is_now("after"):
            future.result()
            die()
        return future

    def planted_order(self: NodeAlerts, one: DeliveryOrder) -> None:
        order(self, one)
        if is_now("ordered"):
            die()

    SqliteStore.record_alerts = planted_record  # type: ignore[method-assign, assignment]
    NodeAlerts.order = planted_order  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    plant(sys.argv[3], int(sys.argv[4]))
    _database = Path(sys.argv[1])

    def _up(_: Scheduler) -> None:
        _database.with_name(f"up-{os.getpid()}").touch()

    asyncio.run(run_node(_database, NodeOptions(files=(Path(sys.argv[2]),), grace=5.0), _up))
