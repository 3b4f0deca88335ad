"""Summaries of the runs of a task: of an hour from its runs, of a day from its hours.

What is added up of an hour is exact. The percentiles of a day are estimates, as of each hour only its median, its 99th
percentile and its maximum are known. The median is that of the medians, each with the weight of its runs. For the 99th
percentile those three stand for 50, 49 and 1 percent of the runs of the hour.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from evenbeat.core.plugin import Perf, parse
from evenbeat.model import Outcome, RunKind
from evenbeat.past_runs import PLAIN_OUTPUT_LENGTH, PackedRun, PerfSummary, RunSummary, Spread

MAX_SERIES: Final = 8
"""Series of performance data in a summary: the first ones."""
_LARGEST: Final = 1e300
"""Larger values are no measurements, and cannot be added up."""
_NO_SPREAD: Final = Spread(0, 0, 0)
_NO_RUNS: Final = frozenset((RunKind.TOLD, RunKind.STALE, RunKind.LOG))
"""Results that come from outside: nothing started here."""
_RAN: Final = frozenset((Outcome.SUCCEEDED, Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED))


def summarize(runs: Sequence[PackedRun], since: int) -> RunSummary:
    """Add up runs of one task that ended in the hour or day that began then; there is at least one."""
    started = [run for run in runs if _has_started(run)]
    return RunSummary(
        runs[0].task,
        since,
        len(runs),
        dict(sorted(Counter([run.outcome for run in runs]).items())),
        dict(sorted(Counter([run.state for run in runs if run.state >= 0]).items())),
        _spread([run.ended - run.started for run in started]),
        _spread([run.started - run.nominal for run in started if run.kind == RunKind.GRID]),
        _series(runs),
    )


def _has_started(run: PackedRun) -> bool:
    """Of a run that never started, or whose start is unknown, the claim stands for the start."""
    if run.kind in _NO_RUNS or run.outcome == Outcome.LOST:
        return False
    return run.outcome in _RAN or run.started > run.claimed


def _spread(lengths: list[int]) -> Spread:
    """A clock that was set back makes no negative ones."""
    if not lengths:
        return _NO_SPREAD
    lengths.sort()
    count = len(lengths)
    half, most = lengths[(count * 50 + 99) // 100 - 1], lengths[(count * 99 + 99) // 100 - 1]
    return Spread(max(half, 0), max(most, 0), max(lengths[-1], 0))


def _series(runs: Iterable[PackedRun]) -> tuple[PerfSummary, ...]:
    """The values that results of a check have measured, by label and unit."""
    values: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if run.state < 0 or "|" not in run.output:
            continue
        for perf in _measured(run):
            if perf.value is None or abs(perf.value) > _LARGEST:
                continue
            key = perf.label, perf.unit
            if key in values:
                values[key].append(perf.value)
            elif len(values) < MAX_SERIES:
                values[key] = [perf.value]
    return tuple(
        PerfSummary(label, unit, len(some), min(some), _mean(some), max(some)) for (label, unit), some in values.items()
    )


def _measured(run: PackedRun) -> tuple[Perf, ...]:
    output = run.output
    if not run.notable and len(output) >= PLAIN_OUTPUT_LENGTH:
        # History has kept the beginning of the output: the last value may have lost some of its digits.
        output = output.rpartition(" ")[0]
    return parse(output).perfdata


def _mean(values: Sequence[float]) -> float:
    """Within the smallest and the largest of them, whatever the rounding."""
    return min(max(math.fsum(value / len(values) for value in values), min(values)), max(values))


def add_up(summaries: Sequence[RunSummary], since: int) -> RunSummary:
    """Summaries of one task as one, which begins then; the percentiles are estimates."""
    outcomes: Counter[str] = Counter()
    states: Counter[int] = Counter()
    for summary in summaries:
        outcomes.update(summary.outcomes)
        states.update(summary.states)
    return RunSummary(
        summaries[0].task,
        since,
        sum(summary.runs for summary in summaries),
        dict(sorted(outcomes.items())),
        dict(sorted(states.items())),
        _estimate([(summary.runs, summary.duration) for summary in summaries]),
        _estimate([(summary.runs, summary.lateness) for summary in summaries]),
        _added_series(summaries),
    )


def _estimate(spreads: Sequence[tuple[int, Spread]]) -> Spread:
    """Percentiles of all runs: see above."""
    known = [(runs, spread) for runs, spread in spreads if spread != _NO_SPREAD]
    if not known:
        return _NO_SPREAD
    total = sum(runs for runs, _ in known)
    medians = [(spread.p50, 2 * runs) for runs, spread in known]
    points = [(spread.p99, 49 * runs) for runs, spread in known] + [(spread.max, runs) for runs, spread in known]
    points += [(spread.p50, 50 * runs) for runs, spread in known]
    return Spread(
        _value_at(sorted(medians), total), _value_at(sorted(points), 99 * total), max(s.max for _, s in known)
    )


def _value_at(points: Iterable[tuple[int, int]], weight: int) -> int:
    """The smallest value that, with all smaller ones, has this weight."""
    passed = 0
    for value, weighs in points:
        passed += weighs
        if passed >= weight:
            return value
    return 0


def _added_series(summaries: Iterable[RunSummary]) -> tuple[PerfSummary, ...]:
    found: dict[tuple[str, str], PerfSummary] = {}
    for summary in summaries:
        for series in summary.series:
            key = series.label, series.unit
            known = found.get(key)
            if known is not None:
                found[key] = _added(known, series)
            elif len(found) < MAX_SERIES:
                found[key] = series
    return tuple(found.values())


def _added(a: PerfSummary, b: PerfSummary) -> PerfSummary:
    count = a.count + b.count
    least, most = min(a.min, b.min), max(a.max, b.max)
    mean = a.mean * (a.count / count) + b.mean * (b.count / count)
    return PerfSummary(a.label, a.unit, count, least, min(max(mean, least), most), most)


def one_per_time(summaries: Iterable[RunSummary]) -> Iterator[RunSummary]:
    """Of several summaries of a task for the same hour or day, as late results make them, one; they come in order."""
    for (_, since), same in groupby(summaries, attrgetter("task", "since")):
        found = list(same)
        yield found[0] if len(found) == 1 else add_up(found, since)


def by_day(summaries: Iterable[RunSummary], day: int) -> Iterator[RunSummary]:
    """The summary of a day for each task; the hours come in the order of tasks."""
    for _, of_task in groupby(summaries, attrgetter("task")):
        yield add_up(list(of_task), day)
