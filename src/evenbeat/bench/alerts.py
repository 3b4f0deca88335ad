"""`evenbeat bench alerts`: 10,000 checks turn CRITICAL within 10 s. How late are other tasks, and who is told what?

Passive checks get their results at an even pace, while 1,000 other runs a second go on by the clock. The same node
without contacts is the baseline; the 10 s before the storm are another.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec
import numpy as np

from evenbeat.admin.contacts import CONTACTS_PREFIX
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.bench.measure import Comparison, Observation
from evenbeat.bench.node import comparison_of
from evenbeat.core.columns import Ints
from evenbeat.model import HOUR, SECOND, Contact, Instant, Job, Missed, NotifyContact, RunKind, Schedule, Task
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_node import run_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import Store
from evenbeat.store.sqlite.sqlite_store import SqliteStore

_CHECKS: Final = 10_000
_TASKS: Final = 10_000
_EVERY: Final = 10 * SECOND
"""Of each of the other tasks."""
_SECONDS: Final = 10.0
"""Of the calm, and of the storm."""
_WARM_UP_SECONDS: Final = 8.0
_GATHER: Final = 12 * SECOND
_AFTER_SECONDS: Final = 7.0
"""Measured after the storm: the gather ends, and the messages leave."""
_CONTACTS: Final = ("ops", "boss")
_STEP: Final = 0.01
"""Seconds between two handfuls of results."""
_WORKERS: Final = 2
_SLOTS: Final = 2_000
_storms: list["_Storm"] = []


class _Storm(NamedTuple):
    """What was measured of a node with contacts, or without; lateness is a 99th percentile, in seconds."""

    calm: float
    storm: float
    items: list[int]
    """Of each message."""


def comparisons(pairs: int) -> Iterator[tuple[str, Comparison]]:
    """Every measure, when all pairs are made."""
    beside, calm = [], []
    for i in range(pairs):
        without = measure_storm(with_contacts=False) if i % 2 else None
        ours = measure_storm(with_contacts=True)
        without = without or measure_storm(with_contacts=False)
        beside.append((1 / ours.storm, 1 / without.storm))
        calm.append((1 / ours.storm, 1 / ours.calm))
        _storms.append(ours)
    title = f"Lateness while {_CHECKS:,} checks turn CRITICAL and {len(_CONTACTS)} contacts are told: 1 / p99"
    yield "alerts_storm", comparison_of(title, "with contacts", "without contacts", beside)
    yield "alerts_calm", comparison_of("The same beside the seconds before", "storm", "calm", calm)


def observations(_: str | None) -> Iterator[tuple[str, Observation]]:
    """What was told, and how late runs were."""
    messages = [storm.items for storm in _storms]
    said = ", ".join(f"{len(items)} messages with {sum(items):,} items" for items in messages)
    yield "messages", Observation(messages, f"Told to {len(_CONTACTS)} contacts: {said}")
    late = {"calm": median(s.calm for s in _storms) * 1e3, "storm": median(s.storm for s in _storms) * 1e3}
    words = f"p99 of lateness: calm {late['calm']:.1f} ms, storm {late['storm']:.1f} ms"
    yield "lateness_ms", Observation(late, words)


def measure_storm(*, with_contacts: bool) -> _Storm:
    """Run a node through calm and storm."""
    with TemporaryDirectory(prefix="evenbeat-bench-") as folder, sink() as port:
        database = Path(folder) / "node.db"
        store = SqliteStore(database)
        fill(store, port if with_contacts else None)
        store.close()
        found: list[asyncio.Task[_Storm]] = []

        def up(node: Scheduler) -> None:
            found.append(asyncio.get_running_loop().create_task(_measure(node, with_contacts=with_contacts)))

        options = NodeOptions(workers=_WORKERS, max_concurrent=_SLOTS, grace=5)
        asyncio.run(run_node(database, options, up, signals=False))
        return found[0].result()


@contextmanager
def sink() -> Iterator[int]:
    """A receiver of messages; its port."""
    command = [sys.executable, "-P", "-m", "evenbeat.bench.message_sink"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdin is not None
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.stdin.close()


def fill(store: SqliteStore, port: int | None) -> None:
    """Contacts, unless there is no port; checks that notify them, and other tasks."""
    contacts = {name: Contact(webhook=f"http://127.0.0.1:{port}/{name}") for name in _CONTACTS if port is not None}
    store.set_settings({f"{CONTACTS_PREFIX}bench": msgspec.json.encode(contacts).decode()})
    notify = tuple(NotifyContact(name) for name in contacts)
    hourly, often = Schedule(every=HOUR), Schedule(every=_EVERY)
    checks = [
        Task(f"check {i}", hourly, check=True, passive=True, attempts=1, notify=notify, gather=_GATHER)
        for i in range(_CHECKS)
    ]
    others = [Task(f"task {i}", often, Job(command=("noop",)), missed=Missed.SKIP) for i in range(_TASKS)]
    TaskAdmin(store, lambda: Instant(time.time_ns() // 1_000)).add([*checks, *others], "bench", "bench")


async def _measure(node: Scheduler, *, with_contacts: bool) -> _Storm:
    try:
        await asyncio.sleep(_WARM_UP_SECONDS)
        calm_from = node.clock.now()
        await asyncio.sleep(_SECONDS)
        storm_from = node.clock.now()
        await _turn_critical(node)
        await asyncio.sleep(_AFTER_SECONDS)
        until = node.clock.now()
        while with_contacts and told(node.store) < len(_CONTACTS) * _CHECKS:
            await asyncio.sleep(_STEP)
        await node.outbox.empty()
        late = _lateness(node.store, calm_from, until)
        items = [message.items for message in node.store.messages()]
        return _Storm(_p99(late, calm_from, storm_from), _p99(late, storm_from, until), items)
    finally:
        node.stop("measured")


async def _turn_critical(node: Scheduler) -> None:
    """At an even pace."""
    began = time.monotonic()
    done = 0
    while done < _CHECKS:
        due = min(_CHECKS, int((time.monotonic() - began) / _SECONDS * _CHECKS) + 1)
        for i in range(done, due):
            row = node.tasks.names.find(f"check {i}")
            assert row is not None
            now = node.clock.now()
            node.turns.passive.submit(row, 2, "CRITICAL - no answer", now, now)
        if due > done:
            node.turns.plan_turn_soon()
        done = due
        await asyncio.sleep(_STEP)


def told(store: Store) -> int:
    """How many items were delivered."""
    return sum(message.items for message in store.messages() if message.state == "delivered")


def _lateness(store: Store, since: Instant, until: Instant) -> Ints:
    """Nominal time and lateness of the runs by the clock since then."""
    most = int((until - since) / _EVERY * _TASKS) + _TASKS + _CHECKS
    runs = [run for run in store.runs(before=until, most=most) if run.kind == RunKind.GRID and run.started is not None]
    return np.array([(run.nominal, (run.started or 0) - run.nominal) for run in runs], dtype=np.int64)


def _p99(late: Ints, since: Instant, until: Instant) -> float:
    inside = late[(late[:, 0] >= since) & (late[:, 0] < until), 1]
    return float(np.percentile(inside, 99)) / SECOND
