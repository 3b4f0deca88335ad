"""The guard: is a run too soon, how late may a result come, and where does the next run proceed? For gate and workers.

A worker imports this without numpy; plain integers in microseconds throughout.
"""

from typing import Final

from evenbeat.model import HOUR, Instant, Invalid, Task

DEFAULT_ATTEMPTS: Final = 3
LONGEST_DEFAULT_GRACE: Final = HOUR
"""A nightly backup takes its time, but a missing one should be known in the morning."""
CURSOR_LIMIT: Final = 4_096
"""A cursor says where to go on; what is larger belongs into storage of the task itself."""


def is_too_soon(now: Instant, last_start: Instant | None, interval: int | None, tolerance: int) -> bool:
    """Must this on-grid run be dropped, because the last on-grid start was less than `interval - tolerance` ago?"""
    if last_start is None or interval is None:
        return False
    return now < last_start + interval - tolerance


def default_tolerance(interval: int, *, each: bool = False) -> int:
    """Half the interval: a run that started late must not cost the next one that is on time.

    With `backlog = "each"` all of it: every nominal time has its run, so nothing is dropped.
    """
    return interval if each else interval // 2


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


def checked_cursor(cursor: bytes) -> bytes:
    """A cursor as it may be saved with its task."""
    if len(cursor) > CURSOR_LIMIT:
        raise Invalid(f"a cursor of {len(cursor)} bytes, accepted: at most {CURSOR_LIMIT}", place="cursor")
    return cursor
