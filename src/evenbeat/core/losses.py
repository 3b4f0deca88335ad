"""Which tasks take workers along: deaths of workers that are known, in a row, while they had a run of the task.

A worker that falls silent may be dead or cut off. It counts as dead only when that is known: another of its name has
come up since. One that is heard again was cut off, and counts as nothing.
"""

from collections.abc import Callable


class Losses:
    """What became of the workers that runs were lost with, by the tasks of the runs."""

    def __init__(self) -> None:
        self._silent: dict[str, set[int]] = {}
        """Workers that fell silent and may be dead, and the tasks whose runs were lost with them."""
        self._deaths: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._silent or self._deaths)

    def deaths(self, task: int) -> int:
        """Workers, or processes of workers, that have died with runs of a task, one after the other."""
        return self._deaths.get(task, 0)

    def lost(self, task: int, worker: str) -> None:
        """A run was lost with a worker that fell silent."""
        self._silent.setdefault(worker, set()).add(task)

    def died(self, task: int) -> None:
        """The process that ran it has died, says its worker."""
        self._deaths[task] = self._deaths.get(task, 0) + 1

    def heard(self, worker: str) -> None:
        """It is alive, and was cut off."""
        self._silent.pop(worker, None)

    def look(self, is_dead: Callable[[str], bool]) -> None:
        """Of those that fell silent some may be known to be dead by now."""
        for worker in [worker for worker in self._silent if is_dead(worker)]:
            for task in self._silent.pop(worker):
                self.died(task)

    def ended(self, task: int) -> None:
        """A run of it has ended by itself: whatever was before is not in a row with what comes."""
        self._deaths.pop(task, None)
        for worker in [worker for worker, tasks in self._silent.items() if task in tasks]:
            self._silent[worker].discard(task)
            if not self._silent[worker]:
                del self._silent[worker]
