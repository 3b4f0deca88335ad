"""Check state: soft and hard, attempts, retries, stale results, freshness, flapping."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.check_states import (
    CheckStates,
    apply_results,
    exit_state,
    expected_by,
    is_stale,
    retry_due,
    unchecked_states,
    wants_retry,
)
from evenbeat.core.flapping import FLAP_WINDOW, flap_percent
from evenbeat.model import MINUTE, SECOND, Instant, State

O, W, C, U = State.OK, State.WARNING, State.CRITICAL, State.UNKNOWN  # noqa: E741


def ints(*values: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, dtype=np.int64)


def small(*values: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    return np.array(values, dtype=np.uint8)


def after(results: list[State], attempts: int = 3) -> list[str]:
    """The state after each result, as "CRITICAL SOFT 2"."""
    condition, seen = unchecked_states(1), []
    for t, result in enumerate(results):
        condition = apply_results(condition, small(result), ints(t), small(attempts)).condition
        seen.append(described(condition))
    return seen


def described(condition: CheckStates) -> str:
    hardness = "HARD" if condition.hard[0] else "SOFT"
    return f"{State(int(condition.state[0])).name} {hardness} {condition.attempt[0]}"


def test_ok_is_hard_at_attempt_1() -> None:
    assert after([O, O]) == ["OK HARD 1", "OK HARD 1"]


def test_a_problem_is_soft_until_it_has_been_seen_as_often_as_asked() -> None:
    assert after([C, C, C, C]) == ["CRITICAL SOFT 1", "CRITICAL SOFT 2", "CRITICAL HARD 3", "CRITICAL HARD 3"]


def test_with_one_attempt_a_problem_is_hard_at_once() -> None:
    assert after([W], attempts=1) == ["WARNING HARD 1"]


def test_soft_problems_of_different_kinds_count_together() -> None:
    assert after([W, C, U]) == ["WARNING SOFT 1", "CRITICAL SOFT 2", "UNKNOWN HARD 3"]


def test_a_soft_problem_that_recovers_starts_over() -> None:
    assert after([C, C, O, C]) == ["CRITICAL SOFT 1", "CRITICAL SOFT 2", "OK HARD 1", "CRITICAL SOFT 1"]


def test_from_one_hard_problem_to_another_is_immediate() -> None:
    assert after([C, C, C, W]) == ["CRITICAL SOFT 1", "CRITICAL SOFT 2", "CRITICAL HARD 3", "WARNING HARD 3"]


def test_recovery_from_hard_is_hard() -> None:
    assert after([C, C, C, O])[-1] == "OK HARD 1"


def test_lowering_the_attempts_makes_the_next_problem_hard() -> None:
    soft = apply_results(unchecked_states(1), small(C), ints(1), small(5)).condition
    assert described(apply_results(soft, small(C), ints(2), small(1)).condition) == "CRITICAL HARD 1"


def test_an_older_result_never_overwrites_a_newer_one() -> None:
    newer = apply_results(unchecked_states(1), small(C), ints(100), small(3)).condition
    late = apply_results(newer, small(O), ints(99), small(3))
    assert not late.accepted[0]
    assert not late.changed[0]
    assert described(late.condition) == "CRITICAL SOFT 1"
    assert not apply_results(newer, small(O), ints(100), small(3)).accepted[0]


def test_changed_is_said_for_state_and_hardness_only() -> None:
    condition, said = unchecked_states(1), []
    for t, result in enumerate([O, C, C, C, C, W, O, O]):
        learned = apply_results(condition, small(result), ints(t), small(3))
        condition = learned.condition
        said.append(bool(learned.changed[0]))
    assert said == [False, True, False, True, False, True, True, False]


@pytest.mark.parametrize(("status", "state"), [(0, O), (1, W), (2, C), (3, U), (4, U), (127, U), (255, U), (-9, U)])
def test_exit_statuses_beyond_three_are_unknown(status: int, state: State) -> None:
    assert exit_state(ints(status))[0] == state


results = st.lists(st.sampled_from(list(State)), min_size=1, max_size=60)


@given(results, st.integers(1, 5))
def test_hardness_is_what_counting_by_hand_says(history: list[State], attempts: int) -> None:
    state, hard, attempt = O, True, 1
    for result, seen in zip(history, after(history, attempts), strict=True):
        if result == O:
            hard, attempt = True, 1
        elif state == O:
            attempt = 1
            hard = attempts == 1
        elif not hard:
            attempt += 1
            hard = attempt >= attempts
        state = result
        assert seen == f"{state.name} {'HARD' if hard else 'SOFT'} {attempt}"


@given(st.lists(results, min_size=2, max_size=5))
def test_columns_of_checks_learn_as_each_alone(histories: list[list[State]]) -> None:
    length = min(map(len, histories))
    together = unchecked_states(len(histories))
    alone = [unchecked_states(1) for _ in histories]
    attempts = small(*(1 + i % 4 for i in range(len(histories))))
    for t in range(length):
        now = small(*(h[t] for h in histories))
        together = apply_results(together, now, ints(*[t] * len(histories)), attempts).condition
        for i in range(len(histories)):
            alone[i] = apply_results(alone[i], now[i : i + 1], ints(t), attempts[i : i + 1]).condition
    for i, one in enumerate(alone):
        for field in CheckStates._fields:
            assert getattr(together, field)[i] == getattr(one, field)[0]


def test_a_retry_is_the_first_step_after_completion_and_never_after_the_grid() -> None:
    nominal, next_grid = ints(0), ints(5 * MINUTE)
    assert retry_due(nominal, ints(MINUTE), ints(3 * SECOND), next_grid)[0] == MINUTE
    assert retry_due(nominal, ints(MINUTE), ints(MINUTE), next_grid)[0] == 2 * MINUTE
    assert retry_due(nominal, ints(MINUTE), ints(4 * MINUTE + 59 * SECOND), next_grid)[0] == 5 * MINUTE
    assert retry_due(nominal, ints(7 * MINUTE), ints(3 * SECOND), next_grid)[0] == 5 * MINUTE


def test_only_a_soft_problem_wants_a_retry() -> None:
    condition = unchecked_states(1)
    wanted = []
    for t, result in enumerate([O, C, C, C, O]):
        condition = apply_results(condition, small(result), ints(t), small(3)).condition
        wanted.append(bool(wants_retry(condition)[0]))
    assert wanted == [False, True, True, False, False]


def test_a_result_is_stale_once_box_and_grace_have_passed() -> None:
    limit = expected_by(ints(MINUTE), ints(30 * SECOND), ints(10 * SECOND))
    assert limit[0] == 100 * SECOND
    assert not is_stale(limit, Instant(100 * SECOND))[0]
    assert is_stale(limit, Instant(100 * SECOND + 1))[0]


def flaps(history: list[State]) -> list[bool]:
    condition, seen = unchecked_states(1), []
    for t, result in enumerate(history):
        condition = apply_results(condition, small(result), ints(t), small(1)).condition
        seen.append(bool(condition.flapping[0]))
    return seen


def test_a_steady_check_does_not_flap_and_one_that_always_changes_does() -> None:
    assert not any(flaps([C] * 50))
    assert all(flaps([O, C] * 25)[FLAP_WINDOW:])


def test_flapping_starts_above_30_percent_and_stops_below_25() -> None:
    seen = flaps([O, C] * 10 + [O] * 40)
    starts = seen.index(True)
    changes = [int("1" * n, 2) for n in range(1, 21)]
    percents = flap_percent(np.array(changes, dtype=np.uint32))
    assert percents[starts - 1] > 30
    assert percents[starts - 2] <= 30
    assert not seen[-1]
    stops = len(seen) - 1 - seen[::-1].index(True)
    assert stops > 20


def test_recent_changes_weigh_half_as_much_again_as_old_ones() -> None:
    newest, oldest = flap_percent(np.array([1, 1 << (FLAP_WINDOW - 1)], dtype=np.uint32))
    assert newest / oldest == pytest.approx(1.5)
    assert flap_percent(np.array([(1 << FLAP_WINDOW) - 1], dtype=np.uint32))[0] == pytest.approx(100)
