"""Four ways to work through the same segments: the production path, two heapq loops, bare numpy.

In a segment every task that is due is found, in order; the gate asks whether it is enabled, its period open, no run of
it under way, the last start long enough ago and a slot free; it is claimed, due again on its grid, started and ended.
One task in fifty is disabled and one in ten has a period, so that the gate has something to decide.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace
from typing import Final, Protocol

import numpy as np

from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Flag, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import SEGMENT, Timetable
from evenbeat.model import SECOND, Instant, RunKind
from evenbeat.model import Period as PeriodNoun
from evenbeat.when.period import compile_period

START: Final = Instant(1_790_586_000 * SECOND)
"""In September 2026."""
_OPEN_PERIOD: Final = compile_period(PeriodNoun(ranges=("september 1 - december 31",)))
"""Open for longer than anybody measures: a closed one would give the sides different work."""
_MAY_RUN: Final = int(Flag.ENABLED | Flag.MINE | Flag.REACHABLE)
_RUNNING: Final = int(Flag.RUNNING)
_CHECKED_FLAGS: Final = _MAY_RUN | _RUNNING
_NOT_RUNNING: Final = 0xFFFF_FFFF ^ _RUNNING


class SegmentWalker(Protocol):
    """Goes through segments, from START on."""

    runs: int

    def __init__(self, tasks: int, intervals: Sequence[int]) -> None: ...

    def walk(self, segments: int) -> None:
        """Work through the next segments."""


def timetable_of(tasks: int, intervals: Sequence[int]) -> Lifecycle:
    """Tasks with these intervals in turn and random phases, in the timetable."""
    columns = TaskColumns()
    rows = columns.allocate(tasks)
    times = ScheduleTimes(columns)
    columns.every[:] = np.resize(np.array(intervals, dtype=np.int64), tasks)
    columns.phase[:] = np.random.default_rng(1).random(tasks) * columns.every
    columns.flags[::50] &= 0xFFFF_FFFF ^ int(Flag.ENABLED)
    columns.period[3::10] = times.period_number(_OPEN_PERIOD)
    lifecycle = Lifecycle(columns, Timetable(columns), times, slots=tasks)
    lifecycle.add_new(rows, START)
    return lifecycle


class EvenbeatWalker:
    """The loop of a node."""

    def __init__(self, tasks: int, intervals: Sequence[int]) -> None:
        self._lifecycle = timetable_of(tasks, intervals)
        self._now = START
        self.runs = 0

    def walk(self, segments: int) -> None:
        lifecycle = self._lifecycle
        for _ in range(segments):
            self._now = Instant(self._now + SEGMENT)
            claims = lifecycle.release(self._now).claims
            on_grid = claims.rows[claims.kind == RunKind.GRID]
            lifecycle.record_starts(on_grid, np.full(len(on_grid), self._now, dtype=np.int64))
            lifecycle.complete(claims.rows)
            self.runs += len(claims.rows)


class HeapWalker:
    """A heap of (due, row), and lists: how it is written without numpy."""

    def __init__(self, tasks: int, intervals: Sequence[int]) -> None:
        columns = timetable_of(tasks, intervals).columns
        self._every = columns.every.tolist()
        self._flags = columns.flags.tolist()
        self._period = columns.period[:].tolist()
        self._last_start = columns.last_start.tolist()
        self._heap = list(zip(columns.due.tolist(), range(tasks), strict=True))
        heapify(self._heap)
        self._free = tasks
        self._now = START
        self.runs = 0

    def walk(self, segments: int) -> None:
        heap, every, flags, period, last_start = self._heap, self._every, self._flags, self._period, self._last_start
        for _ in range(segments):
            self._now = now = Instant(self._now + SEGMENT)
            is_open = (_OPEN_PERIOD.contains(now), True)  # a task without one has period -1
            free, claims = self._free, []
            while heap[0][0] <= now:
                due, row = heap[0]
                interval = every[row]
                if (
                    flags[row] & _CHECKED_FLAGS == _MAY_RUN
                    and is_open[period[row]]
                    and now >= last_start[row] + interval // 2
                    and free > 0
                ):
                    free -= 1
                    flags[row] |= _RUNNING
                    claims.append((row, due))
                heapreplace(heap, (now + interval - (now - due) % interval, row))
            for row, _due in claims:
                last_start[row] = now
                flags[row] &= _NOT_RUNNING
            self._free = free + len(claims)
            self.runs += len(claims)


class PackedHeapWalker:
    """The same, tuned: due and row in one number, which is cheaper to make and to compare than a tuple."""

    def __init__(self, tasks: int, intervals: Sequence[int]) -> None:
        columns = timetable_of(tasks, intervals).columns
        self._bits = tasks.bit_length()
        # The times within the heap begin at START, so that a key is a small integer.
        self._every = [every << self._bits for every in columns.every.tolist()]
        self._patience = (columns.every // 2).tolist()
        self._flags = columns.flags.tolist()
        self._period = columns.period[:].tolist()
        self._last_start = columns.last_start.tolist()
        self._heap = [((due - START) << self._bits) | row for row, due in enumerate(columns.due.tolist())]
        heapify(self._heap)
        self._free = tasks
        self._now = START
        self.runs = 0

    def walk(self, segments: int) -> None:
        heap, every, flags, period, last_start = self._heap, self._every, self._flags, self._period, self._last_start
        patience, bits, row_of = self._patience, self._bits, (1 << self._bits) - 1
        for _ in range(segments):
            self._now = now = Instant(self._now + SEGMENT)
            is_open = (_OPEN_PERIOD.contains(now), True)
            free, claims = self._free, []
            end = (now - START + 1) << bits
            while (key := heap[0]) < end:
                row = key & row_of
                if (
                    flags[row] & _CHECKED_FLAGS == _MAY_RUN
                    and is_open[period[row]]
                    and now >= last_start[row] + patience[row]
                    and free > 0
                ):
                    free -= 1
                    flags[row] |= _RUNNING
                    claims.append(key)
                following = key + every[row]
                while following < end:
                    following += every[row]
                heapreplace(heap, following)
            for key in claims:
                row = key & row_of
                last_start[row] = now
                flags[row] &= _NOT_RUNNING
            self._free = free + len(claims)
            self.runs += len(claims)


class NumpyWalker:
    """The floor: compare the whole column, sort, mask, write back; no kinds of runs, no backlog, no reasons."""

    def __init__(self, tasks: int, intervals: Sequence[int]) -> None:
        self._columns = timetable_of(tasks, intervals).columns
        self._slots = tasks
        self._now = START
        self.runs = 0

    def walk(self, segments: int) -> None:
        c = self._columns
        for _ in range(segments):
            self._now = now = Instant(self._now + SEGMENT)
            rows = np.flatnonzero(c.due <= now)
            due = c.due[rows]
            order = np.argsort(due)
            rows, due = rows[order], due[order]
            every = c.every[rows]
            may_run = c.flags[rows] & _CHECKED_FLAGS == _MAY_RUN
            may_run &= np.array((_OPEN_PERIOD.contains(now), True))[c.period[rows]]
            may_run &= now >= c.last_start[rows] + every // 2
            claimed = rows[may_run][: self._slots]
            c.flags[claimed] |= _RUNNING
            c.due[rows] = now + every - (now - due) % every
            c.last_start[claimed] = now
            c.flags[claimed] &= _NOT_RUNNING
            self.runs += len(claimed)
