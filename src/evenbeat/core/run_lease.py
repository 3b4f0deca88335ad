"""Run leases: runs go to workers that may be cut off, so that none runs twice at the same time and none is forgotten.

A run starts only by the permission of the node that owns its claim: a worker that gets a message asks first. From then
on each status of the worker names the run, and the node's answer renews its lease. A worker that is not answered for
RUN_LEASE_DURATION ends the run itself; the node takes it for lost RUN_LEASE_MARGIN later, and so after it has ended.
A message that was lost, doubled or delayed therefore starts nothing: it only asks.

Each side counts on its own clock, which cannot be set; compared times were read on the same clock. Microseconds.
"""

from bisect import bisect_left
from enum import IntEnum
from typing import Final, NamedTuple

from evenbeat.model import MINUTE, SECOND

WORKER_STATUS_INTERVAL: Final = SECOND
"""How often a worker sends its status, which names its runs."""
PERMISSION_DURATION: Final = 3 * SECOND
"""A permission that comes later than this after the question is not used."""
RUN_LEASE_DURATION: Final = 8 * SECOND
"""A worker ends a run whose lease has not been renewed for this long."""
RUN_LEASE_MARGIN: Final = SECOND
"""This much later its node takes it for lost: the time to end it, and for clocks that run at different speeds."""
WORKER_SILENT_AFTER: Final = 5 * SECOND
"""A worker without a sign of life for this long gets no new runs."""
NO_WORKER_TIMEOUT: Final = 30 * SECOND
"""How long a run waits for a pool without any worker."""
MAX_DISPATCH_ATTEMPTS: Final = 3
"""How often a run that no worker takes is delivered, though its messages are gone, before it is set aside."""
_TIMEBOX_CLASSES: Final = (10 * SECOND, MINUTE, 10 * MINUTE)
"""Upper limits of the timeboxes of each class but the last."""


class RunLease(NamedTuple):
    """What a node knows of a run that it has delivered."""

    worker: str = ""
    """The worker with its permission; "" for none."""
    asked: int = 0
    """When that worker asked, on its clock."""
    renewed_at: int = 0
    """When this node, or a former owner, last answered for it, as far as is known, on the clock of this node."""
    adopted: bool = False
    """Taken over from another node: a worker may have begun it, and no other may."""


class RunFate(IntEnum):
    """What becomes of a run that has not ended."""

    STAY = 0
    LOST = 1
    """Its worker is gone or was cut off, and has ended it by now."""


def granted_lease(hand: RunLease, worker: str, asked: int, now: int) -> RunLease | None:
    """The permission for a worker that asks, as the node remembers it; None if it must not start the run.

    The same worker may ask again, as the answer may have been lost; the latest of its questions counts, in whatever
    order they come. An adopted run may run elsewhere already.
    """
    if hand.adopted or hand.worker not in ("", worker):
        return None
    return RunLease(worker, max(asked, hand.asked) if hand.worker else asked, now)


def renewed_lease(hand: RunLease, worker: str, now: int) -> RunLease | None:
    """The lease of a run that is in the status of a worker, renewed; None if the worker has no permission for it.

    An adopted run stays adopted, also when its worker is known: none may begin it, whatever delayed messages say.
    """
    if hand.worker == worker or (hand.adopted and not hand.worker):
        return RunLease(worker, hand.asked, now, hand.adopted)
    return None


def unanswered_for(hand: RunLease, now: int) -> int:
    """How long ago the node last answered for a run that it hands over: its worker has counted since then."""
    return now - hand.renewed_at if hand.worker or hand.adopted else 0


def adopted_lease(silent: int, now: int) -> RunLease:
    """The lease of a run from another node: if a worker has it, no other may begin it.

    `silent` is how long, at least, the former owners had not answered for it when they handed it over.
    """
    return RunLease(renewed_at=now - silent, adopted=True)


def was_never_started(hand: RunLease, worker: str, settled: int) -> bool:
    """This run is not in the status of its worker: was its permission not used, and never will be?

    All questions that the worker asked up to `settled`, on its own clock, are answered or given up.
    """
    return not hand.adopted and hand.worker == worker and hand.asked <= settled


def run_fate(hand: RunLease, now: int) -> RunFate:
    """Is a run lost whose end has not been reported?"""
    may_run = bool(hand.worker) or hand.adopted
    return RunFate.LOST if may_run and now - hand.renewed_at >= RUN_LEASE_DURATION + RUN_LEASE_MARGIN else RunFate.STAY


def timebox_class(timebox: int) -> int:
    """Only runs of one class share a message: a message is done when its last run is, and must not wait for one that
    takes far longer than the others.
    """
    return bisect_left(_TIMEBOX_CLASSES, timebox)


def is_permission_valid(asked: int, now: int) -> bool:
    """Is a permission that has just come still valid?"""
    return now - asked <= PERMISSION_DURATION


def has_lease_expired(renewed_at: int, now: int) -> bool:
    """Must a worker end a run? `renewed_at` is when the worker sent the latest status that was answered."""
    return now - renewed_at >= RUN_LEASE_DURATION
