"""Give new interval tasks their phase: the least-loaded place of the wheel, once; it is kept with the task."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import SystemRandom

import numpy as np
from msgspec.structs import replace

from evenbeat.model import Entry, Invalid, Spread, Task
from evenbeat.store.contract import StoreError
from evenbeat.when.fold import fold_onto_wheel, unfold_from_wheel
from evenbeat.when.schedule import compile_schedule, has_own_phase
from evenbeat.when.spread import drawn_phase, hash_phase
from evenbeat.when.wheel import LoadWheel, PlacedTask


class PhasePlacement:
    """Who has which place on the wheel, right after every change; filled when somebody first needs a place."""

    def __init__(self, entries: Callable[[], Iterable[Entry]]) -> None:
        self._entries = entries
        """All tasks there are."""
        self._wheel: LoadWheel | None = None

    def place_new(self, tasks: Sequence[Task], instead: Container[int] = ()) -> list[Task]:
        """New tasks with their phases; in the place of those with the numbers `instead`, if any."""
        if self._wheel is None:
            self._wheel = fill_wheel(entry.task for entry in self._entries() if entry.number not in instead)
        return place_on_wheel(self._wheel, tasks)

    def place_changed(self, changes: Sequence[tuple[Entry, Task]]) -> list[tuple[int, Task]]:
        """New definitions with their phases, by the numbers of the tasks. Who makes the same load as before stays."""
        after = [(entry.number, task) for entry, task in changes]
        moving = [i for i, (entry, task) in enumerate(changes) if not _same_load(entry.task, task)]
        if moving:
            self.remove([changes[i][0] for i in moving])
            given = self.place_new([changes[i][1] for i in moving], instead={changes[i][0].number for i in moving})
            for i, task in zip(moving, given, strict=True):
                after[i] = (changes[i][0].number, task)
        return after

    def remove(self, entries: Sequence[Entry]) -> None:
        """These are gone."""
        if self._wheel is not None:
            for entry in entries:
                remove_task_from_wheel(self._wheel, entry.task)

    def invalidate(self) -> None:
        """Others have changed something: it is filled anew when it is needed next."""
        self._wheel = None

    @contextmanager
    def invalidated_on_error(self) -> Iterator[None]:
        """What was given within and then refused is nobody's: the wheel is filled anew when it is needed next."""
        try:
            yield
        except (Invalid, StoreError):
            self._wheel = None
            raise


def fill_wheel(tasks: Iterable[Task]) -> LoadWheel:
    """The load that these tasks make; those without a phase yet do not count."""
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
    """Take it off again."""
    schedule = task.schedule
    if task.passive:
        return
    if schedule.every is None or has_own_phase(schedule):
        unfold_from_wheel(wheel, compile_schedule(schedule, task.name), task.weight)


def place_on_wheel(wheel: LoadWheel, tasks: Sequence[Task]) -> list[Task]:
    """The tasks with their phases, counted on the wheel; what has a phase of its own is only counted."""
    placed = list(tasks)
    even = []
    for i, task in enumerate(tasks):
        schedule = task.schedule
        if schedule.every is None or has_own_phase(schedule):
            add_task_to_wheel(wheel, task)
        elif task.passive:
            placed[i] = _with_phase(task, hash_phase(task.name, schedule.every))
        elif schedule.spread is Spread.EVEN:
            even.append(i)
        else:
            # A lot drawn once, and kept: Bergamot's phase, or Icinga's offset.
            placed[i] = _with_phase(task, drawn_phase(schedule.spread, schedule.every, SystemRandom().random()))
            add_task_to_wheel(wheel, placed[i])
    # Last, so that they make room for those whose place is given.
    chosen = wheel.place_all([(tasks[i].schedule.every or 1, tasks[i].weight) for i in even])
    for i, phase in zip(even, chosen, strict=True):
        placed[i] = _with_phase(tasks[i], phase)
    return placed


def keep_phase(new: Task, old: Task) -> Task:
    """An edit keeps the phase that a task was placed at, as long as `every` and `spread` stay as they were.

    A phase that was given counts as long as the definition gives it. Whoever gives the phase that the task has anyway,
    as documents of tasks do, changes nothing.
    """
    after, before = new.schedule, old.schedule
    same = before.phase is not None and (after.every, after.spread) == (before.every, before.spread)
    if same and (after.phase == before.phase or (after.phase is None and not before.pinned)):
        return replace(new, schedule=replace(after, phase=before.phase, pinned=before.pinned))
    return new


def _same_load(old: Task, new: Task) -> bool:
    """Is the one on the wheel where the other was? An interval without a phase is not there yet."""
    schedule = new.schedule
    placed = schedule.every is None or has_own_phase(schedule)
    # The name is what hashed times and phases go by.
    same_work = old.weight == new.weight and old.passive == new.passive
    return placed and old.name == new.name and same_work and old.schedule == schedule


def _with_phase(task: Task, phase: int) -> Task:
    return replace(task, schedule=replace(task.schedule, phase=phase))
