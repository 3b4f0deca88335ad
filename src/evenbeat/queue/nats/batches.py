"""From runs to messages: what goes together, what a node remembers of a message, and of each run in it."""

from collections.abc import Iterator, Sequence
from typing import Final

from evenbeat.core.run_lease import RunLease
from evenbeat.wire.cluster_messages import MAX_MESSAGE_SIZE, MAX_RUNS_PER_OFFER, RunOffer, encode_message
from evenbeat.wire.worker_frames import RunSpec

_RUN_OVERHEAD: Final = 256
"""Bytes of a run beside its job and its texts, at most."""


class HandedOverRun:
    """A run that was handed over, or adopted, and has not ended."""

    __slots__ = ("function", "is_cancelled", "lease", "message", "pool", "run", "since", "started", "task", "token")

    def __init__(self, token: int, task: int, run: RunSpec | None, function: str | None, pool: str, since: int) -> None:
        self.token = token
        self.task = task
        self.run = run
        """None for what was adopted: it is not handed over again."""
        self.function = function
        self.pool = pool
        self.since = since
        """When it was dispatched, on the node's own clock."""
        self.lease = RunLease()
        self.message: OutgoingOffer | None = None
        self.started = 0
        """By the cluster's clock, if somebody told."""
        self.is_cancelled = False
        """It shall end: whoever has it is told so until it has."""


class OutgoingOffer:
    """One parcel on its way. `waiting`: those of its runs that nobody has a permission for."""

    __slots__ = ("attempt", "id", "pool", "sequence", "stream_id", "waiting", "when")

    def __init__(self, name: str, pool: str, now: int) -> None:
        self.id = name
        self.pool = pool
        self.waiting: dict[int, HandedOverRun] = {}
        self.attempt = 1
        self.sequence = 0
        """Its place in the stream; 0 until the servers have it for sure."""
        self.stream_id = ""
        """Of the stream it is in."""
        self.when = now
        """When it was sent, or last seen in the stream, on the node's own clock."""


def packed_size(run: RunSpec) -> int:
    """Bytes it takes in a message, or somewhat less than it is said to."""
    return len(memoryview(run.job)) + 4 * len(run.name) + len(run.cursor or b"") + _RUN_OVERHEAD


def split_into_offers(items: Sequence[HandedOverRun], workers: int) -> Iterator[list[HandedOverRun]]:
    """Cut the runs of one pool and class so that all its workers get a part, and that each part fits a message.

    What does not fit a message alone is a part of its own.
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
    """The parcel of all runs of a message that wait."""
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
