"""Runs that nobody's schedule asks for: a problem can only be told, or not, when a task has run once more."""

from typing import Final

from evenbeat.core.columns import Ints
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Flag
from evenbeat.model import Instant, RunKind

_NOT_ASKED: Final = int(Flag.REMOVED | Flag.POSTPONED | Flag.FORCED | Flag.PASSIVE)
"""Tasks that run once more anyway, or not before a time that somebody chose, or not by a schedule at all."""


def ask_for_runs(life: Lifecycle, rows: Ints, now: Instant) -> Ints:
    """Plan one run off the grid for each of these rows, as catch-up runs are planned: by the pace, together with all
    others, and subject to pause, period and limits. Returns the rows that have such a run planned now.
    """
    c = life.columns
    rows = rows[c.flags[rows] & _NOT_ASKED == 0]
    due = life.off_grid_times(rows, now)
    sooner = due < c.off_grid_due[rows]
    some: Ints = rows[sooner]
    c.off_grid_due[some] = due[sooner]
    c.off_grid_kind[some] = RunKind.CATCH_UP
    life.reset_due(some)
    return some
