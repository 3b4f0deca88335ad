"""What a worker of a cluster tells of its runs: starts once, results until a node says that they are stored."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from evenbeat.model import SECOND
from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.connection import NatsConnection, boot_time
from evenbeat.queue.nats.held_runs import HeldRun
from evenbeat.wire.cluster_messages import MAX_MESSAGE_SIZE, RunReport, encode_message

_FIRST_RESEND: Final = SECOND
"""A result that is not stored by then is told again, to all nodes ..."""
_MAX_RESEND_INTERVAL: Final = 5 * SECOND
"""... and then ever more seldom, down to this."""
_RESULT_OVERHEAD: Final = 128
"""Bytes of a result beside its output and its cursor, at most."""
_MOST_STARTS: Final = 10_000

ReportedStarts = list[tuple[int, int, int]]


class RunReporter:
    """Starts and results that nodes have not, or not surely, heard of."""

    def __init__(self, where: QueueAddress, link: NatsConnection, worker: str) -> None:
        self._where = where
        self._link = link
        self._worker = worker
        self.unconfirmed: dict[int, HeldRun] = {}
        """Runs that have ended, and whose results nobody has confirmed."""
        self._starts: dict[str, ReportedStarts] = {}
        self._fresh: list[HeldRun] = []

    def started(self, mine: HeldRun, when: int) -> None:
        """It runs, and lasts."""
        self._soon()
        self._starts.setdefault(mine.node, []).append((mine.token, mine.task, when))

    def ended(self, mine: HeldRun) -> None:
        """It has its result."""
        self._soon()
        mine.sent = boot_time()
        self.unconfirmed[mine.token] = mine
        self._fresh.append(mine)

    def flush(self) -> None:
        """Tell what is new: each node what it knows of."""
        fresh, self._fresh = self._fresh, []
        starts, self._starts = self._starts, {}
        by_node: dict[str, list[HeldRun]] = {node: [] for node in starts}
        for mine in fresh:
            by_node.setdefault(mine.node, []).append(mine)
        for node, ended in by_node.items():
            self._send(self._where.node(node), starts.get(node, []), ended)

    def resend_old(self) -> None:
        """Tell again what is not stored, to whoever may own it by now."""
        now = boot_time()
        old = [
            m
            for m in self.unconfirmed.values()
            if now - m.sent >= min(_FIRST_RESEND << max(m.sends - 1, 0), _MAX_RESEND_INTERVAL)
        ]
        if old:
            self._send(self._where.nodes, [], old)

    def on_reconnect(self) -> None:
        """There is a new connection: what was told on the last one may have got lost."""
        for mine in self.unconfirmed.values():
            mine.sends, mine.sent = 0, 0

    def _soon(self) -> None:
        if not self._fresh and not self._starts:
            asyncio.get_running_loop().call_soon(self.flush)

    def _send(self, subject: str, starts: ReportedStarts, ended: list[HeldRun]) -> None:
        now = boot_time()
        for mine in ended:
            mine.sent = now
            mine.sends = min(mine.sends + 1, 8)
        for first in range(0, len(starts), _MOST_STARTS):
            self._link.send(subject, encode_message(RunReport(self._worker, starts[first : first + _MOST_STARTS], [])))
        for part in _split_by_size(ended):
            results = [(mine.task, mine.result) for mine in part if mine.result is not None]
            self._link.send(subject, encode_message(RunReport(self._worker, [], results)))


def _split_by_size(ended: Iterable[HeldRun]) -> Iterator[list[HeldRun]]:
    """As many as fit into a message."""
    part: list[HeldRun] = []
    size = 0
    for mine in ended:
        result = mine.result
        assert result is not None
        more = len(result.output) + len(result.cursor or b"") + _RESULT_OVERHEAD
        if part and size + more > MAX_MESSAGE_SIZE:
            yield part
            part, size = [], 0
        part.append(mine)
        size += more
    if part:
        yield part
