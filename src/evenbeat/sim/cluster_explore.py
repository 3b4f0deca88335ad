"""Explore every reachable state of a small cluster; the shortest way to break a property comes first."""

from array import array
from collections.abc import Iterator
from itertools import chain
from typing import Final

from evenbeat.sim.cluster_limits import Limit, Spent, limit_beginning, limit_events, limit_is_broken
from evenbeat.sim.cluster_messages import message_events
from evenbeat.sim.cluster_model import GONE, SENTENCES, Broken, Shape, State, Worker, beginning, scaled
from evenbeat.sim.cluster_node import claim_events, lease_events
from evenbeat.sim.cluster_worker import deaths, ticks, worker_events
from evenbeat.sim.explore import Counterexample, Explored

LIVENESS: Final = "cluster: liveness"
ERRORS: Final = "cluster: errors"
LIMITS: Final = "cluster: limits"
_PATIENCE: Final = 60
"""Ticks within which everything must have come to its end if nothing else fails."""


def following(shape: Shape, state: State) -> Iterator[tuple[str, State]]:
    """Everything that can happen next."""
    return chain(
        lease_events(shape, state),
        claim_events(shape, state),
        message_events(shape, state),
        worker_events(shape, state),
        deaths(state),
        ticks(shape, state),
    )


def explore_cluster(shape: Shape, most: int | None = None) -> Explored:
    """Breadth first from the beginning until nothing new turns up, or `most` states have (then incomplete)."""
    with scaled(shape):
        return _Exploration(shape).run(most)


class _Exploration:
    """The states found so far, numbered as they were, and how each was reached first."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        first = beginning(shape)
        self._states = [first]
        self._numbers = {first: 0}
        self._reached = array("q", [-1])
        self._from, self._to = array("q"), array("q")
        """The steps that come about if nothing fails."""
        self._transitions = 0

    def run(self, most: int | None) -> Explored:
        """Nearest states first, so that whatever is found is found by the shortest way."""
        number = 0
        while number < len(self._states):
            try:
                self._expand(number)
            except Broken as broken:
                return self._explored(self._counterexample(broken.name, number, (broken.event,)))
            except Exception as error:  # whatever it is, it is the shortest way to it that counts
                return self._explored(self._counterexample(ERRORS, number, (repr(error),)))
            number += 1
            if most is not None and len(self._states) > most:
                return self._explored(None)
        return self._explored(self._stranded())

    def _explored(self, counterexample: Counterexample | None) -> Explored:
        return Explored(len(self._states), self._transitions, counterexample)

    def _expand(self, number: int) -> None:
        state = self._states[number]
        numbers = self._numbers
        for event, after in following(self._shape, state):
            self._transitions += 1
            there = numbers.get(after)
            if there is None:
                there = numbers[after] = len(self._states)
                self._states.append(after)
                self._reached.append(number)
                if _masters(after):
                    raise Broken("cluster: one master", event)
            if there != number and after.deaths == state.deaths and after.skips == state.skips:
                self._from.append(number)
                self._to.append(there)

    def _counterexample(self, name: str, number: int, last: tuple[str, ...]) -> Counterexample:
        events: list[str] = []
        state = self._states[number]
        at = number
        while self._reached[at] >= 0:
            before = self._reached[at]
            events.append(self._event(self._states[before], self._states[at]))
            at = before
        return Counterexample(name, SENTENCES[name], self._shape.name, (*reversed(events), *last), state)

    def _event(self, before: State, after: State) -> str:
        return next(event for event, state in following(self._shape, before) if state == after)

    def _stranded(self) -> Counterexample | None:
        """Liveness: a state from which no way leads to the end, also if there were more tries and more processes."""
        preceding: list[list[int]] = [[] for _ in self._states]
        for origin, target in zip(self._from, self._to, strict=True):
            preceding[target].append(origin)
        leads = bytearray(len(self._states))
        for number, state in enumerate(self._states):
            if not leads[number] and _is_done(self._shape, state):
                _mark(leads, preceding, number)
        # The last first: what leads to one of them needs no looking at.
        for number in reversed(range(len(self._states))):
            if not leads[number]:
                if not comes_to_an_end(self._shape, self._states[number]):
                    return self._counterexample(LIVENESS, number, ())
                _mark(leads, preceding, number)
        return None


def _mark(leads: bytearray, preceding: list[list[int]], end: int) -> None:
    """All states from which a way leads there."""
    leads[end] = 1
    todo = [end]
    while todo:
        for number in preceding[todo.pop()]:
            if not leads[number]:
                leads[number] = 1
                todo.append(number)


def _masters(state: State) -> bool:
    """Do two nodes act for the same task?"""
    acting = [node for node in state.nodes if node is not None and node.until > 0]
    if len(acting) < 2:
        return False
    served = [p for node in acting for p, part in enumerate(node.parts) if part is not None and part.stage == "serving"]
    return len(set(served)) < len(served)


def _is_done(shape: Shape, state: State) -> bool:
    return all(b.claims == shape.claims and not b.token and not b.makes_up for b in state.books)


def comes_to_an_end(shape: Shape, state: State) -> bool:
    """If nothing else fails, and whoever is missing is started again: is every claim ended, every time claimed?"""
    more = shape._replace(
        nodes=shape.nodes + 1, workers=shape.workers + 1, tries=99, fences=99, deaths=0, skips=0, stall=0
    )
    state = state._replace(
        leases=(*state.leases, GONE), nodes=(*state.nodes, None), workers=(*state.workers, Worker()),
        deaths=0, skips=0,
    )  # fmt: skip
    for _ in range(_PATIENCE):
        state = _settled(more, state)
        if _is_done(shape, state):
            return True
        passed = next((after for event, after in ticks(more, state) if event == "a tick"), None)
        if passed is None:
            return False
        state = passed
    return False


def _settled(shape: Shape, state: State) -> State:
    """All that can be done before the next tick, each thing once."""
    seen = {state}
    while True:
        is_up = any(node is not None for node in state.nodes)
        for event, after in chain(
            lease_events(shape, state),
            claim_events(shape, state),
            message_events(shape, state),
            worker_events(shape, state),
        ):
            if after not in seen and not (is_up and event.endswith("joins")):
                break
        else:
            return state
        seen.add(after)
        state = after


def explore_limit(shape: Limit, most: int | None = None) -> Explored:
    """The same for a limit."""
    first = limit_beginning(shape)
    reached: dict[Spent, tuple[Spent | None, str]] = {first: (None, "")}
    states, transitions = [first], 0
    for state in states:
        for event, after in limit_events(shape, state):
            transitions += 1
            if after in reached:
                continue
            reached[after] = (state, event)
            states.append(after)
            if limit_is_broken(shape, after):
                return Explored(len(states), transitions, _way(shape, reached, after))
        if most is not None and len(states) > most:
            break
    return Explored(len(states), transitions, None)


def _way(shape: Limit, reached: dict[Spent, tuple[Spent | None, str]], end: Spent) -> Counterexample:
    events: list[str] = []
    before, event = reached[end]
    while before is not None:
        events.append(event)
        before, event = reached[before]
    return Counterexample(LIMITS, SENTENCES[LIMITS], shape.name, tuple(reversed(events)), end[2])
