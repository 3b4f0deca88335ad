"""Enrol tasks: from the noun Task to the columns by which the core decides."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.guard import default_timebox
from evenbeat.core.task import Flag, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import MINUTE, SECOND, Backlog, Missed, Task
from evenbeat.when.cron import Cron
from evenbeat.when.interval import Interval
from evenbeat.when.schedule import compile_schedule

_ON: Final = int(Flag.ENABLED)
_CHECK: Final = int(Flag.CHECK)
_EACH: Final = int(Flag.EACH)
_PASSIVE: Final = int(Flag.PASSIVE)
_MISSED: Final = {Missed.ONCE: 0, Missed.SKIP: int(Flag.MISSED_SKIP), Missed.ALL: int(Flag.MISSED_ALL)}
_OURS: Final = _ON | _CHECK | _EACH | _PASSIVE | int(Flag.MISSED_SKIP) | int(Flag.MISSED_ALL)
"""What a definition says; the other flags are what has happened to the task."""


def enrol(
    columns: TaskColumns,
    times: ScheduleTimes,
    rows: Ints,
    tasks: Sequence[Task],
    periods: Mapping[str, int],
    limits: Mapping[str, int],
) -> None:
    """Fill in the columns of some rows. Intervals have their phase; periods and limits are numbered."""
    c = columns
    when = np.array([_numbers(task, times) for task in tasks], dtype=np.int64).reshape(-1, 4)
    c.every[rows], c.phase[rows], c.calendar[rows], c.second[rows] = when.T
    c.period[rows] = [-1 if task.period is None else periods[task.period] for task in tasks]
    c.limit[rows] = [0 if task.limit is None else limits[task.limit] for task in tasks]
    c.priority[rows] = [task.priority for task in tasks]
    c.tolerance[rows] = [-1 if task.tolerance is None else task.tolerance for task in tasks]
    c.retry[rows] = [_retry(task) for task in tasks]
    c.attempts[rows] = [task.attempts for task in tasks]
    said = np.array([_flags(task) for task in tasks], dtype=np.uint16)
    c.flags[rows] = (c.flags[rows] & (0xFFFF ^ _OURS)) | said


def _numbers(task: Task, times: ScheduleTimes) -> tuple[int, int, int, int]:
    """Every, phase, calendar number, second."""
    schedule = task.schedule
    if schedule.every is not None and schedule.phase is not None:
        return schedule.every, schedule.phase, -1, 0
    compiled = compile_schedule(schedule, task.name)
    if isinstance(compiled, Interval):
        return compiled.every, compiled.phase, -1, 0
    if isinstance(compiled, Cron):
        return 1, 0, times.calendar_number(compiled.times), compiled.second
    return 1, 0, times.calendar_number(compiled), 0


def _flags(task: Task) -> int:
    flags = _MISSED[task.missed]
    if task.enabled and not task.paused:
        flags |= _ON
    if task.check:
        flags |= _CHECK
    if task.passive:
        flags |= _PASSIVE
    if task.backlog is Backlog.EACH:
        flags |= _EACH
    return flags


def _retry(task: Task) -> int:
    """A fifth of the interval, as Icinga's five minutes and one minute."""
    if not task.check or task.passive:
        return 0
    if task.retry is not None:
        return task.retry
    return MINUTE if task.schedule.every is None else max(task.schedule.every // 5, SECOND)


def timebox(task: Task) -> int:
    """How long a run may last; 0 where that depends on its nominal time, for cron tasks that say nothing."""
    if task.timebox is not None:
        return task.timebox
    schedule = task.schedule
    if schedule.every is not None:
        return default_timebox(schedule.every, check=task.check)
    if task.check or schedule.at is not None or (schedule.cron or "").strip() in ("@reboot", "@shutdown"):
        return default_timebox(None, check=task.check)
    return 0
