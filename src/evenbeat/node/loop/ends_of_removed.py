"""Ends of runs of removed tasks, remembered for a while: the store revives such a task if its name is created again."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from evenbeat.core.columns import Ints
from evenbeat.node.loop.packed_jobs import NodeColumns
from evenbeat.store.contract import Finish

_MAX_REMEMBERED: Final = 1_000


class _EndOfRemoved(NamedTuple):
    """What is known of a removed task whose run has just ended."""

    finish: Finish
    cursor: bytes | None
    problem: int
    problem_opened: int
    """As in the columns."""


class EndsOfRemovedTasks:
    """What is known of removed tasks whose runs have just ended, and whose rows were freed."""

    def __init__(self, columns: NodeColumns, cursors: dict[int, bytes]) -> None:
        self._columns = columns
        self._cursors = cursors
        self._ends: dict[int, _EndOfRemoved] = {}
        """By the number of the task."""

    def keep(self, finishes: Sequence[Finish], problems: Sequence[tuple[int, int]]) -> None:
        """Until such an end is committed, the store revives the task if its name is created again. `problems` are the
        values of both columns of each.
        """
        for finish, problem in zip(finishes, problems, strict=True):
            self._ends[finish.task] = _EndOfRemoved(finish, self._cursors.pop(finish.task, None), *problem)
        for number in list(self._ends)[:-_MAX_REMEMBERED]:
            del self._ends[number]

    def restore(self, rows: Ints) -> None:
        """Restore the state of those of these new tasks that the store has revived."""
        c = self._columns
        for row, number in zip(rows.tolist(), c.number[rows].tolist(), strict=True) if self._ends else ():
            if number in self._ends:
                finish, cursor, *problem = self._ends.pop(number)
                c.problem[row], c.problem_opened[row] = problem
                for name in ("last_start", "state", "hard", "attempt", "changes", "flapping", "result_at"):
                    getattr(c, name)[row] = getattr(finish, name)
                if cursor is not None:
                    self._cursors[number] = cursor
