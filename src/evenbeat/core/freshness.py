"""Is a task late, or stale? By when must its next result be there?

The answers are the same for one task by its definition and for the columns of a live node.
"""

from typing import Final

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.guard import grace_of
from evenbeat.core.next_time import NextRun
from evenbeat.core.run_plan import timebox_of, timeboxes_within
from evenbeat.core.task import Bools
from evenbeat.core.timebox import EXPECTED_WITHOUT_INTERVAL, NO_TIMEBOX, expected_within
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
    """When the result of this nominal time must be there: after the longest run that is allowed, and the grace. A run
    that may last for ever is expected to end when the next is due.
    """
    if nominal >= FOREVER:
        return None
    every = task.schedule.every
    times = None if every is not None else compile_schedule(task.schedule, task.name)
    interval = every if times is None else _since_previous(times, nominal)
    until_next = every if times is None else _until_next(times, nominal)
    return Instant(nominal + expected_within(timebox_of(task, nominal), until_next) + grace_of(task, interval))


def _until_next(times: CompiledSchedule, nominal: int) -> int | None:
    following = times.next_after(Instant(nominal))
    return None if following is None else following - nominal


def _since_previous(times: CompiledSchedule, nominal: int) -> int | None:
    before = times.previous_before(Instant(nominal))
    return None if before is None else nominal - before


def are_stale(nominal: Ints, timebox: Ints, interval: Ints, now: Instant) -> Bools:
    """Of rows of a live node that run something: is the next result overdue? An interval of 0 means none."""
    stale: Bools = (nominal < FOREVER) & (nominal < now - longest_runs(timebox, interval))
    return stale


def longest_runs(timebox: Ints, interval: Ints) -> Ints:
    """As `timebox.expected_within`, for columns: how long after its nominal time the result of each row is expected at
    the latest. An interval of 0 means none.
    """
    box = timeboxes_within(timebox, interval)
    return np.where(box < NO_TIMEBOX, box, np.where(interval > 0, interval, EXPECTED_WITHOUT_INTERVAL))
