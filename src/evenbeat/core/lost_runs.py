"""Runs that were lost with their worker or node: when they started, and the run that makes up for each."""

from evenbeat.core.columns import Ints
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Flag
from evenbeat.model import Instant, RunKind


def assumed_start(claimed: int, due: int, now: int) -> int:
    """The start of a run whose start was never reported: when it was claimed, or due if it was claimed ahead.

    The instant at which it was found lost would be too late: the guard would refuse the next run as too soon after it.
    """
    return min(max(claimed, due), now)


def repeat_lost_runs(life: Lifecycle, rows: Ints, now: Instant) -> Ints:
    """Runs were lost, with a worker or a whole node: one more for each, unless what is missed is to be skipped.

    Returns the rows that have one more.
    """
    c = life.columns
    some: Ints = rows[c.flags[rows] & int(Flag.MISSED_SKIP | Flag.POSTPONED) == 0]
    c.off_grid_due[some] = life.off_grid_times(some, now)
    c.off_grid_kind[some] = RunKind.CATCH_UP
    life.reset_due(some)
    return some
