"""Explore every state of small worlds of tasks that depend on checks; the shortest way to break a property comes first.

A step begins with a node that has just started in a state; then one thing happens. Ways of several steps in one node
are for the stateful tests.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.reachability import Reachability
from evenbeat.core.task import Flag, TaskColumns
from evenbeat.model import MINUTE, Entry, Instant, Schedule, State, Task
from evenbeat.sim.breadth_first import StateExploration, Transition, verified_worlds
from evenbeat.sim.explore import ExplorationResult
from evenbeat.sim.verify import VerifiedWorld

DEPENDENCY_ERRORS: Final = "dependencies: errors"
HERE, ELSEWHERE, NOWHERE = "here", "on another node", "nowhere"
_SCHEDULE: Final = Schedule(every=MINUTE, phase=0)
_CREATED: Final = Instant(0)
Condition = tuple[State, bool]
"""The state of a check, and whether it is hard."""
OK: Final = (State.OK, True)
CRITICAL: Final = (State.CRITICAL, True)
_EVERY_CONDITION: Final = (OK, CRITICAL, (State.WARNING, True), (State.UNKNOWN, True), (State.CRITICAL, False))
_VARIANTS: Final[tuple[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], ...]] = (
    (((), ()),),
    (((), ()), ((0,), ()), ((), (0,))),
    (((), ()), ((1,), ()), ((), (0, 1)), ((0,), (1,))),
)
"""For each task: the tasks that it depends on, all and any, in each of its definitions."""


class DependencyShape(NamedTuple):
    """How large a world is, and what can happen in it."""

    name: str
    tasks: int
    conditions: tuple[Condition, ...] = (OK, CRITICAL)
    places: tuple[str, ...] = (HERE,)
    switches: bool = False
    """Tasks are paused, disabled, and no checks."""


DEPENDENCY_WORLDS: Final = (
    DependencyShape(
        "dependencies: two tasks, every state, switches, removals", 2, _EVERY_CONDITION, (HERE, NOWHERE), switches=True
    ),
    DependencyShape("dependencies: three tasks", 3),
    DependencyShape("dependencies: three tasks of two nodes", 3, places=(HERE, ELSEWHERE)),
)


class DependencyTask(NamedTuple):
    """A task in a world."""

    place: str = HERE
    switch: str = ""
    """Empty, or what it is: paused, disabled, no check."""
    condition: Condition = OK
    variant: int = 0
    """Of its definition."""

    def __str__(self) -> str:
        state, hard = self.condition
        return (
            f"{self.place} {self.switch or 'on'} {'HARD' if hard else 'SOFT'} {state.name}, definition {self.variant}"
        )


DependencyState = tuple[DependencyTask, ...]


class DependencyStep(NamedTuple):
    """What an event did."""

    event: str
    after: DependencyState
    was_unreachable: frozenset[int]
    unreachable: frozenset[int]
    """By the flags of the node, of its tasks."""
    again: frozenset[int]
    """Those of which the node says that they are reachable again."""
    points: frozenset[int]
    """Tasks that are in the graph of the node."""


class _Node:
    """A node with the production code, and what it is told."""

    def __init__(self, columns: TaskColumns, state: DependencyState, kind: type[Reachability]) -> None:
        """The columns have a row for each task, and may have been used before."""
        self.columns = columns
        self.rows = np.arange(len(state))
        columns.flags[:], columns.point[:] = TaskColumns.flags.default, TaskColumns.point.default
        self._here: set[int] = set()
        self.reachability = kind(columns, self._find)
        self.be(state, [i for i, task in enumerate(state) if task.place == HERE])

    def _find(self, name: str) -> int | None:
        return int(name) if int(name) in self._here else None

    def be(self, state: DependencyState, changed: list[int]) -> frozenset[int]:
        """Of these tasks the definitions have changed, or they came or left; which tasks are reachable again?"""
        now = [i for i in changed if state[i].place == HERE]
        gone = [i for i in changed if i in self._here and state[i].place != HERE]
        self._here = self._here - set(gone) | set(now)
        tell = self.reachability
        removed = [i for i in gone if state[i].place == NOWHERE]
        tell.forget(self._some(removed))
        tell.hand_over(self._some(sorted(set(gone) - set(removed))))
        c = self.columns
        for i in now:
            state_, c.hard[i] = state[i].condition
            c.state[i] = state_
            off = int(Flag.CHECK if state[i].switch == "no check" else Flag.ENABLED) if state[i].switch else 0
            c.flags[i] = (int(c.flags[i]) | int(Flag.CHECK | Flag.ENABLED)) & ~off
        tell.define(self._some(now), [_task(state, i) for i in now])
        return self.settle(state)

    def learn(self, state: DependencyState, i: int) -> frozenset[int]:
        """A task had a result."""
        if state[i].place == HERE:
            value, self.columns.hard[i] = state[i].condition
            self.columns.state[i] = value
            self.reachability.learn_results(self._some([i]))
        return self.settle(state)

    def settle(self, state: DependencyState) -> frozenset[int]:
        """Look at other nodes' checks, as a node of a cluster does, and settle."""
        tell = self.reachability
        seen: set[str] = set()
        while new := tell.foreign_parents().keys() - seen:
            seen |= new
            there = {name: state[int(name)] for name in new if state[int(name)].place == ELSEWHERE}
            known = tell.foreign_parents()
            entries = {n: _entry(state, int(n)) for n in there if known[n] != (int(n), there[n].variant + 1)}
            tell.define_foreign({**entries, **dict.fromkeys(new - there.keys())})
            tell.learn_foreign({name: _is_bad(task) for name, task in there.items()})
        return frozenset(tell.settle().tolist())

    @property
    def unreachable(self) -> frozenset[int]:
        off = self.columns.flags & int(Flag.REACHABLE) == 0
        return frozenset(np.flatnonzero(off).tolist()) & self._here

    @property
    def points(self) -> frozenset[int]:
        return frozenset(np.flatnonzero(self.columns.point >= 0).tolist())

    def _some(self, numbers: list[int]) -> Ints:
        return self.rows[numbers]


