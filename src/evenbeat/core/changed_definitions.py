"""What changes of tasks do to their timetable: the past is settled by the old definition, then the new one counts.

A pause suspends what a task owes - a catch-up, a retry, a first run, a backlog - and the nominal times that come
meanwhile are skipped; afterwards what is owed goes on.
"""

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.gate import REASONS, Reason
from evenbeat.core.lifecycle import OWED, Lifecycle
from evenbeat.core.task import Bools, Flag, SkipColumns
from evenbeat.model import Instant, RunKind
from evenbeat.when.windows import FOREVER


def settle_past(life: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
    """Before the schedules or periods of rows change: account for what was due by now, and owe one run for it.

    Also a backlog and `missed = "all"` owe one run from then on: the new definition does not know their nominal times.
    """
    skips = _end_pauses(life, _suspended(life, rows), now)
    skips += skip_disabled(life, rows, now)
    skips += skip_postponed(life, rows, now)
    return skips + _owe_one_run(life, rows, now)


def pause(life: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
    """Rows have just been disabled: what they owe stays owed."""
    c = life.columns
    late = rows[(c.nominal[rows] <= now) & ~_has_flags(life, rows, Flag.PASSIVE | Flag.POSTPONED)]
    # A second pause before all is made up for leaves one run for what is left.
    queues = _has_flags(life, late, Flag.EACH | Flag.CATCHING_UP) & ~np.isin(late, list(life.pauses))
    for row in late[queues].tolist():
        life.pauses[row] = (int(now), FOREVER)
    skips = _owe_one_run(life, late[~queues], now)
    life.reset_due(rows)
    return skips


def unpause(life: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
    """Rows have just been enabled again: what came meanwhile is skipped, what they owe goes on, at the usual pace.

    A check in a SOFT problem state is retried.
    """
    c = life.columns
    suspended = _suspended(life, rows)
    skips = _end_pauses(life, suspended, now)
    others = rows[~np.isin(rows, suspended) & ~_has_flags(life, rows, Flag.PASSIVE | Flag.POSTPONED)]
    skips += life.skip_until(others, now, Reason.DISABLED)
    soft = others[(~c.hard[others]) & (c.retry[others] > 0) & (c.off_grid_due[others] == FOREVER)]
    c.off_grid_due[soft] = now
    c.off_grid_kind[soft] = RunKind.RETRY
    overdue = others[
        (c.off_grid_due[others] <= now) & OWED[c.off_grid_kind[others]] & ~_has_flags(life, others, Flag.FORCED)
    ]
    c.off_grid_due[overdue] = life.off_grid_times(overdue, now)
    life.assign_catch_up_turns(suspended[_has_flags(life, suspended, Flag.CATCHING_UP)], now)
    life.reset_due(rows)
    return skips


def settle_pauses(life: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
    """Rows that were paused while they owed runs for several nominal times owe one for all of them."""
    rows = rows[np.isin(rows, list(life.pauses))]
    return _end_pauses(life, _suspended(life, rows), now) + _owe_one_run(life, rows, now)


def skip_disabled(life: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
    """Account for the nominal times up to now of the rows that are disabled."""
    off = rows[~_has_flags(life, rows, Flag.ENABLED) & ~_has_flags(life, rows, Flag.POSTPONED)]
    return life.skip_until(off[~np.isin(off, list(life.pauses))], now, Reason.DISABLED)


def skip_postponed(life: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
    """Account for the nominal times up to now of the rows whose `start_at` lies ahead."""
    return life.skip_until(rows[_has_flags(life, rows, Flag.POSTPONED)], now, Reason.POSTPONED)


def _suspended(life: Lifecycle, rows: Ints) -> Ints:
    """Which rows have owed runs for several nominal times since they were paused."""
    return rows[[row in life.pauses and life.pauses[row][1] == FOREVER for row in rows.tolist()]]


def _end_pauses(life: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
    """Pauses end: nominal times within them are skipped, earlier ones are still owed."""
    skips = []
    for i, row in enumerate(rows.tolist()):
        one, since = rows[i : i + 1], life.pauses[row][0]
        life.pauses[row] = (since, int(now))
        first = life.times.next_after(one, Instant(since))
        if first[0] <= now:
            count, last = life.times.count_between(one, first, now)
            reason = np.full(1, REASONS.index(Reason.DISABLED), np.uint8)
            skips.append(SkipColumns(one, first, last, count, reason))
    return skips


def _owe_one_run(life: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
    """One run is owed for all nominal times that have come and are not accounted for.

    None is owed where a running instance stands for them, and by passive checks.
    """
    late = rows[life.columns.nominal[rows] <= now]
    merges = _has_flags(life, late, Flag.RUNNING) & ~_has_flags(life, late, Flag.EACH | Flag.CATCHING_UP)
    owed = late[~merges & ~_has_flags(life, late, Flag.PASSIVE)]
    skips = life.skip_until(late, now, Reason.COALESCED)
    life.columns.off_grid_due[owed] = now
    life.columns.off_grid_kind[owed] = RunKind.CATCH_UP
    life.set_flag(rows, Flag.CATCHING_UP, on=False)
    return skips


def _has_flags(life: Lifecycle, rows: Ints, flags: Flag) -> Bools:
    has: Bools = life.columns.flags[rows] & int(flags) != 0
    return has
