"""A node in a process of its own, with a fault planted: `crashing_node_launcher.py DATABASE FILE LOG FAULT` (JSON).

Nothing in the node knows of faults. They are planted around the two places where everything passes that is to last:
the outbox on its way in, and the store's writer.
"""

import asyncio
import json
import os
import resource
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from notification_faults import plant_alert_crash, plant_eager_delivery

from evenbeat.node.loop.outbox import Outbox
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_node import run_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import Batch, WithdrawnTasks
from evenbeat.store.sqlite import batch_statements as sqlite_record
from evenbeat.store.sqlite import checkpoint as sqlite_checkpoint
from evenbeat.store.sqlite import sqlite_store
from evenbeat.store.sqlite.writer import SqliteWriter

Then = Callable[[], None]
_NO_LIMIT: Final = 0xFFFFFFFE
_taken_up = threading.Event()


class Log:
    """The same log that the runs write to."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def write(self, *words: str) -> None:
        os.write(self._file, " ".join([*words, str(os.getpid()), str(time.time_ns() // 1_000)]).encode() + b"\n")


def plant_crash(log: Log, point: str, nth: int) -> None:
    """Die at the nth crossing of a named point: `before claim commit`, `in finish commit`, `after dispatch` ..."""
    wanted = "finishes" if "finish" in point else "claims"
    put, record = Outbox.put, sqlite_record.record
    crossings = 0
    fatal: list[Batch] = []

    def die() -> NoReturn:
        log.write("crash", point.replace(" ", "-"))
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody survives that")

    def planted_put(self: Outbox, batch: Batch, then: Then) -> None:
        nonlocal crossings
        crossings += bool(getattr(batch, wanted))
        if crossings < nth or not getattr(batch, wanted):
            put(self, batch, then)
            return
        match point.split(maxsplit=1)[0], point:
            case "before", _:
                die()
            case "in", _:
                fatal.append(batch)
                put(self, batch, then)
            case _, "after dispatch":

                def after_dispatch() -> None:
                    then()
                    die()

                put(self, batch, after_dispatch)
            case _:
                put(self, batch, die)

    def planted_record(connection: sqlite3.Connection, batch: Batch) -> WithdrawnTasks:
        withdrawn = record(connection, batch)
        if any(batch is one for one in fatal):
            die()
        return withdrawn

    Outbox.put = planted_put  # type: ignore[method-assign]
    sqlite_store.record = planted_record  # type: ignore[attr-defined]


def plant_store_fault(log: Log, database: Path, kind: str, after: int, seconds: float) -> None:
    """After so many commits of a node that is up the store is slow, full, or cannot be written; it heals in time."""
    commit = SqliteWriter._commit
    commits, until = 0, 0.0
    wal = database.with_name(database.name + "-wal")
    other = sqlite3.connect(database, isolation_level=None, check_same_thread=False)

    def set_fault(connection: sqlite3.Connection, on: bool) -> None:
        match kind:
            case "full":
                (pages,) = connection.execute("PRAGMA page_count").fetchone()
                connection.execute(f"PRAGMA max_page_count = {pages if on else _NO_LIMIT}").close()
            case "write error":
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size if on else hard, hard))
            case "locked":
                other.execute("BEGIN IMMEDIATE" if on else "ROLLBACK")
            case "read-only":
                connection.execute(f"PRAGMA query_only = {int(on)}").close()

    def planted(self: SqliteWriter, works: list[Any]) -> list[Any]:
        nonlocal commits, until
        commits += _taken_up.is_set()
        now = time.monotonic()
        if commits == after:
            until = now + seconds
            log.write("fault", kind.replace(" ", "-"))
            set_fault(self._connection, on=True)
        elif until and now > until:
            until = 0.0
            set_fault(self._connection, on=False)
            log.write("healed", kind.replace(" ", "-"))
        if until and kind == "slow":
            time.sleep(0.4)
        return commit(self, works)

    SqliteWriter._commit = planted  # type: ignore[method-assign]


def plant_checkpoints(changes: int) -> None:
    """Move what was committed to the database so often."""
    sqlite_checkpoint._CHANGES = changes  # type: ignore[misc]


def tell_when_taken_up(log: Log) -> None:
    """The first batch of a node is what taking up has decided: the log says as of when, once it is safe."""
    put = Outbox.put
    is_first = True

    def telling(self: Outbox, batch: Batch, then: Then) -> None:
        nonlocal is_first
        if not is_first:
            put(self, batch, then)
            return
        is_first = False
        now = str(time.time_ns() // 1_000)

        def tell() -> None:
            then()
            log.write("taken-up", now)
            _taken_up.set()

        put(self, batch, tell)

    Outbox.put = telling  # type: ignore[method-assign]


async def main(database: Path, file: Path, log: Log) -> None:
    def ready(_: Scheduler) -> None:
        log.write("up")

    await run_node(database, NodeOptions(files=(file,), workers=2), ready)
    log.write("down")


if __name__ == "__main__":
    _database, _file, _log, _fault = Path(sys.argv[1]), Path(sys.argv[2]), Log(sys.argv[3]), json.loads(sys.argv[4])
    tell_when_taken_up(_log)
    if "store" in _fault:
        plant_store_fault(_log, _database, *_fault["store"])
    if "checkpoints" in _fault:
        plant_checkpoints(_fault["checkpoints"])
    if "crash" in _fault:
        plant_crash(_log, *_fault["crash"])
    if "eager" in _fault:
        plant_eager_delivery()
    if "alert crash" in _fault:
        plant_alert_crash(_log.write, *_fault["alert crash"])
    asyncio.run(main(_database, _file, _log))
