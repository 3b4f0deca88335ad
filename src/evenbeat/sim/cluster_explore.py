"""Explore every reachable state of a small cluster; the shortest way to break a property comes first."""

from array import array
from collections.abc import Iterator
from itertools import chain
from typing import Final

from evenbeat.sim.cluster_limits import LimitShape, LimitState, initial_limit_state, limit_events, limit_is_broken
from evenbeat.sim.cluster_messages import message_events
from evenbeat.sim.cluster_model import (
    CLUSTER_SENTENCES,
    LONG_GONE,
    ClusterShape,
    ModelCluster,
    ModelWorker,
    PropertyBroken,
    initial_cluster,
    scaled_durations,
)
from evenbeat.sim.cluster_node import claim_events, lease_events
from evenbeat.sim.cluster_worker import death_events, tick_events, worker_events
from evenbeat.sim.explore import Counterexample, ExplorationResult

CLUSTER_LIVENESS: Final = "cluster: liveness"
CLUSTER_ERRORS: Final = "cluster: errors"
CLUSTER_LIMITS: Final = "cluster: limits"
_MAX_STEPS_TO_END: Final = 60
"""Ticks within which everything must have ended if nothing else fails."""


def next_states(shape: ClusterShape, state: ModelCluster) -> Iterator[tuple[str, ModelCluster]]:
    """Everything that can happen next."""
    return chain(
        lease_events(shape, state),
        claim_events(shape, state),
        message_events(shape, state),
        worker_events(shape, state),
        death_events(state),
        tick_events(shape, state),
    )


def explore_cluster(shape: ClusterShape, most: int | None = None) -> ExplorationResult:
    """Breadth first from the beginning until nothing new turns up, or `most` states have (then incomplete)."""
    with scaled_durations(shape):
        return _ClusterExploration(shape).run(most)


class _ClusterExploration:
    """The states found so far, numbered in that order, and how each was reached first."""

    def __init__(self, shape: ClusterShape) -> None:
        self._shape = shape
        first = initial_cluster(shape)
        self._states = [first]
        self._numbers = {first: 0}
        self._reached = array("q", [-1])
        self._from, self._to = array("q"), array("q")
        """The steps that happen if nothing fails."""
        self._transitions = 0

    def run(self, most: int | None) -> ExplorationResult:
        """Nearest states first, so that a counterexample is as short as possible."""
        number = 0
        while number < len(self._states):
            try:
                self._expand(number)
            except PropertyBroken as broken:
                return self._explored(self._counterexample(broken.name, number, (broken.event,)))
            except Exception as error:  # any error is a counterexample
                return self._explored(self._counterexample(CLUSTER_ERRORS, number, (repr(error),)))
            number += 1
            if most is not None and len(self._states) > most:
                return self._explored(None)
        return self._explored(self._stranded())

    def _explored(self, counterexample: Counterexample | None) -> ExplorationResult:
        return ExplorationResult(len(self._states), self._transitions, counterexample)

    def _expand(self, number: int) -> None:
        state = self._states[number]
        numbers = self._numbers
        for event, after in next_states(self._shape, state):
            self._transitions += 1
            there = numbers.get(after)
            if there is None:
                there = numbers[after] = len(self._states)
                self._states.append(after)
                self._reached.append(number)
                if _has_two_masters(after):
                    raise PropertyBroken("cluster: one master", event)
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
        return Counterexample(name, CLUSTER_SENTENCES[name], self._shape.name, (*reversed(events), *last), state)

    def _event(self, before: ModelCluster, after: ModelCluster) -> str:
        return next(event for event, state in next_states(self._shape, before) if state == after)

    def _stranded(self) -> Counterexample | None:
        """Liveness: a state from which no way leads to the end, even with more tries and more processes."""
        preceding: list[list[int]] = [[] for _ in self._states]
        for origin, target in zip(self._from, self._to, strict=True):
            preceding[target].append(origin)
        leads = bytearray(len(self._states))
        for number, state in enumerate(self._states):
            if not leads[number] and _is_done(self._shape, state):
                _mark_predecessors(leads, preceding, number)
        # Last ones first: states that lead to one of them need not be looked at.
        for number in reversed(range(len(self._states))):
            if not leads[number]:
                if not comes_to_an_end(self._shape, self._states[number]):
                    return self._counterexample(CLUSTER_LIVENESS, number, ())
                _mark_predecessors(leads, preceding, number)
        return None


def _mark_predecessors(leads: bytearray, preceding: list[list[int]], end: int) -> None:
    """Mark all states from which a way leads to `end`."""
    leads[end] = 1
    todo = [end]
    while todo:
        for number in preceding[todo.pop()]:
            if not leads[number]:
                leads[number] = 1
                todo.append(number)


def _has_two_masters(state: ModelCluster) -> bool:
    """Do two nodes act for the same task?"""
    acting = [node for node in state.nodes if node is not None and node.until > 0]
    if len(acting) < 2:
        return False
    served = [p for node in acting for p, part in enumerate(node.parts) if part is not None and part.stage == "serving"]
    return len(set(served)) < len(served)


def _is_done(shape: ClusterShape, state: ModelCluster) -> bool:
    return all(b.claims == shape.claims and not b.token and not b.makes_up for b in state.books)


def comes_to_an_end(shape: ClusterShape, state: ModelCluster) -> bool:
    """If nothing else fails, and dead processes are started again: does every claim end, is every time claimed?"""
    more = shape._replace(
        nodes=shape.nodes + 1, workers=shape.workers + 1, tries=99, fences=99, deaths=0, skips=0, stall=0
    )
    state = state._replace(
        leases=(*state.leases, LONG_GONE), nodes=(*state.nodes, None), workers=(*state.workers, ModelWorker()),
        deaths=0, skips=0,
    )  # fmt: skip
    for _ in range(_MAX_STEPS_TO_END):
        state = _settled(more, state)
        if _is_done(shape, state):
            return True
        passed = next((after for event, after in tick_events(more, state) if event == "a tick"), None)
        if passed is None:
            return False
        state = passed
    return False


def _settled(shape: ClusterShape, state: ModelCluster) -> ModelCluster:
    """The state after everything that can be done before the next tick, each thing once."""
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


def explore_limit(shape: LimitShape, most: int | None = None) -> ExplorationResult:
    """Explore the states of a limit that all nodes share, breadth first."""
    first = initial_limit_state(shape)
    reached: dict[LimitState, tuple[LimitState | None, str]] = {first: (None, "")}
    states, transitions = [first], 0
    for state in states:
        for event, after in limit_events(shape, state):
            transitions += 1
            if after in reached:
                continue
            reached[after] = (state, event)
            states.append(after)
            if limit_is_broken(shape, after):
                return ExplorationResult(len(states), transitions, _event_path(shape, reached, after))
        if most is not None and len(states) > most:
            break
    return ExplorationResult(len(states), transitions, None)


def _event_path(
    shape: LimitShape, reached: dict[LimitState, tuple[LimitState | None, str]], end: LimitState
) -> Counterexample:
    events: list[str] = []
    before, event = reached[end]
    while before is not None:
        events.append(event)
        before, event = reached[before]
    return Counterexample(
        CLUSTER_LIMITS, CLUSTER_SENTENCES[CLUSTER_LIMITS], shape.name, tuple(reversed(events)), end[2]
    )
