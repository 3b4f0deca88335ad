"""Report the runs of a cluster worker to nodes: starts once, results until a node confirms that they are stored."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from evenbeat.clock.system_clock import boot_time
from evenbeat.model import SECOND
from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.connection import NatsConnection
from evenbeat.queue.nats.fetched_messages import HeldRun
from evenbeat.wire.cluster_messages import MAX_MESSAGE_SIZE, OutputPiece, RunReport, encode_message
from evenbeat.wire.plain_results import encode_records
from evenbeat.wire.worker_frames import RunResult

_FIRST_RESEND: Final = SECOND
"""A result that is not confirmed by then is sent again, to all nodes."""
_MAX_RESEND_INTERVAL: Final = 5 * SECOND
"""The interval doubles up to this."""
_RESULT_OVERHEAD: Final = 128
"""Bytes of a result besides its output and its cursor, at most."""
_MAX_WHOLE_OUTPUTS: Final = 256 << 20
"""Bytes of whole outputs that wait for a confirmation; beyond it runs have only what is kept of any output."""
_PIECE_SIZE: Final = MAX_MESSAGE_SIZE - 1_024
"""Bytes of a whole output in one message."""
_MAX_STARTS_PER_REPORT: Final = 10_000
"""Starts, or plain results, in one message."""

ReportedStarts = list[tuple[int, int, int]]


class RunReporter:
    """Starts that were not sent, and results that were not confirmed."""

    def __init__(self, address: QueueAddress, connection: NatsConnection, worker: str) -> None:
        self._address = address
        self._connection = connection
        self._worker = worker
        self.unconfirmed: dict[int, HeldRun] = {}
        """Runs that have ended and whose results no node has confirmed."""
        self._starts: dict[str, ReportedStarts] = {}
        self._new_results: list[HeldRun] = []
        self.takes_plain: set[str] = set()
        """The nodes that are known to read plain results."""

    def started(self, held_run: HeldRun, when: int) -> None:
        """The run has started and did not end at once."""
        self._flush_soon()
        self._starts.setdefault(held_run.node, []).append((held_run.token, held_run.task, when))

    def ended(self, runs: Sequence[HeldRun]) -> None:
        """These runs have ended."""
        if not runs:
            return
        self._flush_soon()
        now = boot_time()
        for held_run in runs:
            held_run.sent = now
            if held_run.result is not None and held_run.result.whole:
                self._bound_whole_outputs(held_run.result)
            self.unconfirmed[held_run.token] = held_run
        self._new_results += runs

    def flush(self) -> None:
        """Send what is new, each run to its node."""
        new_results, self._new_results = self._new_results, []
        starts, self._starts = self._starts, {}
        by_node: dict[str, list[HeldRun]] = {node: [] for node in starts}
        for held_run in new_results:
            by_node.setdefault(held_run.node, []).append(held_run)
        for node, ended in by_node.items():
            takes_plain = node in self.takes_plain
            plain = [held_run for held_run in ended if takes_plain and held_run.plain_times is not None]
            others = [held_run for held_run in ended if not takes_plain or held_run.plain_times is None]
            self._send_plain(self._address.node(node), plain)
            self._send(self._address.node(node), starts.get(node, []), others)

    def resend_old(self) -> None:
        """Send unconfirmed results again, to all nodes, as another one may own the run by now."""
        now = boot_time()
        old = [
            m
            for m in self.unconfirmed.values()
            if now - m.sent >= min(_FIRST_RESEND << max(m.sends - 1, 0), _MAX_RESEND_INTERVAL)
        ]
        if old:
            self._send(self._address.nodes, [], old)

    def on_reconnect(self) -> None:
        """There is a new connection: results sent on the last one may have been lost."""
        for held_run in self.unconfirmed.values():
            held_run.sends, held_run.sent = 0, 0

    def _bound_whole_outputs(self, newest: RunResult) -> None:
        results = [held_run.result for held_run in self.unconfirmed.values() if held_run.result is not None]
        if sum(len(result.whole) for result in results) + len(newest.whole) > _MAX_WHOLE_OUTPUTS:
            newest.whole = b""

    def _send_whole_output(self, subject: str, result: RunResult) -> None:
        pieces = [result.whole[at : at + _PIECE_SIZE] for at in range(0, len(result.whole), _PIECE_SIZE)]
        for index, piece in enumerate(pieces):
            message = OutputPiece(self._worker, result.token, index, len(pieces), piece)
            self._connection.send(subject, encode_message(message))

    def _flush_soon(self) -> None:
        if not self._new_results and not self._starts:
            asyncio.get_running_loop().call_soon(self.flush)

    def _send_plain(self, subject: str, ended: list[HeldRun]) -> None:
        self._mark_sent(ended)
        for first in range(0, len(ended), _MAX_STARTS_PER_REPORT):
            part = ended[first : first + _MAX_STARTS_PER_REPORT]
            times = [(held_run.token, *held_run.plain_times) for held_run in part if held_run.plain_times is not None]
            tasks = [held_run.task for held_run in part]
            report = RunReport(self._worker, [], [], tasks, encode_records(times))
            self._connection.send(subject, encode_message(report))

    def _mark_sent(self, ended: list[HeldRun]) -> None:
        now = boot_time()
        for held_run in ended:
            held_run.sent = now
            held_run.sends = min(held_run.sends + 1, 8)

    def _send(self, subject: str, starts: ReportedStarts, ended: list[HeldRun]) -> None:
        self._mark_sent(ended)
        for first in range(0, len(starts), _MAX_STARTS_PER_REPORT):
            self._connection.send(
                subject, encode_message(RunReport(self._worker, starts[first : first + _MAX_STARTS_PER_REPORT], []))
            )
        for held_run in ended:
            if held_run.result is not None and held_run.result.whole:
                self._send_whole_output(subject, held_run.result)
        for part in _split_by_size(ended):
            results = [
                (held_run.task, _without_whole(result))
                for held_run in part
                if (result := held_run.full_result) is not None
            ]
            self._connection.send(subject, encode_message(RunReport(self._worker, [], results)))


def _without_whole(result: RunResult) -> RunResult:
    return msgspec.structs.replace(result, whole=b"") if result.whole else result


def _split_by_size(ended: Iterable[HeldRun]) -> Iterator[list[HeldRun]]:
    """Split results into parts that fit a message each."""
    part: list[HeldRun] = []
    size = 0
    for held_run in ended:
        result = held_run.result
        more = _RESULT_OVERHEAD
        if result is not None:
            more += len(result.output) + len(result.cursor or b"")
        if part and size + more > MAX_MESSAGE_SIZE:
            yield part
            part, size = [], 0
        part.append(held_run)
        size += more
    if part:
        yield part
