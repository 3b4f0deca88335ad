"""The times of shared calendars over a stretch, walked once: what was found is kept for the next question."""

from collections.abc import Sequence
from threading import Lock
from typing import Final

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.model import HOUR, Instant, Invalid
from evenbeat.when.nominal_times import SharedTimes
from evenbeat.when.windows import FOREVER

_LOOK_BACK: Final = HOUR
"""How far before the first question it begins, for those that look back a little further."""


class CalendarWalk:
    """Where each calendar has got to, and the times from `_start` to `_end`. May be asked from any thread."""

    def __init__(self, calendars: Sequence[SharedTimes], most: int | None = None) -> None:
        """`most`: times that may be found in all; more of them are refused."""
        self.calendars = calendars
        self._most = most
        self._lock = Lock()
        self._begin(Instant(0))

    def between(self, start: Instant, end: Instant) -> tuple[Ints, Ints]:
        """Every time t of any calendar with start <= t < end, in order, and the numbers of the calendars."""
        with self._lock:
            if not self._start <= start <= self._end + _LOOK_BACK:
                self._begin(Instant(start - _LOOK_BACK))
            if end > self._end:
                self._forget(Instant(start - _LOOK_BACK))
                self._go_on(end)
            first, last = np.searchsorted(self._times, (start, end)).tolist()
            return self._times[first:last], self._numbers[first:last]

    def _begin(self, start: Instant) -> None:
        self._start = self._end = start
        self._times: Ints = np.zeros(0, dtype=np.int64)
        self._numbers: Ints = np.zeros(0, dtype=np.int64)
        self._following: Ints | None = None

    def _forget(self, before: Instant) -> None:
        if before <= self._start:
            return
        first = int(np.searchsorted(self._times, before))
        # Copies, so that what lies before is let go.
        self._times, self._numbers = self._times[first:].copy(), self._numbers[first:].copy()
        self._start = before

    def _go_on(self, end: Instant) -> None:
        if self._following is None:
            before = Instant(self._start - 1)
            self._following = np.array([_next_or_forever(times, before) for times in self.calendars], dtype=np.int64)
        found: list[int] = []
        numbers: list[int] = []
        for number in np.flatnonzero(self._following < end).tolist():
            t, times = int(self._following[number]), self.calendars[number]
            while t < end:
                if self._most is not None and len(found) >= self._most:
                    raise Invalid(f"more than {self._most:,} times by cron and calendar; ask for fewer tasks or hours")
                found.append(t)
                numbers.append(number)
                t = _next_or_forever(times, Instant(t))
            self._following[number] = t
        new = np.array(found, dtype=np.int64)
        order = np.argsort(new, kind="stable")
        self._times = np.concatenate([self._times, new[order]])
        self._numbers = np.concatenate([self._numbers, np.array(numbers, dtype=np.int64)[order]])
        self._end = end


def _next_or_forever(times: SharedTimes, t: Instant) -> int:
    found = times.next_after(t)
    return FOREVER if found is None else found
