"""What a node has done since it was started, in numbers."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.gate import REASONS
from evenbeat.core.task import Skips

_LATEST: Final = 10_000
"""Runs whose lateness is remembered, at least; at most twice as many."""


class Counts:
    """Runs, how they ended, what was skipped, and how late the latest ones were."""

    def __init__(self) -> None:
        self.runs = 0
        self.outcomes: dict[str, int] = {}
        self.skipped: dict[str, int] = {}
        self.lateness: list[float] = []
        """Of the latest runs, in seconds; a bounded window."""

    def began(self, late: NDArray[np.float64]) -> None:
        """Runs were claimed, so many seconds after they were due."""
        self.runs += len(late)
        self.lateness += late.tolist()
        if len(self.lateness) > 2 * _LATEST:
            del self.lateness[:-_LATEST]

    def ended(self, outcomes: Iterable[str]) -> None:
        for outcome, times in Counter(outcomes).items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + times

    def passed(self, skips: Skips) -> None:
        """Nominal times were skipped."""
        for reason, times in zip(skips.reason.tolist(), skips.times.tolist(), strict=True):
            word = REASONS[reason].value
            self.skipped[word] = self.skipped.get(word, 0) + times
