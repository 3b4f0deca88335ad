"""Runs that were lost with their worker or node: when they started, and the run that makes up for each."""

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Flag
from evenbeat.model import Instant, RunKind


def assumed_start(claimed: int, due: int, now: int) -> int:
    """The start of a run whose start was never reported: when it was claimed, or due if it was claimed ahead.

    The instant at which it was found lost would be too late: the guard would refuse the next run as too soon after it.
    """
    return min(max(claimed, due), now)


def repeat_lost_runs(life: Lifecycle, rows: Ints, now: Instant, own: Ints | None = None) -> Ints:
    """Runs were lost, with a worker or a whole node: one more for each, unless what is missed is to be skipped.

    Returns the rows that have one more; where a forced run waits, it is that one. Those of `own` ran with arguments of
    their own: they are forced again, as only a forced run has such arguments.
    """
    c = life.columns
    waits = c.flags[rows] & int(Flag.FORCED) != 0
    if waits.any():
        return np.concatenate((rows[waits], repeat_lost_runs(life, rows[~waits], now, own)))
    some: Ints = rows[c.flags[rows] & int(Flag.MISSED_SKIP | Flag.POSTPONED) == 0]
    if own is not None and len(own):
        has_own = np.isin(some, own)
        life.force(some[has_own])
        return np.concatenate((some[has_own], repeat_lost_runs(life, some[~has_own], now)))
    c.off_grid_due[some] = life.off_grid_times(some, now)
    c.off_grid_kind[some] = RunKind.CATCH_UP
    life.reset_due(some)
    return some
