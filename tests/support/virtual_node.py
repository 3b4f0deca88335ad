"""A node in virtual time, for tests: it lives from event to event, and remembers what was run, skipped and refused."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.gate import REASONS, Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Flag, SkipColumns, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import Timetable
from evenbeat.model import DAY, MINUTE, SECOND, Instant, RunKind, State
from evenbeat.model import Period as PeriodNoun
from evenbeat.when.cron import Cron
from evenbeat.when.nominal_times import CompiledSchedule
from evenbeat.when.period import compile_period

T = TypeVar("T")
Answer = Callable[[int], T]
"""For each row."""

START = Instant(20_000 * DAY)
"""A midnight."""


class Run(NamedTuple):
    row: int
    at: int
    nominal: int
    kind: RunKind
    settles: bool
    """It accounts for its nominal time: a run on the grid, or one that makes up for a missed one.

    A start asked for with `start_at` does not, even at a time of the grid: that one is skipped as postponed.
    """


class Skip(NamedTuple):
    row: int
    first: int
    last: int
    times: int
    reason: Reason


class Refusal(NamedTuple):
    row: int
    due: int
    kind: RunKind
    reason: Reason


class Node:
    """Drives a lifecycle from event to event: whatever is due is released, whatever has run its time completes."""

    def __init__(self, slots: int = 1_000_000, *, ahead: int = 0) -> None:
        self.ahead = ahead
        """By so much, what is due is claimed before it is."""
        self.columns = TaskColumns()
        self.times = ScheduleTimes(self.columns)
        self.lifecycle = Lifecycle(self.columns, Timetable(self.columns), self.times, slots)
        self.now = START
        self.runs: list[Run] = []
        self.skips: list[Skip] = []
        self.refused: list[Refusal] = []
        self.ends: dict[int, int] = {}
        self.lasts: Answer[int] = lambda row: 0
        self.state: Answer[State] = lambda row: State.OK

    def add(self, n: int = 1, *, every: int = MINUTE, phase: Ints | int = 0, flags: Flag | None = None) -> Ints:
        rows = self.columns.allocate(n)
        self.columns.every[rows], self.columns.phase[rows] = every, phase
        if flags:
            self.lifecycle.set_flag(rows, flags, on=True)
        self.lifecycle.add_new(rows, self.now)
        return rows

    def add_calendar(self, times: CompiledSchedule, flags: Flag | None = None) -> Ints:
        rows = self.columns.allocate(1)
        shared, second = (times.times, times.second) if isinstance(times, Cron) else (times, 0)
        self.columns.calendar[rows], self.columns.second[rows] = self.times.calendar_number(shared), second
        if flags:
            self.lifecycle.set_flag(rows, flags, on=True)
        self.lifecycle.add_new(rows, self.now)
        return rows

    def set_slots(self, slots: int) -> None:
        """Whoever waits for one is looked at with the next release."""
        self.lifecycle.slots = slots
        self.release()

    def period(self, row: Ints, *ranges: str) -> None:
        self.columns.period[row] = self.times.period_number(compile_period(PeriodNoun(ranges=ranges)))
        self.lifecycle.reschedule(row, self.now)

    def record(self, skips: list[SkipColumns]) -> None:
        for s in skips:
            for row, first, last, n, reason in zip(*(column.tolist() for column in s), strict=True):
                self.skips.append(Skip(row, first, last, n, REASONS[reason]))

    def release(self) -> list[Run]:
        to_account = self.columns.nominal.tolist()
        claims, skips, refused, _ = self.lifecycle.release(self.now, self.ahead)
        # The end of a postponement comes before everything else in a release: it skips the nominal times up to the
        # start, the start's own among them, and the row goes on with the one after it.
        known = len(self.skips)
        self.record(skips)
        for skip in self.skips[known:]:
            if skip.reason is Reason.POSTPONED:
                to_account[skip.row] = int(self.times.next_after(np.array([skip.row]), Instant(skip.last))[0])
        for row, due, kind, reason in zip(*(column.tolist() for column in refused), strict=True):
            self.refused.append(Refusal(row, due, RunKind(kind), REASONS[reason]))
        columns = zip(claims.rows.tolist(), claims.nominal.tolist(), claims.kind.tolist(), strict=True)
        begun = [
            Run(
                row,
                at=max(self.now, nominal),
                nominal=nominal,
                kind=RunKind(kind),
                settles=kind != RunKind.FORCED and nominal == to_account[row],
            )
            for row, nominal, kind in columns
        ]
        on_grid = claims.kind == RunKind.GRID
        self.lifecycle.record_starts(claims.rows[on_grid], np.maximum(claims.nominal[on_grid], self.now))
        self.runs += begun
        self.ends |= {run.row: run.at + self.lasts(run.row) for run in begun}
        return begun

    def complete(self, row: int) -> None:
        del self.ends[row]
        rows = np.array([row])
        if self.columns.flags[row] & Flag.CHECK:
            run = next(run for run in reversed(self.runs) if run.row == row)
            state = np.array([self.state(row)], dtype=np.uint8)
            self.lifecycle.apply_results(rows, state, np.array([run.at]), np.array([run.nominal]), self.now)
        self.lifecycle.complete(rows)

    def advance(self, t: int) -> None:
        """Live through everything up to and including START + t."""
        until = START + t
        while (event := min(self._next_release(), min(self.ends.values(), default=until + 1))) <= until:
            self.now = Instant(max(self.now, event))
            for row in [row for row, end in self.ends.items() if end <= self.now]:
                self.complete(row)
            self.release()
        self.now = Instant(until)
        self.release()

    def _next_release(self) -> int:
        """What was not released ahead is looked at again when it is due."""
        due = self.lifecycle.timetable.next_due()
        return due if due <= self.now + self.ahead else due - self.ahead

    def started(self, row: Ints | int = 0) -> list[int]:
        """When it was begun, since the start of all."""
        return [run.at - START for run in self.runs if run.row == row]

    def must_have_accounted_for(self, row: Ints, since: Instant = START) -> None:
        """Every nominal time since then was run or skipped with a reason, once, up to the one that comes next."""
        number = int(row[0])
        spans = [(r.nominal, r.nominal, 1) for r in self.runs if r.settles and r.row == number]
        spans += [(s.first, s.last, s.times) for s in self.skips if s.row == number]
        expected = int(self.times.next_after(row, since)[0])
        for first, last, times in sorted(spans):
            assert first == expected
            found = 1
            while expected < last:
                expected = int(self.times.next_after(row, Instant(expected))[0])
                found += 1
            assert (expected, found) == (last, times)
            expected = int(self.times.next_after(row, Instant(last))[0])
        assert self.columns.nominal[number] == expected

    def kinds(self) -> list[RunKind]:
        return [run.kind for run in self.runs]


def seconds(*times: float) -> list[int]:
    return [round(t * SECOND) for t in times]
