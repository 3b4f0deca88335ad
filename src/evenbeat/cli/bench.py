"""`evenbeat bench`: measure this machine, always beside a bare baseline of the same work in the same run.

Machines are shared and noisy: only the ratio of interleaved pairs means something. It is printed with its spread.
"""

import argparse
import gc
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from evenbeat.cli.common import console, print_json
from evenbeat.model import Invalid


class Side(NamedTuple):
    """One side of a comparison: `work` does so many `units` of it."""

    label: str
    work: Callable[[], object]
    units: int


class Measure(NamedTuple):
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


def compare(title: str, ours: Side, baseline: Side, pairs: int) -> Measure:
    """Run both sides in turn, swapping who goes first; the ratio is the median of the pairs' ratios."""
    rates: list[tuple[float, float]] = []
    for i in range(pairs):
        first, second = (ours, baseline) if i % 2 == 0 else (baseline, ours)
        rate_first, rate_second = _rate(first), _rate(second)
        rates.append((rate_first, rate_second) if i % 2 == 0 else (rate_second, rate_first))
    return Measure(
        title,
        ours.label,
        baseline.label,
        median(o for o, _ in rates),
        median(b for _, b in rates),
        median(o / b for o, b in rates),
        rates,
    )


def _rate(side: Side) -> float:
    # CPU time: these sides only compute, and other programs on the machine should not count. Nor should the garbage
    # of the side before, as in timeit.
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        side.work()
        return side.units / (time.process_time() - start)
    finally:
        gc.enable()


def answer(args: argparse.Namespace) -> int:
    """Run the chosen bench; exit 0 whatever the figures are."""
    if not 1 <= args.pairs <= 1_000:
        raise Invalid(f"{args.pairs} is out of range, accepted: 1 to 1000", place="--pairs")
    from evenbeat.cli.bench_core import measures  # noqa: PLC0415 - numpy, croniter

    found: dict[str, Measure] = {}
    out = console()
    for key, measure in measures(args.pairs):
        found[key] = measure
        if not args.json:
            ratios = sorted(o / b for o, b in measure.pairs)
            out.print(f"[bold]{measure.title}[/bold]")
            out.print(f"  {measure.ours_label:<28}{measure.ours:>16,.0f}/s")
            out.print(f"  {measure.baseline_label:<28}{measure.baseline:>16,.0f}/s")
            out.print(f"  ratio [bold]{measure.ratio:.2f}[/bold]  (pairs: {ratios[0]:.2f} to {ratios[-1]:.2f})\n")
    if args.json:
        print_json({key: measure.as_json() for key, measure in found.items()})
    return 0
