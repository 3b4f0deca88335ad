"""Split runs into messages, and what a node remembers of each message and each run in it."""

from collections.abc import Iterator, Sequence
from typing import Final

from evenbeat.core.run_lease import RunLease
from evenbeat.wire.cluster_messages import MAX_MESSAGE_SIZE, MAX_RUNS_PER_OFFER, RunOffer, encode_message
from evenbeat.wire.worker_frames import RunSpec

_NO_LEASE: Final = RunLease()
_RUN_OVERHEAD: Final = 256
"""Bytes of a run besides its job and its texts, at most."""


class HandedOverRun:
    """A run that was offered to workers, or adopted, and has not ended."""

    __slots__ = ("function", "is_cancelled", "lease", "message", "pool", "run", "since", "started", "task", "token")

    def __init__(self, token: int, task: int, run: RunSpec | None, function: str | None, pool: str, since: int) -> None:
        self.token = token
        self.task = task
        self.run = run
        """None for an adopted run: it is not offered again."""
        self.function = function
        self.pool = pool
        self.since = since
        """When it was dispatched or adopted, by boot_time of this node."""
        self.lease = _NO_LEASE
        self.message: OutgoingOffer | None = None
        self.started = 0
        """By the cluster's clock; 0 if its start was not reported."""
        self.is_cancelled = False
        """It is to end: the worker that holds it is told so until it has ended."""


class OutgoingOffer:
    """One message on its way. `waiting`: its runs that are not granted to any worker."""

    __slots__ = ("attempt", "id", "pool", "sequence", "stream_id", "waiting", "when")

    def __init__(self, name: str, pool: str, now: int) -> None:
        self.id = name
        self.pool = pool
        self.waiting: dict[int, HandedOverRun] = {}
        self.attempt = 1
        self.sequence = 0
        """Its sequence number in the stream; 0 until the servers have confirmed it."""
        self.stream_id = ""
        """When the stream that it is in was created."""
        self.when = now
        """When it was sent, or last seen in the stream, by boot_time of this node."""


def packed_size(run: RunSpec) -> int:
    """Upper bound of the bytes that a run takes in a message."""
    return len(memoryview(run.job)) + 4 * len(run.name) + len(run.cursor or b"") + _RUN_OVERHEAD


def split_into_offers(items: Sequence[HandedOverRun], workers: int) -> Iterator[list[HandedOverRun]]:
    """Split runs of one pool and timebox class so that every worker can get a part, and that each part fits a message.

    A run that is too large for any message is a part of its own.
    """
    most = min(MAX_RUNS_PER_OFFER, -(-len(items) // max(workers, 1)))
    part: list[HandedOverRun] = []
    size = 0
    for item in items:
        assert item.run is not None
        more = packed_size(item.run) + len(item.function or "")
        if part and (len(part) >= most or size + more > MAX_MESSAGE_SIZE):
            yield part
            part, size = [], 0
        part.append(item)
        size += more
    if part:
        yield part


def packed_offer(message: OutgoingOffer, node: str) -> bytes:
    """The message with all of its runs that wait."""
    items = message.waiting.values()
    runs = [item.run for item in items if item.run is not None]
    functions = [item.function for item in items]
    return encode_message(
        RunOffer(
            message.id,
            node,
            [item.task for item in items],
            runs,
            functions if any(f is not None for f in functions) else None,
        )
    )
