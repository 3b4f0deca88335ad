"""Which phase does an interval task get? The least-loaded place of the load wheel, once; it is kept with the task."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from evenbeat.model import Entry, Instant, Spread, Task
from evenbeat.when.expected_load import fold_onto_wheel, unfold_from_wheel
from evenbeat.when.schedule import compile_schedule, has_own_phase
from evenbeat.when.spread import EPOCH, drawn_phase, hash_phase
from evenbeat.when.wheel import LoadWheel, PlacedTask

_EVEN: Final = Spread.EVEN
Draw = Callable[[], float]
"""A random number from 0 to less than 1."""


class PhasePlacement:
    """The load wheel that goes with all tasks, right after every change. It is filled when a place is first needed."""

    def __init__(self, entries: Callable[[], Iterable[Entry]], draw: Draw) -> None:
        """`entries` gives all tasks that there are."""
        self._entries = entries
        self._draw = draw
        self._wheel: LoadWheel | None = None

    def place_new(self, tasks: Sequence[Task], instead: Container[int] = ()) -> list[Task]:
        """New tasks with their phases; they replace the tasks with the numbers `instead`, if any."""
        if self._wheel is None:
            self._wheel = fill_wheel(entry.task for entry in self._entries() if entry.number not in instead)
        return place_on_wheel(self._wheel, tasks, self._draw)

    def place_changed(self, changes: Sequence[tuple[Entry, Task]]) -> list[tuple[int, Task]]:
        """New definitions with their phases, by the numbers of the tasks. A task that makes the same load stays."""
        after = [(entry.number, task) for entry, task in changes]
        moving = [i for i, (entry, task) in enumerate(changes) if not _same_load(entry.task, task)]
        if moving:
            self.remove([changes[i][0] for i in moving])
            given = self.place_new([changes[i][1] for i in moving], instead={changes[i][0].number for i in moving})
            for i, task in zip(moving, given, strict=True):
                after[i] = (changes[i][0].number, task)
        return after

    def remove(self, entries: Sequence[Entry]) -> None:
        """These tasks are removed."""
        if self._wheel is not None:
            for entry in entries:
                remove_task_from_wheel(self._wheel, entry.task)

    def invalidate(self) -> None:
        """Another process has changed tasks: fill the wheel anew when it is needed next."""
        self._wheel = None

    @contextmanager
    def invalidated_on_error(self) -> Iterator[None]:
        """If a change is refused, the phases given for it are not used: fill the wheel anew when it is needed next."""
        try:
            yield
        except BaseException:
            self._wheel = None
            raise


def fill_wheel(tasks: Iterable[Task]) -> LoadWheel:
    """The load that these tasks make. Interval tasks without a phase do not count."""
    wheel = LoadWheel()
    alike: dict[tuple[int, float], list[int]] = {}
    for task in tasks:
        schedule = task.schedule
        if schedule.every is not None and schedule.phase is not None and not task.passive:
            alike.setdefault((schedule.every, task.weight), []).append(schedule.phase)
        else:
            add_task_to_wheel(wheel, task)
    for (every, weight), phases in alike.items():
        wheel.add_all(every, weight, np.array(phases, dtype=np.int64))
    return wheel


def add_task_to_wheel(wheel: LoadWheel, task: Task) -> None:
    """Put a task onto the wheel; a passive check makes no load."""
    schedule = task.schedule
    if task.passive:
        return
    if schedule.every is not None and schedule.phase is not None:
        wheel.add(PlacedTask(schedule.every, schedule.phase, task.weight))
    elif schedule.every is None or has_own_phase(schedule):
        fold_onto_wheel(wheel, compile_schedule(schedule, task.name), task.weight)


def remove_task_from_wheel(wheel: LoadWheel, task: Task) -> None:
    """Take a task off the wheel."""
    schedule = task.schedule
    if task.passive:
        return
    if schedule.every is None or has_own_phase(schedule):
        unfold_from_wheel(wheel, compile_schedule(schedule, task.name), task.weight)


def place_on_wheel(wheel: LoadWheel, tasks: Sequence[Task], draw: Draw, first_scheduled: Instant = EPOCH) -> list[Task]:
    """The tasks with their phases, counted on the wheel; a task that has a phase of its own is only counted."""
    placed = list(tasks)
    even = []
    for i, task in enumerate(tasks):
        schedule = task.schedule
        if schedule.every is not None and schedule.phase is None and schedule.spread is _EVEN and not task.passive:
            even.append(i)  # as nearly all
        elif schedule.every is None or has_own_phase(schedule):
            add_task_to_wheel(wheel, task)
        elif task.passive:
            placed[i] = task.with_phase(hash_phase(task.name, schedule.every))
        else:
            # Drawn once, and kept: Bergamot's phase, or Icinga's offset.
            phase = drawn_phase(schedule.spread, schedule.every, draw(), first_scheduled)
            placed[i] = task.with_phase(phase)
            add_task_to_wheel(wheel, placed[i])
    # Last, so that they fill in around the tasks whose places are given.
    chosen = wheel.place_all([(tasks[i].schedule.every or 1, tasks[i].weight) for i in even])
    for i, phase in zip(even, chosen, strict=True):
        placed[i] = tasks[i].with_phase(phase)
    return placed


def keep_phase(new: Task, old: Task) -> Task:
    """An edit keeps the phase that a task was placed at, as long as `every` and `spread` stay as they were.

    A phase given in the definition counts as long as the definition gives it. To give the phase that the task has
    anyway, as documents of tasks do, changes nothing.
    """
    after, before = new.schedule, old.schedule
    if before.phase is None or (after.every, after.spread) != (before.every, before.spread):
        return new
    if after.phase == before.phase or (after.phase is None and not before.pinned):
        return new.with_phase(before.phase, pinned=before.pinned)
    return new


def _same_load(old: Task, new: Task) -> bool:
    """Do both make the same load at the same places of the wheel? An interval without a phase is not on it yet."""
    schedule = new.schedule
    placed = schedule.every is None or has_own_phase(schedule)
    # Hashed times and phases depend on the name.
    same_work = old.weight == new.weight and old.passive == new.passive
    return placed and old.name == new.name and same_work and old.schedule == schedule
