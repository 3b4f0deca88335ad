"""Reads what the oracle judges a cluster by: the log of the runs, and PostgreSQL, both asked beside evenbeat."""

import json
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from cluster_oracle import OPEN, ClusterRecords, Sighting
from packed_runs import packed_runs
from run_oracle import SECOND, Evidence, Run, Skip, Task, read_log
from run_oracle_checks import COLUMNS, Result, result_of
from run_oracle_jobs import CHAIN, Span

_LOOK: Final = 0.05
"""Seconds between two looks at the open claims."""
_CALENDAR: Final = "*-*-* *:*:0/"


def connect(dsn: str) -> "psycopg.Connection[Any]":
    """For reading, and past every link: tests break only the cluster's own connections."""
    return psycopg.connect(dsn, autocommit=True, connect_timeout=5, options="-c search_path=evenbeat")


def read(dsn: str, log: Path, sightings: list[Sighting]) -> ClusterRecords:
    """The log, the store, and the log again: what ended in the store has ended in the log by then."""
    known = len(read_log(log))
    with connect(dsn) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        tasks, limits = tasks_of(connection), _limits(connection)
        ((now,),) = connection.execute("SELECT (extract(epoch FROM now()) * 1000000)::bigint").fetchall()
    return ClusterRecords(Evidence(read_log(log), tasks, limits, []), known, sightings, now)


def tasks_of(connection: "psycopg.Connection[Any]") -> list[Task]:
    runs, skips, results = defaultdict(list), defaultdict(list), defaultdict(list)
    for table in ("plain_runs", "notable_runs"):
        for task, *row in connection.execute(f"SELECT task, nominal, kind, generation, claimed, outcome FROM {table}"):
            runs[task].append(Run(*row))
        for task, *row in connection.execute(f"SELECT task, {COLUMNS} FROM {table}"):
            results[task].append(Result(*row))
    for run in packed_runs(connection):
        runs[run.task].append(Run(run.nominal, run.kind, run.generation, run.claimed, run.outcome))
        results[run.task].append(result_of(run))
    for task, *row in connection.execute("SELECT task, nominal, kind, generation, at, %s FROM claims", (OPEN,)):
        runs[task].append(Run(*row))
    for task, *row in connection.execute("SELECT task, first, last, times, reason FROM skips WHERE kind = 0"):
        skips[task].append(Skip(*row))
    chain_skips = defaultdict(list)
    for task, *row in connection.execute("SELECT task, first, last, reason FROM skips WHERE kind = %s", (CHAIN,)):
        chain_skips[task].append(Span(*row))
    tasks = []
    for number, name, created, removed, definition, accounted in connection.execute(
        "SELECT number, name, created, removed, definition, coalesce(c.accounted, p.accounted) "
        "FROM tasks JOIN progress p ON p.task = number LEFT JOIN claims c ON c.task = number"
    ):
        known = json.loads(definition) if isinstance(definition, str | bytes) else definition
        history = sorted(runs[number], key=lambda run: run.claimed)
        known |= {"schedule": _grid(known)}
        of_task = Task(name, created, removed, accounted, known, None, history, skips[number], results[number])
        tasks.append(of_task._replace(chain_skips=chain_skips[number]))
    return tasks


def _grid(definition: dict[str, Any]) -> dict[str, Any]:
    """The tasks of these tests are all on a grid, however they say it, or run after others."""
    match definition["schedule"]:
        case {"after": _} | {"after_failure": _}:
            return dict(definition["schedule"])
        case {"cron": "* * * * *", "second": second}:
            return {"every": 60 * SECOND, "phase": second * SECOND}
        case {"calendar": str(text)} if text.startswith(_CALENDAR):
            return {"every": int(text.removeprefix(_CALENDAR)) * SECOND, "phase": 0}
        case {"every": every, "phase": phase}:
            return {"every": every, "phase": phase}
        case schedule:
            raise AssertionError(f"no grid: {schedule}")


def _limits(connection: "psycopg.Connection[Any]") -> dict[str, int]:
    limits: dict[str, int] = {}
    for (text,) in connection.execute("SELECT value FROM settings WHERE key LIKE 'limits:%'"):
        limits |= json.loads(text)
    return limits


class Watcher:
    """Looks at the open claims all the time: tokens are in no history."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._seen: set[Sighting] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._thread.start()

    def sightings(self) -> list[Sighting]:
        return list(self._seen.copy())

    def _watch(self) -> None:
        while not self._is_over.is_set():
            # The server may be stopped, that is what tests do.
            with suppress(psycopg.Error), connect(self._dsn) as connection:
                while not self._is_over.wait(_LOOK):
                    rows = connection.execute(
                        "SELECT name, nominal, kind, at, token FROM claims JOIN tasks ON number = task"
                    )
                    self._seen.update(Sighting(*row) for row in rows)
            time.sleep(_LOOK)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(30)
