"""Explore every reachable state of a world and check the properties on every step; shortest counterexample first."""

from collections import deque
from typing import NamedTuple

from evenbeat.core.lifecycle import Flag, Lifecycle
from evenbeat.sim.properties import PROPERTIES, may_run
from evenbeat.sim.world import RELEASE, Event, Shape, State, Step, World


class Counterexample(NamedTuple):
    """The shortest way to break a property."""

    property: str
    sentence: str
    world: str
    events: tuple[Event, ...]
    state: State

    def __str__(self) -> str:
        path = "\n".join(f"  {i + 1}. {event}" for i, event in enumerate(self.events))
        return (
            f"property {self.property} fails in the world '{self.world}': {self.sentence}\n{path}\nleaves {self.state}"
        )


class Explored(NamedTuple):
    """What an exploration found; complete if there is no counterexample."""

    states: int
    transitions: int
    counterexample: Counterexample | None


def explore(shape: Shape, kind: type[Lifecycle] = Lifecycle, most: int | None = None) -> Explored:
    """Breadth first from the world's beginning until nothing new turns up, or `most` states have (then incomplete)."""
    world = World(shape, kind)
    start = world.look()
    came_from: dict[State, tuple[State, Event] | None] = {start: None}
    edges: dict[State, dict[Event, State]] = {}
    frontier, transitions = deque([start]), 0
    while frontier:
        if most is not None and len(came_from) > most:
            # Liveness follows the edges to their end; of a part of the world it cannot be told.
            return Explored(len(came_from), transitions, None)
        before = frontier.popleft()
        edges[before] = {}
        for event in world.events(before):
            world.put(before)
            released = world.befall(event)
            after = world.look()
            transitions += 1
            step = Step(before, event, after, released)
            for name, holds in PROPERTIES.items():
                if not holds(step):
                    found = Counterexample(
                        name, _sentence(holds), shape.name, (*_path(came_from, before), event), after
                    )
                    return Explored(len(came_from), transitions, found)
            edges[before][event] = after
            if after not in came_from:
                came_from[after] = (before, event)
                frontier.append(after)
    return Explored(len(came_from), transitions, _stranded(shape, edges, came_from))


def _stranded(
    shape: Shape, edges: dict[State, dict[Event, State]], came_from: dict[State, tuple[State, Event] | None]
) -> Counterexample | None:
    """Liveness: from every state, if runs complete and nothing else happens, every task that may run is begun."""
    for start in edges:
        if start.slots < 1 or any(limit < 1 for limit in start.limits):
            continue
        left = {i for i, task in enumerate(start.tasks) if may_run(task)}
        state = start
        for _ in range(2 * len(start.tasks) + 2):
            for i, task in enumerate(state.tasks):
                if task.used and task.has(Flag.RUNNING):
                    state = edges[state][Event("complete", i)]
            following = edges[state][RELEASE]
            left -= {i for i, task in enumerate(following.tasks) if task.used and task.has(Flag.RUNNING)}
            state = following
        if left:
            sentence = "From every reachable state every eligible task is begun, if only runs complete."
            return Counterexample("liveness", sentence, shape.name, _path(came_from, start), start)
    return None


def _path(came_from: dict[State, tuple[State, Event] | None], state: State) -> tuple[Event, ...]:
    events: list[Event] = []
    while (step := came_from[state]) is not None:
        state, event = step
        events.append(event)
    return tuple(reversed(events))


def _sentence(holds: object) -> str:
    return (holds.__doc__ or "").partition(". ")[2]
