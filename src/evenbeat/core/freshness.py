"""Is a task late, or stale? By when must its next result be there?

The answers are the same for one task by its definition and for the columns of a live node.
"""

from typing import Final

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.next_time import NextRun
from evenbeat.core.run_plan import timebox_of, timeboxes_within
from evenbeat.core.task import Bools
from evenbeat.core.task_defaults import grace_of
from evenbeat.core.timebox import LEAST_USUAL_LENGTH, NO_TIMEBOX, usual_length
from evenbeat.model import SECOND, Instant, Task
from evenbeat.when.nominal_times import CompiledSchedule
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
    """When the result of this nominal time must be there: after the longest run that is allowed - without a timebox the
    longest that is usual - and the grace.
    """
    if nominal >= FOREVER:
        return None
    interval, timebox = interval_before(task, nominal), timebox_of(task, nominal)
    longest = timebox if timebox < NO_TIMEBOX else usual_length(task.longer_than, interval)
    return Instant(nominal + longest + grace_of(task, interval))


def interval_before(task: Task, nominal: int) -> int | None:
    """How long before this nominal time the task had one; None if it had none."""
    if task.schedule.every is not None:
        return task.schedule.every
    return _since_previous(compile_schedule(task.schedule, task.name), nominal)


def _since_previous(times: CompiledSchedule, nominal: int) -> int | None:
    before = times.previous_before(Instant(nominal))
    return None if before is None else nominal - before


def are_stale(nominal: Ints, timebox: Ints, longer_than: Ints, interval: Ints, now: Instant) -> Bools:
    """Of rows of a live node that run something: is the next result overdue? An interval of 0 means none."""
    stale: Bools = (nominal < FOREVER) & (nominal < now - longest_runs(timebox, longer_than, interval))
    return stale


def longest_runs(timebox: Ints, longer_than: Ints, interval: Ints) -> Ints:
    """As in `result_expected_by`, for columns: how long after its nominal time each row may run at the latest."""
    box = timeboxes_within(timebox, interval)
    return np.where(box < NO_TIMEBOX, box, usual_lengths(longer_than, interval))


def usual_lengths(longer_than: Ints, interval: Ints) -> Ints:
    """As `timebox.usual_length`, for columns, where 0 means that a task does not say it, or has no interval."""
    return np.where(longer_than > 0, longer_than, np.maximum(2 * interval, LEAST_USUAL_LENGTH))
