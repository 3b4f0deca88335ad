"""The nominal times of a schedule inside a period.

Calendar schedules are filtered. Interval grids also get substitutes: the grid points that fall into one closed gap
merge into one run in the next window, at the same fraction of it as the phase is of the interval, unless that window
has a grid point of its own. So no narrow window starves a task, and an opening is not a stampede.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.model import Instant
from evenbeat.when.interval import Interval, nominal_after
from evenbeat.when.nominal_times import ForwardSchedule, ListedSchedule, nominal_times_between
from evenbeat.when.period import HORIZON, SEARCH_BLOCK, CompiledPeriod
from evenbeat.when.windows import FOREVER, NEVER

Ints = NDArray[np.int64]

_WINDOWS_FOR_ALL: Final = 16
_MOST_GAPS: Final = 50_000
"""Closed gaps to look across for a time inside: a daily entry in daily windows for over a century."""


def within_period(schedule: ListedSchedule, period: CompiledPeriod | None) -> ListedSchedule:
    """The nominal times of any schedule inside a period, if it has one."""
    if period is None:
        return schedule
    return (
        IntervalWithinPeriod(schedule, period)
        if isinstance(schedule, Interval)
        else CalendarWithinPeriod(schedule, period)
    )


class CalendarWithinPeriod:
    """A cron entry, calendar expression or one-shot, filtered by a period."""

    def __init__(self, schedule: ForwardSchedule, period: CompiledPeriod) -> None:
        self.schedule = schedule
        self.period = period
        self._nothing = (NEVER, NEVER)

    def next_after(self, t: Instant) -> Instant | None:
        """The first nominal time strictly after `t` that lies inside; None if none is found within 50 years."""
        # Fifty years of a daily entry are a long search. How far it goes depends on the block of time only, so what
        # was not found from one instant on is not found from a later one of its block.
        since, until = self._nothing
        if since <= t < until:
            return None
        end_of_block = Instant((t // SEARCH_BLOCK + 1) * SEARCH_BLOCK)
        found = self._search(t, Instant(end_of_block + HORIZON))
        if found is None:
            self._nothing = (t, end_of_block)
        return found

    def _search(self, t: Instant, limit: Instant) -> Instant | None:
        found = self.schedule.next_after(t)
        for _ in range(_MOST_GAPS):
            if found is None or found >= limit:
                return None
            if self.period.contains(found):
                return found
            opening = self.period.next_open(found)
            if opening is None:
                return None
            found = self.schedule.next_after(Instant(opening - 1))
        return None

    def between(self, start: Instant, end: Instant) -> Iterator[Instant]:
        """Every nominal time t with start <= t < end, in order."""
        return nominal_times_between(self, start, end)


class IntervalWithinPeriod:
    """An interval grid inside a period, with substitutes."""

    def __init__(self, grid: Interval, period: CompiledPeriod) -> None:
        self.grid = grid
        self.period = period

    def next_after(self, t: Instant) -> Instant | None:
        """The first nominal time strictly after `t`: a grid point inside, or a substitute."""
        after = t
        while True:
            window = _window_ending_after(self.period, after)
            if window is None:
                return None
            if (found := self._in_window(window, t)) is not None:
                return found
            # Nothing more before the next grid point, so go straight to the window it is in, or in front of.
            after = self.grid.next_after(Instant(window.closes - 1))

    def between(self, start: Instant, end: Instant) -> Iterator[Instant]:
        """Every nominal time t with start <= t < end, in order."""
        return nominal_times_between(self, start, end)

    def _in_window(self, window: "_Window", t: Instant) -> Instant | None:
        first = self.grid.next_after(Instant(max(window.opens - 1, t)))
        if first < window.closes:
            return first
        if window.opens == NEVER or self.grid.next_after(Instant(window.opens - 1)) < window.closes:
            return None
        if self.grid.next_after(Instant(window.closed_since - 1)) >= window.opens:
            return None
        substitute = window.substitute(self.grid.phase, self.grid.every)
        return substitute if substitute > t else None


class _Window(NamedTuple):
    """An open window and the start of the closed gap before it."""

    closed_since: Instant
    opens: Instant
    closes: Instant

    def substitute(self, phase: int, every: int) -> Instant:
        """Where the run that stands for the gap's grid points goes: `open + (phase / every) * length`."""
        return Instant(self.opens + phase * (self.closes - self.opens) // every)


def _window_ending_after(period: CompiledPeriod, t: Instant) -> _Window | None:
    state = period.state(t)
    if not state.inside:
        if state.until == FOREVER:
            return None
        return _Window(state.since, state.until, period.state(state.until).until)
    closed_since = NEVER if state.since == NEVER else period.state(Instant(state.since - 1)).since
    return _Window(closed_since, state.since, state.until)


def nominal_after_within_period(phase: Ints, every: Ints, period: CompiledPeriod, t: Instant) -> Ints:
    """`IntervalInside.next_after` for columns of tasks that share a period; FOREVER where there is none.

    The windows from `t` on are tried in turn, each for all tasks still open; few are left to be asked one by one.
    """
    found = np.full(len(phase), FOREVER, dtype=np.int64)
    left = np.arange(len(phase))
    window = _window_ending_after(period, t)
    for _ in range(_WINDOWS_FOR_ALL):
        if window is None or not len(left):
            return found
        settled, times = _in_window_many(phase[left], every[left], window, t)
        found[left[settled]] = times[settled]
        left = left[~settled]
        window = None if window.closes == FOREVER else _window_ending_after(period, window.closes)
    for i in left:
        one = IntervalWithinPeriod(Interval(int(every[i]), int(phase[i])), period).next_after(t)
        found[i] = FOREVER if one is None else one
    return found


def nominal_after_within_period_each(phase: Ints, every: Ints, period: CompiledPeriod, t: Ints) -> Ints:
    """The same with an instant for each task: those whose instants lie before the end of one window go together."""
    found = np.full(len(phase), FOREVER, dtype=np.int64)
    left = np.argsort(t, kind="stable")
    while len(left):
        window = _window_ending_after(period, Instant(int(t[left[0]])))
        if window is None:
            return found
        here, left = np.split(left, [int(t[left].searchsorted(window.closes))])
        settled, times = _in_window_many(phase[here], every[here], window, t[here])
        found[here[settled]] = times[settled]
        late = here[~settled]
        if len(late) and window.closes < FOREVER:
            # From the end of this window on they are all alike.
            found[late] = nominal_after_within_period(phase[late], every[late], period, Instant(window.closes - 1))
    return found


def _in_window_many(phase: Ints, every: Ints, window: _Window, t: Instant | Ints) -> tuple[NDArray[np.bool_], Ints]:
    times = nominal_after(phase, every, np.maximum(window.opens - 1, t))
    settled = times < window.closes
    rows, instead = _substitutes(phase, every, window)
    times[rows] = instead
    settled[rows] = instead > (t[rows] if isinstance(t, np.ndarray) else t)
    return settled, times


def _substitutes(phase: Ints, every: Ints, window: _Window) -> tuple[Ints, Ints]:
    """Which tasks get a substitute in this window, and when."""
    if window.opens == NEVER:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    without_own = nominal_after(phase, every, Instant(window.opens - 1)) >= window.closes
    missed = nominal_after(phase, every, Instant(window.closed_since - 1)) < window.opens
    rows = np.flatnonzero(without_own & missed)
    # Phase times length overflows int64 for daily tasks already; Python's integers do not.
    times = [window.substitute(p, e) for p, e in zip(phase[rows].tolist(), every[rows].tolist(), strict=True)]
    return rows, np.array(times, dtype=np.int64)


def substitutes_between(
    phase: Ints, every: Ints, period: CompiledPeriod, start: Instant, end: Instant
) -> Iterator[tuple[Ints, Ints]]:
    """The substitutes t with start <= t < end, window by window: (rows, times)."""
    window = _window_ending_after(period, start)
    while window is not None and window.opens < end:
        rows, times = _substitutes(phase, every, window)
        inside = (times >= start) & (times < end)
        yield rows[inside], times[inside]
        window = None if window.closes == FOREVER else _window_ending_after(period, window.closes)
