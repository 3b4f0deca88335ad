"""What a node has done since it was started, in numbers."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.store.contract import Skip
from evenbeat.wire.metrics import Histogram

_LATENESS_WINDOW: Final = 10_000
"""The lateness of at least this many runs is remembered, of at most twice as many."""
LATENESS_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
DURATION_BOUNDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
COMMIT_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
"""Upper bounds of buckets in seconds: of lateness, of the duration of runs, of commits to a disk."""


class HistogramCounter:
    """Counts values in buckets."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._edges = np.array(bounds)
        self._counts = np.zeros(len(bounds) + 1, dtype=np.int64)
        self._sum = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Count many values; a negative one counts as 0."""
        values = np.maximum(values, 0.0)
        self._counts += np.bincount(np.searchsorted(self._edges, values), minlength=len(self._counts))
        self._sum += float(values.sum())

    def add_one(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> Histogram:
        return Histogram(self._bounds, np.cumsum(self._counts).tolist(), self._sum)


class RunCounters:
    """Runs, how they ended, what was skipped, and how late the latest ones were."""

    def __init__(self) -> None:
        self.runs = 0
        """Runs that were handed to the queue."""
        self.outcomes: dict[str, int] = {}
        self.skipped: dict[str, int] = {}
        self.lateness: list[float] = []
        """Of the latest runs, in seconds."""
        self.late = HistogramCounter(LATENESS_BOUNDS)
        self.lasted = HistogramCounter(DURATION_BOUNDS)

    def began(self, late: NDArray[np.float64]) -> None:
        """Runs have started, `late` seconds after they were due; negative if the clock of a worker is behind."""
        late = np.maximum(late, 0.0)
        self.late.add(late)
        self.lateness += late.tolist()
        if len(self.lateness) > 2 * _LATENESS_WINDOW:
            del self.lateness[:-_LATENESS_WINDOW]

    def ended(self, outcomes: Iterable[str], seconds: NDArray[np.float64]) -> None:
        """Runs have ended with these outcomes; `seconds` are the durations of those that had started."""
        self.lasted.add(seconds)
        for outcome, times in Counter(outcomes).items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + times

    def skips(self, skips: Iterable[Skip]) -> None:
        """Nominal times were skipped."""
        for skip in skips:
            self.skipped[skip.reason] = self.skipped.get(skip.reason, 0) + skip.times
