"""Timetable, gate and lifecycle together, against a model of dicts and lists that anybody can follow."""

from dataclasses import dataclass, field

import numpy as np
from budget import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from evenbeat.core.columns import Ints
from evenbeat.core.gate import PRIORITY_STEP, REASONS, Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Bools, Flag, SkipColumns, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import Timetable
from evenbeat.model import SECOND, Instant, RunKind

KEYS = 3
ARun = tuple[int, int, int]
"""Task, nominal time, kind."""
ASkip = tuple[int, int, int, int, Reason]
"""Task, first and last nominal time, how many, and why."""


class SwitchedTimes(ScheduleTimes):
    """Real grids, and periods that are opened and closed by hand."""

    closed: frozenset[int] = frozenset()

    def is_open(self, rows: Ints, now: Instant) -> Bools:
        return ~np.isin(rows, list(self.closed))


@dataclass
class Task:
    every: int
    phase: int
    nominal: int
    limit: int
    priority: int
    each: bool
    tolerance: int
    enabled: bool = True
    open: bool = True
    forced: int | None = None
    """When a forced run was first seen, 0 before that."""
    running: bool = False
    removed: bool = False
    last_start: int = 0
    queued: list[int] = field(default_factory=list)

    def come(self, now: int) -> None:
        """Nominal times come, whatever becomes of them."""
        while self.nominal <= now:
            self.queued.append(self.nominal)
            self.nominal += self.every

    def age(self) -> int:
        return (self.queued[0] if self.forced is None else self.forced) - self.priority * PRIORITY_STEP

    def skip(self, row: int, reason: Reason) -> list[ASkip]:
        """One nominal time of a backlog, all that have come otherwise."""
        gone = self.queued[:1] if self.each else self.queued
        self.queued = self.queued[len(gone) :]
        return [(row, gone[0], gone[-1], len(gone), reason)] if gone else []


