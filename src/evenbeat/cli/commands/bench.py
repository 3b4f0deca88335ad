"""`evenbeat bench`: measure evenbeat on this machine, beside a bare baseline that does the same work."""

import argparse
from importlib import import_module

from evenbeat.cli.output.common import console, print_json
from evenbeat.model import Invalid


def run_command(args: argparse.Namespace) -> int:
    """Run the chosen bench; exit 0 whatever the figures are."""
    if not 1 <= args.pairs <= 1_000:
        raise Invalid(f"{args.pairs} is out of range, accepted: 1 to 1000", place="--pairs")
    if args.with_api_load and args.what != "node":
        raise Invalid("only `bench node` has an API to put load on", place="--with-api-load")
    what = "api_load" if args.with_api_load else args.what
    bench = import_module(f"evenbeat.bench.{what}")  # each has heavy imports that the others do not need
    if args.what == "core":
        bench.check_options(args.plot)
    elif args.plot is not None:
        raise Invalid("only `bench core` draws a plot", place="--plot")
    document: dict[str, object] = {}
    out = console()
    for key, comparison in bench.comparisons(args.pairs):
        document[key] = comparison.as_json()
        if not args.json:
            ratios = sorted(o / b for o, b in comparison.pairs)
            out.print(f"[bold]{comparison.title}[/bold]")
            out.print(f"  {comparison.ours_label:<28}{_readable(comparison.ours):>16}/s")
            out.print(f"  {comparison.baseline_label:<28}{_readable(comparison.baseline):>16}/s")
            out.print(f"  ratio [bold]{comparison.ratio:.2f}[/bold]  (pairs: {ratios[0]:.2f} to {ratios[-1]:.2f})\n")
    for key, observation in (
        bench.observations(args.plot) if args.what in ("core", "cluster", "alerts", "store") else ()
    ):
        document[key] = observation.value
        if not args.json:
            out.print(f"{observation.text}\n")
    if args.json:
        print_json(document)
    return 0


def _readable(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.1f}"
