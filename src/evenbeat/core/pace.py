"""The pace of off-grid runs: first and catch-up runs are released evenly, adding at most the timetable's mean rate."""

from typing import Final

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.model import SECOND, Instant
from evenbeat.when.windows import FOREVER

LEAST_RATE: Final = 10.0
"""Runs per second that any machine can add."""
_ROOM: Final = 0.9
"""Of the mean rate, so that what is rounded up within a second does not exceed it."""


class Pace:
    """One queue for all off-grid runs, so that together they stay within the rate."""

    def __init__(self, mean_rate: float = 0.0) -> None:
        self.mean_rate = mean_rate
        """What the timetable starts per second by itself, as its interval grids say."""
        self._next = 0.0

    def release(self, grid: Ints, now: Instant) -> Ints:
        """When each of some tasks may have its off-grid run; FOREVER where its grid point comes first."""
        gap = SECOND / max(self.mean_rate * _ROOM, LEAST_RATE)
        start = max(self._next, float(now))
        due = np.full(len(grid), FOREVER, dtype=np.int64)
        # Those whose grid point is farthest have the most to gain: they are served in order, the others fall out.
        order = np.argsort(-grid, kind="stable")
        times = start + gap * np.arange(len(grid))
        served = grid[order] > times
        # Once one's grid comes first, so does that of all behind it: they are nearer, and their turn is later.
        count = int(served.argmin()) if not served.all() else len(grid)
        chosen = order[:count]
        due[chosen] = times[:count].astype(np.int64)
        self._next = start + gap * count
        return due

    def set_back(self, by: int) -> None:
        """The clock was set back: turns that were given move with it."""
        self._next -= by
