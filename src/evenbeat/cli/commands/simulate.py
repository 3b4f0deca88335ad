"""`evenbeat simulate`: run the tasks of a file through the real core on a virtual clock."""

import argparse
from typing import Final

import numpy as np

from evenbeat.cli.output.common import at_option, console, length_option, load_file_option, now, print_json, seed_option
from evenbeat.core.columns import Ints
from evenbeat.core.first_run_pace import MAX_START_RATE, START_WINDOW
from evenbeat.model import DAY, HOUR, SECOND, Instant, Invalid
from evenbeat.sim.engine import Durations, Simulation, SimulationReport
from evenbeat.when.curve import summarize
from evenbeat.when.duration import format_duration
from evenbeat.when.period import compile_periods
from evenbeat.when.zone import zone

LONGEST: Final = 7 * DAY
MOST_SLOTS: Final = 1_000_000


def run_command(args: argparse.Namespace) -> int:
    """Print the results of the simulation; exit 0."""
    if not 1 <= args.slots <= MOST_SLOTS:
        raise Invalid(f"{args.slots} is out of range, accepted: 1 to {MOST_SLOTS}", place="--slots")
    seed = seed_option(args.seed)
    length = length_option(args.for_, LONGEST)
    start = at_option(args.from_, zone("UTC"), Instant(now() // HOUR * HOUR + HOUR), "--from")
    config = load_file_option(args.file)
    tasks = [task for task in config.tasks if not task.passive]  # passive checks run nothing
    simulation = Simulation(
        tasks,
        compile_periods(config.periods),
        args.slots,
        start,
        config.limits,
        start_window=(config.node and config.node.start_window) or START_WINDOW,
        seed=seed,
        start_rate=(config.node and config.node.start_rate) or MAX_START_RATE,
    )
    weights = np.array([task.weight for task in tasks])
    report = simulation.run(length, _durations(weights, seed))
    if args.json:
        print_json(_document(report))
    else:
        _show(report, len(tasks), length)
    return 0


def _durations(weights: "np.ndarray[tuple[int], np.dtype[np.float64]]", seed: int) -> Durations:
    """Random durations, exponentially distributed with the expected duration of each task as mean."""
    rng = np.random.default_rng(seed)

    def durations(rows: Ints, _: Instant) -> Ints:
        return (rng.exponential(weights[rows]) * SECOND).astype(np.int64) + 1

    return durations


def _lateness(report: SimulationReport) -> dict[str, float]:
    late = report.lateness if len(report.lateness) else np.zeros(1)
    p50, p99, highest = np.percentile(late, [50, 99, 100]).tolist()
    return {"p50": p50, "p99": p99, "max": highest}


def _document(report: SimulationReport) -> dict[str, object]:
    return {
        "runs": report.runs,
        "skipped": report.skipped,
        "peak_to_mean": summarize(report.starts).peak_to_mean,
        "lateness": _lateness(report),
    }


def _show(report: SimulationReport, tasks: int, length: int) -> None:
    out = console()
    load = summarize(report.starts)
    out.print(f"[bold]{report.runs:,} runs[/bold] of {tasks:,} tasks in {format_duration(length)}")
    ratio = f", peak/mean {load.peak_to_mean:.3f}" if load.mean >= 1 else ""  # of a few tasks it says nothing
    out.print(f"  starts per second: mean {load.mean:.2f}, peak {load.peak:.0f}{ratio}")
    late = _lateness(report)
    out.print(f"  lateness: p50 {late['p50']:.3f} s, p99 {late['p99']:.3f} s, max {late['max']:.3f} s")
    for reason, count in report.skipped.items():
        out.print(f"  skipped: {count:,} {reason}")
