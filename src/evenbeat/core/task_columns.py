"""Fills in the columns by which the core decides, from the definitions of tasks."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.task import ALL_FLAGS, Flag, TaskColumns
from evenbeat.core.task_defaults import attempts_of
from evenbeat.core.timebox import NO_TIMEBOX, default_timebox
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import MINUTE, SECOND, Backlog, Missed, Spread, Task, WhenUnreachable
from evenbeat.when.cron import Cron
from evenbeat.when.interval import Interval
from evenbeat.when.schedule import compile_schedule

_ENABLED: Final = int(Flag.ENABLED)
_CHECK: Final = int(Flag.CHECK)
_EACH: Final = int(Flag.EACH)
_PASSIVE: Final = int(Flag.PASSIVE)
_NOTHING_TO_RUN: Final = int(Flag.NOTHING_TO_RUN)
_MISSED: Final = {Missed.ONCE: 0, Missed.SKIP: int(Flag.MISSED_SKIP), Missed.ALL: int(Flag.MISSED_ALL)}
_SKIPS_UNREACHABLE: Final = int(Flag.SKIPS_UNREACHABLE)
_NOTIFIES: Final = int(Flag.NOTIFIES)
_CHAINED: Final = int(Flag.CHAINED)
DEFINED_FLAGS: Final = (
    (_ENABLED | _CHECK | _EACH | _PASSIVE | _NOTHING_TO_RUN | _SKIPS_UNREACHABLE | _NOTIFIES | _CHAINED)
    | int(Flag.MISSED_SKIP)
    | int(Flag.MISSED_ALL)
)
"""What a definition says; the other flags are what has happened to the task."""

_FIELDS_NOT_IN_KIND: Final = {"pause", "name", "schedule", "job", "labels", "weight", "depends", "depends_any"}
_WORDS: Final = {"missed", "backlog", "when_missing", "when_unreachable"}
"""Enums: their texts are compared, as the hash of an enum is a call of Python."""
kind_of: Final = attrgetter(
    *(
        f"{field}._value_" if field in _WORDS else field
        for field in Task.__struct_fields__
        if field not in _FIELDS_NOT_IN_KIND
    ),
    "schedule.every",
    "schedule.spread._value_",
    "schedule.cron",
    "schedule.at",
    "job.function",
)
"""What a definition says, apart from what may be different for each of a hundred thousand tasks. All that is asked of
`samples` must be in it.
"""


class TasksByKind(NamedTuple):
    """Tasks by their kinds, of which there are few."""

    samples: Sequence[Task]
    """One of each."""
    kind_of_task: Ints
    """The kind of each task."""

    @staticmethod
    def of(tasks: Sequence[Task]) -> "TasksByKind":
        kinds: dict[object, int] = {}
        which = np.fromiter((kinds.setdefault(kind_of(t), len(kinds)) for t in tasks), np.int64, len(tasks))
        _, firsts = np.unique(which, return_index=True)
        return TasksByKind([tasks[i] for i in firsts.tolist()], which)

    def value_per_task(self, said: Callable[[Task], int]) -> Ints:
        """What each task says, if all of a kind say the same."""
        numbers: Ints = np.array([said(task) for task in self.samples], dtype=np.int64)[self.kind_of_task]
        return numbers


def enrol(
    columns: TaskColumns,
    times: ScheduleTimes,
    rows: Ints,
    tasks: Sequence[Task],
    periods: Mapping[str, int],
    limits: Mapping[str, int],
) -> TasksByKind:
    """Fill in the columns of some rows. Intervals have their phase; periods and limits are numbered."""
    c, alike = columns, TasksByKind.of(tasks)
    phases = [task.schedule.phase for task in tasks]
    enrol_alike(columns, times, rows, alike, np.array([phase or 0 for phase in phases]), periods, limits)
    others = np.array([i for i, phase in enumerate(phases) if phase is None], dtype=np.int64)
    when = np.array([_schedule_numbers(tasks[i], times) for i in others.tolist()], dtype=np.int64).reshape(-1, 4)
    some = rows[others]
    c.every[some], c.phase[some], c.calendar[some], c.second[some] = when.T
    c.flags[rows[[i for i in others.tolist() if tasks[i].schedule.parents]]] |= _CHAINED
    # Commands differ from task to task, so this is asked of each passive check and not of each kind.
    passive = np.flatnonzero(c.flags[rows] & _PASSIVE).tolist()
    idle = [i for i in passive if not tasks[i].job.command and tasks[i].job.function is None]
    c.flags[rows[idle]] |= _NOTHING_TO_RUN
    c.retry[rows[idle]] = 0
    return alike


def enrol_alike(
    columns: TaskColumns,
    times: ScheduleTimes,
    rows: Ints,
    alike: TasksByKind,
    phases: Ints,
    periods: Mapping[str, int],
    limits: Mapping[str, int],
) -> None:
    """Fill in what all tasks of a kind have in common, and the phases of intervals."""
    c = columns
    c.every[rows] = alike.value_per_task(lambda task: task.schedule.every or 1)
    c.phase[rows], c.calendar[rows], c.second[rows] = phases, -1, 0
    c.has_moving_grid[rows] = moving = alike.value_per_task(has_moving_grid) != 0
    times.any_moves |= bool(moving.any())
    c.period[rows] = alike.value_per_task(lambda task: -1 if task.period is None else periods[task.period])
    c.limit[rows] = alike.value_per_task(lambda task: 0 if task.limit is None else limits[task.limit])
    c.priority[rows] = alike.value_per_task(lambda task: task.priority)
    c.tolerance[rows] = alike.value_per_task(lambda task: -1 if task.tolerance is None else task.tolerance)
    c.longer_than[rows] = alike.value_per_task(lambda task: task.longer_than or 0)
    c.retry[rows] = alike.value_per_task(retry_interval_of)
    c.attempts[rows] = alike.value_per_task(attempts_of)
    c.flags[rows] = (c.flags[rows] & (ALL_FLAGS ^ DEFINED_FLAGS)) | alike.value_per_task(_flags).astype(np.uint32)


def _schedule_numbers(task: Task, times: ScheduleTimes) -> tuple[int, int, int, int]:
    """Every, phase, calendar number, second."""
    compiled = compile_schedule(task.schedule, task.name)
    if isinstance(compiled, Interval):
        return compiled.every, compiled.phase, -1, 0
    if isinstance(compiled, Cron):
        return 1, 0, times.calendar_number(compiled.times), compiled.second
    return 1, 0, times.calendar_number(compiled), 0


def has_moving_grid(task: Task) -> bool:
    """Does its grid move, by Icinga's rule?"""
    return task.schedule.spread is Spread.ICINGA and task.schedule.every is not None and not task.passive


