"""After the clock was set back: a new generation of nominal times. A step forward counts as a stop (`missed_times`)."""

import numpy as np

from evenbeat.core.changed_definitions import settle_pauses, skip_disabled, skip_postponed
from evenbeat.core.columns import Ints
from evenbeat.core.gate import Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Bools, Flag, SkipColumns, tolerance_of
from evenbeat.model import Instant, RunKind
from evenbeat.when.windows import FOREVER, NEVER


def clock_set_back(life: Lifecycle, rows: Ints, by: int, now: Instant) -> list[SkipColumns]:
    """The clock went back `by`, to `now`: a new generation of nominal times, for all `rows` that there are.

    Interval tasks go on at their pace: they follow their grid from now on, and where it leaves too long a gap, one run
    off the grid at the moment that was planned bridges it. Calendar times that have been do not happen again, unless
    they go by elapsed time or the step is a correction. What was due and not accounted for is recorded, and one run
    made up for it.
    """
    c = life.columns
    # The runs that follow others are due now, as they were.
    following = rows[(c.flags[rows] & int(Flag.CHAINED) != 0) & (c.nominal[rows] < FOREVER)]
    c.nominal[following] = FOREVER
    life.generation += 1
    life.pace.move_back(by)
    for column in (c.last_start, c.result_at):
        known = rows[column[rows] > NEVER]
        column[known] -= by
    # `start_at` names a time of the clock; all other off-grid runs go by elapsed time.
    asked = (c.off_grid_kind[rows] == RunKind.START_AT) & (c.off_grid_due[rows] < FOREVER)
    moving = rows[~asked & (c.off_grid_due[rows] < FOREVER)]
    c.off_grid_due[moving] -= by
    life.retries.move_back(by)
    planned = c.nominal[rows]
    before = Instant(now + by)
    skips = settle_pauses(life, rows, before)
    skips += skip_postponed(life, rows, before)
    skips += skip_disabled(life, rows, before)
    skips += life.skip_until(rows, before, Reason.CLOCK_SET_BACK)
    again = rows[life.times.repeats_after(rows) < by]
    life.account(again, now)
    life.set_flag(rows, Flag.CATCHING_UP, on=False)
    some = ~asked & (planned < FOREVER) & (c.flags[rows] & int(Flag.ENABLED | Flag.PASSIVE) == int(Flag.ENABLED))
    _add_bridging_runs(life, rows[some], planned[some] - by, now)
    c.nominal[following] = now
    life.reset_due(rows)
    return skips


def _add_bridging_runs(life: Lifecycle, rows: Ints, planned: Ints, now: Instant) -> None:
    """Plan one off-grid run for each row whose next nominal time is too far from the moment that was planned."""
    c = life.columns
    needed = _leaves_a_gap(life, rows, planned, now)
    rows, planned = rows[needed], planned[needed]
    # What was planned is spread already; what should have been by now is released by the pace.
    overdue = planned <= now
    planned[overdue] = life.off_grid_times(rows[overdue], now)
    sooner = planned < c.off_grid_due[rows]
    c.off_grid_due[rows[sooner]] = planned[sooner]
    c.off_grid_kind[rows[sooner]] = RunKind.CATCH_UP


def _leaves_a_gap(life: Lifecycle, rows: Ints, planned: Ints, now: Instant) -> Bools:
    """Does the grid come more than half an interval after what was planned? Of calendar times: was one due already?"""
    c = life.columns
    every, comes = c.every[rows], c.nominal[rows]
    tolerance = tolerance_of(c, rows, c.flags[rows], every)
    # A grid point that is too soon after the last start will be dropped by the guard.
    comes = np.where(comes < planned - tolerance, comes + every, comes)
    return np.where(c.calendar[rows] < 0, comes - planned > every // 2, planned <= now)
