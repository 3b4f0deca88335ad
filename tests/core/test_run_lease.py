"""Handing runs over: one worker has a permission, and a run is lost only after its worker has ended it."""

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.authority import LEASE
from evenbeat.core.run_lease import (
    BEAT,
    HOLD,
    MARGIN,
    PERMIT,
    Fate,
    Hand,
    adopted,
    fate,
    granted,
    is_untaken,
    may_start,
    must_end,
    renewed,
    silent_for,
)
from evenbeat.model import SECOND

times = st.integers(1, 100 * HOLD)


def test_the_durations_are_in_the_order_that_the_explored_clusters_have() -> None:
    assert BEAT < PERMIT < HOLD
    assert MARGIN > 0
    # A run lives through the death of its node: somebody else renews it in time.
    assert LEASE + 2 * BEAT < HOLD


def test_a_run_is_granted_to_one_worker_that_may_ask_again() -> None:
    hand = granted(Hand(), "a", 5, 10)
    assert hand == Hand("a", 5, 10)
    assert granted(hand, "b", 6, 11) is None
    assert granted(hand, "a", 7, 12) == Hand("a", 7, 12)


def test_of_two_questions_the_later_one_counts_in_whatever_order_they_come() -> None:
    first = granted(Hand(), "a", 9, 10)
    assert first is not None
    both = granted(first, "a", 5, 11)
    assert both == Hand("a", 9, 11)
    # What was asked at 9 may still be used.
    assert not is_untaken(both, "a", 6)
    assert is_untaken(both, "a", 9)


def test_the_clock_of_another_worker_is_not_compared() -> None:
    assert granted(Hand("", 900, 0), "b", 5, 10) == Hand("b", 5, 10)


def test_what_was_adopted_is_granted_to_nobody_and_is_its_workers_as_soon_as_that_tells() -> None:
    adopted = Hand(renewed=3, adopted=True)
    assert granted(adopted, "a", 5, 10) is None
    hand = renewed(adopted, "a", 10)
    assert hand is not None
    assert hand.worker == "a"
    assert hand.renewed == 10
    assert renewed(hand, "b", 11) is None
    # Tidings from before it was begun, that come late.
    assert not is_untaken(hand, "a", 5)
    assert granted(hand, "a", 12, 13) is None
    assert granted(hand, "b", 12, 13) is None


def test_only_its_worker_renews_a_run() -> None:
    assert renewed(Hand(), "a", 10) is None
    assert renewed(Hand("a", 5, 6), "b", 10) is None
    assert renewed(Hand("a", 5, 6), "a", 10) == Hand("a", 5, 10)


def test_what_nobody_has_is_not_lost() -> None:
    assert fate(Hand(), 10 * HOLD) is Fate.STAY


@given(times, st.integers(0, HOLD), st.integers(0, 4 * HOLD))
def test_a_run_is_lost_only_after_its_worker_has_ended_it(sent: int, on_its_way: int, later: int) -> None:
    """On one clock: the worker counts from when it sent, the node from when it answered."""
    answered = sent + on_its_way
    now = answered + later
    for hand in (Hand("a", sent, answered), Hand(renewed=answered, adopted=True)):
        if fate(hand, now) is Fate.LOST:
            assert must_end(sent, now - MARGIN)


@given(times, st.integers(0, 4 * HOLD))
def test_a_permission_that_is_good_is_of_a_run_that_need_not_end(asked: int, later: int) -> None:
    if may_start(asked, asked + later):
        assert not must_end(asked, asked + later + HOLD - PERMIT - 1)


@given(times, times, times)
def test_a_permission_is_taken_back_only_if_it_was_settled(asked: int, settled: int, now: int) -> None:
    hand = Hand("a", asked, now)
    assert is_untaken(hand, "a", settled) == (asked <= settled)
    assert not is_untaken(hand, "b", settled)


@given(st.lists(st.tuples(st.integers(0, HOLD), st.integers(0, SECOND)), max_size=5), st.integers(-HOLD, HOLD))
def test_the_time_of_a_run_that_nobody_answers_for_goes_on_from_owner_to_owner(
    owners: list[tuple[int, int]], clock: int
) -> None:
    """Each counts on a clock of its own; the ways between them are what it is counted too short by."""
    hand, silent, passed = Hand("a", 5, clock), 0, 0
    for held, way in owners:
        now = clock + held
        assert fate(hand, now) is (Fate.LOST if silent + held >= HOLD + MARGIN else Fate.STAY)
        silent, passed, clock = silent_for(hand, now), passed + held + way, 7 * clock + way
        hand = adopted(silent, clock)
        assert silent <= passed
    assert fate(hand, clock + HOLD + MARGIN - silent) is Fate.LOST


def test_of_a_run_that_no_worker_may_have_nothing_is_counted() -> None:
    assert silent_for(Hand(), 99) == 0
