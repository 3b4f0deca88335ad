"""A process that packs and merges the history of a database; at one of its commits it is killed, or the disk is full.

    compacting_process.py DATABASE COMMIT before|in|after|full|"write error"

With a full disk its status is 3, after it has said what was wrong.
"""

import os
import resource
import signal
import sqlite3
import sys
from itertools import count
from pathlib import Path
from typing import Any

from evenbeat.model import Instant
from evenbeat.store.contract import StoreError
from evenbeat.store.history_contract import Layer, LayeredHistory
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.store.sqlite.writer import SqliteWriter
from evenbeat.testing.samples import T0
from evenbeat.testing.store_layers import a_summary, pack_all, runs_of_layer


def compact(store: LayeredHistory) -> None:
    """Pack all runs, merge all parts of runs into one, with a summary, and delete what is left of the old ones."""
    store.discard_unfinished()
    pack_all(store, 12)
    old = [part.number for layer in (Layer.RECENT, Layer.RUNS) for part in store.parts(layer)]
    runs = [run for layer in (Layer.RECENT, Layer.RUNS) for run in runs_of_layer(store, layer)]
    runs.sort(key=lambda run: run[:3])
    merged, hours = store.begin_part(Layer.RUNS, T0), store.begin_part(Layer.HOURS, T0)
    for i in range(0, len(runs), 20):
        store.add_runs(merged, runs[i : i + 20])
    store.add_summaries(hours, [a_summary(1)])
    old += [part.number for part in store.parts(Layer.HOURS)]
    store.complete([merged, hours], old)
    while store.sweep(2):
        pass
    store.give_back(1 << 20)


def is_whole(store: LayeredHistory) -> bool:
    """Whether nothing is left of an unfinished round, once that was begun anew."""
    found = store.summaries(1, Layer.HOURS, T0, Instant(T0 + 1))
    return store.parts(Layer.RECENT) == [] and len(store.parts(Layer.RUNS)) == 1 and found == [a_summary(1)]


def plant(commit: int, fault: str) -> None:
    """Let something happen to this process at its commit of this number."""
    make, numbers = SqliteWriter._commit, count(1)

    def planted(self: SqliteWriter, works: list[Any]) -> list[Any]:
        if next(numbers) != commit:
            return make(self, works)
        match fault:
            case "before":
                _die()
            case "in":
                make(self, [*works, _die])
            case "after":
                make(self, works)
                _die()
            case "full":
                _fill_up(self._connection)
            case "write error":
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (self._wal.stat().st_size, hard))
        return make(self, works)

    SqliteWriter._commit = planted  # type: ignore[method-assign]


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fill_up(connection: sqlite3.Connection) -> None:
    """Use all free pages, and allow no more."""
    connection.execute("CREATE TABLE IF NOT EXISTS filler (x)")
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    connection.execute("INSERT INTO filler VALUES (zeroblob(?))", (1_000 * free,))
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}").close()


if __name__ == "__main__":
    plant(int(sys.argv[2]), sys.argv[3])
    opened = SqliteStore(Path(sys.argv[1]))
    try:
        compact(opened)
    except StoreError as e:
        os.write(1, str(e).encode())
        os._exit(3)
    opened.close()
