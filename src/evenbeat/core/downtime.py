"""After a stop or a step of the clock: what was missed is recorded and made up for, never in a burst."""

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.edits import settle_pauses, skip_disabled, skip_postponed
from evenbeat.core.gate import Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Bools, Flag, SkipColumns, tolerance_of
from evenbeat.model import HOUR, Instant, RunKind
from evenbeat.when.windows import FOREVER, NEVER


def resume(life: Lifecycle, rows: Ints, now: Instant, catch_up: Ints | int = HOUR) -> list[SkipColumns]:
    """After a stop, or a step of the clock forward, which counts as one: record what passed, and make up for it.

    By default with one run for all of it; with Flag.MISSED_SKIP not at all; with Flag.MISSED_ALL (each row with its own
    `catch_up`, or all with the same) with one run for each nominal time that is not older, one after the other, in
    order. What comes due by the schedule meanwhile joins the end of that queue; after it the task is an ordinary one.
    All these runs, and the off-grid ones that were due meanwhile, are released by the pace. A task that catches up has
    one run at each of its grid points, as always, and others in between as the pace permits.
    """
    c, all_rows = life.columns, rows
    skips = life.end_postponement(rows[c.off_grid_due[rows] <= now])
    skips += skip_postponed(life, rows, now)
    skips += skip_disabled(life, rows, now)
    # What disabled tasks owe waits until they are enabled.
    enabled = c.flags[rows] & int(Flag.ENABLED) != 0
    reaches = np.broadcast_to(np.asarray(catch_up, dtype=np.int64), rows.shape)[enabled]
    rows = rows[enabled]
    flags = c.flags[rows]
    late = c.nominal[rows] <= now
    wants_all = flags & int(Flag.MISSED_ALL) != 0
    skips += life.skip_until(rows[late & ~wants_all], now, Reason.MISSED)
    once = rows[late & ~wants_all & (flags & int(Flag.MISSED_SKIP) == 0)]
    # A start that was asked for and missed is one of these, and keeps its name.
    once = once[(c.off_grid_due[once] > now) | (c.off_grid_kind[once] != RunKind.START_AT)]
    c.off_grid_due[once] = now
    c.off_grid_kind[once] = RunKind.CATCH_UP
    catching_up = rows[late & wants_all]
    reach = reaches[late & wants_all]
    for length in np.unique(reach).tolist():
        skips += life.skip_until(catching_up[reach == length], Instant(now - length - 1), Reason.MISSED)
    catching_up = catching_up[c.nominal[catching_up] <= now]
    life.set_flag(catching_up, Flag.CATCHING_UP, on=True)
    # A forced run comes at once anyway, and what is overdue is settled with it.
    overdue = rows[(c.off_grid_due[rows] <= now) & (c.flags[rows] & int(Flag.FORCED | Flag.CATCHING_UP) == 0)]
    c.off_grid_due[overdue] = _catch_up_times(life, overdue, now)
    life.assign_catch_up_turns(catching_up, now)
    life.reset_due(all_rows)
    return skips


def _catch_up_times(life: Lifecycle, rows: Ints, now: Instant) -> Ints:
    """When each of some rows makes up for what it missed, also apart from a run of it that is under way."""
    times = np.empty(len(rows), dtype=np.int64)
    running = life.columns.flags[rows] & int(Flag.RUNNING) != 0
    times[~running] = life.off_grid_times(rows[~running], now)
    times[running] = life.off_grid_times(rows[running], now, int(life.least_gap(rows[running]).max(initial=0)))
    return times


def repeat_lost_runs(life: Lifecycle, rows: Ints, now: Instant) -> None:
    """Runs were lost, with a worker or a whole node: one more for each, unless what is missed is to be skipped."""
    c = life.columns
    some = rows[c.flags[rows] & int(Flag.MISSED_SKIP | Flag.POSTPONED) == 0]
    c.off_grid_due[some] = life.off_grid_times(some, now)
    c.off_grid_kind[some] = RunKind.CATCH_UP
    life.reset_due(some)


def clock_set_back(life: Lifecycle, rows: Ints, by: int, now: Instant) -> list[SkipColumns]:
    """The clock went back `by`, to `now`: a new generation of nominal times, for all `rows` that there are.

    Interval tasks go on at their pace: they follow their grid from now on, and where it leaves too long a gap, one run
    off the grid at the moment that was planned bridges it. Calendar times that have been do not happen again, unless
    they go by elapsed time or the step is a correction. What was due and not accounted for is recorded, and one run
    made up for it.
    """
    c = life.columns
    life.generation += 1
    life.pace.move_back(by)
    for column in (c.last_start, c.result_at):
        known = rows[column[rows] > NEVER]
        column[known] -= by
    # `start_at` names a time of the clock; all other off-grid runs go by elapsed time.
    asked = (c.off_grid_kind[rows] == RunKind.START_AT) & (c.off_grid_due[rows] < FOREVER)
    moving = rows[~asked & (c.off_grid_due[rows] < FOREVER)]
    c.off_grid_due[moving] -= by
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
