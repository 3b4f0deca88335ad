"""What a node measures of itself, for machines that watch it: counters, gauges, histograms, signs of life."""

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from evenbeat.model import SECOND
from evenbeat.node.counts import Histogram
from evenbeat.node.status import Status, status_of

if TYPE_CHECKING:
    from evenbeat.node.service import Node


class Numbers(Struct):
    """Counted since the node was started; times in seconds."""

    status: Status
    """Runs, outcomes, skips by reason, idle, pending, slots, waiting, late, stale, disabled, states."""
    lateness: Histogram
    """Of all runs that were claimed, after they were due."""
    duration: Histogram
    """Of all runs that really started and ended."""
    commit_time: Histogram
    """How long the store took to keep what it was offered; its count is that of commits."""
    worker_restarts: int
    workers: int
    """Processes that are up now."""
    unsafe: int
    """Batches on their way into the store."""
    oldest_unsafe: float
    """Age of the first of them; 0 if there is none."""
    last_turn: float
    """Age of the last turn of the beat; a beat that is well has one every second."""
    cpu: float
    """Processor time that the node itself has used, without its workers."""


def numbers_of(node: "Node") -> Numbers:
    """Read all meters of a live node."""
    counts, outbox, used = node.beat.counts, node.outbox, os.times()
    return Numbers(
        status=status_of(node),
        lateness=counts.late.read(),
        duration=counts.lasted.read(),
        commit_time=outbox.took.read(),
        worker_restarts=node.queue.restarts,
        workers=len(node.queue.workers),
        unsafe=outbox.waiting,
        oldest_unsafe=outbox.oldest_age(),
        last_turn=max(node.clock.now() - (node.beat.last_turn or node.started_at), 0) / SECOND,
        cpu=used.user + used.system,
    )
