"""Removes tasks whose only time has passed long ago, as their history is deleted; not those that a file declares."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import numpy as np

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tasks_of_files import is_file_owner
from evenbeat.core.task import Flag
from evenbeat.model import Entry, Instant
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.store.contract import Conflict, Filter
from evenbeat.when.windows import FOREVER

_NOT_FINISHED: Final = int(Flag.PASSIVE | Flag.FORCED | Flag.RUNNING | Flag.REMOVED | Flag.POSTPONED)
_AT_ONCE: Final = 1_000
_WHO: Final = "keep"
"""Makes the change, for the audit."""
_PROGRAM_OWNER: Final = "app:"
"""How the owner of tasks begins that a program declares: it would declare them again at its next start."""


class FinishedOneOffs:
    """Looks for them from time to time."""

    def __init__(self, tasks: TaskTable, admin: TaskAdmin) -> None:
        self._tasks = tasks
        self._admin = admin
        self._others: set[int] = set()
        """Numbers of tasks that have no next time either, and stay: they run at events of the node, for example."""

    def find(self, now: Instant, keep: int) -> Callable[[], int]:
        """Tasks that have no next time and have had none since `keep` ago. Returns what removes those of them that
        are one-offs, to be called on any thread; it returns how many it has removed.
        """
        c = self._tasks.columns
        over = c.used & (c.flags & _NOT_FINISHED == 0) & (c.nominal >= FOREVER) & (c.off_grid_due >= FOREVER)
        over &= (c.accounted < now - keep) & (c.last_start < now - keep)
        rows = np.flatnonzero(over)
        numbers = c.number[rows]
        if self._others:
            rows = rows[~np.isin(numbers, list(self._others))]
        names = self._tasks.names.names(rows[:_AT_ONCE])
        return lambda: self._remove(names, Instant(now - keep))

    def _remove(self, names: list[str], before: Instant) -> int:
        store, removed = self._admin.store, 0
        for entry in filter(None, map(store.find, names)):
            if not _may_disappear(entry):
                self._others.add(entry.number)
            elif all(run.ended is not None and run.ended < before for run in store.runs(entry.number, most=1)):
                with suppress(Conflict):  # other tasks depend on it
                    self._admin.remove(Filter(names=(entry.id,)), _WHO)
                    removed += 1
        return removed


def _may_disappear(entry: Entry) -> bool:
    is_declared = is_file_owner(entry.owner) or entry.owner.startswith(_PROGRAM_OWNER)
    return entry.task.schedule.at is not None and not is_declared
