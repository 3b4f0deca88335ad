"""States of small worlds of problems (`make faults`: every one); each property finds the bug planted for it."""

from collections.abc import Iterable
from typing import Any

import pytest
from budget import IS_FULL

from evenbeat.core.problems import KnownProblem, Problems, ProblemUpdate
from evenbeat.model import Cause, State
from evenbeat.sim.problem_explore import (
    PROBLEM_ERRORS,
    PROBLEM_PROPERTIES,
    PROBLEM_SENTENCES,
    PROBLEM_WORLDS,
    explore_problems,
)
from evenbeat.sim.problem_model import ProblemShape

SMALL = ProblemShape("one task", states=(State.OK, State.WARNING, State.CRITICAL))


@pytest.mark.parametrize("shape", PROBLEM_WORLDS, ids=lambda shape: shape.name)
def test_nothing_breaks_a_property(shape: ProblemShape) -> None:
    explored = explore_problems(shape, most=None if IS_FULL else 200)
    assert explored.counterexample is None
    assert explored.states > 100


def test_an_exploration_may_be_cut_short() -> None:
    assert explore_problems(SMALL, most=10).states < 100


class _ClosesWhileFlapping(Problems):
    def learn_results(self, rows: Any, now: Any) -> list[ProblemUpdate]:
        self._columns.flapping[rows] = False
        return super().learn_results(rows, now)


class _IsAnotherWhenItsStateChanges(Problems):
    def _move(self, rows: Any, state: Any, now: Any) -> list[ProblemUpdate]:
        self._columns.problem_opened[rows] = now
        return super()._move(rows, state, now)


class _TellsEverythingAfterARestart(Problems):
    def reconcile(self, rows: Any, now: Any, *, are_new: bool = False) -> list[ProblemUpdate]:
        updates = super().reconcile(rows, now, are_new=are_new)
        return updates + [self._update(row, now) for row in self.rows().tolist()]


class _OpensTwice(Problems):
    def learn_results(self, rows: Any, now: Any) -> list[ProblemUpdate]:
        return super().learn_results(rows, now) * 2


class _ForgetsTheWorst(Problems):
    def _move(self, rows: Any, state: Any, now: Any) -> list[ProblemUpdate]:
        self._columns.problem[rows] &= 0b1111
        return super()._move(rows, state, now)


class _ForgetsFailures(Problems):
    def restore(self, known: Iterable[KnownProblem]) -> None:
        super().restore(problem for problem in known if problem.cause is Cause.STATE)


class _Raises(Problems):
    def learn_results(self, rows: Any, now: Any) -> list[ProblemUpdate]:
        updates = super().learn_results(rows, now)
        if any(not update.is_open for update in updates):
            raise LookupError
        return updates


PLANTED = {
    "problems: open": _ClosesWhileFlapping,
    "problems: identity": _IsAnotherWhenItsStateChanges,
    "problems: evidence": _TellsEverythingAfterARestart,
    "problems: one": _OpensTwice,
    "problems: state": _ForgetsTheWorst,
    "problems: memory": _ForgetsFailures,
    PROBLEM_ERRORS: _Raises,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_by_its_property(name: str) -> None:
    found = explore_problems(SMALL, PLANTED[name]).counterexample
    assert found is not None
    assert found.property == name
    assert found.sentence == PROBLEM_SENTENCES[name]
    assert len(found.events) <= 6


def test_a_bug_is_planted_for_each_property() -> None:
    assert set(PLANTED) == {*PROBLEM_PROPERTIES, PROBLEM_ERRORS}


def test_a_counterexample_tells_the_way_and_where_it_leads() -> None:
    found = explore_problems(SMALL, _ClosesWhileFlapping).counterexample
    assert found is not None
    assert found.events[0] == "task 0 becomes another kind"
    assert str(found).startswith("property problems: open fails in the world 'one task': A problem is open exactly if")
    assert "task 0: a check" in str(found)
