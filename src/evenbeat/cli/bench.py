"""`evenbeat bench`: measure this machine, always beside a bare baseline of the same work in the same run.

Machines are shared and noisy: only the ratio of interleaved pairs means something. It is printed with its spread.
"""

import argparse
import gc
import time
from collections.abc import Callable
from importlib import import_module
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


class Fact(NamedTuple):
    """What was found that is not a ratio: for a program, and in words."""

    value: object
    text: str


def compare(
    title: str, ours: Side, baseline: Side, pairs: int, clock: Callable[[], float] = time.process_time
) -> Measure:
    """Run both sides in turn, swapping who goes first; the ratio is the median of the pairs' ratios.

    By CPU time: most sides only compute, and other programs on the machine should not count.
    """
    rates: list[tuple[float, float]] = []
    for i in range(pairs):
        first, second = (ours, baseline) if i % 2 == 0 else (baseline, ours)
        rate_first, rate_second = _rate(first, clock), _rate(second, clock)
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


def _rate(side: Side, clock: Callable[[], float]) -> float:
    # The garbage of the side before should not count, as in timeit.
    gc.collect()
    gc.disable()
    try:
        start = clock()
        side.work()
        return side.units / (clock() - start)
    finally:
        gc.enable()


def answer(args: argparse.Namespace) -> int:
    """Run the chosen bench; exit 0 whatever the figures are."""
    if not 1 <= args.pairs <= 1_000:
        raise Invalid(f"{args.pairs} is out of range, accepted: 1 to 1000", place="--pairs")
    if args.with_api_load and args.what != "node":
        raise Invalid("only `bench node` has an API to be asked", place="--with-api-load")
    what = "readers" if args.with_api_load else args.what
    bench = import_module(f"evenbeat.cli.bench_{what}")  # each imports much that the others do not need
    if args.what == "core":
        bench.check_options(args.plot)
    elif args.plot is not None:
        raise Invalid("only `bench core` draws a picture", place="--plot")
    document: dict[str, object] = {}
    out = console()
    for key, measure in bench.measures(args.pairs):
        document[key] = measure.as_json()
        if not args.json:
            ratios = sorted(o / b for o, b in measure.pairs)
            out.print(f"[bold]{measure.title}[/bold]")
            out.print(f"  {measure.ours_label:<28}{_readable(measure.ours):>16}/s")
            out.print(f"  {measure.baseline_label:<28}{_readable(measure.baseline):>16}/s")
            out.print(f"  ratio [bold]{measure.ratio:.2f}[/bold]  (pairs: {ratios[0]:.2f} to {ratios[-1]:.2f})\n")
    for key, fact in bench.facts(args.plot) if args.what in ("core", "cluster") else ():
        document[key] = fact.value
        if not args.json:
            out.print(f"{fact.text}\n")
    if args.json:
        print_json(document)
    return 0


def _readable(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.1f}"
