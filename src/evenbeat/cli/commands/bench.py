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
    if args.what == "peers":
        return _run_peers(args)
    for option in ("only", "seconds", "peers_python"):
        if getattr(args, option) is not None:
            raise Invalid("only `bench peers` has this option", place=f"--{option.replace('_', '-')}")
    what = "api_load" if args.with_api_load else args.what
    bench = import_module(f"evenbeat.bench.{what}")  # each has heavy imports that the others do not need
    if args.what == "core":
        bench.check_options(args.plot)
    elif args.plot is not None:
        raise Invalid("only `bench core` and `bench peers` draw a plot", place="--plot")
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


def _run_peers(args: argparse.Namespace) -> int:
    bench, words, drawing = (import_module(f"evenbeat.bench.peers.{name}") for name in ("bench", "words", "drawing"))
    sizes = bench.sizes_of(args.seconds)
    measures = bench.selected(bench.measures(sizes, args.peers_python), args.only)
    if args.plot is not None:
        drawing.check_plot(args.plot)
    versions = bench.versions(measures)
    taken, out = [], console()
    for measured in bench.run_measures(measures, sizes, args.pairs):
        taken.append(measured)
        if not args.json:
            out.print("\n".join(words.lines_of(measured, versions)) + "\n", soft_wrap=True)
    if args.plot is not None:
        drawing.draw_peers(taken, versions, args.plot)
    if args.json:
        figures = {measured.name: measured.figures for measured in taken}
        missing = {measured.name: measured.missing for measured in taken if measured.missing}
        print_json({"versions": versions, "measures": figures, "missing": missing})
    return 0


def _readable(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.1f}"
