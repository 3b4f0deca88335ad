"""Load curves: what each second of a stretch of time will have to start, under each spread strategy."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.model import SECOND, Instant, Spread
from evenbeat.when.icinga import START_WINDOW, icinga_first, icinga_next
from evenbeat.when.interval import nominal_after
from evenbeat.when.nominal_times import ListedSchedule
from evenbeat.when.spread import aligned_phase, bergamot_phase, hash_phase
from evenbeat.when.wheel import LoadWheel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


_AT_ONCE: Final = 1_000_000
_LONGEST_WARM_UP: Final = 86_400.0


class IntervalTasks(NamedTuple):
    """Interval tasks as columns; the randomness of the strategies that use it comes with them."""

    names: list[str]
    every: Ints
    weight: Floats
    uniform: Floats
    """In [0, 1): where in its first interval (Bergamot) or start window (Icinga) a task begins."""
    offset: Floats
    """Icinga's scheduling offset, a whole number from 0 to RAND_MAX."""

    def only(self, rows: NDArray[np.bool_]) -> "IntervalTasks":
        """The tasks that a mask selects."""
        names = [name for name, chosen in zip(self.names, rows.tolist(), strict=True) if chosen]
        return IntervalTasks(names, self.every[rows], self.weight[rows], self.uniform[rows], self.offset[rows])


class Stretch(NamedTuple):
    """Whole seconds from `start` on."""

    start: Instant
    seconds: int

    @property
    def end(self) -> Instant:
        return Instant(self.start + self.seconds * SECOND)


class CurveSummary(NamedTuple):
    """A load curve in four numbers."""

    mean: float
    peak: float
    min: float
    peak_to_mean: float


def summarize(curve: Floats) -> CurveSummary:
    """Mean, peak, minimum, and peak over mean (1.0 is perfectly even; an empty curve is even too)."""
    mean, peak = float(curve.mean()), float(curve.max())
    return CurveSummary(mean, peak, float(curve.min()), peak / mean if mean else 1.0)


def phases(tasks: IntervalTasks, strategy: Spread, wheel: LoadWheel, started: Instant) -> Ints:
    """The phase of each task under a strategy that has fixed phases; `even` places them on `wheel`."""
    every = tasks.every.tolist()
    choose: dict[Spread, Callable[[], list[int]]] = {
        Spread.EVEN: lambda: wheel.place_all(list(zip(every, tasks.weight.tolist(), strict=True))),
        Spread.HASH: lambda: [hash_phase(n, e) for n, e in zip(tasks.names, every, strict=True)],
        Spread.BERGAMOT: lambda: [
            bergamot_phase(e, started, u) for e, u in zip(every, tasks.uniform.tolist(), strict=True)
        ],
        Spread.ALIGNED: lambda: [aligned_phase()] * len(every),
    }
    return np.array(choose[strategy](), dtype=np.int64)


def grid_curve(every: Ints, phase: Ints, weight: Floats, stretch: Stretch) -> Floats:
    """Load per second of tasks on fixed grids."""
    curve = np.zeros(stretch.seconds)
    first_second = stretch.start // SECOND
    for interval in np.unique(every).tolist():
        of_it = every == interval
        length = interval // SECOND
        if interval % SECOND == 0 and length <= stretch.seconds:
            histogram = np.bincount(phase[of_it] // SECOND, weights=weight[of_it], minlength=length)
            curve += histogram[(first_second + np.arange(stretch.seconds)) % length]
            continue
        times = nominal_after(phase[of_it], every[of_it], Instant(stretch.start - 1))
        # So many runs of so many tasks at a time, as there are and as memory allows.
        at_once = max(min(_AT_ONCE // len(times), stretch.seconds * SECOND // interval + 1), 1)
        while times.min() < stretch.end:
            runs = times[:, None] + np.arange(at_once) * interval
            _count(curve, stretch, runs.ravel(), np.repeat(weight[of_it], at_once))
            times = times + at_once * interval
    return curve


def icinga_curve(tasks: IntervalTasks, stretch: Stretch) -> Floats:
    """Load per second under Icinga's rule, a longest interval (at most a day) and a start window after its start.

    Every check has run at least once by then, so this is its everyday curve, not the minute after a reload.
    """
    curve = np.zeros(stretch.seconds)
    if not len(tasks.every):
        return curve
    interval = tasks.every / SECOND
    started = stretch.start / SECOND - min(float(interval.max()), _LONGEST_WARM_UP) - START_WINDOW
    for length in np.unique(tasks.every):
        of_it = tasks.every == length
        seconds, off = interval[of_it], tasks.offset[of_it]
        now = icinga_first(started, seconds, tasks.uniform[of_it])
        while now.min() < stretch.end / SECOND:
            _count(curve, stretch, now * SECOND, tasks.weight[of_it])
            now = icinga_next(now, seconds, off)
    return curve


def _count(curve: Floats, stretch: Stretch, times: Ints | Floats, weight: Floats) -> None:
    seconds = (times - stretch.start) // SECOND
    inside = (seconds >= 0) & (seconds < len(curve))
    np.add.at(curve, seconds[inside].astype(np.int64), weight[inside])


def listed_curve(tasks: Iterable[tuple[ListedSchedule, float]], stretch: Stretch) -> Floats:
    """Load per second of schedules that can only list their times: cron, calendars, periods."""
    curve = np.zeros(stretch.seconds)
    for times, weight in tasks:
        for t in times.between(stretch.start, stretch.end):
            curve[(t - stretch.start) // SECOND] += weight
    return curve
