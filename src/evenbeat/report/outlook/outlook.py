"""What is planned: which runs the schedules of all tasks make in a stretch of time, counted and listed.

Computed from what the store has, beside the node and without it. Only what schedules and `start_at` say is known here:
first runs, retries and catch-ups are decided as they come.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from random import SystemRandom
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.placement import keep_phase, place_on_wheel, remove_task_from_wheel
from evenbeat.model import SECOND, Instant, RunKind, Task
from evenbeat.report.outlook.columns import NO_NUMBER, OutlookColumns, outlook_columns
from evenbeat.report.outlook.planned_times import ScheduledRuns, calendar_runs, grid_runs, no_runs
from evenbeat.when.cron import Cron, CronTimes
from evenbeat.when.cron_entry import parse_cron_entry
from evenbeat.when.curve import Floats, Ints, Stretch, grid_curve
from evenbeat.when.expected_load import fold_onto_wheel
from evenbeat.when.inside_period import substitutes_between
from evenbeat.when.period import CompiledPeriod
from evenbeat.when.wheel import LoadWheel

_RUNS_AT_ONCE: Final = 1_000_000
"""Runs that are listed at the same time: tens of megabytes."""
_NO_ROWS: Final[Ints] = np.zeros(0, dtype=np.int64)


class ScheduledRun(NamedTuple):
    """A run to come."""

    task: str
    at: Instant
    kind: RunKind


class LoadForecast(NamedTuple):
    """Load per second without and with some tasks."""

    before: Floats
    after: Floats


class Outlook:
    """All tasks at one time; nothing in it changes."""

    def __init__(self, columns: OutlookColumns) -> None:
        self._columns = columns
        self._grid = np.flatnonzero(columns.table["calendar"] == NO_NUMBER)
        self._wheel: LoadWheel | None = None

    def __len__(self) -> int:
        return len(self._columns.table)

    # How many

    def planned(self, stretch: Stretch, without: Ints = _NO_ROWS) -> Floats:
        """Runs that are planned for each second, those of the rows `without` left out."""
        rows = np.setdiff1d(self._grid, without) if len(without) else self._grid
        since = self._columns.table["since"][rows]
        settled = since <= stretch.start
        curve = self._on_grids(rows[settled], stretch)
        young = rows[~settled & (since < stretch.end)]
        if len(young):
            curve += self._of_young(young, stretch)
        for start, end in _listable_parts(stretch, self._calendar_rate()):
            runs = self._listed(start, end)
            _add_runs(curve, stretch, runs if not len(without) else runs.only(~np.isin(runs.rows, without)))
        return curve

    def _on_grids(self, rows: Ints, stretch: Stretch) -> Floats:
        """Of tasks whose grid is there from the start of the stretch."""
        table, curve = self._columns.table[rows], np.zeros(stretch.seconds)
        for number in np.unique(table["period"]).tolist():
            some = table[table["period"] == number]
            every, phase = some["every"].copy(), some["phase"].copy()
            part = grid_curve(every, phase, np.ones(len(some)), stretch)
            if number >= 0:
                period = self._columns.periods[number]
                part *= _open_seconds(period, stretch)
                for _, times in substitutes_between(phase, every, period, stretch.start, stretch.end):
                    np.add.at(part, (times - stretch.start) // SECOND, 1)
            curve += part
        return curve

    def _of_young(self, rows: Ints, stretch: Stretch) -> Floats:
        """Of tasks that begin within the stretch: run by run until all of them are there."""
        table = self._columns.table[rows]
        seconds = min(-(-(int(table["since"].max()) - stretch.start) // SECOND), stretch.seconds)
        curve = np.zeros(stretch.seconds)
        beginning = Stretch(stretch.start, seconds)
        for start, end in _listable_parts(beginning, float((SECOND / table["every"]).sum())):
            _add_runs(curve, stretch, grid_runs(self._columns, rows, start, end))
        if seconds < stretch.seconds:
            curve[seconds:] += self._on_grids(rows, Stretch(beginning.end, stretch.seconds - seconds))
        return curve

    # Which

    def upcoming(self, start: Instant, end: Instant, most: int) -> list[ScheduledRun]:
        """The first runs planned from `start` to before `end`, in order."""
        whole = Stretch(Instant(start // SECOND * SECOND), -(-(end - start // SECOND * SECOND) // SECOND))
        if whole.seconds <= 0:
            return []
        # The curve says how far to look; the runs of its first second may be over.
        counted = np.cumsum(self.planned(whole))
        enough = int(np.searchsorted(counted, most + counted[0]))
        runs = self.runs(start, Instant(min(end, whole.start + (enough + 1) * SECOND)))
        order = np.lexsort((runs.rows, runs.times))[:most]
        names = self._columns.names
        listed = zip(runs.rows[order].tolist(), runs.times[order].tolist(), runs.kinds[order].tolist(), strict=True)
        return [ScheduledRun(names[row], Instant(at), RunKind(kind)) for row, at, kind in listed]

    def runs(self, start: Instant, end: Instant) -> ScheduledRuns:
        """Every run planned from `start` to before `end`, in no order."""
        since = self._columns.table["since"][self._grid]
        rows = self._grid[since < end]
        return grid_runs(self._columns, rows, start, end).joined(self._listed(start, end))

    def _listed(self, start: Instant, end: Instant) -> ScheduledRuns:
        """What is on no grid: calendars, and starts that were asked for."""
        columns = self._columns
        runs = calendar_runs(columns, start, end) if columns.walk.calendars else no_runs()
        asked = columns.starts[(columns.starts["at"] >= start) & (columns.starts["at"] < end)]
        if not len(asked):
            return runs
        rows, times = asked["row"].astype(np.int64), asked["at"].copy()
        open_ = [
            number < 0 or columns.periods[number].contains(Instant(at))
            for number, at in zip(columns.table["period"][rows].tolist(), times.tolist(), strict=True)
        ]
        kinds = np.full(len(rows), RunKind.START_AT, dtype=np.uint8)
        return runs.joined(ScheduledRuns(rows, times, kinds).only(np.array(open_, dtype=bool)))

    def _calendar_rate(self) -> float:
        """Runs per second of calendar tasks at the very most a second each: how long a piece may be."""
        return float(np.count_nonzero(self._columns.table["calendar"] >= 0)) / 60

    # What if

    def place(self, tasks: Sequence[Task], old: Iterable[Task] = ()) -> list[Task]:
        """The tasks with the phases a node would give them, `old` being those in whose stead they come."""
        if self._wheel is None:
            self._wheel = self._filled_wheel()
        wheel, by_name = deepcopy(self._wheel), {task.name: task for task in old}
        for task in by_name.values():
            remove_task_from_wheel(wheel, task)
        kept = [keep_phase(task, by_name.get(task.name, task)) for task in tasks]
        return place_on_wheel(wheel, kept, SystemRandom().random)

    def forecast(
        self,
        tasks: Sequence[Task],
        stretch: Stretch,
        periods: Mapping[str, CompiledPeriod],
        old: Iterable[Task] = (),
        most: int | None = None,
    ) -> LoadForecast:
        """The load if these tasks were added, or took the place of `old` ones; `most` as for `outlook_columns`."""
        old = list(old)
        placed = self.place(tasks, old)
        added = Outlook(outlook_columns(((task, Instant(0)) for task in placed), periods, most))
        found = [self._columns.names.find(task.name) for task in old]
        without = np.array([row for row in found if row is not None], dtype=np.int64)
        before = self.planned(stretch)
        kept = self.planned(stretch, without) if len(without) else before
        return LoadForecast(before, kept + added.planned(stretch))

    def _filled_wheel(self) -> LoadWheel:
        """As the node's own: every task is on it, the paused ones too, for they may come back."""
        wheel, table = LoadWheel(), self._columns.table
        grid = table[self._grid]
        for every, weight in np.unique(grid[["every", "weight"]]).tolist():
            alike = (grid["every"] == every) & (grid["weight"] == weight)
            wheel.add_all(every, weight, grid["phase"][alike].copy())
        listed = table[table["calendar"] >= 0][["calendar", "second", "weight"]]
        for (number, second, weight), count in zip(*_distinct(listed), strict=True):
            times = self._columns.walk.calendars[number]
            is_cron = isinstance(times, CronTimes)
            fold_onto_wheel(
                wheel, Cron(parse_cron_entry(times.text), times, second) if is_cron else times, weight * count
            )
        return wheel


