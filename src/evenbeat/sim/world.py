"""Small worlds for the verifier: a few tasks on the production lifecycle, all that can happen to them, and no clock."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.core.gate import REASONS
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.stopped_runs import withdraw_planned
from evenbeat.core.task import Flag, SkipColumns, TaskColumns
from evenbeat.core.timetable import Timetable
from evenbeat.model import Instant, RunKind
from evenbeat.sim.state import (
    ALL,
    AT_ONCE,
    BY_NOW,
    NONE,
    RELEASE,
    TaskState,
    WorldEvent,
    WorldShape,
    WorldState,
    WorldStep,
    task_state,
)
from evenbeat.when.windows import FOREVER, NEVER

NOW: Final = Instant(1_000)
"""Later than any nominal time of a world."""

_PLACE_TO_TIME: Final = {NONE: int(FOREVER), AT_ONCE: int(NEVER), BY_NOW: int(NOW)}
_TIME_TO_PLACE: Final = {time: place for place, time in _PLACE_TO_TIME.items()}
_KINDS: Final = tuple(RunKind)
_MOST_BYTES: Final = 192
"""Of the columns of one row."""


class _WorldColumns(TaskColumns):
    """Columns whose memory, and whose unused rows, can be set."""

    def set_arrays(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Put the columns into other arrays."""
        for memory in self._memory.values():
            memory.array = change(memory.array[: len(self)])
        self._show()

    def set_unused(self, rows: list[int]) -> None:
        self._freed.array[: len(rows)] = rows
        self._freed_count = len(rows)


