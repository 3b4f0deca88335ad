"""When a failed delivery is tried again, when it is given up, and how many messages an hour may leave."""

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.delivery_pace import (
    GIVEN_UP_AFTER,
    LONGEST_RETRY,
    PASSED_AFTER,
    holds_up,
    may_leave_at,
    may_pass_at,
    retry_at,
)
from evenbeat.model import HOUR, MINUTE, SECOND


def test_pauses_double_up_to_ten_minutes() -> None:
    pauses = [retry_at(attempts, 0, 0) for attempts in range(1, 10)]
    assert pauses == [*(seconds * SECOND for seconds in (5, 10, 20, 40, 80, 160, 320)), 10 * MINUTE, 10 * MINUTE]


def test_a_receiver_that_is_down_for_a_day_is_given_up() -> None:
    now, attempts = 0, 0
    while (again := retry_at(attempts := attempts + 1, 0, now)) is not None:
        assert 0 < again - now <= LONGEST_RETRY
        now = again
    assert GIVEN_UP_AFTER - LONGEST_RETRY <= now < GIVEN_UP_AFTER


def test_a_message_that_fails_is_passed_soon_and_by_ever_fewer() -> None:
    assert [holds_up(failed) for failed in range(PASSED_AFTER + 2)] == [True] * PASSED_AFTER + [False] * 2
    pauses = [may_pass_at(passed, 7) - 7 for passed in range(1, 9)]
    assert pauses == [*(seconds * SECOND for seconds in (10, 20, 40, 80, 160, 320)), LONGEST_RETRY, LONGEST_RETRY]


def test_what_is_too_much_for_an_hour_waits_until_it_is_not() -> None:
    assert may_leave_at([], 1, 5) == 5
    assert may_leave_at([0, MINUTE], 3, 2 * MINUTE) == 2 * MINUTE
    assert may_leave_at([0, MINUTE, 2 * MINUTE], 3, 3 * MINUTE) == HOUR
    assert may_leave_at([0, MINUTE, 2 * MINUTE], 2, 3 * MINUTE) == HOUR + MINUTE


@given(
    gaps=st.lists(st.integers(0, 40 * MINUTE), max_size=50),
    per_hour=st.integers(1, 5),
    set_back=st.integers(0, 3 * HOUR),
)
def test_no_hour_has_more_and_nothing_waits_for_longer_than_one(gaps: list[int], per_hour: int, set_back: int) -> None:
    now = 0
    left: list[int] = []
    for gap in gaps:
        now += gap
        at = may_leave_at(left, per_hour, now)
        assert now <= at <= now + HOUR
        assert may_leave_at(left, per_hour, now - set_back) <= now - set_back + HOUR
        now = at
        left.append(now)
    assert all(later - earlier >= HOUR for earlier, later in zip(left, left[per_hour:], strict=False))
