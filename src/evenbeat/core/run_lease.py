"""Handing runs over to workers that may be cut off, so that none runs twice at the same time and none is forgotten.

A run starts only by the permission of the node that owns its claim: a worker that gets a message asks first. From then
on the worker tells of the run with every beat, and the node's answer renews it. A worker that is not answered for HOLD
ends the run itself; the node takes it for lost HOLD + MARGIN after its last answer, and so after it has ended.
A message that was lost, doubled or delayed therefore starts nothing: it only asks.

Each side counts on its own clock, which nobody sets; what is compared was read on the same clock. Microseconds.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from evenbeat.model import MINUTE, SECOND, Outcome

WORKER_STATUS_INTERVAL: Final = SECOND
"""How often a worker tells what it has."""
PERMISSION_DURATION: Final = 3 * SECOND
"""A permission that comes later than this, counted from the question, is none."""
RUN_LEASE_DURATION: Final = 8 * SECOND
"""A run that nobody has renewed for so long is ended by its worker."""
RUN_LEASE_MARGIN: Final = SECOND
"""So much later it is lost for its node: the time to end it, and clocks that run at different speeds."""
WORKER_SILENT_AFTER: Final = 5 * SECOND
"""A worker that is not heard of for so long counts no more when there is work to give."""
NO_WORKER_TIMEOUT: Final = 30 * SECOND
"""How long a run waits for a pool without any worker."""
MAX_DISPATCH_ATTEMPTS: Final = 3
"""How often a run is handed over that nobody takes, though its messages are gone, before it is set aside."""
_TIMEBOX_CLASSES: Final = (10 * SECOND, MINUTE, 10 * MINUTE)
"""Upper limits of the timeboxes of each class but the last."""
MAX_WORKER_DEATHS: Final = 3
"""Workers that may die with the runs of one task, one after the other, before it is not made up for any more."""
WORKER_DIED: Final = "its worker process died"
HOST_DIED: Final = "its function host died"
"""What is said of runs that are lost with the process that ran them ..."""
_DEATH_OUTPUTS: Final = frozenset({WORKER_DIED.encode(), HOST_DIED.encode()})
"""... and of no other lost run: a worker may be cut off, and a node may be killed."""
_OUTCOMES_WITH_LIVE_WORKER: Final = frozenset({Outcome.SUCCEEDED, Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED})


class RunLease(NamedTuple):
    """What a node knows of a run that it has handed over."""

    worker: str = ""
    """Who has its permission; "" for nobody."""
    asked: int = 0
    """When that worker asked, on its clock."""
    renewed_at: int = 0
    """When a node last answered for it, as far as is known, on the clock of this node: it, or a former owner."""
    adopted: bool = False
    """Taken over from another node: somebody may have begun it, and nobody else may."""


class RunFate(IntEnum):
    """What becomes of a run that has not ended."""

    STAY = 0
    LOST = 1
    """Its worker is gone or was cut off, and has ended it by now."""


def granted_lease(hand: RunLease, worker: str, asked: int, now: int) -> RunLease | None:
    """The permission for a worker that asks, as the node remembers it; None if it must not start the run.

    The same worker may ask again, as the answer may have been lost; the latest of its questions counts, in whatever
    order they come. What was adopted may run already elsewhere.
    """
    if hand.adopted or hand.worker not in ("", worker):
        return None
    return RunLease(worker, max(asked, hand.asked) if hand.worker else asked, now)


def renewed_lease(hand: RunLease, worker: str, now: int) -> RunLease | None:
    """A worker tells that it has the run: the node answers for it; None if the run is another worker's, or nobody's.

    What was adopted stays so, also when it is known who has it: nobody may begin it, whatever older tidings say.
    """
    if hand.worker == worker or (hand.adopted and not hand.worker):
        return RunLease(worker, hand.asked, now, hand.adopted)
    return None


def unanswered_for(hand: RunLease, now: int) -> int:
    """How long ago the node last answered for a run that it lets go: for so long its worker has to count already."""
    return now - hand.renewed_at if hand.worker or hand.adopted else 0


def adopted_lease(silent: int, now: int) -> RunLease:
    """A run that another node has let go in order, or that has left it: whoever has it, nobody else may begin it.

    `silent`: for so long, at least, the former owners had not answered for it when they let it go.
    """
    return RunLease(renewed_at=now - silent, adopted=True)


def was_never_started(hand: RunLease, worker: str, settled: int) -> bool:
    """A worker tells what it has, and this run is not among it. Was its permission never used, and never will be?

    All questions that it asked up to `settled`, on its own clock, are answered, or given up for good.
    """
    return not hand.adopted and hand.worker == worker and hand.asked <= settled


def run_fate(hand: RunLease, now: int) -> RunFate:
    """Of a run that was given or adopted, and that nobody has told the end of."""
    somebody = bool(hand.worker) or hand.adopted
    return RunFate.LOST if somebody and now - hand.renewed_at >= RUN_LEASE_DURATION + RUN_LEASE_MARGIN else RunFate.STAY


def timebox_class(timebox: int) -> int:
    """Only runs of one class share a message: a message is done when its last run is, and must not wait for one that
    takes far longer than the others.
    """
    return sum(timebox > limit for limit in _TIMEBOX_CLASSES)


def assumed_start(claimed: int, due: int, now: int) -> int:
    """When a run began whose start was never reported: when it was claimed, or due if it was claimed ahead.

    The instant at which it was found lost would be too late: the guard would refuse the next run as too soon after it.
    """
    return min(max(claimed, due), now)


class WorkerDeaths:
    """Which tasks take workers along: deaths of workers that are known, in a row, while they had a run of the task.

    A worker that falls silent may be dead or cut off. It counts as dead only when that is known: another of its name
    has come up since. One that is heard again was cut off, and counts as nothing.
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
        """Have so many workers died with it that its lost runs are not repeated? Its schedule goes on."""
        return self.deaths(task) >= MAX_WORKER_DEATHS

    def is_suspect(self, task: int) -> bool:
        """Has a worker died with its latest run? Then it may be why, and its next run must not take others along."""
        return self.deaths(task) > 0

    def restore(self, task: int, deaths: int) -> None:
        """What was counted before this node was started."""
        self._deaths[task] = deaths

    def record_end(self, task: int, outcome: str, output: bytes) -> None:
        """A run has ended. One that was not started, was stopped, or was lost with its node says nothing."""
        if outcome == Outcome.LOST and output in _DEATH_OUTPUTS:
            self.record_death(task)
        elif outcome in _OUTCOMES_WITH_LIVE_WORKER:
            self.reset(task)

    def record_silent_loss(self, task: int, worker: str) -> None:
        """A run was lost with a worker that fell silent."""
        self._silent.setdefault(worker, set()).add(task)

    def record_death(self, task: int) -> None:
        """The process that ran it has died, says its worker."""
        self._deaths[task] = self._deaths.get(task, 0) + 1

    def worker_is_alive(self, worker: str) -> None:
        """It is alive, and was cut off."""
        self._silent.pop(worker, None)

    def settle_silent_workers(self, is_dead: Callable[[str], bool]) -> None:
        """Of those that fell silent some may be known to be dead by now."""
        for worker in [worker for worker in self._silent if is_dead(worker)]:
            for task in self._silent.pop(worker):
                self.record_death(task)

    def reset(self, task: int) -> None:
        """A run of it has ended by itself: whatever was before is not in a row with what comes."""
        self._deaths.pop(task, None)
        for worker in [worker for worker, tasks in self._silent.items() if task in tasks]:
            self._silent[worker].discard(task)
            if not self._silent[worker]:
                del self._silent[worker]


# The worker's side


def isolated_worker(runs: Sequence[int], most: int) -> int | None:
    """Which worker for suspects gets one more, by how many each has; None for a new one, of which there may be `most`.

    Each run is alone as long as there are enough workers. Beyond that they share, as few as possible: a worker that
    dies then takes only these along, and what is left of them is few enough.
    """
    if 0 in runs:
        return runs.index(0)
    return None if len(runs) < most else runs.index(min(runs))


def is_permission_valid(asked: int, now: int) -> bool:
    """A permission has come: is it still one?"""
    return now - asked <= PERMISSION_DURATION


def has_lease_expired(renewed_at: int, now: int) -> bool:
    """Nobody has renewed a run since then: does its worker end it? `renewed_at`: when it sent what was answered."""
    return now - renewed_at >= RUN_LEASE_DURATION
