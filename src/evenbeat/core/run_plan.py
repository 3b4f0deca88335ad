"""What a run may do, and what its end means: timebox, latest start, the guard's figures; then its outcome.

Everything is by columns, one value for each run.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.check_states import exit_state
from evenbeat.core.columns import Ints
from evenbeat.core.task import Bools, ClaimColumns, Flag, Flags, Small, TaskColumns, tolerance_of
from evenbeat.core.task_columns import timebox_setting
from evenbeat.core.timebox import CHECK_TIMEBOX, LONGEST_KILL_AFTER, NO_TIMEBOX, default_timebox
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import Instant, Outcome, RunKind, State, Task
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.windows import FOREVER, NEVER

# Before a run


class RunPlans(NamedTuple):
    """What workers go by when they start these runs."""

    timebox: Ints
    """How long each may last, NO_TIMEBOX if nothing ends it."""
    latest_start: Ints
    """After this none may start; FOREVER if there is no such limit."""
    last_start: Ints
    """The last start on the grid, for the guard; NEVER for a run that the guard does not concern."""
    interval: Ints
    """For the guard: the time since the nominal time before, 0 off the grid."""
    tolerance: Ints
    attempt: Small
    """Of a check: how many problems in a row it has if this run finds one more. Of another task: 1, of a retry more."""


def plan_runs(
    columns: TaskColumns, times: ScheduleTimes, claims: ClaimColumns, timebox: Ints, now: Instant
) -> RunPlans:
    """Plan runs that have just been claimed. `timebox` is what each task says, see `timebox_setting`."""
    c, rows = columns, claims.rows
    on_grid = claims.kind == RunKind.GRID
    interval = np.where(on_grid, times.interval(rows, claims.nominal), 0)
    return RunPlans(
        timebox=_timeboxes(columns, times, claims, timebox),
        latest_start=_latest_starts(columns, times, claims, now),
        last_start=np.where(on_grid, c.last_start[rows], NEVER),
        interval=interval,
        tolerance=tolerance_of(c, rows, c.flags[rows], interval),
        attempt=_attempts(columns, claims),
    )


def _attempts(columns: TaskColumns, claims: ClaimColumns) -> Small:
    c, rows = columns, claims.rows
    before = c.attempt[rows]
    of_check = before + ~c.hard[rows]  # while SOFT, each run is one more
    return np.where(c.flags[rows] & int(Flag.CHECK) != 0, of_check, attempts_of_tasks(before, claims.kind))


def attempts_of_tasks(before: Small, kind: Ints | Small) -> Small:
    """Which attempt each run is, of tasks that are no checks: a retry is one more than the run before it."""
    return np.where(kind == RunKind.RETRY, before + 1, 1).astype(np.uint8)


def _timeboxes(columns: TaskColumns, times: ScheduleTimes, claims: ClaimColumns, timebox: Ints) -> Ints:
    """As the task says, which may depend on the time from its nominal time to the next one."""
    by_nominal = np.flatnonzero(timebox <= 0)
    if not len(by_nominal):
        return timebox
    found, some = timebox.copy(), claims.rows[by_nominal]
    coming = columns.nominal[some]
    length = coming - claims.nominal[by_nominal]
    # A run off the grid may come just before a nominal time: that must not make it short.
    between = np.flatnonzero((claims.kind[by_nominal] != RunKind.GRID) & (coming < FOREVER))
    length[between] = times.interval(some[between], coming[between])
    length[(coming >= FOREVER) | (length < 0)] = 0
    found[by_nominal] = timeboxes_within(timebox[by_nominal], length)
    return found


def timebox_of(task: Task, nominal: int) -> int:
    """How long the run for this nominal time may last; NO_TIMEBOX if nothing ends it."""
    said = timebox_setting(task)
    if said > 0:
        return said
    following = compile_schedule(task.schedule, task.name).next_after(Instant(nominal))
    if following is None:
        return NO_TIMEBOX if said else CHECK_TIMEBOX
    until_next = following - nominal
    return max(until_next * -said // 100, 1) if said else default_timebox(until_next, check=True)


def timeboxes_within(said: Ints, until_next: Ints) -> Ints:
    """As `timebox_of`, for columns: what tasks say, and the time to their next nominal times, 0 if there is none."""
    share = np.where(until_next > 0, np.maximum(until_next * -said // 100, 1), NO_TIMEBOX)
    # As `timebox.gone_within`, for columns.
    gone = np.where(until_next >= 3 * LONGEST_KILL_AFTER, until_next - LONGEST_KILL_AFTER, until_next * 2 // 3)
    of_check = np.where(until_next > 0, np.minimum(gone, CHECK_TIMEBOX), CHECK_TIMEBOX)
    timebox: Ints = np.where(said > 0, said, np.where(said < 0, share, of_check))
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

SUCCESS, STARTED, ENDED_BY_ITSELF, GIVES_RESULT, CUT_SHORT, START_UNREPORTED = (1 << i for i in range(6))
"""Bits of what an outcome means: it is good; the run really started; no signal or timebox of ours ended it; it says
something about a check; the run ended with its worker or node, so one more may be owed; its start may be unknown.
"""
_MEANING: Final = {
    Outcome.SUCCEEDED: SUCCESS | STARTED | ENDED_BY_ITSELF | GIVES_RESULT,
    Outcome.FAILED: STARTED | ENDED_BY_ITSELF | GIVES_RESULT,
    Outcome.KILLED: STARTED | GIVES_RESULT,
    Outcome.TIMEBOXED: STARTED | GIVES_RESULT,
    Outcome.BROKEN: GIVES_RESULT,
    Outcome.DROPPED: 0,
    Outcome.LOST: STARTED | CUT_SHORT | START_UNREPORTED,
    Outcome.CANCELLED: STARTED | START_UNREPORTED,
    Outcome.INTERRUPTED: STARTED | CUT_SHORT | START_UNREPORTED,
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


def are_dropped_retries(meaning: Small, kind: Ints, flags: Flags) -> Bools:
    """Which of these runs were to try again what failed, and were not started?"""
    dropped: Bools = (meaning == 0) & (kind == RunKind.RETRY) & (flags & int(Flag.CHECK | Flag.REMOVED) == 0)
    return dropped


def are_lost(meaning: Small, flags: Flags) -> Bools:
    """Which of these runs ended with their worker or node, so that their tasks may owe one more?"""
    lost: Bools = (meaning & CUT_SHORT != 0) & (flags & int(Flag.REMOVED) == 0)
    return lost


def ends_for_followers(meaning: Small, flags: Flags, for_good: Bools, retried: Bools) -> tuple[Bools, Bools]:
    """Which of these runs are successes, and which are final failures, for the tasks that run after theirs?

    `for_good`: lost or dropped, and not made again. What is `retried` is not over, and what a person has stopped is
    neither.
    """
    is_task = flags & int(Flag.CHECK | Flag.REMOVED) == 0
    is_good = meaning & SUCCESS != 0
    failed: Bools = is_task & ~is_good & ~retried & (for_good | (meaning & GIVES_RESULT != 0))
    succeeded: Bools = is_task & is_good
    return succeeded, failed
