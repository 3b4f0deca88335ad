"""What a run takes in the database: in the log, and packed with those of other tasks; and what packing costs."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from evenbeat.bench.measure import Observation
from evenbeat.model import MINUTE, Instant, Job, Schedule, Task
from evenbeat.store.contract import FOREVER, NEVER, Batch, Claim, Finish, ProgressRecord
from evenbeat.store.history_contract import Layer, PackedRun
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import a_load_line

_TASKS: Final = 1_000
_MINUTES: Final = 60
_TURN: Final = 200
"""Runs per commit."""
_PACKED_AT_ONCE: Final = 4_000
_BLOCK: Final = 2_000
_T0: Final = Instant(1_800_000_000_000_000)


class RunSize(NamedTuple):
    """Bytes, and microseconds of CPU."""

    logged: float
    """In the log, at 200 runs per commit."""
    packed: float
    merged: float
    """Packed with the other runs of an hour."""
    pack_us: float
    merge_us: float


def run_sizes() -> Observation:
    """Sizes of checks that run each minute, without output and with one whose numbers change every time."""
    sizes = {"without_output": _measure(with_output=False), "load_line": _measure(with_output=True)}
    lines = ["[bold]A run in the database[/bold], of a check that runs each minute"]
    for name, size in sizes.items():
        lines.append(
            f"  {name.replace('_', ' '):<16}{size.logged:>6.1f} bytes in the log, {size.packed:.1f} packed, "
            f"{size.merged:.1f} in the part of its hour; {size.pack_us:.1f} us to pack, {size.merge_us:.1f} to merge"
        )
    return Observation({name: size._asdict() for name, size in sizes.items()}, "\n".join(lines))


def _measure(*, with_output: bool) -> RunSize:
    with TemporaryDirectory(prefix="evenbeat-bench-") as folder, closing(SqliteStore(Path(folder) / "x.db")) as store:
        schedule, job = Schedule(every=MINUTE, phase=0), Job(command=("check_load",))
        entries = store.create([Task(f"host{i:06}/load", schedule, job, check=True) for i in range(_TASKS)], "x", _T0)
        placed = [ProgressRecord(e.number, _T0, FOREVER, 0, NEVER, NEVER) for e in entries]
        store.record(Batch(standings=placed)).result()
        minutes = _batches([entry.number for entry in entries], with_output=with_output)
        for batch in islice(minutes, 1):
            _record(store, batch)
        # From here on a task only changes: what grows is the history.
        before, runs = store.size().size, 0
        for batch in minutes:
            _record(store, batch)
            runs += len(batch.claims)
        logged = (store.size().size - before) / runs
        runs += _TASKS
        pack_us = _cpu(store, _pack) / runs
        packed = store.size().layers[Layer.RECENT].size / runs
        merge_us = _cpu(store, _merge) / runs
        return RunSize(logged, packed, store.size().layers[Layer.RUNS].size / runs, pack_us, merge_us)


def _record(store: SqliteStore, batch: Batch) -> None:
    for at in range(0, len(batch.claims), _TURN):
        store.record(Batch(claims=batch.claims[at : at + _TURN])).result()
        store.record(Batch(finishes=batch.finishes[at : at + _TURN])).result()


def _batches(tasks: list[int], *, with_output: bool) -> Iterator[Batch]:
    """The runs of each minute. Starts and durations vary by as much as they do on a calm machine."""
    chance = random.Random(1)  # noqa: S311 - the same in every run
    phases = [chance.randrange(MINUTE) for _ in tasks]
    for minute in range(_MINUTES):
        batch = Batch()
        for task, phase in sorted(zip(tasks, phases, strict=True), key=itemgetter(1)):
            nominal = _T0 + minute * MINUTE + phase
            at = nominal + int(chance.expovariate(1 / 1_500))
            started = at + int(chance.lognormvariate(6.2, 0.4))
            ended = started + int(chance.lognormvariate(7.6, 0.4))
            output = a_load_line(*(abs(chance.gauss(0.5, 0.2)) for _ in range(3))) if with_output else ""
            batch.claims.append(Claim(task, nominal, 0, 0, at, nominal, FOREVER, 0))
            row = (started, ended, "succeeded", 0, output, None, started, 0, True, 1, 0, False, started, FOREVER, 0)
            batch.finishes.append(Finish(task, *row, notable=False))
        yield batch


def _cpu(store: SqliteStore, work: Callable[[SqliteStore], None]) -> float:
    begun = time.process_time()
    work(store)
    return 1e6 * (time.process_time() - begun)


def _pack(store: SqliteStore) -> None:
    while (unpacked := store.unpacked(_PACKED_AT_ONCE)).runs:
        store.pack(unpacked, [(_T0, unpacked.runs)])


def _merge(store: SqliteStore) -> None:
    old = [part.number for part in store.parts(Layer.RECENT)]
    runs: Iterator[PackedRun] = merge(
        *(chain.from_iterable(store.part_runs(part)) for part in old), key=itemgetter(0, 1, 2)
    )
    new = store.begin_part(Layer.RUNS, _T0)
    while some := list(islice(runs, _BLOCK)):
        store.add_runs(new, some)
    store.complete([new], old)
