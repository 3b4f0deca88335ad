"""Which submitted results count, and what they make of their checks."""

import numpy as np
import pytest
from virtual_node import START, Node

from evenbeat.core.submitted_results import (
    CLOCK_TOLERANCE,
    ResultColumns,
    apply_submitted,
    known_as_of,
    outcome_of,
    time_of_result,
)
from evenbeat.core.task import Flag
from evenbeat.model import MINUTE, SECOND, Instant, Invalid, Outcome, RunKind, State

NOW = Instant(START + MINUTE)


def test_a_result_without_a_time_is_one_of_now() -> None:
    assert time_of_result(None, NOW) == NOW
    assert time_of_result(Instant(NOW - MINUTE), NOW) == NOW - MINUTE


def test_a_clock_that_is_a_little_ahead_is_taken_for_ours_and_the_future_is_refused() -> None:
    assert time_of_result(Instant(NOW + CLOCK_TOLERANCE), NOW) == NOW
    with pytest.raises(Invalid, match="a result of 6 s from now, accepted: of now or before"):
        time_of_result(Instant(NOW + CLOCK_TOLERANCE + SECOND), NOW)


@pytest.mark.parametrize(
    ("at", "last", "expected"),
    [
        (NOW, NOW - 1, NOW),
        (NOW, NOW, NOW + 1),
        (NOW, NOW + 999, NOW + 1_000),
        (NOW, NOW + 1_000, NOW),
        (NOW - 5, NOW, NOW - 5),
    ],
)
def test_of_results_within_one_tick_of_the_clock_the_later_counts(at: int, last: int, expected: int) -> None:
    assert known_as_of(Instant(at), last, NOW) == expected


@pytest.mark.parametrize(
    ("status", "said", "outcome"),
    [
        (0, None, Outcome.SUCCEEDED),
        (2, None, Outcome.FAILED),
        (2, Outcome.TIMEBOXED, Outcome.TIMEBOXED),
    ],
)
def test_the_outcome_is_the_one_that_goes_with_the_status(status: int, said: Outcome | None, outcome: Outcome) -> None:
    assert outcome_of(status, said) is outcome


def submit(node: Node, status: State, known: int) -> tuple[bool, bool]:
    """Does the result count, and is it notable?"""
    one, at = np.zeros(1, dtype=np.int64), np.array([known])
    results = ResultColumns(one, at, at, at, at, np.array([status]), [""], RunKind.TOLD)
    applied = apply_submitted(node.lifecycle, results, NOW)
    return bool(applied.counts[0]), bool(applied.notable[0])


def test_an_older_result_never_replaces_a_newer_one() -> None:
    node = Node()
    row = node.add(flags=Flag.CHECK | Flag.PASSIVE)
    node.columns.attempts[row] = 1
    assert submit(node, State.CRITICAL, NOW) == (True, True)
    assert submit(node, State.OK, NOW - SECOND) == (False, False)
    assert submit(node, State.OK, NOW) == (False, False)
    assert (node.columns.state[0], node.columns.result_at[0]) == (State.CRITICAL, NOW)
    assert submit(node, State.OK, NOW + 1) == (True, True), "the state changes"
    assert submit(node, State.OK, NOW + 2) == (True, False)
