"""When is a task next? The one answer that `ls`, `show`, `why`, events, the API and the page give."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.check_states import retry_after_opening
from evenbeat.core.permission import has_runnable_job
from evenbeat.core.task_columns import has_moving_grid, retry_interval_of
from evenbeat.model import Instant, Missed, RunKind, Schedule, Task
from evenbeat.when.cron import Cron
from evenbeat.when.icinga import icinga_after
from evenbeat.when.inside_period import within_period
from evenbeat.when.interval import Interval
from evenbeat.when.nominal_times import CompiledSchedule
from evenbeat.when.period import CompiledPeriod
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.windows import FOREVER, NEVER

_FORCED: Final = (RunKind.FORCED, RunKind.FORCED_BEFORE_START)


class ScheduleProgress(NamedTuple):
    """How far a task has come, as a store keeps it."""

    accounted: int | None
    """Nominal times up to this instant are accounted for; None: no node has seen the task yet."""
    off_grid_due: int
    off_grid_kind: RunKind
    """The off-grid run that is planned; FOREVER for none."""
    pause_from: int = NEVER
    pause_until: int = NEVER
    """Nominal times in between are accounted for as well."""


class TimetablePosition(NamedTuple):
    """Where a task stands in its timetable."""

    nominal: int
    """The first nominal time that is not accounted for; FOREVER if there is none."""
    off_grid_due: int
    off_grid_kind: RunKind
    is_enabled: bool
    """Not switched off, and what it says may be executed."""
    is_forced: bool
    """A forced run waits."""
    catches_up: bool
    """It makes up for nominal times one after the other: `off_grid_due` is the turn of the first."""
    runs_nothing: bool
    """A passive check without a command."""
    retry_after_opening: int | None
    """How long after its period opens a retry of a check is made that found it closed; None for a task, whose retries
    are not made then.
    """


class NextRun(NamedTuple):
    """The next run of a task, or of a passive check the next result that is expected."""

    at: Instant
    """In the past if it is late, or waits."""
    kind: RunKind
    nominal: int = FOREVER
    """The next nominal time that is not accounted for, as far as that was asked."""


def next_run(
    task: Task,
    progress: ScheduleProgress,
    periods: Mapping[str, CompiledPeriod],
    now: Instant,
    *,
    is_blocked: bool = False,
    chain_due: int = FOREVER,
) -> NextRun | None:
    """By the definition as it is now; None if the task is paused, or no time is left. `is_blocked`: what it says may
    not be executed, so it never runs, and of a passive check only results are expected. `chain_due`: since when a run
    that follows others is due.
    """
    runs_nothing = task.passive and (is_blocked or not has_runnable_job(task))
    period = None if task.period is None else periods.get(task.period)
    schedule = compile_schedule(task.schedule, task.name)
    nominals = within_period(schedule, period)

    def after(t: int) -> int:
        found = nominals.next_after(Instant(t))
        return FOREVER if found is None else found

    nominal = after(now if progress.accounted is None else progress.accounted)
    if task.schedule.parents:
        nominal = chain_due
    if progress.accounted is not None and has_moving_grid(task):
        nominal = _after_execution(task.schedule, progress.accounted)
        nominal = nominal if _is_open(period, nominal) else after(nominal - 1)
    if progress.pause_from < nominal <= progress.pause_until:
        nominal = after(progress.pause_until) if progress.pause_until < FOREVER else FOREVER
    is_forced = progress.off_grid_due < FOREVER and progress.off_grid_kind in _FORCED and not is_blocked
    catches_up = (
        task.missed is Missed.ALL and progress.off_grid_kind is RunKind.CATCH_UP and nominal <= progress.off_grid_due
    )
    place = TimetablePosition(
        nominal,
        progress.off_grid_due,
        progress.off_grid_kind,
        is_enabled=task.enabled and not task.paused and (task.passive or not is_blocked),
        is_forced=is_forced,
        catches_up=catches_up and progress.off_grid_due < FOREVER,
        runs_nothing=runs_nothing,
        retry_after_opening=_after_opening(task, schedule) if progress.off_grid_kind is RunKind.RETRY else None,
    )
    found = next_run_at(place, period, after, now)
    if found is not None and task.schedule.parents and found.kind is RunKind.GRID:
        found = found._replace(kind=RunKind.CHAIN)
    return None if found is None else found._replace(nominal=nominal)


def _after_execution(schedule: Schedule, executed: int) -> int:
    columns = (executed, schedule.every or 1, schedule.phase or 0)
    return int(icinga_after(*(np.array([of], dtype=np.int64) for of in columns))[0])


def next_run_at(
    place: TimetablePosition, period: CompiledPeriod | None, after: Callable[[int], int], now: Instant
) -> NextRun | None:
    """The next run of a task that stands there; `after` says which nominal time follows an instant."""
    if place.is_forced:
        return NextRun(Instant(min(place.off_grid_due, now)), RunKind.FORCED)
    if not place.is_enabled:
        return None
    off_grid_due = FOREVER if place.runs_nothing else place.off_grid_due
    if off_grid_due < FOREVER and place.off_grid_kind is RunKind.START_AT:
        if _is_open(period, max(off_grid_due, now)):
            return NextRun(Instant(off_grid_due), RunKind.START_AT)
        # That start will be refused; then the task follows its schedule.
        place, off_grid_due = place._replace(nominal=after(max(off_grid_due, place.nominal - 1))), FOREVER
    if off_grid_due < FOREVER and place.catches_up:
        return NextRun(Instant(off_grid_due), place.off_grid_kind)
    if off_grid_due < place.nominal and not _is_open(period, max(off_grid_due, now)):
        # A retry of a check is made when the period opens, all others are refused.
        later = place.retry_after_opening if place.off_grid_kind is RunKind.RETRY else None
        opens = None if later is None or period is None else period.next_open(Instant(max(off_grid_due, now)))
        off_grid_due = FOREVER if later is None or opens is None else opens + later
    if off_grid_due < place.nominal:
        return NextRun(Instant(off_grid_due), place.off_grid_kind)
    return NextRun(Instant(place.nominal), RunKind.GRID) if place.nominal < FOREVER else None


def _after_opening(task: Task, schedule: CompiledSchedule) -> int | None:
    if not task.check:
        return None
    every, phase = (schedule.every, schedule.phase) if isinstance(schedule, Interval) else (1, 0)
    second = schedule.second if isinstance(schedule, Cron) else 0
    columns = (np.array([value], dtype=np.int64) for value in (phase, every, second, retry_interval_of(task)))
    return int(retry_after_opening(*columns)[0])


def _is_open(period: CompiledPeriod | None, t: int) -> bool:
    return period is None or period.contains(Instant(t))
