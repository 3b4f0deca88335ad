"""Which tasks kill their workers: deaths are counted by task; after three in a row its lost runs are not repeated."""

from collections.abc import Callable, Sequence
from typing import Final

from evenbeat.model import Outcome

MAX_WORKER_DEATHS: Final = 3
"""After this many workers in a row died with runs of a task, its lost runs are not repeated any more."""
WORKER_DIED: Final = "its worker process died"
HOST_DIED: Final = "its function host died"
"""The output of runs that are lost with the process that ran them."""
_DEATH_OUTPUTS: Final = frozenset({WORKER_DIED.encode(), HOST_DIED.encode()})
"""Outputs that show that a process died; other lost runs do not: a worker was cut off, or a node was killed."""
_OUTCOMES_WITH_LIVE_WORKER: Final = frozenset({Outcome.SUCCEEDED, Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED})


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
