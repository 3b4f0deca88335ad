"""The simulator: the production lifecycle on a virtual clock, with tasks, durations, outcomes and faults fed in.

Time moves from event to event, at least 50 ms at a time, as in a busy node. What comes out is every run and skip, the
load curve and the lateness.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.chains import Chains, EndedParent, ParentEnd
from evenbeat.core.clock_steps import clock_set_back
from evenbeat.core.columns import Column, Ints
from evenbeat.core.first_run_pace import MAX_START_RATE, START_WINDOW
from evenbeat.core.gate import REASONS
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.missed_times import resume
from evenbeat.core.placement import place_on_wheel
from evenbeat.core.reachability import Reachability
from evenbeat.core.task import ClaimColumns, Flag, SkipColumns, Small, TaskColumns
from evenbeat.core.task_columns import enrol
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import DueColumns, Timetable
from evenbeat.model import DAY, SECOND, Instant, RunKind, Task
from evenbeat.when.icinga import START_WINDOW as ICINGA_WINDOW
from evenbeat.when.icinga import icinga_after
from evenbeat.when.interval import nominal_after
from evenbeat.when.period import CompiledPeriod
from evenbeat.when.wheel import LoadWheel
from evenbeat.when.windows import FOREVER

_MOST_STEPS: Final = 1_000
BATCH: Final = SECOND // 20
"""Time between two releases, at least, as in a busy node."""

Floats = NDArray[np.float64]
Durations = Callable[[Ints, Instant], Ints]
"""How long the runs of these rows, started at this time, will last, in microseconds."""
Outcomes = Callable[[Ints, Instant], Small]
"""The states in which the runs of these rows, started at this time, will end."""


class Outage(NamedTuple):
    """The node is down: what runs is lost, nothing starts; then it catches up."""

    start: Instant
    end: Instant


class ClockStep(NamedTuple):
    """The node's clock is set, forward or (negative) back, while time itself goes on."""

    at: Instant
    by: int


Fault = Outage | ClockStep
"""The times of faults, and of reports, are on a clock that is never set."""


class SimulatedStart(NamedTuple):
    """A run that was started."""

    at: Instant
    row: int
    nominal: Instant
    """On the node's clock."""
    kind: RunKind


class SimulationReport(NamedTuple):
    """What a simulation saw."""

    runs: int
    skipped: dict[str, int]
    """Nominal times without a run of their own."""
    refused: dict[str, int]
    """Off-grid runs that were not made."""
    starts: Floats
    """Starts in each second."""
    lateness: Floats
    """How many seconds after it was due each run started."""
    history: list[SimulatedStart]
    """Empty unless it was asked for."""


class _RunColumns(DueColumns):
    """The runs that are being made, in the rows of their tasks; due when they end."""

    started = Column(np.int64, 0)
    nominal = Column(np.int64, 0)
    result = Column(np.uint8, 0)


