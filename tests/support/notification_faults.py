"""Faults of notifications, planted into a node's process: it dies at a boundary of the engine; deliveries are eager.

Nothing in the node knows of faults. See `crashing_node_launcher` and `cluster_process_launcher`.
"""

import os
import signal
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, NoReturn

import msgspec

from evenbeat.core import delivery_pace
from evenbeat.model import SECOND
from evenbeat.node.alerts.sender_process import SenderProcess
from evenbeat.node.loop.outbox import Outbox
from evenbeat.store.alert_records import AlertBatch, AlertRefusals
from evenbeat.store.contract import Batch, WithdrawnTasks
from evenbeat.store.sqlite import alert_changes, alert_store, batch_statements, sqlite_store
from evenbeat.store.sqlite.alert_store import SqliteAlertStore
from evenbeat.wire.sender_documents import DeliveryOrder

KINDS: Final = ("problem", "decision", "message", "attempt", "failure", "end")
"""Commits that decide what is sent: of a problem or what holds it, of what a channel is to be told, of a new message,
of the beginning of a delivery, and of how it ended.
"""
ALERT_BOUNDARIES: Final = (
    *(f"{when} {kind} commit" for kind in KINDS for when in ("before", "in", "after")),
    "after order",
)


def plant_eager_delivery() -> None:
    """A failed delivery is repeated within a second, and one that hangs takes no longer."""
    delivery_pace.FIRST_RETRY = SECOND // 5  # type: ignore[misc]
    delivery_pace.LONGEST_RETRY = SECOND  # type: ignore[misc]
    give = SenderProcess.order

    def planted(self: SenderProcess, order: DeliveryOrder) -> None:
        give(self, msgspec.structs.replace(order, timeout=SECOND))

    SenderProcess.order = planted  # type: ignore[method-assign]


def plant_alert_crash(log: Callable[..., None], point: str, nth: int) -> None:
    """Die at the nth crossing of a boundary: `before message commit`, `in end commit`, `after order` ..."""
    crossings = 0
    fatal: list[object] = []

    def die() -> NoReturn:
        log("crash", point.replace(" ", "-"))
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody survives that")

    def crosses(kinds: set[str]) -> bool:
        nonlocal crossings
        crossings += point.split()[1] in kinds
        return crossings >= nth and point.split()[1] in kinds

    put, record = Outbox.put, batch_statements.record
    put_alerts, record_alerts = SqliteAlertStore.record_alerts, alert_changes.record_alerts
    give = SenderProcess.order

    def planted_put(self: Outbox, batch: Batch, then: Callable[[], None]) -> None:
        if not (batch.problems or batch.holds) or not crosses({"problem"}):
            put(self, batch, then)
        elif point.startswith("before"):
            die()
        elif point.startswith("in"):
            fatal.append(batch)
            put(self, batch, then)
        else:
            put(self, batch, die)

    def planted_record(connection: sqlite3.Connection, batch: Batch) -> WithdrawnTasks:
        withdrawn: WithdrawnTasks = record(connection, batch)
        if any(batch is one for one in fatal):
            die()
        return withdrawn

    def planted_put_alerts(self: SqliteAlertStore, batch: AlertBatch) -> Future[AlertRefusals]:
        if not crosses(_kinds_of(batch)):
            return put_alerts(self, batch)
        if point.startswith("before"):
            die()
        if point.startswith("in"):
            fatal.append(batch)
        future = put_alerts(self, batch)
        if point.startswith("after"):
            future.add_done_callback(lambda _: die())
        return future

    def planted_record_alerts(connection: sqlite3.Connection, batch: AlertBatch) -> AlertRefusals:
        refused = record_alerts(connection, batch)
        if any(batch is one for one in fatal):
            die()
        return refused

    def planted_order(self: SenderProcess, order: DeliveryOrder) -> None:
        give(self, order)
        if crosses({"order"}):
            die()

    Outbox.put = planted_put  # type: ignore[method-assign]
    sqlite_store.record = planted_record  # type: ignore[attr-defined]
    SqliteAlertStore.record_alerts = planted_put_alerts  # type: ignore[method-assign]
    alert_store.record_alerts = planted_record_alerts  # type: ignore[attr-defined]
    SenderProcess.order = planted_order  # type: ignore[method-assign]


def _kinds_of(batch: AlertBatch) -> set[str]:
    found = {
        "message": bool(batch.messages),
        "attempt": any(attempt.started_attempt is not None for attempt in batch.attempts),
        "failure": any(attempt.started_attempt is None for attempt in batch.attempts),
        "end": bool(batch.message_ends),
    }
    kinds = {kind for kind, is_there in found.items() if is_there}
    return kinds or ({"decision"} if batch.alerts or batch.decisions else set())
