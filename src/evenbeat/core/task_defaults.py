"""What counts where a task does not say it: attempts of a check until it is HARD, and the grace of a result."""

from typing import Final

from evenbeat.model import HOUR, Task

DEFAULT_ATTEMPTS: Final = 3
LONGEST_DEFAULT_GRACE: Final = HOUR
"""A nightly backup takes its time, but a missing one should be known in the morning."""


def attempts_of(task: Task) -> int:
    """Problems in a row until a check is HARD. A passive one cannot be asked again, so its first problem counts."""
    return task.attempts if task.attempts is not None else 1 if task.passive else DEFAULT_ATTEMPTS


def grace_of(task: Task, interval: int | None) -> int:
    """How much later than its timebox a result may come; `interval` is the time since the nominal time before."""
    if task.grace is not None:
        return task.grace
    return default_grace(interval) if task.passive else 0


def default_grace(interval: int | None) -> int:
    """Of a passive check: half the interval, at most an hour, which is also for one that has no interval."""
    return LONGEST_DEFAULT_GRACE if not interval else min(LONGEST_DEFAULT_GRACE, interval // 2)