class _ReportBuilder:
    """Collects what goes into the report."""

    def __init__(self, length: int) -> None:
        self.starts = np.zeros(-(-length // SECOND))
        self.skipped = np.zeros(len(REASONS), dtype=np.int64)
        self.refused = np.zeros(len(REASONS), dtype=np.int64)
        self.lateness: list[Floats] = []
        self.history: list[SimulatedStart] = []

    def skips(self, skips: list[SkipColumns]) -> None:
        for some in skips:
            np.add.at(self.skipped, some.reason, some.times)

    def build(self) -> SimulationReport:
        late = np.concatenate(self.lateness) if self.lateness else np.zeros(0)
        return SimulationReport(len(late), _named(self.skipped), _named(self.refused), self.starts, late, self.history)


class Simulation:
    """Tasks on a virtual clock."""

    def __init__(
        self,
        tasks: Sequence[Task],
        periods: Mapping[str, CompiledPeriod],
        slots: int,
        start: Instant,
        limits: Mapping[str, int] | None = None,
        *,
        start_window: int = START_WINDOW,
        start_rate: float = MAX_START_RATE,
        seed: int = 0,
    ) -> None:
        """`seed` is for the random numbers that Bergamot's and Icinga's strategies draw."""
        self.columns = TaskColumns()
        self.times = ScheduleTimes(self.columns)
        self.lifecycle = Lifecycle(self.columns, Timetable(self.columns), self.times, slots)
        self.time = start
        """On a clock that is never set."""
        self._ahead = 0
        """How much the node's clock is ahead of it."""
        self.rows = self.columns.allocate(len(tasks))
        rng = np.random.default_rng(seed)
        placed = place_on_wheel(LoadWheel(), tasks, lambda: float(rng.random()), start)
        self._fill(placed, periods, limits or {})
        pace = self.lifecycle.pace
        pace.mean_rate, pace.window, pace.start_rate = self.mean_rate, start_window, start_rate
        self.lifecycle.add_new(self.rows, start)
        moving = self.rows[self.columns.has_moving_grid[self.rows]]
        if len(moving):
            every, phase = self.columns.every[moving], self.columns.phase[moving]
            self.lifecycle.record_past_executions(moving, _last_executions(every, phase, start, rng))
        self._running = _RunColumns()
        self._running.allocate(len(tasks))
        self._ends = Timetable(self._running)

    @property
    def now(self) -> Instant:
        """On the node's clock."""
        return Instant(self.time + self._ahead)

    @property
    def mean_rate(self) -> float:
        """Starts per second that the interval grids make by themselves."""
        plain = self.rows[self.columns.calendar[self.rows] < 0]
        return float((SECOND / self.columns.every[plain]).sum())

    def _fill(self, tasks: Sequence[Task], periods: Mapping[str, CompiledPeriod], limits: Mapping[str, int]) -> None:
        keys = {name: number for number, name in enumerate(limits, 1)}
        for name, number in keys.items():
            self.lifecycle.set_limit(number, limits[name])
        numbers = {name: self.times.period_number(period) for name, period in periods.items()}
        enrol(self.columns, self.times, self.rows, tasks, numbers, keys)
        found = dict(zip((task.name for task in tasks), self.rows.tolist(), strict=True))
        self._reachability = Reachability(self.columns, found.get)
        self._reachability.define(self.rows, tasks)
        self._reachability.settle()
        self._names = [task.name for task in tasks]
        self._chains = Chains(self.lifecycle)
        for task in tasks:
            if task.schedule.parents:
                self._chains.define(found[task.name], task.schedule, self.time)
        self._chains.know_parents(found.get)

    def run(
        self,
        length: int,
        durations: Durations,
        faults: Sequence[Fault] = (),
        *,
        outcomes: Outcomes | None = None,
        keep_history: bool = False,
    ) -> SimulationReport:
        """Let time pass for `length`; the report covers it."""
        start, end = self.time, Instant(self.time + length)
        report = _ReportBuilder(length)
        coming = sorted(faults, key=_when)
        while self.time < end:
            if coming and self.time >= _when(coming[0]):
                report.skips(self._apply_fault(coming.pop(0)))
                continue
            report.skips(self._complete(with_results=outcomes is not None))
            claims = self._release(report)
            if len(claims.rows):
                self._begin(claims, durations, outcomes)
                report.starts[(self.time - start) // SECOND] += len(claims.rows)
                # A run that follows others is due when they have ended, whatever nominal time it has.
                late = np.where(claims.kind == RunKind.CHAIN, 0, self.now - claims.nominal)
                report.lateness.append(late / SECOND)
                if keep_history:
                    report.history += _listed(self.time, claims)
            self.time = self._next(min(end, _when(coming[0])) if coming else end)
        return report.build()

    def _release(self, report: _ReportBuilder) -> ClaimColumns:
        claims, skips, refused, _ = self._chains.settle(self.lifecycle.release(self.now))
        report.skips(skips)
        if len(refused.rows):
            np.add.at(report.refused, refused.reason, 1)
        return claims

    def _begin(self, claims: ClaimColumns, durations: Durations, outcomes: Outcomes | None) -> None:
        rows, runs = claims.rows, self._running
        on_grid = rows[claims.kind == RunKind.GRID]
        self.lifecycle.record_starts(on_grid, np.full(len(on_grid), self.now, dtype=np.int64))
        runs.started[rows], runs.nominal[rows] = self.now, claims.nominal
        if outcomes is not None:
            runs.result[rows] = outcomes(rows, self.time)
        # Results are looked at in batches too.
        self._ends.set_due(rows, -(-(self.time + durations(rows, self.time)) // BATCH) * BATCH)

    def _complete(self, *, with_results: bool) -> list[SkipColumns]:
        ended = self._ends.arrived(self.time)
        if not len(ended):
            return []
        self._ends.set_due(ended, FOREVER)
        if with_results:
            runs = self._running
            checks = ended[self.columns.flags[ended] & int(Flag.CHECK) != 0]
            self.lifecycle.apply_results(
                checks, runs.result[checks], runs.started[checks], runs.nominal[checks], self.now
            )
            self._reachability.learn_results(checks)
            self._reachability.settle()
        self.lifecycle.complete(ended)
        return self._follow(ended) if self._chains else []

    def _follow(self, ended: Ints) -> list[SkipColumns]:
        """What runs after tasks that have ended; all of them have succeeded."""
        jobs = ended[self.columns.flags[ended] & int(Flag.CHECK) == 0]
        nominal, generation = self._running.nominal[jobs].tolist(), self.lifecycle.generation
        ends = [
            EndedParent(name, row, succeeded=True, end=ParentEnd(n, generation, int(self.now)))
            for row, n, name in zip(jobs.tolist(), nominal, [self._names[row] for row in jobs.tolist()], strict=True)
            if self._chains.is_parent(name)
        ]
        return self._chains.learn(ends, self.now)

    def _apply_fault(self, fault: Fault) -> list[SkipColumns]:
        if isinstance(fault, Outage):
            self.time = fault.end
            lost = np.flatnonzero(self._running.due < FOREVER)
            self._ends.set_due(lost, FOREVER)
            self.lifecycle.complete(lost)
            return resume(self.lifecycle, self.rows, self.now)
        self._ahead += fault.by
        if fault.by < 0:
            return clock_set_back(self.lifecycle, self.rows, -fault.by, self.now)
        return resume(self.lifecycle, self.rows, self.now)

    def _next(self, latest: Instant) -> Instant:
        """When something can happen next, at the earliest a batch from now."""
        coming = min(self.lifecycle.timetable.next_due() - self._ahead, self._ends.next_due())
        return Instant(min(max(coming, self.time + BATCH), latest))


def _when(fault: Fault) -> Instant:
    return fault[0]


def _listed(at: Instant, claims: ClaimColumns) -> list[SimulatedStart]:
    columns = zip(claims.rows.tolist(), claims.nominal.tolist(), claims.kind.tolist(), strict=True)
    return [SimulatedStart(at, row, Instant(nominal), RunKind(kind)) for row, nominal, kind in columns]


def _named(counts: Ints) -> dict[str, int]:
    return {str(REASONS[i]): n for i, n in enumerate(counts.tolist()) if n}


def _last_executions(every: Ints, phase: Ints, start: Instant, rng: np.random.Generator) -> Ints:
    """When tasks were last executed by a scheduler with Icinga's rule that started a longest interval (at most a day)
    and a start window ago: by then each has run, so this is its everyday, not the minute after its start.
    """
    window = int(ICINGA_WINDOW * SECOND)
    started = start - min(int(every.max()), DAY) - window
    last = started + (np.minimum(every, window) * rng.random(len(every))).astype(np.int64)
    going_on = np.arange(len(every))
    for _ in range(_MOST_STEPS):
        following = icinga_after(last[going_on], every[going_on], phase[going_on])
        going_on, following = going_on[following < start], following[following < start]
        if not len(going_on):
            return last
        last[going_on] = following
    # After so many steps it has reached its grid.
    last[going_on] = nominal_after(phase[going_on], every[going_on], Instant(start - 1)) - every[going_on]
    return last
