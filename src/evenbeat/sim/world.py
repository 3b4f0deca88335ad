"""Small worlds for the verifier: a few tasks on the production lifecycle, every event that can befall them, no clock.

All time is one instant. A nominal time is only its place in the order of arrival, so a world has finitely many states
and none of them is there because a number went up.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.core.lifecycle import Flag, Kind, Lifecycle, Released, TaskColumns
from evenbeat.core.timetable import Timetable
from evenbeat.model import Instant
from evenbeat.when.windows import FOREVER, NEVER

NOW: Final = Instant(1_000)
"""Later than any nominal time of a world."""


class Shape(NamedTuple):
    """How large a world is and what can happen in it."""

    name: str
    tasks: int
    slots: tuple[int, ...]
    """The values max_concurrent can be set to; it starts with the first."""
    switches: tuple[str, ...] = ("enabled", "open")
    """What can be switched on and off, for each task."""
    limits: tuple[int, ...] = ()
    """The values of the limit that the first two tasks share; none for no limit."""
    each: bool = False
    """Whether the tasks queue their backlog."""
    occasions: bool = False
    """Whether off-grid runs come up too."""


class Event(NamedTuple):
    """Something that befalls a world."""

    name: str
    subject: int = -1

    def __str__(self) -> str:
        return self.name if self.subject < 0 else f"{self.name} {self.subject}"


RELEASE: Final = Event("release")


class TaskState(NamedTuple):
    """One task, as far as it matters. Times are places in the order of arrival."""

    used: bool
    flags: int
    nominal: int
    """Of the arrival that is not accounted for; NONE if there is none."""
    extra: bool
    """An off-grid run has come up."""
    due: int
    """What it is in the timetable for: NONE for not, AT_ONCE for a forced run, BY_NOW for an off-grid one."""
    open: bool
    soon: bool
    """Too soon after its last start, says the guard."""

    def has(self, flag: int) -> bool:
        # Not `&`: with a flag on one side, the enum would do it, ten times slower, a million times.
        return int.__and__(self.flags, flag) != 0


NONE: Final = -1
AT_ONCE: Final = -2
BY_NOW: Final = -3
_TIMES: Final = {NONE: int(FOREVER), AT_ONCE: int(NEVER), BY_NOW: int(NOW)}
_PLACES: Final = {time: place for place, time in _TIMES.items()}


class State(NamedTuple):
    """A world at rest."""

    tasks: tuple[TaskState, ...]
    waiting: tuple[int, ...]
    idle: int
    pending: int
    pending_by_limit: tuple[int, ...]
    slots: int
    limits: tuple[int, ...]


class Step(NamedTuple):
    """What an event did."""

    before: State
    event: Event
    after: State
    released: Released | None


class _WorldTimes:
    """The time of a world: a nominal time comes when the event `arrive` says so, and no other follows it."""

    def __init__(self, tasks: int) -> None:
        self.coming = int(FOREVER)
        self.open: NDArray[np.bool_] = np.ones(tasks, dtype=bool)
        self.soon: NDArray[np.bool_] = np.zeros(tasks, dtype=bool)

    def next_after(self, rows: Ints, t: Instant) -> Ints:  # noqa: ARG002
        return np.full(len(rows), self.coming, dtype=np.int64)

    def count_between(self, rows: Ints, first: Ints, t: Instant) -> tuple[Ints, Ints]:  # noqa: ARG002
        return (first <= t).astype(np.int64), first

    def following(self, rows: Ints, nominal: Ints, now: Instant) -> Ints:  # noqa: ARG002
        return np.full(len(rows), self.coming, dtype=np.int64)

    def interval(self, rows: Ints, nominal: Ints) -> Ints:  # noqa: ARG002
        # All last starts are NOW; an interval of nothing never makes that too soon.
        return np.where(self.soon[rows], 2, 0).astype(np.int64)

    def is_open(self, rows: Ints, now: Instant) -> NDArray[np.bool_]:  # noqa: ARG002
        return self.open[rows]


class World:
    """A world that can be put into any state, befallen by an event, and looked at again."""

    def __init__(self, shape: Shape, kind: type[Lifecycle] = Lifecycle) -> None:
        self.shape = shape
        self._kind = kind
        self.columns = TaskColumns()
        self.times = _WorldTimes(shape.tasks)
        self.lifecycle = self._lifecycle()
        self._rows = self.columns.allocate(shape.tasks)
        self._settle(self._rows)
        self.lifecycle.arrive(self._rows, NOW)

    def _lifecycle(self) -> Lifecycle:
        lifecycle = self._kind(self.columns, Timetable(self.columns), self.times, self.shape.slots[0])
        if self.shape.limits:
            lifecycle.set_limit(1, self.shape.limits[0])
        return lifecycle

    def _settle(self, rows: Ints) -> None:
        """What all tasks of the world have in common."""
        self.columns.last_start[rows] = NOW
        if self.shape.limits:
            self.columns.limit[rows] = rows < 2
        if self.shape.each:
            self.lifecycle.set_flag(rows, Flag.EACH, on=True)

    def look(self) -> State:
        """The state, with times brought down to their order."""
        c, life = self.columns, self.lifecycle
        n = self.shape.tasks
        nominal, due = c.nominal[:n].tolist(), c.due[:n].tolist()
        places = {t: place for place, t in enumerate(sorted({t for t in nominal if t < FOREVER}))}
        places |= _PLACES
        tasks = tuple(
            TaskState(used, flags, places[t], extra < FOREVER, places[d], open_, soon)
            for used, flags, t, extra, d, open_, soon in zip(
                c.used[:n].tolist(),
                c.flags[:n].tolist(),
                nominal,
                c.extra[:n].tolist(),
                due,
                self.times.open.tolist(),
                self.times.soon.tolist(),
                strict=True,
            )
        )
        by_limit, limits = tuple(life.pending_by_limit.tolist()), tuple(life.limits.tolist())
        return State(tasks, tuple(life.waiting.tolist()), life.idle, life.pending, by_limit, life.slots, limits)

    def put(self, state: State) -> None:
        """Bring the world into a state, as if it had come to it by itself."""
        c, n = self.columns, self.shape.tasks
        used = [task.used for task in state.tasks]
        if c.used[:n].tolist() != used:
            # The rows come back in the order they went: give all back, ask for all, give back the others.
            c.free(np.flatnonzero(c.used[:n]))
            c.allocate(n)
            c.free(np.flatnonzero(~np.array(used)))
            self._settle(np.flatnonzero(used))
        life = self.lifecycle
        life.timetable = Timetable(c)
        c.flags[:n] = [t.flags for t in state.tasks]
        c.nominal[:n] = [_TIMES.get(t.nominal, t.nominal) for t in state.tasks]
        c.extra[:n] = [NOW if t.extra else FOREVER for t in state.tasks]
        c.extra_kind[:n] = Kind.OCCASION
        life.timetable.set_due(self._rows, np.array([_TIMES.get(t.due, t.due) for t in state.tasks]))
        self.times.open[:] = [t.open for t in state.tasks]
        self.times.soon[:] = [t.soon for t in state.tasks]
        life.waiting = np.array(state.waiting, dtype=np.int64)
        life.idle, life.pending, life.slots = state.idle, state.pending, state.slots
        life.pending_by_limit[:], life.limits[:] = state.pending_by_limit, state.limits

    def events(self, state: State) -> Iterator[Event]:
        """Everything that can happen next."""
        for i, task in enumerate(state.tasks):
            if not task.used:
                continue
            if task.has(Flag.RUNNING):
                yield Event("complete", i)
            if task.has(Flag.REMOVED):
                continue
            yield Event("remove", i)
            yield Event("force", i)
            if task.nominal == NONE:
                yield Event("arrive", i)
            if self.shape.occasions and not task.extra:
                yield Event("occasion", i)
            for switch in self.shape.switches:
                yield Event(switch, i)
        if not all(task.used for task in state.tasks):
            yield Event("create")
        for value in self.shape.slots:
            if value != state.slots:
                yield Event("slots", value)
        for value in self.shape.limits:
            if value != state.limits[1]:
                yield Event("limit", value)
        yield RELEASE

    def befall(self, event: Event) -> Released | None:
        """Let an event happen."""
        life, rows = self.lifecycle, self._rows[event.subject : event.subject + 1]
        match event.name:
            case "release":
                return life.release(NOW)
            case "complete":
                life.complete(rows)
            case "remove":
                life.remove(rows)
            case "force":
                life.force(rows)
            case "arrive":
                self.times.coming = self.shape.tasks
                life.reschedule(rows, NOW)
                self.times.coming = int(FOREVER)
            case "occasion":
                life.occasion(rows, NOW)
            case "create":
                new = self.columns.allocate(1)
                self.times.open[new], self.times.soon[new] = True, False
                self._settle(new)
                life.arrive(new, NOW)
            case "slots":
                life.slots = event.subject
            case "limit":
                life.set_limit(1, event.subject)
            case "open":
                self.times.open[rows] ^= True
            case "soon":
                self.times.soon[rows] ^= True
            case switch:
                flag = Flag[switch.upper()]
                life.set_flag(rows, flag, on=not self.columns.flags[event.subject] & flag)
        return None
