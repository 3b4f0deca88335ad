"""The worlds that are verified by name, or one of a given size, explored one after the other by all processors."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from signal import SIG_IGN, SIGINT, signal
from typing import Final, NamedTuple, Protocol, Self

from evenbeat.model import Invalid
from evenbeat.sim.explore import ExpandedState, ExplorationResult, StateBatch, explore
from evenbeat.sim.properties import WORLD_SENTENCES
from evenbeat.sim.state import WorldShape

_EVERY_SWITCH: Final = ("enabled", "open", "mine", "reachable", "skips_unreachable", "permitted", "soon")

WORLDS: Final = (
    WorldShape("one task, every switch", 1, (1, 0), _EVERY_SWITCH, occasions=True, behind=True),
    WorldShape("two tasks, one of them urgent", 2, (1, 0), (), occasions=True, urgent=True),
    WorldShape("two tasks with off-grid runs, one with a backlog", 2, (1,), ("open",), occasions=True, each=1),
    WorldShape("two tasks with a backlog, one slot", 2, (1,), ("enabled",), each=2, behind=True),
    WorldShape("two tasks, two slots, one, none", 2, (2, 1, 0), ("enabled", "open")),
    WorldShape("three tasks, two slots, a limit for two of them", 3, (2,), (), limits=(1, 0)),
    WorldShape("three tasks, two slots", 3, (2,), ("enabled",)),
)
"""Together they have every event and every switch, and saturation of the slots and of a limit. Small ones first."""

MAX_TASKS_AND_SLOTS: Final = 3
"""Tasks, and slots, of a world of given size: with four tasks it has millions of states."""
_PARALLEL_THRESHOLD: Final = 500
"""States in a level that are worth starting processes for."""


def world_of(tasks: int | None, slots: int | None) -> WorldShape:
    """A world of this size, with as much in it as can be explored in a minute or two."""
    for option, number in (("--tasks", tasks), ("--slots", slots)):
        if number is not None and not 1 <= number <= MAX_TASKS_AND_SLOTS:
            raise Invalid(f"{number} is out of range, accepted: 1 to {MAX_TASKS_AND_SLOTS}", place=option)
    tasks = MAX_TASKS_AND_SLOTS if tasks is None else tasks
    slots = 2 if slots is None else slots
    lowered = tuple(range(slots, -1, -1)) if tasks < MAX_TASKS_AND_SLOTS else (slots,)
    switches = {1: _EVERY_SWITCH, 2: ("enabled", "open"), 3: ("enabled",)}[tasks]
    few = tasks == 1
    return WorldShape(f"tasks: {tasks}, slots: {slots}", tasks, lowered, switches, occasions=few, behind=few)


class NamedModel(Protocol):
    """A model with a name: a world of tasks, or a cluster."""

    @property
    def name(self) -> str: ...


class VerifiedWorld(NamedTuple):
    """A world, and what its exploration found."""

    shape: NamedModel
    explored: ExplorationResult


def verify(shapes: Iterable[WorldShape]) -> Iterator[VerifiedWorld]:
    """Explore each world to its end; the first counterexample ends it all."""
    with _Processors() as mapper:
        for shape in shapes:
            explored = explore(shape, mapper=mapper)
            yield VerifiedWorld(shape, explored)
            if explored.counterexample is not None:
                return


def property_verdicts(verified: list[VerifiedWorld], sentences: Iterable[str] = WORLD_SENTENCES) -> dict[str, str]:
    """Of each property: "holds", "fails", or "open" if a counterexample to another ended the exploration."""
    broken = [v.explored.counterexample.property for v in verified if v.explored.counterexample is not None]
    rest = "open" if broken else "holds"
    return {name: "fails" if name in broken else rest for name in sentences}


class _Processors:
    """`map` on all processors, if there are several and enough to do."""

    def __init__(self) -> None:
        self._number = len(os.sched_getaffinity(0))
        self._started = ExitStack()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    def __call__(
        self, function: Callable[[StateBatch], list[ExpandedState]], batches: list[StateBatch], /
    ) -> Iterator[list[ExpandedState]]:
        if self._number < 2 or sum(map(len, batches)) < _PARALLEL_THRESHOLD:
            return map(function, batches)
        if self._pool is None:
            # Not forked: numpy may have threads. Ctrl-C is for this process, which then ends the others.
            spawn = get_context("spawn")
            pool = ProcessPoolExecutor(self._number, spawn, initializer=signal, initargs=(SIGINT, SIG_IGN))
            self._pool = self._started.enter_context(pool)
        return self._pool.map(function, batches)
