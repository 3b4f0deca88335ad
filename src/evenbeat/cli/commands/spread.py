"""`evenbeat spread`: the load per second under each spread strategy, in numbers and as a plot."""

import argparse
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.cli.output.common import at_option, console, length_option, load_file_option, now, print_json, seed_option
from evenbeat.cli.output.load_bars import BLOCKS, as_shown, load_bars, peaks
from evenbeat.cli.output.picture import new_figure, save_figure
from evenbeat.model import DAY, HOUR, MAX_EVERY, MIN_EVERY, SECOND, Instant, Invalid, Spread
from evenbeat.when.compare_strategies import SpreadWorkload, curves, least_peak, workload_of
from evenbeat.when.curve import CurveSummary, Stretch, summarize
from evenbeat.when.duration import format_duration, parse_duration
from evenbeat.when.period import compile_periods
from evenbeat.when.zone import zone

MOST_TASKS: Final = 1_000_000
LONGEST: Final = 7 * DAY
RAND_MAX: Final = 2_147_483_647
_AT_MEAN: Final = 2
_FULL: Final = 0.15
_LEGEND: Final = f"peak of each part: {BLOCKS[_AT_MEAN]} the mean, {BLOCKS[-1]} {_FULL:.0%} above it or more"
_LEGEND_OF_FEW: Final = f"peak of each part: {BLOCKS[-1]} the highest of all"
_FEW: Final = 1.0
"""Load per second below which peak/mean says nothing: a single start is many times the mean."""


def run_command(args: argparse.Namespace) -> int:
    """Print the comparison; exit 0."""
    rng = np.random.default_rng(seed_option(args.seed))
    workload = _from_file(args, rng) if args.file else _synthetic(args, rng)
    stretch = _stretch(args)
    chosen = list(Spread) if args.strategy == "all" else [Spread(args.strategy)]
    loads = curves(workload, chosen, stretch)
    if args.plot:
        _plot(loads, args.plot, workload.describe())
    found = {strategy: summarize(curve) for strategy, curve in loads.items()}
    # Icinga's rule skips what falls outside a period, so its peak may be lower.
    least = {s: min(least_peak(workload, stretch, summary.mean), summary.peak) for s, summary in found.items()}
    if args.json:
        print_json({"strategies": {s.value: found[s]._asdict() | {"least_peak": least[s]} for s in found}})
        return 0
    out = console()
    length = format_duration(stretch.seconds * SECOND)
    out.print(f"[bold]Load per second[/bold] of {workload.describe()}, over {length}\n")
    if max(summary.mean for summary in found.values()) < _FEW:
        _show_few(loads, found, least)
    else:
        _show(loads, found)
    if workload.kept_phases:
        out.print(f"\n[dim]{workload.kept_phases:,} of them keep the phase given in the file[/dim]")
    if not any(curve.any() for curve in loads.values()):
        out.print("\n[dim]nothing starts in this time[/dim]")
    return 0


def _stretch(args: argparse.Namespace) -> Stretch:
    default = DAY if args.file else HOUR
    length = default if args.for_ is None else length_option(args.for_, LONGEST)
    start = at_option(args.from_, zone("UTC"), Instant(now() // HOUR * HOUR + HOUR), "--from")
    return Stretch(Instant(start // SECOND * SECOND), length // SECOND)


def _synthetic(args: argparse.Namespace, rng: np.random.Generator) -> SpreadWorkload:
    if args.tasks is None or args.every is None:
        raise Invalid("give a FILE, or both --tasks N and --every D[,D...]")
    if not 1 <= args.tasks <= MOST_TASKS:
        raise Invalid(f"{args.tasks} is out of range, accepted: 1 to {MOST_TASKS}", place="--tasks")
    intervals, column = [], 1
    for text in args.every.split(","):
        try:
            intervals.append(parse_duration(text))
        except Invalid as e:
            raise Invalid(e.problem, column=column + (e.column or 1) - 1, place="--every") from None
        if not MIN_EVERY <= intervals[-1] <= MAX_EVERY:
            raise Invalid(f"{text} is out of range, accepted: 1s to 3653d", column=column, place="--every")
        column += len(text) + 1
    every = np.array(intervals, dtype=np.int64)[np.arange(args.tasks) % len(intervals)]
    return SpreadWorkload.of_intervals([f"task-{i}" for i in range(args.tasks)], every, *_draws(args.tasks, rng))


def _from_file(args: argparse.Namespace, rng: np.random.Generator) -> SpreadWorkload:
    if args.tasks is not None or args.every is not None:
        raise Invalid("give either a FILE or --tasks and --every, not both")
    config = load_file_option(args.file)
    tasks = [task for task in config.tasks if not task.passive]  # passive checks make no load
    return workload_of(tasks, compile_periods(config.periods), *_draws(len(tasks), rng))


def _draws(count: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return rng.random(count), rng.integers(0, RAND_MAX, count, endpoint=True).astype(np.float64)


def _show(loads: dict[Spread, NDArray[np.float64]], found: dict[Spread, CurveSummary]) -> None:
    out = console()
    out.print(f"[dim]strategy        mean       peak        min  peak/mean  {as_shown(_LEGEND)}[/dim]")
    for strategy, s in found.items():
        curve = loads[strategy]
        above = [peak / (s.mean or 1.0) - 1 for peak in peaks(curve)]
        heights = [round(_AT_MEAN + a / _FULL * (len(BLOCKS) - 1 - _AT_MEAN)) for a in above]
        out.print(
            f"{strategy.value:<10}{s.mean:>10.2f} {s.peak:>10.2f} {s.min:>10.2f} "
            f"[bold]{s.peak_to_mean:>10.3f}[/bold]  {load_bars(heights)}"
        )


def _show_few(
    loads: dict[Spread, NDArray[np.float64]], found: dict[Spread, CurveSummary], least: dict[Spread, float]
) -> None:
    """Of little load: the peak beside the smallest possible one."""
    out, highest = console(), max(summary.peak for summary in found.values()) or 1.0
    out.print(f"[dim]strategy        mean       peak  smallest possible peak  {as_shown(_LEGEND_OF_FEW)}[/dim]")
    for strategy, s in found.items():
        heights = [round(peak / highest * (len(BLOCKS) - 1)) for peak in peaks(loads[strategy])]
        out.print(
            f"{strategy.value:<10}{s.mean:>10.2f} [bold]{s.peak:>10.2f}[/bold] {least[strategy]:>23.2f}  "
            f"{load_bars(heights)}"
        )


def _plot(loads: dict[Spread, NDArray[np.float64]], path: str, title: str) -> None:
    figure = new_figure(path, 10, 0.6 + 1.5 * len(loads))
    rows = figure.subplots(len(loads), 1, sharex=True, squeeze=False)[:, 0]
    for row, (strategy, curve) in zip(rows, loads.items(), strict=True):
        s = summarize(curve)
        row.fill_between(np.arange(len(curve)) / 60, curve, step="post", linewidth=0, color="#2a6f97")
        row.axhline(s.mean, color="#d1495b", linewidth=0.8)
        row.set_ylim(0, max(s.peak * 1.08, 1))
        row.set_title(f"{strategy.value}   peak/mean {s.peak_to_mean:.3f}", loc="left", fontsize=10)
        row.spines[["top", "right"]].set_visible(False)
    rows[0].figure.suptitle(f"Starts per second: {title}", fontsize=11, x=0.01, ha="left")
    rows[-1].set_xlabel("minutes")
    rows[-1].set_xlim(0, len(next(iter(loads.values()))) / 60)
    save_figure(figure, path)
