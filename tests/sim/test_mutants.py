"""The verifier can fail: a sample of conditions turned into their opposite (all: python -m evenbeat.sim.mutants)."""

from pkgutil import iter_modules

import pytest

from evenbeat import core
from evenbeat.sim.explore import explore
from evenbeat.sim.mutants import (
    EQUIVALENT_MUTANTS,
    MODULES,
    SHAPES,
    UNEXPLORED_FUNCTIONS,
    UNEXPLORED_MODULES,
    Mutant,
    explore_mutant,
    mutants,
)
from evenbeat.sim.state import WorldShape

SAMPLE = [m for m in mutants() if m.key not in EQUIVALENT_MUTANTS][::8]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: s.name)
def test_the_original_shows_nothing(shape: WorldShape) -> None:
    assert explore(shape, most=300).counterexample is None


@pytest.mark.parametrize("mutant", SAMPLE, ids=str)
def test_a_condition_turned_into_its_opposite_is_found(mutant: Mutant) -> None:
    # Most show near the start of one of the worlds, and each world before it would be explored in vain.
    fate = explore_mutant(mutant, 100) or explore_mutant(mutant)
    assert fate is not None
    assert fate.events <= 10


def test_every_excuse_is_of_a_mutant_that_there_is() -> None:
    assert set(EQUIVALENT_MUTANTS) <= {m.key for m in mutants()}


def test_every_module_of_the_core_is_explored_or_excused() -> None:
    explored = {module.__name__.rpartition(".")[2] for module in MODULES}
    assert not explored & set(UNEXPLORED_MODULES)
    assert explored | set(UNEXPLORED_MODULES) == {module.name for module in iter_modules(core.__path__)}


def test_no_mutant_is_of_a_function_outside_the_worlds() -> None:
    assert not {m.function for m in mutants()} & set(UNEXPLORED_FUNCTIONS)