def listed(skips: list[SkipColumns]) -> list[ASkip]:
    return [
        (row, first, last, n, REASONS[reason])
        for s in skips
        for row, first, last, n, reason in zip(*(column.tolist() for column in s), strict=True)
    ]


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.columns = TaskColumns()
        self.times = SwitchedTimes(self.columns)
        self.lifecycle = Lifecycle(self.columns, Timetable(self.columns), self.times, slots=2)
        for key in range(1, KEYS):
            self.lifecycle.set_limit(key, 1)
        self.now = Instant(1_000 * SECOND)
        self.tasks: dict[int, Task] = {}
        self.slots = 2
        self.limits = dict.fromkeys(range(1, KEYS), 1)

    def pick(self, data: st.DataObject, *, running: bool | None = None) -> tuple[int, Task] | None:
        rows = [r for r, t in self.tasks.items() if (not t.removed if running is None else t.running == running)]
        if not rows:
            return None
        row = data.draw(st.sampled_from(rows))
        return row, self.tasks[row]

    @rule(
        every=st.integers(1, 8),
        phase=st.integers(0, 7),
        limit=st.integers(0, KEYS - 1),
        priority=st.integers(-1, 1),
        each=st.booleans(),
        said=st.none() | st.integers(0, 8),
    )
    def add(self, every: int, phase: int, limit: int, priority: int, each: bool, said: int | None) -> None:
        if len(self.tasks) > 8:
            return
        rows, c = self.columns.allocate(1), self.columns
        row = int(rows[0])
        assert row not in self.tasks
        every, phase = every * SECOND, phase % every * SECOND
        c.every[row], c.phase[row], c.limit[row], c.priority[row] = every, phase, limit, priority
        tolerance = (every if each else every // 2) if said is None else said * SECOND
        if said is not None:
            c.tolerance[row] = tolerance
        self.lifecycle.set_flag(rows, Flag.EACH, on=each)
        self.lifecycle.add_new(rows, self.now)
        self.times.closed -= {row}
        first = self.now + every - (self.now - phase) % every
        self.tasks[row] = Task(every, phase, first, limit, priority, each, tolerance)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if picked := self.pick(data):
            row, task = picked
            skips = self.lifecycle.remove(np.array([row]), self.now)
            gone = task.queued
            assert listed(skips) == ([(row, gone[0], gone[-1], len(gone), Reason.REMOVED)] if gone else [])
            task.removed = True
            if not task.running:
                del self.tasks[row]

    @rule(data=st.data())
    def switch_enabled(self, data: st.DataObject) -> None:
        if picked := self.pick(data):
            row, task = picked
            task.enabled = not task.enabled
            self.lifecycle.set_flag(np.array([row]), Flag.ENABLED, on=task.enabled)

    @rule(data=st.data())
    def switch_period(self, data: st.DataObject) -> None:
        if picked := self.pick(data):
            row, task = picked
            task.open = not task.open
            self.times.closed ^= {row}

    @rule(data=st.data())
    def force(self, data: st.DataObject) -> None:
        if picked := self.pick(data):
            row, task = picked
            self.lifecycle.force(np.array([row]))
            task.forced = task.forced or 0

    @rule(slots=st.integers(0, 4))
    def set_slots(self, slots: int) -> None:
        self.lifecycle.slots = self.slots = slots

    @rule(key=st.integers(1, KEYS - 1), most=st.integers(0, 2))
    def set_limit(self, key: int, most: int) -> None:
        self.limits[key] = most
        self.lifecycle.set_limit(key, most)

    @precondition(lambda self: any(t.running for t in self.tasks.values()))
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        picked = self.pick(data, running=True)
        assert picked
        row, task = picked
        self.lifecycle.complete(np.array([row]))
        task.running = False
        if task.removed:
            del self.tasks[row]

    @rule(half_seconds=st.integers(0, 12))
    def advance(self, half_seconds: int) -> None:
        self.now = Instant(self.now + half_seconds * SECOND // 2)
        claims, skips, *_ = self.lifecycle.release(self.now)
        on_grid = claims.rows[claims.kind == RunKind.GRID]
        self.lifecycle.record_starts(on_grid, np.full(len(on_grid), self.now))
        expected_runs, expected_skips = self.model_release()
        runs = sorted(zip(claims.rows.tolist(), claims.nominal.tolist(), claims.kind.tolist(), strict=True))
        assert runs == sorted(expected_runs)
        assert sorted(listed(skips)) == sorted(expected_skips)

    def model_release(self) -> tuple[list[ARun], list[ASkip]]:
        skips: list[ASkip] = []
        ready = [row for row, task in self.tasks.items() if not task.removed and self.is_ready(row, task, skips)]
        # Among those of equal age any order is right: follow the one that was taken.
        taken = set(np.flatnonzero(self.columns.flags & Flag.RUNNING).tolist())
        ready.sort(key=lambda row: (self.tasks[row].age(), row not in taken))
        return [run for row in ready for run in self.turn(row, self.tasks[row], skips)], skips

    def is_ready(self, row: int, task: Task, skips: list[ASkip]) -> bool:
        """Would it run, if there were room?"""
        task.come(self.now)
        if task.forced is not None:
            task.forced = task.forced or self.now
            return not task.running
        if not task.queued or (task.each and task.running):
            return False
        if not task.enabled:
            skips += task.skip(row, Reason.DISABLED)
        elif not task.open:
            skips += task.skip(row, Reason.PERIOD_CLOSED)
        elif task.running:
            skips += task.skip(row, Reason.COALESCED)
        else:
            return True
        return False

    def turn(self, row: int, task: Task, skips: list[ASkip]) -> list[ARun]:
        """It is its turn: it runs if there is room, and the guard has nothing against it."""
        busy = [t for t in self.tasks.values() if t.running]
        in_key = sum(t.limit == task.limit for t in busy)
        if len(busy) >= self.slots or (task.limit and in_key >= self.limits[task.limit]):
            return []
        if task.forced is not None:
            run = (row, task.forced, int(RunKind.FORCED))
            task.forced = None
        elif self.now < task.last_start + task.every - task.tolerance:
            skips += task.skip(row, Reason.TOO_SOON)
            return []
        else:
            run = (row, task.queued.pop(0), int(RunKind.GRID))
            task.last_start = self.now
        task.running = True
        if not task.each:
            skips += task.skip(row, Reason.COALESCED)
        return [run]

    @invariant()
    def the_books_are_right(self) -> None:
        running = [t for t in self.tasks.values() if t.running]
        assert self.lifecycle.pending == len(running)
        assert self.lifecycle.idle == len(self.tasks) - len(running)
        by_limit = [sum(t.limit == key for t in running) for key in range(KEYS)]
        assert self.lifecycle.pending_by_limit.tolist() == by_limit
        assert self.columns.in_use == len(self.tasks)
        assert sorted(np.flatnonzero(self.columns.used).tolist()) == sorted(self.tasks)
        waiting = self.lifecycle.waiting.tolist()
        assert len(set(waiting)) == len(waiting)
        assert set(waiting) <= set(self.tasks)


TestLifecycle = Machine.TestCase
TestLifecycle.settings = settings(max_examples=examples(300), stateful_step_count=50, deadline=None)