def _parents(state: DependencyState, i: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return _VARIANTS[i][state[i].variant]


def _task(state: DependencyState, i: int) -> Task:
    of_all, of_any = (tuple(map(str, parents)) for parents in _parents(state, i))
    return Task(str(i), _SCHEDULE, check=True, depends=of_all, depends_any=of_any)


def _entry(state: DependencyState, i: int) -> Entry:
    return Entry(i, str(i), state[i].variant + 1, "", _CREATED, _CREATED, _task(state, i))


def _is_bad(task: DependencyTask) -> bool:
    """By its own state, in the words of the design."""
    return task.place != NOWHERE and not task.switch and task.condition in (CRITICAL, (State.UNKNOWN, True))


def _expected(state: DependencyState) -> frozenset[int]:
    """Which tasks of the node are unreachable, one after the other: a task depends on tasks before it."""
    found: set[int] = set()
    for i, task in enumerate(state):
        of_all, of_any = ([_is_bad(state[p]) or p in found for p in parents] for parents in _parents(state, i))
        if task.place != NOWHERE and (any(of_all) or (of_any and all(of_any))):
            found.add(i)
    return frozenset(i for i in found if state[i].place == HERE)


def unreachable_exactly_if(step: DependencyStep) -> bool:
    """A task is unreachable exactly if a check in `depends` is not fine, or all checks in `depends_any` are not. Not
    fine is what is HARD and CRITICAL or UNKNOWN, and what is unreachable itself; the state of a paused or disabled
    check does not count.
    """
    return step.unreachable == _expected(step.after)


def told_when_reachable_again(step: DependencyStep) -> bool:
    """The node hears of each of its tasks that was unreachable and is no more, and of no other."""
    here = frozenset(i for i, task in enumerate(step.after) if task.place == HERE)
    return step.again & here == (step.was_unreachable - step.unreachable) & here


def nothing_else_is_in_the_graph(step: DependencyStep) -> bool:
    """Only tasks that depend on checks, and these checks, take part: others cost nothing."""
    linked: set[int] = set()
    for i, task in enumerate(step.after):
        if task.place == HERE:
            parents = [p for some in _parents(step.after, i) for p in some]
            linked.update([i, *parents] if parents else [])
    return step.points <= linked | {i for i, task in enumerate(step.after) if _is_ancestor(step.after, i, task)}


def _is_ancestor(state: DependencyState, i: int, task: DependencyTask) -> bool:
    """Of a task on another node that tasks here depend on."""
    children = [j for j in range(i + 1, len(state)) if i in {p for some in _parents(state, j) for p in some}]
    return task.place == HERE and any(state[j].place == ELSEWHERE for j in children)


DEPENDENCY_PROPERTIES: Final[dict[str, Callable[[DependencyStep], bool]]] = {
    "dependencies: exact": unreachable_exactly_if,
    "dependencies: again": told_when_reachable_again,
    "dependencies: small": nothing_else_is_in_the_graph,
}
DEPENDENCY_SENTENCES: Final = {
    name: " ".join((holds.__doc__ or "").split()) for name, holds in DEPENDENCY_PROPERTIES.items()
} | {DEPENDENCY_ERRORS: "Nothing that can happen to dependencies raises an error."}


def _events(shape: DependencyShape, state: DependencyState) -> Iterator[tuple[str, int, DependencyTask]]:
    """Everything that can happen next: to which task, and what it is then."""
    for i, task in enumerate(state):
        for place in shape.places:
            if place != task.place:
                moved = task._replace(place=place)
                is_new = NOWHERE in (place, task.place)
                yield f"task {i} is {place}", i, moved._replace(condition=OK, switch="") if is_new else moved
        if task.place == NOWHERE:
            continue
        for condition in shape.conditions:
            if condition != task.condition:
                yield f"task {i}: {condition[0].name}", i, task._replace(condition=condition)
        for switch in ("", "paused", "no check") if shape.switches else ():
            if switch != task.switch:
                yield f"task {i}: {switch or 'on'}", i, task._replace(switch=switch)
        for variant in range(len(_VARIANTS[i])):
            if variant != task.variant:
                yield f"task {i} gets definition {variant}", i, task._replace(variant=variant)


def _step(node: _Node, state: DependencyState, event: str, i: int, task: DependencyTask) -> DependencyStep:
    was = node.unreachable
    after = (*state[:i], task, *state[i + 1 :])
    is_result = task.condition != state[i].condition and task.place == state[i].place
    again = node.learn(after, i) if is_result else node.be(after, [i])
    return DependencyStep(event, after, was, node.unreachable, again, node.points)


def explore_dependencies(
    shape: DependencyShape, kind: type[Reachability] = Reachability, most: int | None = None
) -> ExplorationResult:
    """Breadth first from tasks that depend on nothing until nothing new turns up, or `most` states have."""
    columns = TaskColumns()
    columns.allocate(shape.tasks)

    def transitions(state: DependencyState) -> Iterator[Transition[DependencyState]]:
        for event, i, task in _events(shape, state):
            try:
                step = _step(_Node(columns, state, kind), state, event, i, task)
                broken = next((name for name, holds in DEPENDENCY_PROPERTIES.items() if not holds(step)), None)
            except Exception as error:  # any error is a counterexample
                yield Transition(f"{event}: {error!r}", state, DEPENDENCY_ERRORS)
            else:
                yield Transition(event, step.after, broken)

    first = (DependencyTask(),) * shape.tasks
    return StateExploration(shape, transitions, DEPENDENCY_SENTENCES, DEPENDENCY_ERRORS, _shown).run(first, most)


def verify_dependencies(shapes: Iterable[DependencyShape]) -> Iterator[VerifiedWorld]:
    """Explore each to its end; the first counterexample ends it all."""
    return verified_worlds(shapes, explore_dependencies)


def _shown(state: DependencyState) -> str:
    return "; ".join(f"task {i}: {task}" for i, task in enumerate(state))
