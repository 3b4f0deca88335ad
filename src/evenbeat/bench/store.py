"""`evenbeat bench store`: claims and finishes per second in SQLite, beside a bare executemany loop of the same rows."""

import random
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from evenbeat.bench.history_size import run_sizes
from evenbeat.bench.measure import Comparison, Contender, Observation, compare_in_pairs
from evenbeat.model import MINUTE, Instant, Job, Schedule, Task
from evenbeat.store.contract import FOREVER, NEVER, Batch, Claim, Finish, ProgressRecord, WithdrawnTasks
from evenbeat.store.sqlite.sqlite_store import SqliteStore

if TYPE_CHECKING:
    from concurrent.futures import Future

_TASKS: Final = 100_000
_RUNS: Final = 50_000
_BATCH: Final = 500
_T0: Final = Instant(1_800_000_000_000_000)
_OUTPUT: Final = "PING OK - Packet loss = 0%, RTA = 0.80 ms|rta=0.80ms;100;500;0 pl=0%;20;60;0"
_BATCHES_IN_FLIGHT: Final = 8
"""Batches that a node does not wait for before it goes on."""


def comparisons(pairs: int) -> Iterator[tuple[str, Comparison]]:
    """Both ways to use a store: waiting for each batch, and pipelined, as a node does."""
    with TemporaryDirectory(prefix="evenbeat-bench-") as folder:
        ours, bare = Path(folder) / "ours.db", Path(folder) / "bare.db"
        _fill(ours)
        _fill(bare)
        batches = list(_batches())
        with closing(SqliteStore(ours)) as store, closing(_connect(bare)) as connection:
            baseline = Contender("bare executemany loop", _record_bare(connection, batches), 2 * _RUNS)
            for key, title, most in (
                ("store_awaited", "claims and finishes, one batch at a time", 1),
                ("store", "claims and finishes", _BATCHES_IN_FLIGHT),
            ):
                side = Contender("the store in SQLite", _record_with_store(store, batches, most), 2 * _RUNS)
                yield key, compare_in_pairs(title, side, baseline, pairs, clock=time.perf_counter)


def observations(_: str | None) -> Iterator[tuple[str, Observation]]:
    """What a run takes in the database."""
    yield "run_sizes", run_sizes()


def _fill(path: Path) -> None:
    """Tasks that have been placed; both sides begin with the same file."""
    with closing(SqliteStore(path)) as store:
        schedule, job = Schedule(every=5 * MINUTE, phase=0), Job(command=("check_ping", "-H", "192.0.2.1"))
        tasks = [Task(f"host{i:06}/ping", schedule, job, check=True) for i in range(_TASKS)]
        entries = store.create(tasks, "bench", _T0)
        store.record(
            Batch(standings=[ProgressRecord(e.number, _T0, FOREVER, 0, NEVER, NEVER) for e in entries])
        ).result()


def _batches() -> Iterator[tuple[list[Claim], list[Finish]]]:
    """Runs of tasks in no order, as they become due."""
    tasks = random.Random(1).sample(range(1, _TASKS + 1), _RUNS)  # noqa: S311 - the same in every run
    for i in range(0, _RUNS, _BATCH):
        due = _T0 + i
        some = tasks[i : i + _BATCH]
        claims = [Claim(task, due, 0, 0, due + 900, due + 5 * MINUTE, FOREVER, 0) for task in some]
        yield claims, [_finish(task, due + 2_000) for task in some]


def _finish(task: int, start: int) -> Finish:
    return Finish(
        task,
        start,
        start + 80_000,
        "succeeded",
        0,
        _OUTPUT,
        None,
        last_start=start,
        state=0,
        hard=True,
        attempt=1,
        changes=0,
        flapping=False,
        result_at=start,
        extra=FOREVER,
        extra_kind=0,
        notable=False,
    )


def _record_with_store(
    store: SqliteStore, batches: list[tuple[list[Claim], list[Finish]]], most: int
) -> Callable[[], object]:
    def work() -> None:
        under_way: deque[Future[WithdrawnTasks]] = deque()
        for claims, finishes in batches:
            for batch in (Batch(claims=claims), Batch(finishes=finishes)):
                under_way.append(store.record(batch))
                if len(under_way) >= most:
                    under_way.popleft().result()
        for future in under_way:
            future.result()

    return work


# The baseline: it checks nothing, looks nothing up, and knows the rows beforehand


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("synchronous = NORMAL", "cache_size = -32000", "wal_autocheckpoint = 8000"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _record_bare(
    connection: sqlite3.Connection, batches: list[tuple[list[Claim], list[Finish]]]
) -> Callable[[], object]:
    run = "INSERT INTO plain_runs VALUES (NULL, NULL, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    claim = (
        "INSERT INTO claims (task, nominal, generation, kind, at, accounted, extra, extra_kind) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    )
    learn = (
        "UPDATE progress SET accounted = ?, extra = ?, extra_kind = ?, last_start = ?, state = ?, hard = ?, "
        "attempt = ?, changes = ?, flapping = ?, result_at = ?, started = ?, ended = ?, outcome = ?, output = ? "
        "WHERE task = ?"
    )
    rows = [
        (
            [claim[:8] for claim in claims],
            [
                (f.task, c.nominal, c.at, f.started, f.ended, f.outcome, f.status, f.state, 1, f.attempt, f.output)
                for c, f in zip(claims, finishes, strict=True)
            ],
            [
                (c.accounted, f.extra, f.extra_kind, f.last_start, f.state, 1, f.attempt, f.changes, 0, f.result_at,
                 f.started, f.ended, f.outcome, f.output, f.task)
                for c, f in zip(claims, finishes, strict=True)
            ],
            [(c.task,) for c in claims],
        )
        for claims, finishes in batches
    ]  # fmt: skip

    def work() -> None:
        for claims, runs, learned, ended in rows:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(claim, claims)
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(run, runs)
            connection.executemany(learn, learned)
            connection.executemany("DELETE FROM claims WHERE task = ?", ended)
            connection.execute("COMMIT")

    return work
