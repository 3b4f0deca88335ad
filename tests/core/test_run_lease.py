"""Handing runs over: one worker has a permission, and a run is lost only after its worker has ended it."""

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.partition_ownership import LEASE_DURATION
from evenbeat.core.run_lease import (
    PERMISSION_DURATION,
    RUN_LEASE_DURATION,
    RUN_LEASE_MARGIN,
    WORKER_STATUS_INTERVAL,
    RunFate,
    RunLease,
    adopted_lease,
    granted_lease,
    has_lease_expired,
    is_permission_valid,
    renewed_lease,
    run_fate,
    timebox_class,
    unanswered_for,
    was_never_started,
)
from evenbeat.model import MINUTE, SECOND

times = st.integers(1, 100 * RUN_LEASE_DURATION)


def test_the_durations_are_in_the_order_that_the_explored_clusters_have() -> None:
    assert WORKER_STATUS_INTERVAL < PERMISSION_DURATION < RUN_LEASE_DURATION
    assert RUN_LEASE_MARGIN > 0
    # A run lives through the death of its node: somebody else renews it in time.
    assert LEASE_DURATION + 2 * WORKER_STATUS_INTERVAL < RUN_LEASE_DURATION


def test_a_run_is_granted_to_one_worker_that_may_ask_again() -> None:
    driven = granted_lease(RunLease(), "a", 5, 10)
    assert driven == RunLease("a", 5, 10)
    assert granted_lease(driven, "b", 6, 11) is None
    assert granted_lease(driven, "a", 7, 12) == RunLease("a", 7, 12)


def test_of_two_questions_the_later_one_counts_in_whatever_order_they_come() -> None:
    first = granted_lease(RunLease(), "a", 9, 10)
    assert first is not None
    both = granted_lease(first, "a", 5, 11)
    assert both == RunLease("a", 9, 11)
    # What was asked at 9 may still be used.
    assert not was_never_started(both, "a", 6)
    assert was_never_started(both, "a", 9)


def test_the_clock_of_another_worker_is_not_compared() -> None:
    assert granted_lease(RunLease("", 900, 0), "b", 5, 10) == RunLease("b", 5, 10)


def test_what_was_adopted_is_granted_to_nobody_and_is_its_workers_as_soon_as_that_tells() -> None:
    adopted = RunLease(renewed_at=3, adopted=True)
    assert granted_lease(adopted, "a", 5, 10) is None
    driven = renewed_lease(adopted, "a", 10)
    assert driven is not None
    assert driven.worker == "a"
    assert driven.renewed_at == 10
    assert renewed_lease(driven, "b", 11) is None
    # Tidings from before it was begun, that come late.
    assert not was_never_started(driven, "a", 5)
    assert granted_lease(driven, "a", 12, 13) is None
    assert granted_lease(driven, "b", 12, 13) is None


def test_only_its_worker_renews_a_run() -> None:
    assert renewed_lease(RunLease(), "a", 10) is None
    assert renewed_lease(RunLease("a", 5, 6), "b", 10) is None
    assert renewed_lease(RunLease("a", 5, 6), "a", 10) == RunLease("a", 5, 10)


def test_what_nobody_has_is_not_lost() -> None:
    assert run_fate(RunLease(), 10 * RUN_LEASE_DURATION) is RunFate.STAY


@given(times, st.integers(0, RUN_LEASE_DURATION), st.integers(0, 4 * RUN_LEASE_DURATION))
def test_a_run_is_lost_only_after_its_worker_has_ended_it(sent: int, on_its_way: int, later: int) -> None:
    """On one clock: the worker counts from when it sent, the node from when it answered."""
    answered = sent + on_its_way
    now = answered + later
    for driven in (RunLease("a", sent, answered), RunLease(renewed_at=answered, adopted=True)):
        if run_fate(driven, now) is RunFate.LOST:
            assert has_lease_expired(sent, now - RUN_LEASE_MARGIN)


@given(times, st.integers(0, 4 * RUN_LEASE_DURATION))
def test_a_permission_that_is_good_is_of_a_run_that_need_not_end(asked: int, later: int) -> None:
    if is_permission_valid(asked, asked + later):
        assert not has_lease_expired(asked, asked + later + RUN_LEASE_DURATION - PERMISSION_DURATION - 1)


@given(times, times, times)
def test_a_permission_is_taken_back_only_if_it_was_settled(asked: int, settled: int, now: int) -> None:
    driven = RunLease("a", asked, now)
    assert was_never_started(driven, "a", settled) == (asked <= settled)
    assert not was_never_started(driven, "b", settled)


@given(
    st.lists(st.tuples(st.integers(0, RUN_LEASE_DURATION), st.integers(0, SECOND)), max_size=5),
    st.integers(-RUN_LEASE_DURATION, RUN_LEASE_DURATION),
)
def test_the_time_of_a_run_that_nobody_answers_for_goes_on_from_owner_to_owner(
    owners: list[tuple[int, int]], clock: int
) -> None:
    """Each counts on a clock of its own; the ways between them are what it is counted too short by."""
    driven, silent, passed = RunLease("a", 5, clock), 0, 0
    for held, way in owners:
        now = clock + held
        assert run_fate(driven, now) is (
            RunFate.LOST if silent + held >= RUN_LEASE_DURATION + RUN_LEASE_MARGIN else RunFate.STAY
        )
        silent, passed, clock = unanswered_for(driven, now), passed + held + way, 7 * clock + way
        driven = adopted_lease(silent, clock)
        assert silent <= passed
    assert run_fate(driven, clock + RUN_LEASE_DURATION + RUN_LEASE_MARGIN - silent) is RunFate.LOST


def test_of_a_run_that_no_worker_may_have_nothing_is_counted() -> None:
    assert unanswered_for(RunLease(), 99) == 0


def test_a_message_has_runs_of_one_class_of_timeboxes() -> None:
    classes = [
        timebox_class(t) for t in (1, 10 * SECOND, 10 * SECOND + 1, MINUTE, MINUTE + 1, 10 * MINUTE, 3_600 * SECOND)
    ]
    assert classes == [0, 0, 1, 1, 2, 2, 3]
