"""What a run may do, and what its end means: timebox, latest start, the guard's figures; then its outcome.

Everything is by columns, one value for each run.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.check import exit_state
from evenbeat.core.columns import Ints
from evenbeat.core.guard import default_timebox
from evenbeat.core.task import Bools, ClaimColumns, Flag, Flags, Small, TaskColumns, tolerance_of
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import Instant, Outcome, RunKind, State
from evenbeat.when.windows import FOREVER, NEVER

# Before a run


class RunPlans(NamedTuple):
    """What workers go by when they start these runs."""

    timebox: Ints
    """How long each may last."""
    latest_start: Ints
    """After this none may start; FOREVER if there is no such limit."""
    last_start: Ints
    """The last start on the grid, for the guard; NEVER for a run that the guard does not concern."""
    interval: Ints
    """For the guard: the time since the nominal time before, 0 off the grid."""
    tolerance: Ints
    attempt: Small
    """How many problems in a row a check has if this run finds one more."""


def plan_runs(
    columns: TaskColumns, times: ScheduleTimes, claims: ClaimColumns, timebox: Ints, now: Instant
) -> RunPlans:
    """Plan runs that have just been claimed. `timebox` is what each task says, 0 where its nominal time decides."""
    c, rows = columns, claims.rows
    on_grid = claims.kind == RunKind.GRID
    interval = np.where(on_grid, times.interval(rows, claims.nominal), 0)
    return RunPlans(
        timebox=_timeboxes(columns, times, claims, timebox),
        latest_start=_latest_starts(columns, times, claims, now),
        last_start=np.where(on_grid, c.last_start[rows], NEVER),
        interval=interval,
        tolerance=tolerance_of(c, rows, c.flags[rows], interval),
        attempt=c.attempt[rows] + ~c.hard[rows],  # while SOFT, each run is one more
    )


def _timeboxes(columns: TaskColumns, times: ScheduleTimes, claims: ClaimColumns, timebox: Ints) -> Ints:
    """As the task says; by default of a cron task as long as from one nominal time to the next."""
    unsaid = np.flatnonzero(timebox == 0)
    if len(unsaid):
        timebox = timebox.copy()
        some = claims.rows[unsaid]
        coming = columns.nominal[some]
        length = coming - claims.nominal[unsaid]
        # A run off the grid may come just before a nominal time: that must not make it short.
        between = np.flatnonzero((claims.kind[unsaid] != RunKind.GRID) & (coming < FOREVER))
        length[between] = times.interval(some[between], coming[between])
        timebox[unsaid] = np.where((coming < FOREVER) & (length > 0), length, default_timebox(None, check=False))
    return timebox


def _latest_starts(columns: TaskColumns, times: ScheduleTimes, claims: ClaimColumns, now: Instant) -> Ints:
    """The close of the period, unless the run is forced."""
    latest = np.full(len(claims.rows), FOREVER, dtype=np.int64)
    period = columns.period[claims.rows]
    if (period >= 0).any():
        period[claims.kind == RunKind.FORCED] = -1
        for number in np.unique(period[period >= 0]).tolist():
            latest[period == number] = times.period(number).state(now).until
    return latest


# After a run

SUCCESS, STARTED, ENDED_BY_ITSELF, GIVES_RESULT, CUT_SHORT = (1 << i for i in range(5))
"""Bits of what an outcome means: it is good; the run really started; no signal or timebox of ours ended it; it says
something about a check; the run ended with its worker or node, so one more may be owed.
"""
_MEANING: Final = {
    Outcome.SUCCEEDED: SUCCESS | STARTED | ENDED_BY_ITSELF | GIVES_RESULT,
    Outcome.FAILED: STARTED | ENDED_BY_ITSELF | GIVES_RESULT,
    Outcome.KILLED: STARTED | GIVES_RESULT,
    Outcome.TIMEBOXED: STARTED | GIVES_RESULT,
    Outcome.BROKEN: GIVES_RESULT,
    Outcome.DROPPED: 0,
    Outcome.LOST: STARTED | CUT_SHORT,
    Outcome.CANCELLED: STARTED | CUT_SHORT,
}
NO_STATUS: Final = -1
"""In a column of exit statuses: the run has none."""


def outcome_meanings(outcomes: Sequence[str]) -> Small:
    """What each outcome means, in bits."""
    return np.array([_MEANING[outcome] for outcome in outcomes], dtype=np.uint8)  # type: ignore[index]


def set_last_start(meaning: Small, kind: Ints) -> Bools:
    """Which of these runs count for the guard? Those on the grid that really started."""
    counting: Bools = (kind == RunKind.GRID) & (meaning & STARTED != 0)
    return counting


def give_results(meaning: Small, flags: Flags) -> Bools:
    """Which of these runs say something about the state of a check? `flags` are those of the tasks at their end."""
    giving: Bools = (flags & int(Flag.CHECK | Flag.REMOVED) == int(Flag.CHECK)) & (meaning & GIVES_RESULT != 0)
    return giving


def result_states(meaning: Small, status: Ints) -> Small:
    """The state that each result says: by its exit status if the run ended by itself, else UNKNOWN."""
    return np.where(meaning & ENDED_BY_ITSELF != 0, exit_state(status), State.UNKNOWN).astype(np.uint8)


def are_lost(meaning: Small, flags: Flags) -> Bools:
    """Which of these runs ended with their worker or node, so that their tasks may owe one more?"""
    lost: Bools = (meaning & CUT_SHORT != 0) & (flags & int(Flag.REMOVED) == 0)
    return lost