class _WorldTimes:
    """The time of a world: a nominal time comes when the event `arrive` says so, and at most one follows it."""

    any_moves = False

    def __init__(self, tasks: int) -> None:
        self.coming = int(FOREVER)
        self.behind: Ints = np.full(tasks, FOREVER, dtype=np.int64)
        """The nominal time that has come after the first, FOREVER if none has."""
        self.open: NDArray[np.bool_] = np.ones(tasks, dtype=bool)
        self.soon: NDArray[np.bool_] = np.zeros(tasks, dtype=bool)

    def set_arrays(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        self.behind, self.open, self.soon = change(self.behind), change(self.open), change(self.soon)

    def next_after(self, rows: Ints, t: Instant) -> Ints:  # noqa: ARG002
        return np.full(len(rows), self.coming, dtype=np.int64)

    def next_after_each(self, rows: Ints, t: Ints) -> Ints:  # noqa: ARG002
        return self.next_after(rows, NOW)

    def count_between(self, rows: Ints, first: Ints, t: Instant) -> tuple[Ints, Ints]:
        behind = self.behind[rows]
        two = (first < behind) & (behind <= t)
        return (first <= t).astype(np.int64) + two, np.where(two, behind, first)

    def following(self, rows: Ints, nominal: Ints, now: Instant) -> Ints:  # noqa: ARG002
        behind = self.behind[rows]
        return np.where(nominal < behind, behind, FOREVER)

    def interval(self, rows: Ints, nominal: Ints) -> Ints:  # noqa: ARG002
        # All last starts are NOW; with an interval of 0 that is never too soon.
        return np.where(self.soon[rows], 2, 0).astype(np.int64)

    def is_open(self, rows: Ints, now: Instant) -> NDArray[np.bool_]:  # noqa: ARG002
        return self.open[rows]

    def opens_at(self, rows: Ints, now: Instant) -> Ints:  # noqa: ARG002
        return np.full(len(rows), FOREVER, dtype=np.int64)

    def repeats_after(self, rows: Ints) -> Ints:
        return np.zeros(len(rows), dtype=np.int64)

    def after_execution(self, rows: Ints, executed: Ints) -> Ints:
        raise NotImplementedError


class _CopyableMemory:
    """Columns in one piece of memory, row by row, so that all are copied at once and a row is a few bytes."""

    def __init__(self, rows: int) -> None:
        self.all: NDArray[np.uint8] = np.zeros((rows, _MOST_BYTES), dtype=np.uint8)
        self._end = 0

    def take(self, column: NDArray[Any]) -> NDArray[Any]:
        """Copy a column to here."""
        start = -(-self._end // column.itemsize) * column.itemsize
        self._end = start + column.itemsize
        here = self.all[:, start : self._end].view(column.dtype)[:, 0]
        here[:] = column
        return here


class World:
    """A world that can be put into any state. What an event does from there is one step."""

    def __init__(self, shape: WorldShape, kind: type[Lifecycle] = Lifecycle) -> None:
        self.shape = shape
        self.columns = _WorldColumns()
        self.times = _WorldTimes(shape.tasks)
        self.lifecycle = kind(self.columns, Timetable(self.columns), self.times, shape.slots[0])
        if shape.limits:
            self.lifecycle.set_limit(1, shape.limits[0])
        self._rows = self.columns.allocate(shape.tasks)
        memory = _CopyableMemory(shape.tasks)
        self.columns.set_arrays(memory.take)
        self.times.set_arrays(memory.take)
        self._memory = memory.all
        self._seen: dict[bytes, TaskState] = {}
        self._settle(self._rows)
        self.lifecycle.add_new(self._rows, NOW)
        self._remember(self.current_state())

    def _settle(self, rows: Ints) -> None:
        """What never changes in the life of a task."""
        self.columns.last_start[rows] = NOW
        self.columns.tolerance[rows] = 1
        self.columns.off_grid_kind[rows] = RunKind.OCCASION
        if self.shape.limits:
            self.columns.limit[rows] = rows < 2
        if self.shape.urgent:
            self.columns.priority[rows] = rows == self.shape.tasks - 1
        if self.shape.each:
            self.lifecycle.set_flag(rows[rows < self.shape.each], Flag.EACH, on=True)

    # To a state and back

    def put(self, state: WorldState) -> None:
        """Bring the world into a state, as if it had come to it by itself."""
        c, times = self.columns, self.times
        c.used[:] = [t.used for t in state.tasks]
        self._settle(np.flatnonzero(c.used))
        c.flags[:] = [t.flags for t in state.tasks]
        c.nominal[:] = [_PLACE_TO_TIME.get(t.nominal, t.nominal) for t in state.tasks]
        c.off_grid_due[:] = [NOW if t.extra else FOREVER for t in state.tasks]
        c.due[:] = [_PLACE_TO_TIME.get(t.due, t.due) for t in state.tasks]
        times.behind[:] = [_PLACE_TO_TIME.get(t.behind, t.behind) for t in state.tasks]
        times.open[:] = [t.open for t in state.tasks]
        times.soon[:] = [t.soon for t in state.tasks]
        self.lifecycle.pending_by_limit = np.array(state.pending_by_limit, dtype=np.int64)
        self.lifecycle.limits = np.array(state.limits, dtype=np.int64)
        self._remember(state)
        self._return()

    def _remember(self, state: WorldState) -> None:
        """Remember the state in which steps begin."""
        life = self.lifecycle
        self._before = state
        self._content = self._memory.copy()
        self._by_limit = (life.pending_by_limit.copy(), life.limits.copy())
        self._waiting = np.array(state.waiting, dtype=np.int64)
        self._unused = [i for i, task in enumerate(state.tasks) if not task.used]

    def _return(self) -> None:
        """Undo everything since the remembered state."""
        state, life = self._before, self.lifecycle
        self._memory[:] = self._content
        self.columns.set_unused(self._unused)
        life.timetable = Timetable(self.columns)
        life.waiting = self._waiting.copy()
        life.pending_by_limit, life.limits = (array.copy() for array in self._by_limit)
        life.idle, life.pending, life.slots = state.idle, state.pending, state.slots

    def current_state(self) -> WorldState:
        """The state, with times reduced to their order."""
        life, content = self.lifecycle, self._memory.tobytes()
        rows = [content[i : i + _MOST_BYTES] for i in range(0, len(content), _MOST_BYTES)]
        # Rows look alike again and again, so each content is read only once.
        tasks = [self._seen.get(row) or self._read(i, row) for i, row in enumerate(rows)]
        if max([task.latest for task in tasks]) >= sum([task.outstanding for task in tasks]):
            tasks = _renumbered(tasks)
        by_limit, limits = tuple(life.pending_by_limit.tolist()), tuple(life.limits.tolist())
        return WorldState(
            tuple(tasks), tuple(life.waiting.tolist()), life.idle, life.pending, by_limit, life.slots, limits
        )

    def _read(self, i: int, row: bytes) -> TaskState:
        c, times = self.columns, self.times
        nominal, behind, due = (
            _TIME_TO_PLACE.get(t, t) for t in (int(c.nominal[i]), int(times.behind[i]), int(c.due[i]))
        )
        # What is behind the first nominal time is gone with it if the first has moved past it.
        if nominal == NONE or behind <= nominal:
            behind = NONE
        extra, switches = bool(c.off_grid_due[i] < FOREVER), (bool(times.open[i]), bool(times.soon[i]))
        task = task_state(bool(c.used[i]), int(c.flags[i]), nominal, behind, extra, due, *switches)
        self._seen[row] = task
        return task

    # What can happen

    def events(self, state: WorldState) -> Iterator[WorldEvent]:
        """Everything that can happen next."""
        for i, task in enumerate(state.tasks):
            yield from (WorldEvent(name, i) for name in self._possible_events(task))
        if state.pending > 1:
            yield WorldEvent("complete", ALL)
        if ["occasion" in self._possible_events(task) for task in state.tasks].count(True) > 1:
            yield WorldEvent("occasion", ALL)
        if not all(task.used for task in state.tasks):
            yield WorldEvent("create")
        yield from (WorldEvent("slots", n) for n in self.shape.slots if n != state.slots)
        yield from (WorldEvent("limit", n) for n in self.shape.limits if n != state.limits[1])
        yield RELEASE

    def _possible_events(self, task: TaskState) -> Iterator[str]:
        if task.running:
            yield "complete"
        if task.removed:
            yield "return"
        if task.removed or not task.used:
            return
        yield "remove"
        yield "force"
        if task.forced:
            yield "stop"
        if task.nominal == NONE or (self.shape.behind and task.behind == NONE):
            yield "arrive"
        if self.shape.occasions and not task.extra:
            yield "occasion"
        yield from self.shape.switches

    def step(self, event: WorldEvent) -> WorldStep:
        """Let an event happen in the state the world was put into, and in no other."""
        self._return()
        before = self._before
        if event.name == "release":
            released = self.lifecycle.release(NOW)
            begun = tuple(released.claims.rows.tolist())
            claimed = dict(zip(begun, [_KINDS[kind] for kind in released.claims.kind.tolist()], strict=True))
            skips, refused = _listed(released.skips), tuple(released.refused.rows.tolist())
            concerned = {*begun, *refused, *(i for i, _ in skips)}
        else:
            begun, claimed, skips, refused = (), {}, self._happen(event), ()
            concerned = {event.subject} if event.subject != ALL else set(range(self.shape.tasks))
        after = self.current_state()
        pairs = enumerate(zip(before.tasks, after.tasks, strict=True))
        touched = [(i, b, a) for i, (b, a) in pairs if b is not a or i in concerned]
        waits_for = {i: REASONS[self.lifecycle.waits_for[i]] for i in after.waiting} if event == RELEASE else {}
        return WorldStep(self.shape, before, event, after, begun, claimed, skips, refused, touched, waits_for)

    def _happen(self, event: WorldEvent) -> tuple[tuple[int, int], ...]:
        """Let an event other than a release happen; returns which tasks skip nominal times, and how many."""
        life, rows = self.lifecycle, self._rows[event.subject : event.subject + 1]
        if event.subject == ALL:
            rows = self._rows[[event.name in self._possible_events(task) for task in self._before.tasks]]
        match event.name:
            case "complete" | "force" as name:
                getattr(life, name)(rows)
            case "remove":
                return _listed(life.remove(rows, NOW))
            case "return":
                life.restore_removed(rows, NOW)
            case "stop":
                withdraw_planned(life, rows, NOW)
            case "arrive":
                self._arrive(event.subject, rows)
            case "occasion":
                life.trigger_node_event(rows, NOW)
            case "create":
                new = self.columns.allocate(1)
                self.times.open[new], self.times.soon[new] = True, False
                self._settle(new)
                life.add_new(new, NOW)
            case "slots":
                life.slots = event.subject
            case "limit":
                life.set_limit(1, event.subject)
            case "open" | "soon":
                getattr(self.times, event.name)[rows] ^= True
            case switch:
                flag = Flag[switch.upper()]
                life.set_flag(rows, flag, on=not self.columns.flags[event.subject] & flag)
        return ()

    def _arrive(self, i: int, rows: Ints) -> None:
        """A nominal time comes, later than all that have come."""
        latest = sum(task.outstanding for task in self._before.tasks)
        if self.columns.nominal[i] < FOREVER:
            self.times.behind[i] = latest
            return
        self.times.coming = latest
        self.lifecycle.reschedule(rows, NOW)
        self.times.coming = int(FOREVER)


def _renumbered(tasks: list[TaskState]) -> list[TaskState]:
    """The tasks with their times numbered anew, after some were accounted for."""
    come = sorted({t for task in tasks for t in (task.nominal, task.behind) if t != NONE})
    places = dict(zip(come, range(len(come)), strict=True))
    return [task.moved(places) for task in tasks]


def _listed(skips: list[SkipColumns]) -> tuple[tuple[int, int], ...]:
    return tuple(pair for s in skips for pair in zip(s.rows.tolist(), s.times.tolist(), strict=True))
