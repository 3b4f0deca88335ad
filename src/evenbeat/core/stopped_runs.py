"""Runs that a person stops: how they count, and which runs that have not begun are withdrawn with them."""

from typing import NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Bools, Flag
from evenbeat.model import Outcome, RunKind
from evenbeat.when.windows import FOREVER


def settled_outcome(reported: str, *, is_stopped: bool) -> str:
    """The outcome of a run, from what its worker reports and whether a person has asked to stop it.

    A worker reports `cancelled` for every run that was ended on request. If no person has asked for it, the node or the
    worker itself was stopped, and the run is interrupted. A run that was to be stopped counts as cancelled however it
    ended - killed, failed, dropped, or lost with its worker - unless it had succeeded.
    """
    if not is_stopped:
        return Outcome.INTERRUPTED if reported == Outcome.CANCELLED else reported
    return reported if reported == Outcome.SUCCEEDED else Outcome.CANCELLED


class Withdrawn(NamedTuple):
    """Runs off the grid that had not begun, and will not begin."""

    rows: Ints
    due: Ints
    kind: Ints


def withdraw_planned(life: Lifecycle, rows: Ints, now: int) -> Withdrawn:
    """Tasks are stopped: forced runs that wait are withdrawn, and so are retries of failed jobs.

    What the schedule asks for stays: a nominal time that has come still has its run. So does the retry of a check,
    which belongs to its SOFT state. A retry that is withdrawn leaves no problem behind: a person knows of the failure.
    """
    c = life.columns
    flags, due = c.flags[rows], c.off_grid_due[rows]
    forced: Bools = flags & int(Flag.FORCED) != 0
    # A forced run is due since it was first seen, in the place of the run off the grid that it makes up for.
    over = forced & (due <= now)
    retried = np.isin(rows, life.retries.drop(rows))
    withdrawn = np.flatnonzero(forced | retried)
    kind = np.where(forced[withdrawn], int(RunKind.FORCED), int(RunKind.RETRY))
    found = Withdrawn(rows[withdrawn], np.where(over | retried, due, now)[withdrawn], kind)
    c.off_grid_due[rows[over]] = FOREVER
    life.set_flag(rows[forced], Flag.FORCED, on=False)
    life.reset_due(found.rows)
    return found
