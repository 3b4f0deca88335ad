"""The pace of off-grid runs: first and catch-up runs are released evenly, on a planned and bounded slope.

Together at most at the mean rate of the timetable, or as fast as it takes to have all of them within the start window,
whichever is faster; never above the start rate.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.model import MINUTE, SECOND, Instant
from evenbeat.when.windows import FOREVER

START_WINDOW: Final = MINUTE
"""As in Icinga: a new check has its first result within a minute."""
MAX_START_RATE: Final = 200
"""Off-grid runs per second at most, however many there are."""
MIN_START_RATE: Final = 10.0
"""Runs per second that any machine can add: a few of them need not wait for each other."""
_SHARE_OF_MEAN_RATE: Final = 0.9
"""The share of the mean rate that is used, so that rounding up within a second does not exceed it."""
_GOLDEN: Final = 0.6180339887498949
_RATE_TOLERANCE: Final = 1e-9
"""A share of a rate, or runs: less is a rounding error."""
_TIME_TOLERANCE: Final = 1e-2
"""A share of a microsecond: less is a rounding error."""

_Floats = NDArray[np.float64]


class OffGridPace:
    """One plan for all off-grid runs, so that together they stay within the rate.

    The plan is kept as rates: from each time in `_times` on, that many runs per microsecond; the last rate is 0.
    """

    def __init__(self, mean_rate: float = 0.0) -> None:
        self.mean_rate = mean_rate
        """Runs per second that the interval grids start by themselves."""
        self.window: int = START_WINDOW
        self.start_rate: float = MAX_START_RATE
        self.share = 1.0
        """The part of this node in what all nodes together may release."""
        self._times: _Floats = np.zeros(1)
        self._rates: _Floats = np.zeros(1)
        self._rate = 0.0
        """The rate of the slope that is under way: it does not become lower while there are runs to come."""
        self._calls = 0

    def plan(self, grid: Ints, now: Instant, wait: int = 0) -> Ints:
        """When each of some tasks may have its off-grid run, `wait` from now at the earliest; FOREVER where its grid
        point comes first.
        """
        due = np.full(len(grid), FOREVER, dtype=np.int64)
        if not len(grid):
            return due
        since, planned = self._from(now, wait)
        rate = self._rate = self._allowed(len(grid), since, planned)
        room = np.maximum(rate - planned, 0.0)
        room[(room < _RATE_TOLERANCE * rate) | (since < wait)] = 0.0
        room_before = np.concatenate(([0.0], np.cumsum(room[:-1] * np.diff(since))))
        turns = np.arange(len(grid)) + self._phase(room, planned)
        step = np.searchsorted(room_before, turns, side="right") - 1
        # A step without room begins and ends with the same sum: its turns belong to the last one that has it.
        offsets = since[step] + (turns - room_before[step]) / room[step]
        # Tasks whose grid point is farthest have the most to gain: they are served first, the last ones get no run.
        order = np.argsort(-grid, kind="stable")
        times = now + np.ceil(offsets - _TIME_TOLERANCE).astype(np.int64)
        served = grid[order] > times
        # Once the grid of one comes first, so do those of all behind it: they are nearer, and their turns are later.
        count = int(served.argmin()) if not served.all() else len(grid)
        due[order[:count]] = times[:count]
        if count:
            last = int(np.searchsorted(room_before, count, side="left")) - 1
            self._reserve_until(
                now, since, planned, room, float(since[last] + (count - room_before[last]) / room[last])
            )
        return due

    def add_planned(self, times: Ints) -> None:
        """Add off-grid runs that were planned elsewhere, or before a stop."""
        if not len(times):
            return
        seconds, counts = np.unique(times // SECOND * SECOND, return_counts=True)
        edges = np.union1d(seconds, seconds + SECOND).astype(np.float64)
        here = np.zeros(len(edges))
        here[np.searchsorted(edges, seconds)] = counts / SECOND
        both = np.union1d(self._times, edges)
        self._times, self._rates = both, self._rates_at(both) + _rates_at(edges, here, both)

    def move_back(self, by: int) -> None:
        """The clock was set back: move the plan with it."""
        self._times = self._times - by

    def _from(self, now: Instant, wait: int) -> tuple[_Floats, _Floats]:
        """What is planned from now on, in time since now; with a step that begins after the wait."""
        later = self._times > now
        times = np.concatenate(([float(now)], self._times[later]))
        if wait:
            times = np.union1d(times, [float(now + wait)])
        return times - now, self._rates_at(times)

    def _rates_at(self, times: _Floats) -> _Floats:
        return _rates_at(self._times, self._rates, times)

    def _allowed(self, new: int, since: _Floats, planned: _Floats) -> float:
        """The rate of all off-grid runs together, per microsecond."""
        coming = float((planned[:-1] * np.diff(since)).sum())
        least = max(self.mean_rate * _SHARE_OF_MEAN_RATE, MIN_START_RATE * self.share) / SECOND
        rate = max(least, (coming + new) / self.window)
        if coming > _RATE_TOLERANCE:
            rate = max(rate, self._rate)
        return min(rate, max(self.start_rate * self.share, 1e-3) / SECOND)

    def _phase(self, room: _Floats, planned: _Floats) -> float:
        """Where the first turn lies, in turns. Where others are planned, each call begins elsewhere, so that many calls
        for one task each do not get the same moment.
        """
        first = int(np.argmax(room > 0))
        if planned[first] == 0:
            return 0.0
        self._calls += 1
        return self._calls * _GOLDEN % 1.0

    def _reserve_until(self, now: Instant, since: _Floats, planned: _Floats, room: _Floats, until: float) -> None:
        """All of the room is taken until then."""
        before, after = since < until, since > until
        filled = (planned + room)[before]
        # Steps of the same rate are one.
        kept = np.append(True, np.diff(filled) != 0)
        ends = _rates_at(since, planned, np.array([until]))
        self._times = now + np.concatenate((since[before][kept], [until], since[after]))
        self._rates = np.concatenate((filled[kept], ends, planned[after]))


def _rates_at(times: _Floats, rates: _Floats, points: _Floats) -> _Floats:
    """The rates that hold at some points."""
    step = np.searchsorted(times, points, side="right") - 1
    found: _Floats = np.where(step >= 0, rates[np.maximum(step, 0)], 0.0)
    return found
