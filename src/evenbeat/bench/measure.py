"""Measure two sides of the same work in interleaved pairs: ours, and a bare baseline.

Machines are shared and noisy: only the ratio of interleaved pairs means something. It is printed with its spread.
"""

import gc
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple


class Contender(NamedTuple):
    """One side of a comparison: `work` does `units` units of it."""

    label: str
    work: Callable[[], object]
    units: int


class Comparison(NamedTuple):
    """Units per second of both sides, pair by pair."""

    title: str
    ours_label: str
    baseline_label: str
    ours: float
    baseline: float
    ratio: float
    pairs: list[tuple[float, float]]

    def as_json(self) -> dict[str, object]:
        """The shape every bench prints."""
        return {"ours": self.ours, "baseline": self.baseline, "ratio": self.ratio, "pairs": self.pairs}


class Observation(NamedTuple):
    """A figure that is not a ratio, as a number and in words."""

    value: object
    text: str


def compare_in_pairs(
    title: str, ours: Contender, baseline: Contender, pairs: int, clock: Callable[[], float] = time.process_time
) -> Comparison:
    """Run both sides in turn, swapping who goes first; the ratio is the median of the pairs' ratios.

    By CPU time: most sides only compute, and other programs on the machine should not count.
    """
    rates: list[tuple[float, float]] = []
    for i in range(pairs):
        first, second = (ours, baseline) if i % 2 == 0 else (baseline, ours)
        rate_first, rate_second = _rate(first, clock), _rate(second, clock)
        rates.append((rate_first, rate_second) if i % 2 == 0 else (rate_second, rate_first))
    return Comparison(
        title,
        ours.label,
        baseline.label,
        median(o for o, _ in rates),
        median(b for _, b in rates),
        median(o / b for o, b in rates),
        rates,
    )


def _rate(side: Contender, clock: Callable[[], float]) -> float:
    # The garbage of the side before should not count, as in timeit.
    gc.collect()
    gc.disable()
    try:
        start = clock()
        side.work()
        return side.units / (clock() - start)
    finally:
        gc.enable()
