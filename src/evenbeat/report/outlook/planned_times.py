"""Every planned run of some tasks, as columns: on interval grids and by calendars, inside their periods."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.model import MINUTE, SECOND, Instant, RunKind
from evenbeat.report.outlook.columns import OutlookColumns
from evenbeat.when.inside_period import substitutes_between
from evenbeat.when.interval import nominal_after


class ScheduledRuns(NamedTuple):
    """Runs to come: whose, when, and what they are."""

    rows: Ints
    times: Ints
    kinds: NDArray[np.uint8]

    def only(self, which: NDArray[np.bool_]) -> "ScheduledRuns":
        return ScheduledRuns(self.rows[which], self.times[which], self.kinds[which])

    def joined(self, other: "ScheduledRuns") -> "ScheduledRuns":
        return ScheduledRuns(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.times, other.times]),
            np.concatenate([self.kinds, other.kinds]),
        )


def no_runs() -> ScheduledRuns:
    """None at all."""
    return _on_grid_runs(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def _on_grid_runs(rows: Ints, times: Ints) -> ScheduledRuns:
    return ScheduledRuns(rows, times, np.full(len(rows), RunKind.GRID, dtype=np.uint8))


def grid_runs(columns: OutlookColumns, rows: Ints, start: Instant, end: Instant) -> ScheduledRuns:
    """The runs of interval tasks with start <= t < end, substitutes included."""
    table = columns.table[rows]
    every, phase = table["every"].copy(), table["phase"].copy()
    first = nominal_after(phase, every, Instant(start - 1))
    count = np.maximum(-((first - end) // every), 0)
    which = np.repeat(np.arange(len(rows)), count)
    turn = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    runs = _inside_periods(columns, _on_grid_runs(rows[which], first[which] + turn * every[which]))
    for number in np.unique(table["period"][table["period"] >= 0]).tolist():
        some = np.flatnonzero(table["period"] == number)
        for whose, times in substitutes_between(phase[some], every[some], columns.periods[number], start, end):
            runs = runs.joined(_on_grid_runs(rows[some[whose]], times))
    return runs.only(runs.times >= columns.table["since"][runs.rows])


def calendar_runs(columns: OutlookColumns, start: Instant, end: Instant) -> ScheduledRuns:
    """The runs of cron, calendar and one-shot tasks with start <= t < end."""
    # Minutes are shared, seconds are a task's own.
    times, numbers = columns.walk.between(Instant(start - MINUTE), end)
    rows, starts = columns.by_calendar
    count = starts[numbers + 1] - starts[numbers]
    which = np.repeat(np.arange(len(numbers)), count)
    turn = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    whose = rows[starts[numbers][which] + turn]
    at = times[which] + columns.table["second"][whose].astype(np.int64) * SECOND
    keep = (at >= start) & (at < end) & (at >= columns.table["since"][whose])
    return _inside_periods(columns, _on_grid_runs(whose[keep], at[keep]))


def _inside_periods(columns: OutlookColumns, runs: ScheduledRuns) -> ScheduledRuns:
    """Those at which the period of their task is open."""
    period = columns.table["period"][runs.rows]
    keep = np.ones(len(period), dtype=bool)
    for number in np.unique(period[period >= 0]).tolist():
        some = np.flatnonzero(period == number)
        keep[some] = columns.periods[number].contains_many(runs.times[some])
    return runs if keep.all() else runs.only(keep)
