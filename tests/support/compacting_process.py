"""Processes that pack and merge the history of a database; at one of its commits each is killed, or the disk is full.

With a full disk the status of a process is 3, after it has said what was wrong.
"""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Self

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


class Ended(NamedTuple):
    """What became of a process, and what it said."""

    status: int
    said: str


class CompactingProcesses:
    """Makes the processes: forks of one that has imported all that they need, which takes far longer than a round."""

    def __enter__(self) -> Self:
        self._parent = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # it forks, so it has no threads
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._parent:
            assert self._parent.stdin is not None
            self._parent.stdin.close()

    def compact(self, database: Path, commit: int, fault: str) -> Ended:
        """A round, with a fault at its commit of this number: before, in, after, full, write error."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(json.dumps([str(database), commit, fault]), file=self._parent.stdin, flush=True)
        return Ended(*json.loads(self._parent.stdout.readline()))


def _serve() -> None:
    for line in sys.stdin:
        database, commit, fault = json.loads(line)
        reading, writing = os.pipe()
        if not (child := os.fork()):
            _compact_once(Path(database), commit, fault, writing)
        os.close(writing)
        with open(reading) as heard:  # noqa: PTH123
            said = heard.read()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(status), said]) + "\n")
        sys.stdout.flush()


def _compact_once(database: Path, commit: int, fault: str, out: int) -> NoReturn:
    status = 1
    try:
        plant(commit, fault)
        opened = SqliteStore(database)
        compact(opened)
        opened.close()
        status = 0
    except StoreError as e:
        os.write(out, str(e).encode())
        status = 3
    finally:
        os._exit(status)


if __name__ == "__main__":
    _serve()
