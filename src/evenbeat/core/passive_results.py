"""Passive checks: results are submitted from outside. Which is new enough, and by when must the next one be there?

A nominal time of a passive check is when a result is expected. It is looked at once, when the result must be there:
then it is settled, by a result that was submitted in time, by a run of the check's own command, or by a result that
says that there was none.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.gate import REASONS, Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Bools, Flag, SkipColumns
from evenbeat.core.task_defaults import LONGEST_DEFAULT_GRACE
from evenbeat.model import Instant, RunKind, State, Task, WhenMissing
from evenbeat.when.windows import FOREVER, NEVER

_UNREACHABLE: Final = REASONS.index(Reason.UNREACHABLE)
_STATES: Final = {
    WhenMissing.CRITICAL: State.CRITICAL,
    WhenMissing.UNKNOWN: State.UNKNOWN,
    WhenMissing.WARNING: State.WARNING,
}


class ResultExpectation(NamedTuple):
    """What a passive check says of results that do not come."""

    grace: int | None
    """None for the default, which depends on the interval."""
    when_missing: State


def expectation_of(task: Task) -> ResultExpectation:
    """What a passive check says; equal ones are one object, as there may be a hundred thousand of them."""
    return _expectation(task.grace, task.when_missing)


@lru_cache(maxsize=256)
def _expectation(grace: int | None, when_missing: WhenMissing) -> ResultExpectation:
    return ResultExpectation(grace, _STATES[when_missing])


class SettledExpectations(NamedTuple):
    """What a look at some passive checks has found."""

    skips: list[SkipColumns]
    """Skips of disabled and unreachable checks, of which nothing was expected."""
    fresh: Ints
    """Rows with a result that is new enough."""
    stale: Ints
    """Rows without one."""
    nominal: Ints
    """The nominal time that each stale row has no result for."""


def settle_at(life: Lifecycle, rows: Ints, allowed: Ints, not_before: Ints) -> Ints:
    """When to look whether a result has come: when the next one must be there, or later if senders get more time.

    `allowed` is how long after its nominal time a result may come: timebox and grace.
    """
    times: Ints = np.maximum(life.columns.nominal[rows] + allowed, not_before)
    return times


def allowed_after(life: Lifecycle, rows: Ints, nominal: Ints, timebox: Ints, grace: Ints) -> Ints:
    """How long after its nominal time a result may come: timebox and grace; -1 is the default grace."""
    unsaid = np.flatnonzero((grace < 0) & (nominal < FOREVER))
    interval = np.zeros(len(rows), dtype=np.int64)
    interval[unsaid] = life.times.interval(rows[unsaid], nominal[unsaid])
    # As `task_defaults.default_grace`, for columns.
    default = np.where(interval > 0, np.minimum(interval // 2, LONGEST_DEFAULT_GRACE), LONGEST_DEFAULT_GRACE)
    allowed: Ints = timebox + np.where(grace < 0, default, grace)
    return allowed


def run_own_job_instead(life: Lifecycle, rows: Ints, now: Instant) -> Bools:
    """Results of these checks are missing: those with a command or function are run now, off the grid.

    Says which have a run that provides a result: planned here, or under way already. The others have nothing to run or
    nothing that may be executed, or may not run now as their period is closed: that their result is missing is all that
    can be said of them.
    """
    c = life.columns
    flags, off_grid_due = c.flags[rows], c.off_grid_due[rows]
    running = flags & int(Flag.RUNNING) != 0
    starts_later = (c.off_grid_kind[rows] == RunKind.START_AT) & (off_grid_due < FOREVER)
    able = flags & int(Flag.NOTHING_TO_RUN | Flag.PERMITTED) == int(Flag.PERMITTED)
    may_run = able & ~starts_later & life.times.is_open(rows, now)
    new = rows[may_run & ~running & (off_grid_due > now)]
    c.off_grid_due[new] = now
    c.off_grid_kind[new] = RunKind.FRESHNESS
    life.reset_due(new)
    provided: Bools = running | may_run
    return provided


def settle_due_results(life: Lifecycle, rows: Ints, allowed: Ints, now: Instant) -> SettledExpectations:
    """Settle all nominal times that are `allowed` or more ago: the newest of them says whether a check is stale. An
    unreachable one is not.
    """
    c = life.columns
    enabled = c.flags[rows] & int(Flag.ENABLED) != 0
    skips = _settle(life, rows[~enabled], allowed[~enabled], now, Reason.DISABLED)
    settled = _settle(life, rows[enabled], allowed[enabled], now, Reason.NONE)
    some = np.concatenate([s.rows for s in settled]) if settled else rows[:0]
    last = np.concatenate([s.last for s in settled]) if settled else rows[:0]
    missing = c.result_at[some] <= counts_from(life, some, last)
    reachable = c.flags[some] & int(Flag.REACHABLE) != 0
    if not reachable.all():
        skips += _unreachable_skips(settled, missing & ~reachable)
    stale = missing & reachable
    return SettledExpectations(skips, some[~missing], some[stale], last[stale])


def _unreachable_skips(settled: list[SkipColumns], which: Bools) -> list[SkipColumns]:
    """Of what was settled: the nominal times of some rows, as skipped because these are unreachable."""
    ends = np.cumsum([len(some.rows) for some in settled])
    parts = zip(settled, np.split(which, ends[:-1]), strict=True)
    return [
        SkipColumns(
            *(some.rows[part], some.first[part], some.last[part], some.times[part]),
            np.full(np.count_nonzero(part), _UNREACHABLE, np.uint8),
        )
        for some, part in parts
        if part.any()
    ]


def _settle(life: Lifecycle, rows: Ints, allowed: Ints, now: Instant, reason: Reason) -> list[SkipColumns]:
    skips = []
    for length in np.unique(allowed).tolist():
        skips += life.skip_until(rows[allowed == length], Instant(now - length), reason)
    return skips


def counts_from(life: Lifecycle, rows: Ints, nominal: Ints) -> Ints:
    """A result that is newer than this counts for the nominal time of its row.

    Senders do not know the phase of an interval grid: their results may come anywhere in between, so the whole interval
    counts. Senders do know the times of a calendar: `tolerance` says how much too early a result may be, by default
    half of the time since the nominal time before.
    """
    c = life.columns
    interval, tolerance = life.times.interval(rows, nominal), c.tolerance[rows]
    early = np.where(c.calendar[rows] < 0, interval, np.where(tolerance < 0, interval // 2, tolerance))
    since: Ints = np.where(interval > 0, nominal - early, NEVER)
    return since


def missing_result_time(life: Lifecycle, rows: Ints, nominal: Ints) -> Ints:
    """The time of a result that says that one is missing: just after the latest result.

    So it replaces that one, is no sign of life itself, and any result that is submitted later is newer.
    """
    latest = life.columns.result_at[rows]
    since: Ints = np.where(latest > NEVER, latest + 1, nominal - life.times.interval(rows, nominal))
    return since


def record_missed_results(life: Lifecycle, rows: Ints, allowed: Ints, now: Instant) -> list[SkipColumns]:
    """After a stop: record the results that were expected meanwhile as missed; no check becomes stale by that."""
    return _settle(life, rows, allowed, now, Reason.MISSED)


def result_was_missed(life: Lifecycle, rows: Ints, allowed: Ints, stopped: Instant, now: Instant) -> Bools:
    """Which rows have a sender that, at its interval since its last result, tried to submit one during the stop?

    The sender of a check with a calendar has the rest of the allowed time, as always.
    """
    c = life.columns
    latest, every = c.result_at[rows], c.every[rows]
    came = latest + -(-(stopped - allowed - latest) // every) * every
    missed: Bools = (c.calendar[rows] < 0) & (latest > NEVER) & (np.maximum(came, latest + every) <= now)
    return missed
