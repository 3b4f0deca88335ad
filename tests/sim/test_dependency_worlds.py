"""States of small worlds of dependencies (`make faults`: every one); each property finds the bug planted for it."""

from collections.abc import Callable

import pytest
from budget import IS_FULL

from evenbeat.core.columns import Ints
from evenbeat.core.reachability import Reachability
from evenbeat.core.task import Bools, Flag
from evenbeat.sim.dependency_explore import DEPENDENCY_WORLDS, DependencyShape, explore_dependencies


@pytest.mark.parametrize("shape", DEPENDENCY_WORLDS, ids=lambda shape: shape.name)
def test_all_properties_hold_in_every_state(shape: DependencyShape) -> None:
    explored = explore_dependencies(shape, most=None if IS_FULL else 200)
    assert explored.counterexample is None, str(explored.counterexample)
    assert explored.states > 50


class IgnoresPauses(Reachability):
    """The state of a paused check counts."""

    def _are_failing(self, rows: Ints) -> Bools:
        flags = self._columns.flags[rows].copy()
        self._columns.flags[rows] |= int(Flag.ENABLED)
        failing = super()._are_failing(rows)
        self._columns.flags[rows] = flags
        return failing


class SaysNothing(Reachability):
    """Nobody hears what is reachable again."""

    def settle(self, are_stale: Callable[[Ints], Bools] | None = None) -> Ints:
        return super().settle()[:0]


class KeepsAll(Reachability):
    """What is not needed any more stays in the graph."""

    def _drop_unneeded(self) -> None:
        return


class Fails(Reachability):
    """An error."""

    def forget(self, rows: Ints) -> None:
        raise ValueError(rows)


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (IgnoresPauses, "dependencies: exact"),
        (SaysNothing, "dependencies: again"),
        (KeepsAll, "dependencies: small"),
        (Fails, "dependencies: errors"),
    ],
)
def test_a_planted_bug_is_found(kind: type[Reachability], broken: str) -> None:
    found = explore_dependencies(DEPENDENCY_WORLDS[0], kind, most=300).counterexample
    assert found is not None
    assert found.property == broken
    assert len(found.events) <= 6
