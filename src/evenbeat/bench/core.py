"""`evenbeat bench core`: all that the pure core does - times, segments of the timetable, memory - beside baselines."""

from collections.abc import Iterator

from evenbeat.bench import dependencies as bench_dependencies
from evenbeat.bench import growth as bench_growth
from evenbeat.bench import memory as bench_memory
from evenbeat.bench import segment as bench_segment
from evenbeat.bench import when as bench_when
from evenbeat.bench.measure import Comparison, Observation
from evenbeat.cli.output.picture import new_figure


def comparisons(pairs: int) -> Iterator[tuple[str, Comparison]]:
    """Every measure, as soon as it is taken."""
    yield from bench_when.comparisons(pairs)
    yield from bench_segment.comparisons(pairs)
    yield from bench_dependencies.comparisons(pairs)


def observations(plot: str | None) -> Iterator[tuple[str, Observation]]:
    """Figures that are not ratios, and a plot of a segment's cost by size if asked for."""
    yield "bytes_per_task", bench_memory.bytes_per_task()
    constant = bench_growth.scan_nanoseconds_per_task()
    words = f"[bold]Scan[/bold]: a look at all due times takes {constant:.2f} ns per task"
    yield "scan_ns_per_task", Observation(constant, words)
    yield "marking_ms", bench_dependencies.marking_milliseconds()
    if plot is not None:
        yield "segment_cost", bench_growth.segment_costs(plot, constant)


def check_options(plot: str | None) -> None:
    """Refuse a picture that cannot be drawn before minutes are spent on it."""
    if plot is not None:
        new_figure(plot, 1, 1)
