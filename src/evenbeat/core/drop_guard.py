"""The drop guard: does a run come too soon after the last one of its task, so that it is dropped? For gate and workers.

A worker imports this without numpy; plain integers in microseconds throughout.
"""

from evenbeat.model import Instant


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
