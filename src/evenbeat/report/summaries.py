"""Summaries of a task's runs by hour or day: those that history keeps, and new ones of what is not summed up yet."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from evenbeat.admin.history_settings import stored_retention
from evenbeat.core.run_summaries import add_up, one_per_time, summarize
from evenbeat.model import DAY, HOUR, SECOND, Entry, Instant, State
from evenbeat.report.documents import iso_time
from evenbeat.store.contract import RunRecord, Store
from evenbeat.store.history_contract import Layer, LayeredHistory, PackedRun, RunSummary, Spread
from evenbeat.wire.summaries import SeriesDocument, SpreadDocument, Summaries, SummaryDocument, SummaryLength

_LENGTHS: Final[dict[SummaryLength, int]] = {"hour": HOUR, "day": DAY}
_MAX_RUNS: Final = 20_000
"""Runs that one answer reads."""
_READ_AT_ONCE: Final = 1_000


def read_summaries(
    store: Store, entry: Entry, by: SummaryLength, since: Instant | None, until: Instant | None, now: Instant
) -> Summaries:
    """The summaries of the hours or days that begin from `since` to before `until`; by default all that are kept."""
    retention = stored_retention(store)
    begin = now - (retention.keep if by == "hour" else retention.keep_days) if since is None else since
    begin += -begin % _LENGTHS[by]
    end = now if until is None else min(until, now)
    found = hour_summaries(store, entry.number, begin, end) if by == "hour" else _days(store, entry.number, begin, end)
    layer = {"hour": Layer.HOURS, "day": Layer.DAYS}[by].value if isinstance(store, LayeredHistory) else "runs"
    documents = [_document(summary, is_complete=summary.since + _LENGTHS[by] <= now) for summary in found]
    return Summaries(entry.task.name, by, layer, iso_time(Instant(now - retention.keep_runs)) or "", documents)


def hour_summaries(store: Store, task: int, since: int, until: int) -> list[RunSummary]:
    """Of the hours that begin from `since` to before `until`, oldest first."""
    kept = stored_summaries(store, task, Layer.HOURS, since, until)
    known = {summary.since for summary in kept}
    hours: defaultdict[int, list[PackedRun]] = defaultdict(list)
    for run in _runs(store, task, since, until):
        hour = run.ended - run.ended % HOUR
        if hour not in known and since <= hour < until:
            hours[hour].append(run)
    return sorted([*kept, *(summarize(runs, hour) for hour, runs in hours.items())], key=lambda s: s.since)


def _days(store: Store, task: int, since: int, until: int) -> list[RunSummary]:
    kept = stored_summaries(store, task, Layer.DAYS, since, until)
    begin = max(kept[-1].since + DAY if kept else since, since)
    hours = hour_summaries(store, task, begin, until - until % DAY + DAY) if begin < until else []
    days = groupby(hours, lambda summary: summary.since - summary.since % DAY)
    return [*kept, *(add_up(list(of_day), day) for day, of_day in days)]


def summary_around(store: Store, task: int, start: Instant, end: Instant) -> tuple[RunSummary | None, bool]:
    """The stored summary of the hour that a time is in, else of its day; and whether it is that of a day."""
    for layer, length in ((Layer.HOURS, HOUR), (Layer.DAYS, DAY)):
        since = start - start % length
        if end <= since + length and (found := stored_summaries(store, task, layer, since, since + 1)):
            return found[0], layer is Layer.DAYS
    return None, False


def stored_summaries(store: Store, task: int, layer: Layer, since: int, until: int) -> list[RunSummary]:
    """Those that history keeps, one for each hour or day."""
    if not isinstance(store, LayeredHistory) or since >= until:
        return []
    return list(one_per_time(store.summaries(task, layer, Instant(since), Instant(until))))


def _runs(store: Store, task: int, since: int, until: int) -> Iterable[PackedRun]:
    """Runs that ended, newest first; of many, the newest."""
    before, left = Instant(until + HOUR), _MAX_RUNS
    while left > 0:
        some = store.runs(task, before, _READ_AT_ONCE)
        yield from (packed for run in some if (packed := _packed(run)) is not None)
        if len(some) < _READ_AT_ONCE or some[-1].claimed < since - HOUR:
            return
        before, left = some[-1].claimed, left - len(some)


def _packed(run: RunRecord) -> PackedRun | None:
    if run.ended is None or run.started is None or run.outcome is None:
        return None
    return PackedRun(
        run.number,
        run.claimed,
        run.ended,
        run.nominal,
        run.generation,
        run.kind,
        run.started,
        run.outcome,
        run.status,
        -1 if run.state is None else run.state,
        run.hard,
        run.attempt,
        run.output,
        notable=False,
    )


def _document(summary: RunSummary, *, is_complete: bool) -> SummaryDocument:
    return SummaryDocument(
        iso_time(Instant(summary.since)) or "",
        summary.runs,
        summary.outcomes,
        {State(state).name.lower(): count for state, count in summary.states.items()},
        _spread(summary.duration),
        _spread(summary.lateness),
        [SeriesDocument(*series) for series in summary.series],
        is_complete,
    )


def _spread(spread: Spread) -> SpreadDocument:
    return SpreadDocument(spread.p50 / SECOND, spread.p99 / SECOND, spread.max / SECOND)
