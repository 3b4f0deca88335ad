"""Run leases: runs go to workers that may be cut off, so that none runs twice at the same time and none is forgotten.

A run starts only by the permission of the node that owns its claim: a worker that gets a message asks first. From then
on each status of the worker names the run, and the node's answer renews its lease. A worker that is not answered for
RUN_LEASE_DURATION ends the run itself; the node takes it for lost RUN_LEASE_MARGIN later, and so after it has ended.
A message that was lost, doubled or delayed therefore starts nothing: it only asks.

Each side counts on its own clock, which cannot be set; compared times were read on the same clock. Microseconds.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from evenbeat.model import MINUTE, SECOND, Outcome

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
MAX_WORKER_DEATHS: Final = 3
"""After this many workers in a row died with runs of a task, its lost runs are not repeated any more."""
WORKER_DIED: Final = "its worker process died"
HOST_DIED: Final = "its function host died"
"""The output of runs that are lost with the process that ran them."""
_DEATH_OUTPUTS: Final = frozenset({WORKER_DIED.encode(), HOST_DIED.encode()})
"""Outputs that show that a process died; other lost runs do not: a worker was cut off, or a node was killed."""
_OUTCOMES_WITH_LIVE_WORKER: Final = frozenset({Outcome.SUCCEEDED, Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED})


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
    return sum(timebox > limit for limit in _TIMEBOX_CLASSES)


def assumed_start(claimed: int, due: int, now: int) -> int:
    """The start of a run whose start was never reported: when it was claimed, or due if it was claimed ahead.

    The instant at which it was found lost would be too late: the guard would refuse the next run as too soon after it.
    """
    return min(max(claimed, due), now)


class WorkerDeaths:
    """Which tasks kill workers: counts the workers in a row that are known to have died while they had a run of a task.

    A silent worker may be dead or cut off. It counts as dead only when that is known, because another worker of its
    name has come up since. A worker that is heard again was cut off, and does not count.
    """

    def __init__(self) -> None:
        self._silent: dict[str, set[int]] = {}
        """Workers that fell silent and may be dead, and the tasks whose runs were lost with them."""
        self._deaths: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._silent or self._deaths)

    def deaths(self, task: int) -> int:
        """Workers, or processes of workers, that have died with runs of a task, one after the other."""
        return self._deaths.get(task, 0)

    def is_set_aside(self, task: int) -> bool:
        """Have too many workers died with this task to repeat its lost runs? Its schedule goes on."""
        return self.deaths(task) >= MAX_WORKER_DEATHS

    def is_suspect(self, task: int) -> bool:
        """Has a worker died with its latest run? That may be the reason, so the next one gets a worker of its own."""
        return self.deaths(task) > 0

    def restore(self, task: int, deaths: int) -> None:
        """Restore a count from before the start of this node."""
        self._deaths[task] = deaths

    def record_end(self, task: int, outcome: str, output: bytes) -> None:
        """A run has ended. One that was not started, was stopped, or was lost with its node does not count."""
        if outcome == Outcome.LOST and output in _DEATH_OUTPUTS:
            self.record_death(task)
        elif outcome in _OUTCOMES_WITH_LIVE_WORKER:
            self.reset(task)

    def record_silent_loss(self, task: int, worker: str) -> None:
        """A run was lost with a worker that fell silent."""
        self._silent.setdefault(worker, set()).add(task)

    def record_death(self, task: int) -> None:
        """The process that ran this task has died, as its worker reports."""
        self._deaths[task] = self._deaths.get(task, 0) + 1

    def worker_is_alive(self, worker: str) -> None:
        """A silent worker was only cut off."""
        self._silent.pop(worker, None)

    def settle_silent_workers(self, is_dead: Callable[[str], bool]) -> None:
        """Count silent workers that are known to be dead by now."""
        for worker in [worker for worker in self._silent if is_dead(worker)]:
            for task in self._silent.pop(worker):
                self.record_death(task)

    def reset(self, task: int) -> None:
        """A run of the task has ended by itself: count its deaths anew."""
        self._deaths.pop(task, None)
        for worker in [worker for worker, tasks in self._silent.items() if task in tasks]:
            self._silent[worker].discard(task)
            if not self._silent[worker]:
                del self._silent[worker]


# The worker's side


def isolated_worker(runs: Sequence[int], most: int) -> int | None:
    """Which worker for suspects gets one more, by how many each has; None for a new one, of which there may be `most`.

    Each run has a worker of its own as long as there are enough. Beyond that as few runs as possible share one: only
    these are lost if it dies.
    """
    if 0 in runs:
        return runs.index(0)
    return None if len(runs) < most else runs.index(min(runs))


def is_permission_valid(asked: int, now: int) -> bool:
    """Is a permission that has just come still valid?"""
    return now - asked <= PERMISSION_DURATION


def has_lease_expired(renewed_at: int, now: int) -> bool:
    """Must a worker end a run? `renewed_at` is when the worker sent the latest status that was answered."""
    return now - renewed_at >= RUN_LEASE_DURATION
