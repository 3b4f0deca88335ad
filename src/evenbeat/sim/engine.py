"""The simulator: the production lifecycle on a virtual clock, with tasks, durations and faults fed in.

Time moves from event to event, at least 50 ms at a time, as in a busy node. What comes out is every run and skip, the
load curve and the lateness.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.core.gate import REASONS
from evenbeat.core.lifecycle import Flag, Kind, Lifecycle, Missed, Skips, TaskColumns
from evenbeat.core.pace import Pace
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import Timetable
from evenbeat.model import SECOND, Instant, Task
from evenbeat.when.cron import Cron
from evenbeat.when.fold import count_on
from evenbeat.when.interval import Interval
from evenbeat.when.period import Period
from evenbeat.when.schedule import compile_schedule, has_own_phase
from evenbeat.when.wheel import LoadWheel
from evenbeat.when.windows import FOREVER

BATCH: Final = SECOND // 20
"""As in a node: slots are taken for at most so much at once."""

Floats = NDArray[np.float64]
Durations = Callable[[Ints], Ints]
"""How long the runs of these rows, started now, will last, in microseconds."""


class Outage(NamedTuple):
    """The node is down: what runs is lost, nothing starts; then it catches up."""

    start: Instant
    end: Instant


class Report(NamedTuple):
    """What a simulation saw."""

    runs: int
    skipped: dict[str, int]
    starts: Floats
    """Starts in each second."""
    lateness: Floats
    """Of each run, in seconds after it was due."""
    history: list[tuple[Instant, int, Instant]]
    """(start, row, nominal) of each run, if it was asked for."""


class Simulation:
    """Tasks on a virtual clock."""

    def __init__(self, tasks: Sequence[Task], periods: Mapping[str, Period], slots: int, start: Instant) -> None:
        self.columns = TaskColumns()
        self.times = ScheduleTimes(self.columns)
        self.lifecycle = Lifecycle(self.columns, Timetable(self.columns), self.times, slots)
        self.now = start
        self.rows = self.columns.allocate(len(tasks))
        self._fill(tasks, periods)
        self.lifecycle.arrive(self.rows, start)
        self._ending: dict[int, list[Ints]] = {}
        self._skipped = np.zeros(len(REASONS), dtype=np.int64)

    @property
    def mean_rate(self) -> float:
        """Starts per second that the interval grids make by themselves."""
        plain = self.rows[self.columns.calendar[self.rows] < 0]
        return float((SECOND / self.columns.every[plain]).sum())

    def _fill(self, tasks: Sequence[Task], periods: Mapping[str, Period]) -> None:
        c, wheel = self.columns, LoadWheel()
        unplaced: list[int] = []
        for row, task in zip(self.rows.tolist(), tasks, strict=True):
            schedule = task.schedule
            if task.check:
                c.flags[row] |= int(Flag.CHECK)
            if task.period is not None:
                c.period[row] = self.times.period_number(periods[task.period])
            if schedule.every is not None:
                c.every[row] = schedule.every
                if not has_own_phase(schedule):
                    unplaced.append(row)
                    continue
            self._set_times(row, task, wheel)
        chosen = wheel.place_all([(int(c.every[row]), tasks[i].weight) for i, row in _numbered(self.rows, unplaced)])
        c.phase[unplaced] = chosen

    def _set_times(self, row: int, task: Task, wheel: LoadWheel) -> None:
        c, times = self.columns, compile_schedule(task.schedule, task.name)
        if isinstance(times, Interval):
            c.phase[row] = times.phase
        elif isinstance(times, Cron):
            c.calendar[row], c.second[row] = self.times.calendar_number(times.times), times.second
        else:
            c.calendar[row] = self.times.calendar_number(times)
        count_on(wheel, times, task.weight)

    def run(
        self, length: int, durations: Durations, outages: Sequence[Outage] = (), *, keep_history: bool = False
    ) -> Report:
        """Let time pass for `length`; the report covers it."""
        start, end = self.now, Instant(self.now + length)
        starts = np.zeros(-(-length // SECOND))
        lateness: list[Floats] = []
        history: list[tuple[Instant, int, Instant]] = []
        self._skipped[:] = 0
        down = sorted(outages)
        while self.now < end:
            if down and self.now >= down[0].start:
                self._outage(down.pop(0))
                continue
            self._complete()
            released = self.lifecycle.release(self.now)
            for skips in released.skips:
                self._count(skips)
            claims = released.claims
            if len(claims.rows):
                on_grid = claims.rows[claims.kind == Kind.GRID]
                self.lifecycle.started(on_grid, np.full(len(on_grid), self.now, dtype=np.int64))
                self._begin(claims.rows, durations(claims.rows))
                starts[(self.now - start) // SECOND] += len(claims.rows)
                lateness.append((self.now - claims.nominal) / SECOND)
                if keep_history:
                    history += [
                        (self.now, r, Instant(n))
                        for r, n in zip(claims.rows.tolist(), claims.nominal.tolist(), strict=True)
                    ]
            self.now = self._next(end, down[0].start if down else FOREVER)
        late = np.concatenate(lateness) if lateness else np.zeros(0)
        counts = {str(REASONS[i]): int(n) for i, n in enumerate(self._skipped.tolist()) if n}
        return Report(len(late), counts, starts, late, history)

    def _count(self, skips: Skips) -> None:
        np.add.at(self._skipped, skips.reason, skips.times)

    def _begin(self, rows: Ints, lasting: Ints) -> None:
        batch = -(-(self.now + lasting) // BATCH)
        for number in np.unique(batch).tolist():
            self._ending.setdefault(number, []).append(rows[batch == number])

    def _complete(self) -> None:
        for number in sorted(n for n in self._ending if n * BATCH <= self.now):
            self.lifecycle.complete(np.concatenate(self._ending.pop(number)))

    def _outage(self, outage: Outage) -> None:
        lost = [rows for batches in self._ending.values() for rows in batches]
        self._ending.clear()
        self.now = outage.end
        if lost:
            self.lifecycle.complete(np.concatenate(lost))
        for skips in self.lifecycle.resume(self.rows, Missed.ONCE, Pace(self.mean_rate), self.now):
            self._count(skips)

    def _next(self, end: Instant, outage: Instant) -> Instant:
        """When something can happen next, at the earliest a batch from now."""
        coming = min([self.lifecycle.timetable.next_due(), *(n * BATCH for n in self._ending)])
        return Instant(min(max(coming, self.now + BATCH), end, outage))


def _numbered(rows: Ints, some: list[int]) -> list[tuple[int, int]]:
    numbers = {row: i for i, row in enumerate(rows.tolist())}
    return [(numbers[row], row) for row in some]
