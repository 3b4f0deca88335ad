"""Ends of runs of removed tasks, remembered for a while: the store revives such a task if its name is created again."""

from collections.abc import Sequence
from typing import Final

from evenbeat.core.columns import Ints
from evenbeat.node.loop.packed_jobs import NodeColumns
from evenbeat.store.contract import Finish

_MAX_REMEMBERED: Final = 1_000


class EndsOfRemovedTasks:
    """What is known of removed tasks whose runs have just ended, and whose rows were freed."""

    def __init__(self, columns: NodeColumns, cursors: dict[int, bytes]) -> None:
        self._columns = columns
        self._cursors = cursors
        self._ends: dict[int, tuple[Finish, bytes | None]] = {}
        """By the number of the task: the end of its run, and its cursor."""

    def keep(self, finishes: Sequence[Finish]) -> None:
        """Until such an end is committed, the store revives the task if its name is created again."""
        for finish in finishes:
            self._ends[finish.task] = (finish, self._cursors.pop(finish.task, None))
        for number in list(self._ends)[:-_MAX_REMEMBERED]:
            del self._ends[number]

    def restore(self, rows: Ints) -> None:
        """Restore the state of those of these new tasks that the store has revived."""
        c = self._columns
        for row, number in zip(rows.tolist(), c.number[rows].tolist(), strict=True) if self._ends else ():
            if number in self._ends:
                finish, cursor = self._ends.pop(number)
                for name in ("last_start", "state", "hard", "attempt", "changes", "flapping", "result_at"):
                    getattr(c, name)[row] = getattr(finish, name)
                if cursor is not None:
                    self._cursors[number] = cursor
