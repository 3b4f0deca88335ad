"""Explore every reachable state of a world and check the properties on every step; shortest counterexample first."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple, Protocol

from evenbeat.core.lifecycle import Lifecycle
from evenbeat.sim.properties import ERRORS, LIVENESS, WORLD_SENTENCES, first_broken_property, has_room, may_run
from evenbeat.sim.state import WorldEvent, WorldShape, WorldState
from evenbeat.sim.world import World

_BATCH: Final = 100
"""States expanded together: enough to make handing them to another process cheap, few enough to share them fairly."""
_FAIR: Final = ("complete", "release")
"""Events that happen without any request."""


class Counterexample(NamedTuple):
    """The shortest way to break a property."""

    property: str
    sentence: str
    world: str
    events: tuple[WorldEvent | str, ...]
    state: object

    def __str__(self) -> str:
        path = "".join(f"  {i + 1}. {event}\n" for i, event in enumerate(self.events))
        return f"property {self.property} fails in the world '{self.world}': {self.sentence}\n{path}leaves {self.state}"


class ExplorationResult(NamedTuple):
    """What an exploration found; complete if there is no counterexample."""

    states: int
    transitions: int
    counterexample: Counterexample | None


class ExpandedState(NamedTuple):
    """What one state leads to: states, in the order of its events, up to the first event that breaks a property."""

    following: list[bytes]
    fair: list[bytes]
    """Those states that come about without any request."""
    broken: str | None
    """The broken property, with the error if there was one."""


StateBatch = list[bytes]


class Mapper(Protocol):
    """`map`, or a version of it that uses several processes."""

    def __call__(
        self, function: Callable[[StateBatch], list[ExpandedState]], batches: list[StateBatch], /
    ) -> Iterator[list[ExpandedState]]:
        """Apply the function to each batch, results in order."""


def explore(
    shape: WorldShape, kind: type[Lifecycle] = Lifecycle, most: int | None = None, mapper: Mapper = map
) -> ExplorationResult:
    """Breadth first from the world's beginning until nothing new turns up, or `most` states have (then incomplete)."""
    return _WorldExploration(shape, kind).run(most, mapper)


class _WorldExploration:
    """The states found so far, numbered in that order, and how each was reached first."""

    def __init__(self, shape: WorldShape, kind: type[Lifecycle]) -> None:
        self._shape = shape
        self._kind = kind
        self._states = [World(shape, kind).current_state().packed()]
        self._numbers = {self._states[0]: 0}
        self._reached = [(-1, -1)]
        """From which state, by which of its events."""
        self._fair: list[list[bytes]] = []
        self._transitions = 0

    def run(self, most: int | None, mapper: Mapper) -> ExplorationResult:
        """Level by level, so that a counterexample is as short as possible."""
        while len(self._fair) < len(self._states):
            level = self._states[len(self._fair) :]
            size = min(_BATCH, 1 + len(level) // 8)
            batches = [level[i : i + size] for i in range(0, len(level), size)]
            for batch in mapper(partial(_expand, self._shape, self._kind), batches):
                for expanded in batch:
                    broken = self._add(expanded)
                    if broken is not None:
                        return self._explored(broken)
                if most is not None and len(self._states) > most:
                    # Liveness follows steps to their end, so it cannot be decided for part of a world.
                    return self._explored(None)
        return self._explored(self._stranded())

    def _explored(self, counterexample: Counterexample | None) -> ExplorationResult:
        return ExplorationResult(len(self._states), self._transitions, counterexample)

    def _add(self, expanded: ExpandedState) -> Counterexample | None:
        """Take in what the next state leads to."""
        number = len(self._fair)
        self._fair.append(expanded.fair)
        self._transitions += len(expanded.following)
        if expanded.broken is not None:
            event = len(expanded.following) - 1
            return self._counterexample(expanded.broken, number, event, expanded.following[event])
        for event, state in enumerate(expanded.following):
            if state not in self._numbers:
                self._numbers[state] = len(self._states)
                self._states.append(state)
                self._reached.append((number, event))
        return None

    def _stranded(self) -> Counterexample | None:
        """Liveness. Completions and releases alone always come to rest, and all tasks that may run have begun by then.

        Between two rests no task that may run is forgotten: that is the property `patience`.
        """
        following = [{self._numbers[s] for s in fair} - {i} for i, fair in enumerate(self._fair)]
        for number, further in enumerate(following):
            if not further and self._somebody_is_left(self._state(number)):
                return self._counterexample(LIVENESS, *self._reached[number], self._states[number])
        back = _find_cycle(following)
        return None if back is None else self._counterexample(LIVENESS, *self._reached[back], self._states[back])

    def _somebody_is_left(self, state: WorldState) -> bool:
        return any(may_run(t) and has_room(state, self._shape.key_of(i)) for i, t in enumerate(state.tasks))

    def _state(self, number: int) -> WorldState:
        return WorldState.unpacked(self._states[number], self._shape)

    def _counterexample(self, name: str, number: int, event: int, after: bytes) -> Counterexample:
        name, _, error = name.partition(": ")
        sentence = f"{WORLD_SENTENCES[name]} {error}".rstrip()
        events: list[WorldEvent] = []
        world = World(self._shape, self._kind)
        while number >= 0:
            events.append(list(world.events(self._state(number)))[event])
            number, event = self._reached[number]
        return Counterexample(
            name, sentence, self._shape.name, tuple(reversed(events)), WorldState.unpacked(after, self._shape)
        )


def _find_cycle(following: list[set[int]]) -> int | None:
    """A state on a cycle, or None: removes states that lead nowhere until none is left."""
    leads_to = [len(further) for further in following]
    preceding: list[list[int]] = [[] for _ in following]
    for number, further in enumerate(following):
        for other in further:
            preceding[other].append(number)
    ends = [number for number, n in enumerate(leads_to) if n == 0]
    while ends:
        for number in preceding[ends.pop()]:
            leads_to[number] -= 1
            if leads_to[number] == 0:
                ends.append(number)
    return next((number for number, n in enumerate(leads_to) if n), None)


_worlds: Final[dict[tuple[WorldShape, type[Lifecycle]], World]] = {}
"""The world that this process explored last."""


def _world(shape: WorldShape, kind: type[Lifecycle]) -> World:
    if (shape, kind) not in _worlds:
        _worlds.clear()
        _worlds[shape, kind] = World(shape, kind)
    return _worlds[shape, kind]


def _expand(shape: WorldShape, kind: type[Lifecycle], batch: StateBatch) -> list[ExpandedState]:
    world = _world(shape, kind)
    return [_expand_one(world, WorldState.unpacked(packed, shape)) for packed in batch]


def _expand_one(world: World, state: WorldState) -> ExpandedState:
    world.put(state)
    following: list[bytes] = []
    fair: list[bytes] = []
    for event in world.events(state):
        try:
            step = world.step(event)
        except Exception as error:  # any error is a counterexample
            return ExpandedState([*following, state.packed()], fair, f"{ERRORS}: {error!r}")
        packed = step.after.packed()
        following.append(packed)
        if event.name in _FAIR:
            fair.append(packed)
        broken = first_broken_property(step)
        if broken is not None:
            return ExpandedState(following, fair, broken)
    return ExpandedState(following, fair, None)