def _flags(task: Task) -> int:
    flags = _MISSED[task.missed]
    if task.enabled and not task.paused:
        flags |= _ENABLED
    if task.check:
        flags |= _CHECK
    if task.passive:
        flags |= _PASSIVE
    if task.backlog is Backlog.EACH:
        flags |= _EACH
    if task.when_unreachable is WhenUnreachable.SKIP:
        flags |= _SKIPS_UNREACHABLE
    if task.notify:
        flags |= _NOTIFIES
    return flags


def retry_interval_of(task: Task) -> int:
    """A fifth of the interval, as Icinga's five minutes and one minute. A passive check cannot make its sender come
    sooner: the run in its place is retried only if the task says how often.
    """
    if not task.check:
        return 0
    if task.retry is not None or task.passive:
        return task.retry or 0
    return MINUTE if task.schedule.every is None else max(task.schedule.every // 5, SECOND)


def timebox_setting(task: Task) -> int:
    """How long a run may last. Where that depends on its nominal time: minus so many percent of the time to the next
    one, or 0 for a check that says nothing. `run_plan` knows both.
    """
    every = task.schedule.every
    if task.timebox is None:
        if every is None and task.check and not task.passive:
            return 0
        return default_timebox(every, check=task.check)
    if task.timebox < 0 and every is not None:
        return max(every * -task.timebox // 100, 1)
    return task.timebox or NO_TIMEBOX