def sum_in_steps(curve: Floats, step: int) -> Floats:
    """A curve by the second in longer steps; the last may be shorter."""
    return np.add.reduceat(curve, np.arange(0, len(curve), step))


def rounded_counts(curve: Floats) -> list[int]:
    """Whole numbers, for documents."""
    found: list[int] = np.rint(curve).astype(np.int64).tolist()
    return found


def _distinct(table: NDArray[Any]) -> tuple[list[Any], list[int]]:
    values, counts = np.unique(table, return_counts=True)
    return values.tolist(), counts.tolist()


def _listable_parts(stretch: Stretch, rate: float) -> list[tuple[Instant, Instant]]:
    """A stretch in parts of so few runs that they can be listed at once."""
    seconds = max(int(_RUNS_AT_ONCE / max(rate, 1e-3)), 1)
    starts = range(stretch.start, stretch.end, seconds * SECOND)
    return [(Instant(start), Instant(min(start + seconds * SECOND, stretch.end))) for start in starts]


def _add_runs(curve: Floats, stretch: Stretch, runs: ScheduledRuns) -> None:
    curve += np.bincount((runs.times - stretch.start) // SECOND, minlength=stretch.seconds)


def _open_seconds(period: CompiledPeriod, stretch: Stretch) -> NDArray[np.bool_]:
    # Windows open and close on whole seconds, so a second is wholly inside or outside.
    return period.contains_many(stretch.start + np.arange(stretch.seconds, dtype=np.int64) * SECOND)
