"""Summaries of a task's runs for the terminal: a line for each hour or day."""

from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from evenbeat.model import SECOND, Outcome
from evenbeat.report.words import duration_words
from evenbeat.when.instant import parse_instant, spoken_instant
from evenbeat.when.zone import zone
from evenbeat.wire.summaries import SeriesDocument, SpreadDocument, Summaries, SummaryDocument

_MAX_SERIES: Final = 3
"""Series of performance data on a line."""


def print_summaries(out: Console, found: Summaries, most: int) -> None:
    """The latest of them, newest first, as `history` has runs."""
    shown = found.summaries[-most:][::-1]
    for summary in shown:
        out.print(Text.assemble(*_cells(summary)))
    if not shown:
        out.print("nothing yet")


def _cells(summary: SummaryDocument) -> Iterator[tuple[str, str]]:
    where = zone("UTC")
    is_good = set(summary.outcomes) <= {Outcome.SUCCEEDED}
    yield spoken_instant(parse_instant(summary.since, where), where), "dim"
    yield f"  {summary.runs:>7,} run{'s' if summary.runs != 1 else ' '}  ", ""
    yield f"took {_spread(summary.duration)}  late {_spread(summary.lateness)}  ", ""
    yield _counts(summary.outcomes), "green" if is_good else "red"
    if summary.states:
        yield f"  {_counts(summary.states)}", ""
    for series in summary.series[:_MAX_SERIES]:
        yield f"  {_series(series)}", "dim"
    if not summary.complete:
        yield "  (so far)", "dim"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def _spread(spread: SpreadDocument) -> str:
    """Median, 99th percentile, maximum."""
    lengths = (round(value * SECOND) for value in (spread.p50, spread.p99, spread.max))
    return "/".join(duration_words(length).replace(" ", "") for length in lengths)


def _series(series: SeriesDocument) -> str:
    return f"{series.label} {series.min:g}..{series.mean:.4g}..{series.max:g}{series.unit}"
