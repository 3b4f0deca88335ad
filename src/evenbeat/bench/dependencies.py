"""Dependencies, measured: what they cost in each segment, and how long a failing check takes to mark others."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import Final

import numpy as np

from evenbeat.bench.measure import Comparison, Contender, Observation, compare_in_pairs
from evenbeat.bench.segment import DENSE
from evenbeat.bench.segment_loops import START, timetable_of
from evenbeat.core.reachability import Reachability
from evenbeat.core.task import Flag
from evenbeat.core.timetable import SEGMENT
from evenbeat.model import MINUTE, Instant, RunKind, Schedule, State, Task

_CHILDREN: Final = 100_000
_PARENTS: Final = 10_000
_SEGMENTS: Final = 200
_WARM_UP: Final = 10
_MARKED: Final = 50_000
_TIMES: Final = 21
_EVERY_MINUTE: Final = Schedule(every=MINUTE, phase=0)


class CheckWalker:
    """Goes through segments of checks, and has reachability learn their results as a node does."""

    def __init__(self, parents: int, children: int, intervals: Sequence[int], *, depend: bool) -> None:
        """The first checks are the parents. All are fine."""
        self._lifecycle = timetable_of(parents + children, intervals)
        self.columns = self._lifecycle.columns
        self.columns.flags[:] |= int(Flag.CHECK)
        self.columns.flags[:parents] |= int(Flag.ENABLED)  # else their states do not count
        self.reachability = Reachability(self.columns, lambda name: int(name) if int(name) < parents else None)
        self._now = START
        if depend:
            rows = np.arange(parents + children, dtype=np.int64)
            tasks = [Task(str(row), _EVERY_MINUTE, check=True, depends=_depends(row, parents)) for row in rows.tolist()]
            self.reachability.define(rows, tasks)
        self.reachability.settle()

    def walk(self, segments: int) -> None:
        """Work through the next segments."""
        lifecycle = self._lifecycle
        for _ in range(segments):
            self._now = Instant(self._now + SEGMENT)
            claims = lifecycle.release(self._now).claims
            on_grid = claims.rows[claims.kind == RunKind.GRID]
            lifecycle.record_starts(on_grid, np.full(len(on_grid), self._now, dtype=np.int64))
            lifecycle.complete(claims.rows)
            self.reachability.learn_results(claims.rows)
            self.reachability.settle()

    def set_state(self, row: int, state: State) -> None:
        """A HARD result of a check."""
        self.columns.state[row], self.columns.hard[row] = state, True
        self.reachability.learn_results(np.array([row], dtype=np.int64))


def _depends(row: int, parents: int) -> tuple[str, ...]:
    return (str(row % parents),) if row >= parents else ()


def comparisons(pairs: int) -> Iterator[tuple[str, Comparison]]:
    """Segments of checks that depend on others, beside the same segments of checks that do not."""
    sides = {
        name: CheckWalker(_PARENTS, _CHILDREN, DENSE.intervals, depend=depend)
        for name, depend in (("with a parent each", True), ("without", False))
    }
    for walker in sides.values():
        walker.walk(_WARM_UP)
    ours, theirs = (Contender(name, partial(walker.walk, _SEGMENTS), _SEGMENTS) for name, walker in sides.items())
    title = f"Segment: a second of {_CHILDREN:,} checks that depend on {_PARENTS:,} others"
    yield "segment_dependencies", compare_in_pairs(title, ours, theirs, pairs)


def marking_milliseconds() -> Observation:
    """A check fails, and all that depends on it is unreachable."""
    walker = CheckWalker(1, _MARKED, DENSE.intervals, depend=True)
    taken = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        walker.set_state(0, State.CRITICAL)
        walker.reachability.settle()
        taken.append((time.perf_counter() - began) * 1e3)
        marked = int((walker.columns.flags & int(Flag.REACHABLE) == 0).sum())
        assert marked == _MARKED, f"{marked} are unreachable"
        walker.set_state(0, State.OK)
        walker.reachability.settle()
    middle = median(taken)
    text = f"[bold]Dependencies[/bold]: a failing check makes {_MARKED:,} others unreachable in {middle:.1f} ms"
    return Observation(middle, text)
