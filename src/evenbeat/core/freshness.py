"""Is a task late, or stale? By when must its next result be there?

The answers are the same for one task by its definition and for the columns of a live node.
"""

from typing import Final

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.guard import default_timebox, grace_of
from evenbeat.core.next_time import NextRun
from evenbeat.core.task import Bools
from evenbeat.core.task_columns import default_timebox_of
from evenbeat.model import SECOND, Instant, Task
from evenbeat.when.nominals import CompiledSchedule
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.windows import FOREVER

LATE_AFTER: Final = SECOND
"""A run that has been due for longer and has not started is late."""


def is_late(task: Task, following: NextRun | None, now: Instant, *, is_running: bool) -> bool:
    """Has its next run been due for more than a moment without starting? A passive check is never late."""
    if following is None or is_running or task.passive or task.paused or not task.enabled:
        return False
    return following.at < now - LATE_AFTER


def result_expected_by(task: Task, nominal: int) -> Instant | None:
    """When the result of this nominal time must be there: after the longest run that is allowed, and the grace."""
    if nominal >= FOREVER:
        return None
    every = task.schedule.every
    times = None if every is not None else compile_schedule(task.schedule, task.name)
    box = default_timebox_of(task) or _until_next(times, nominal)
    interval = every if times is None else _since_previous(times, nominal)
    return Instant(nominal + box + grace_of(task, interval))


def _until_next(times: CompiledSchedule | None, nominal: int) -> int:
    following = None if times is None else times.next_after(Instant(nominal))
    return default_timebox(None, check=False) if following is None else following - nominal


def _since_previous(times: CompiledSchedule, nominal: int) -> int | None:
    before = times.previous_before(Instant(nominal))
    return None if before is None else nominal - before


def are_stale(nominal: Ints, timebox: Ints, interval: Ints, now: Instant) -> Bools:
    """Of rows of a live node that run something: is the next result overdue? An interval of 0 means none."""
    box = np.where(timebox > 0, timebox, np.where(interval > 0, interval, default_timebox(None, check=False)))
    stale: Bools = (nominal < FOREVER) & (nominal < now - box)
    return stale
