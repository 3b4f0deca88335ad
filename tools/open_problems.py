"""What many open problems cost: `python -m tools.open_problems [CHECKS]` has so many checks turn CRITICAL on one node.

Prints how late 1,000 other runs a second are, before and while the problems are listed and filtered over the API all
the time; how long a page takes; and how much more memory the node has per open problem if contacts are told of them.
"""

import asyncio
import http.client
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec
import numpy as np

from evenbeat.bench import alerts
from evenbeat.model import SECOND, Instant, RunKind
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.listen import LOOPBACK, ListenAddress
from evenbeat.node.process.run_node import run_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.sqlite.sqlite_store import SqliteStore

_PATHS: Final = (
    "/v1/problems?limit=100",
    "/v1/problems?limit=100&state=critical&name=check%201*",
    "/v1/problems?limit=100&contains=99",
    "/v1/problems?limit=100&acknowledged=true",
    "/v1/problems?limit=100&before=50000",
)
_RESULTS_AT_ONCE: Final = 50
_PAUSE: Final = 0.01
_SETTLE_SECONDS: Final = 12.0
_SECONDS: Final = 10.0
_PAGE: Final = os.sysconf("SC_PAGESIZE")


class _Cost(NamedTuple):
    calm: float
    listed: float
    pages: list[float]
    memory: int


def main(checks: int) -> None:
    """Two nodes, one after the other, each in a process of its own: with contacts and without."""
    told, untold = (_in_process(checks, contacts) for contacts in ("contacts", "none"))
    for words, cost in (("two contacts", told), ("no contacts", untold)):
        late = f"p99 of lateness {cost.calm * 1e3:.1f} ms, while they are listed {cost.listed * 1e3:.1f} ms"
        pages = f"{len(cost.pages)} pages in {_SECONDS:.0f} s, median {median(cost.pages) * 1e3:.0f} ms"
        print(f"{checks:,} open problems, {words}: {late}; {pages}, longest {max(cost.pages) * 1e3:.0f} ms")
    print(f"memory per open problem: {(told.memory - untold.memory) / checks:.0f} bytes more with two contacts")


def _in_process(checks: int, contacts: str) -> _Cost:
    command = [sys.executable, "-m", "tools.open_problems", "one", str(checks), contacts]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout  # noqa: S603
    return msgspec.json.decode(found, type=_Cost)


def _cost(checks: int, *, with_contacts: bool) -> _Cost:
    with TemporaryDirectory(prefix="evenbeat-problems-") as folder, alerts.sink() as port:
        database = Path(folder) / "node.db"
        store = SqliteStore(database)
        alerts.fill(store, port if with_contacts else None)
        store.close()
        found: list[asyncio.Task[_Cost]] = []

        def up(node: Scheduler) -> None:
            found.append(asyncio.get_running_loop().create_task(_measure(node, checks, with_contacts=with_contacts)))

        options = NodeOptions(workers=2, max_concurrent=2_000, grace=5, listen=ListenAddress(LOOPBACK, 0))
        asyncio.run(run_node(database, options, up, signals=False))
        return found[0].result()


async def _measure(node: Scheduler, checks: int, *, with_contacts: bool) -> _Cost:
    try:
        for begin in range(0, checks, _RESULTS_AT_ONCE):
            for i in range(begin, min(begin + _RESULTS_AT_ONCE, checks)):
                row, now = node.tasks.names.find(f"check {i}"), node.clock.now()
                assert row is not None
                node.turns.passive.submit(row, 2, "CRITICAL - no answer", now, now)
            node.turns.plan_turn_soon()
            await asyncio.sleep(_PAUSE)
        while with_contacts and alerts.told(node.store) < 2 * checks:
            await asyncio.sleep(1)
        await asyncio.sleep(_SETTLE_SECONDS)
        began = node.clock.now()
        await asyncio.sleep(_SECONDS)
        listed = node.clock.now()
        pages = await asyncio.to_thread(_list, node)
        until = node.clock.now()
        await node.outbox.empty()
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
        return _Cost(_p99(node, began, listed), _p99(node, listed, until), pages, memory)
    finally:
        node.stop("measured")


def _p99(node: Scheduler, since: Instant, until: Instant) -> float:
    most = int((until - since) / SECOND * 1_500)
    runs = node.store.runs(before=until, most=most)
    late = [r.started - r.nominal for r in runs if r.kind == RunKind.GRID and r.started and r.nominal >= since]
    return float(np.percentile(late, 99)) / SECOND


def _list(node: Scheduler) -> list[float]:
    """In another process, as a page does."""
    assert node.token_file is not None
    port = node.page.rstrip("/").rpartition(":")[2]
    environment = {**os.environ, "EVENBEAT_TOKEN": node.token_file.read_text().strip()}
    command = [sys.executable, "-m", "tools.open_problems", "read", port]
    found = subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout  # noqa: S603
    return [float(word) for word in found.split()]


def _read(port: int) -> None:
    os.nice(10)  # readers are elsewhere, as a rule
    connection = http.client.HTTPConnection("127.0.0.1", port)
    deadline, asked = time.monotonic() + _SECONDS, 0
    while (began := time.monotonic()) < deadline:
        headers = {"Authorization": f"Bearer {os.environ['EVENBEAT_TOKEN']}"}
        connection.request("GET", _PATHS[asked % len(_PATHS)], headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        asked += 1
        print(time.monotonic() - began)


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        _read(int(sys.argv[2]))
    elif sys.argv[1:2] == ["one"]:
        alerts._CHECKS = int(sys.argv[2])  # type: ignore[misc]
        cost = _cost(int(sys.argv[2]), with_contacts=sys.argv[3] == "contacts")
        print(msgspec.json.encode(cost).decode())
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 100_000)
