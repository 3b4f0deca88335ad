"""What a worker of a cluster tells of its runs: starts once, results until a node says that they are stored."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from evenbeat.model import SECOND
from evenbeat.queue.nats.address import Where
from evenbeat.queue.nats.connection import Link, boot_time
from evenbeat.queue.nats.held_runs import Mine
from evenbeat.wire.cluster_messages import MESSAGE_LIMIT, Report, encode

_AGAIN: Final = SECOND
"""A result that is not stored by then is told again, to all nodes ..."""
_SELDOM: Final = 5 * SECOND
"""... and then ever more seldom, down to this."""
_OVERHEAD: Final = 128
"""Bytes of a result beside its output and its cursor, at most."""
_MOST_STARTS: Final = 10_000

Starts = list[tuple[int, int, int]]


class Reports:
    """Starts and results that nodes have not, or not surely, heard of."""

    def __init__(self, where: Where, link: Link, worker: str) -> None:
        self._where = where
        self._link = link
        self._worker = worker
        self.unsafe: dict[int, Mine] = {}
        """Runs that have ended, and whose results nobody has confirmed."""
        self._starts: dict[str, Starts] = {}
        self._fresh: list[Mine] = []

    def started(self, mine: Mine, when: int) -> None:
        """It runs, and lasts."""
        self._soon()
        self._starts.setdefault(mine.node, []).append((mine.token, mine.task, when))

    def ended(self, mine: Mine) -> None:
        """It has its result."""
        self._soon()
        mine.sent = boot_time()
        self.unsafe[mine.token] = mine
        self._fresh.append(mine)

    def flush(self) -> None:
        """Tell what is new: each node what it knows of."""
        fresh, self._fresh = self._fresh, []
        starts, self._starts = self._starts, {}
        by_node: dict[str, list[Mine]] = {node: [] for node in starts}
        for mine in fresh:
            by_node.setdefault(mine.node, []).append(mine)
        for node, ended in by_node.items():
            self._send(self._where.node(node), starts.get(node, []), ended)

    def look(self) -> None:
        """Tell again what is not stored, to whoever may own it by now."""
        now = boot_time()
        old = [m for m in self.unsafe.values() if now - m.sent >= min(_AGAIN << max(m.sends - 1, 0), _SELDOM)]
        if old:
            self._send(self._where.nodes, [], old)

    def up(self) -> None:
        """There is a new connection: what was told on the last one may have got lost."""
        for mine in self.unsafe.values():
            mine.sends, mine.sent = 0, 0

    def _soon(self) -> None:
        if not self._fresh and not self._starts:
            asyncio.get_running_loop().call_soon(self.flush)

    def _send(self, subject: str, starts: Starts, ended: list[Mine]) -> None:
        now = boot_time()
        for mine in ended:
            mine.sent = now
            mine.sends = min(mine.sends + 1, 8)
        for first in range(0, len(starts), _MOST_STARTS):
            self._link.send(subject, encode(Report(self._worker, starts[first : first + _MOST_STARTS], [])))
        for part in _parts(ended):
            results = [(mine.task, mine.result) for mine in part if mine.result is not None]
            self._link.send(subject, encode(Report(self._worker, [], results)))


def _parts(ended: Iterable[Mine]) -> Iterator[list[Mine]]:
    """As many as fit into a message."""
    part: list[Mine] = []
    size = 0
    for mine in ended:
        result = mine.result
        assert result is not None
        more = len(result.output) + len(result.cursor or b"") + _OVERHEAD
        if part and size + more > MESSAGE_LIMIT:
            yield part
            part, size = [], 0
        part.append(mine)
        size += more
    if part:
        yield part
