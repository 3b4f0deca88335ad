"""How long a node waits between two turns, on a clock of the test's own."""

import pytest

from evenbeat.node.loop.turn_pacing import PacingLimits, TurnPacing

LIMITS = PacingLimits()
NOW = 100.0


def after_turn(took: float, *, is_full: bool = False) -> TurnPacing:
    pacing = TurnPacing()
    pacing.end_turn(NOW - took, NOW, is_full=is_full)
    return pacing


def pause(pacing: TurnPacing, *, saturated: bool = False) -> float:
    return pacing.earliest(saturated=saturated) - NOW


@pytest.mark.parametrize(
    ("took", "is_full", "expected"),
    [
        (0.00001, False, 0.001),
        (0.001, False, 0.008),
        (0.1, False, 0.02),
        (0.00001, True, 0.001),
        (0.001, True, 0.024),
        (0.1, True, 0.05),
    ],
)
def test_the_pause_grows_with_the_length_of_the_turn_up_to_a_limit(took: float, is_full: bool, expected: float) -> None:
    assert pause(after_turn(took, is_full=is_full)) == pytest.approx(expected)


def test_the_pause_is_longest_while_a_free_slot_would_be_of_no_use() -> None:
    assert pause(after_turn(0.001, is_full=True), saturated=True) == pytest.approx(LIMITS.saturated)


def test_a_planned_turn_waits_if_workers_have_become_busy_since() -> None:
    pacing = after_turn(0.001, is_full=True)
    assert pacing.is_too_early(NOW + 0.1, saturated=True)
    assert not pacing.is_too_early(NOW + 0.1, saturated=False)
    assert not pacing.is_too_early(NOW + LIMITS.saturated, saturated=True)


@pytest.mark.parametrize(
    ("slots", "enough"), [(2, 1), (3, 1), (9, 4), (30, 15), (511, 255), (600, 256), (1_200, 400), (3_000, 1_000)]
)
def test_a_third_of_the_slots_or_half_of_a_few_are_worth_a_turn(slots: int, enough: int) -> None:
    pacing = after_turn(1)
    pacing.add_results(enough - 1, slots, 0)
    assert pause(pacing) == pytest.approx(LIMITS.usual)
    pacing.add_results(enough, slots, 0)
    assert pause(pacing) == pytest.approx(LIMITS.for_free_slots)


def test_while_all_slots_are_taken_only_runs_count_that_may_end_soon() -> None:
    pacing = after_turn(1, is_full=True)
    pacing.add_results(9, 1_000, unstarted=30)
    assert pause(pacing) == pytest.approx(LIMITS.full)
    pacing.add_results(15, 1_000, unstarted=30)
    assert pause(pacing) == pytest.approx(LIMITS.for_free_slots)


@pytest.mark.parametrize(("sleep", "expected"), [(-3.0, 0.008), (0.001, 0.008), (0.5, 0.5), (30.0, 1.0)])
def test_the_next_turn_is_when_something_is_due_but_not_too_soon_or_too_late(sleep: float, expected: float) -> None:
    pacing = after_turn(0.001)
    assert pacing.next_turn(sleep, saturated=False) - NOW == pytest.approx(expected)
