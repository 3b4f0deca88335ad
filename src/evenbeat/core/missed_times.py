"""After a stop: which nominal times were missed is recorded, and made up for as `missed` says, never in a burst."""

import numpy as np

from evenbeat.core.changed_definitions import skip_disabled, skip_postponed
from evenbeat.core.columns import Ints
from evenbeat.core.gate import Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Flag, SkipColumns
from evenbeat.model import HOUR, Instant, RunKind


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
    # A run that follows others is not missed by a stop: it is made.
    late = (c.nominal[rows] <= now) & (flags & int(Flag.CHAINED) == 0)
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
