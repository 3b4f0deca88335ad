"""Explore a small model breadth first: all states that it can come to, and the shortest way to break a property."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from evenbeat.sim.explore import Counterexample, ExplorationResult
from evenbeat.sim.verify import NamedModel, VerifiedWorld

_State = TypeVar("_State", bound=Hashable)
_Shape = TypeVar("_Shape", bound=NamedModel)


class Transition(NamedTuple, Generic[_State]):
    """What one event makes of a state."""

    event: str
    after: _State
    broken: str | None
    """The property that the event breaks."""


class StateExploration(Generic[_State]):
    """The states that were found, and how each was reached first.

    `transitions` says what can happen in a state. If it raises, the property `errors` is broken.
    """

    def __init__(
        self,
        model: NamedModel,
        transitions: Callable[[_State], Iterable[Transition[_State]]],
        sentences: Mapping[str, str],
        errors: str,
        shown: Callable[[_State], object] = lambda state: state,
    ) -> None:
        self._model = model
        self._transitions = transitions
        self._sentences = sentences
        self._errors = errors
        self._shown = shown
        self._reached: dict[_State, tuple[_State | None, str]] = {}

    def run(self, first: _State, most: int | None = None) -> ExplorationResult:
        """Explore until nothing new turns up, or `most` states have: then it is incomplete."""
        self._reached = {first: (None, "")}
        states, transitions = [first], 0
        for state in states:
            try:
                for event, after, broken in self._transitions(state):
                    transitions += 1
                    if broken is not None:
                        found = self._counterexample(broken, state, event, after)
                        return ExplorationResult(len(states), transitions, found)
                    if after not in self._reached:
                        self._reached[after] = (state, event)
                        states.append(after)
            except Exception as error:  # any error is a counterexample
                found = self._counterexample(self._errors, state, repr(error), state)
                return ExplorationResult(len(states), transitions, found)
            if most is not None and len(states) > most:
                break
        return ExplorationResult(len(states), transitions, None)

    def _counterexample(self, name: str, state: _State, event: str, after: _State) -> Counterexample:
        events = [event]
        before: _State | None = state
        while before is not None:
            before, event = self._reached[before]
            events.append(event)
        way = tuple(reversed(events[:-1]))
        return Counterexample(name, self._sentences[name], self._model.name, way, self._shown(after))


def verified_worlds(
    shapes: Iterable[_Shape], explore: Callable[[_Shape], ExplorationResult]
) -> Iterator[VerifiedWorld]:
    """Explore each to its end; the first counterexample ends it all."""
    for shape in shapes:
        explored = explore(shape)
        yield VerifiedWorld(shape, explored)
        if explored.counterexample is not None:
            return
