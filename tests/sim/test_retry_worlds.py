"""Worlds of retries: nothing breaks a property in them, and bugs that are planted do."""

from collections.abc import Callable

import numpy as np
import pytest

from evenbeat.core.columns import Ints
from evenbeat.core.gate import Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.problems import Problems, ProblemUpdate
from evenbeat.core.retries import EndedRun, Retries
from evenbeat.core.run_plan import ends_for_followers, outcome_meanings
from evenbeat.core.stopped_runs import withdraw_planned
from evenbeat.core.task import Bools, Flags, SkipColumns, Small
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import SECOND, Instant, Outcome, RunKind
from evenbeat.sim import retry_model
from evenbeat.sim.retry_explore import RETRY_WORLDS, explore_retries
from evenbeat.sim.retry_model import EndsForFollowers, RetryShape
from evenbeat.when.windows import FOREVER

RunOf = Callable[[int], EndedRun]
SMALL = RetryShape("small", (1,))


@pytest.mark.parametrize("shape", RETRY_WORLDS, ids=lambda shape: shape.name)
def test_no_property_breaks(shape: RetryShape) -> None:
    assert explore_retries(shape, most=100).counterexample is None


class NeverTiresRetries(Retries):
    def count_attempts(self, rows: Ints, flags: Flags, kind: Ints) -> None:
        """Each attempt is the first."""


class ForgetfulRetries(Retries):
    def begin(self, rows: Ints, nominal: Ints, kind: Small, off_grid_due: Ints) -> None:
        before = nominal.copy()
        super().begin(rows, nominal, kind, off_grid_due)
        nominal[:] = before


class OverlappingRetries(Retries):
    def plan(
        self, times: ScheduleTimes, rows: Ints, flags: Flags, meaning: Small, run_of: RunOf, now: Instant
    ) -> Bools:
        c = self._columns
        before, c.nominal[rows] = c.nominal[rows], FOREVER
        try:
            return super().plan(times, rows, flags, meaning, run_of, now)
        finally:
            c.nominal[rows] = before


class SilentRetries(Retries):
    def give_up(self, rows: Ints) -> None:
        self.drop(rows)


class LostRetries(Retries):
    def restore(self, rows: Ints, known: Callable[[int], int | None]) -> None:
        """What waits is forgotten with the node."""


class StubbornRetries(Retries):
    def give_up_unfit(self, rows: Ints) -> list[int]:
        return []


class HastyProblems(Problems):
    def learn_runs(
        self,
        rows: Ints,
        flags: Flags,
        meaning: Small,
        lost_for_good: Bools,
        now: Instant,
        retried: Bools | None = None,
    ) -> list[ProblemUpdate]:
        return super().learn_runs(rows, flags, meaning, lost_for_good, now)


class DeafProblems(Problems):
    def learn_given_up(self, rows: Ints, now: Instant) -> list[ProblemUpdate]:
        return []


class RestlessLifecycle(Lifecycle):
    """Runs that end leave what was planned for them."""

    def complete(self, rows: Ints) -> None:
        super().complete(rows)
        self.columns.off_grid_due[rows] = np.where(self.columns.nominal[rows] < FOREVER, 0, FOREVER)
        self.columns.off_grid_kind[rows] = RunKind.RETRY
        self.reset_due(rows)


@pytest.mark.parametrize(
    ("bug", "shape", "broken"),
    [
        (NeverTiresRetries, SMALL, "in time"),
        (ForgetfulRetries, SMALL, "bounded"),
        (OverlappingRetries, RetryShape("two retries"), "in time"),
        (SilentRetries, RetryShape("pauses", (1,), pauses=True), "problem"),
        (LostRetries, SMALL, "bounded"),
        (StubbornRetries, RetryShape("edits", (1, 0)), "in time"),
    ],
)
def test_a_planted_bug_is_found(bug: type[Retries], shape: RetryShape, broken: str) -> None:
    found = explore_retries(shape, retries=bug, most=300).counterexample
    assert found is not None
    assert found.property == f"retries: {broken}"


@pytest.mark.parametrize(
    ("bug", "shape"), [(HastyProblems, SMALL), (DeafProblems, RetryShape("pauses", (1,), pauses=True))]
)
def test_a_problem_that_opens_too_soon_or_not_is_found(bug: type[Problems], shape: RetryShape) -> None:
    found = explore_retries(shape, problems=bug, most=300).counterexample
    assert found is not None
    assert found.property == "retries: problem"


def test_a_retry_after_a_success_is_found() -> None:
    found = explore_retries(SMALL, lifecycle=RestlessLifecycle, most=300).counterexample
    assert found is not None
    assert found.property in ("retries: bounded", "retries: in time")


STOPPED = RetryShape("a person stops it", (1,), stops=True, cancels=True)
ONE_OFF = RetryShape("a one-off", (1,), (Outcome.FAILED, Outcome.LOST), stops=True, once=True)
FORCED_ONE_OFF = RetryShape("a one-off that is forced", (1,), (Outcome.LOST,), forces=True, once=True)


def stopped_runs_count_as_reported(reported: str, *, is_stopped: bool) -> str:
    return reported


def lost_runs_are_lost(reported: str, *, is_stopped: bool) -> str:
    return Outcome.CANCELLED if is_stopped and reported != Outcome.LOST else reported


def nothing_is_withdrawn(life: Lifecycle, rows: Ints, now: int) -> None:
    """What waits is left."""


def the_failure_is_final(life: Lifecycle, rows: Ints, now: int) -> None:
    life.retries.give_up(rows)
    withdraw_planned(life, rows, now)


@pytest.mark.parametrize(
    ("function", "bug"),
    [
        ("settled_outcome", stopped_runs_count_as_reported),
        ("settled_outcome", lost_runs_are_lost),
        ("withdraw_planned", nothing_is_withdrawn),
        ("withdraw_planned", the_failure_is_final),
    ],
)
def test_what_a_stop_leaves_behind_is_found(
    monkeypatch: pytest.MonkeyPatch, function: str, bug: Callable[..., object]
) -> None:
    monkeypatch.setattr(retry_model, function, bug)
    found = explore_retries(STOPPED, most=300).counterexample
    assert found is not None
    assert found.property in ("retries: stopped", "retries: followers")


def a_lost_run_is_not_repeated(life: Lifecycle, rows: Ints, now: Instant) -> Ints:
    return rows


def a_lost_run_is_repeated_beside_a_forced_one(life: Lifecycle, rows: Ints, now: Instant) -> Ints:
    life.columns.off_grid_due[rows] = now + SECOND
    life.columns.off_grid_kind[rows] = RunKind.CATCH_UP
    life.reset_due(rows)
    return rows


def a_missed_time_is_forgotten(life: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
    skips = life.skip_until(rows, now, Reason.MISSED)
    life.reset_due(rows)
    return skips


@pytest.mark.parametrize(
    ("function", "bug", "shape"),
    [
        ("repeat_lost_runs", a_lost_run_is_not_repeated, ONE_OFF),
        ("repeat_lost_runs", a_lost_run_is_repeated_beside_a_forced_one, FORCED_ONE_OFF),
        ("resume", a_missed_time_is_forgotten, ONE_OFF),
    ],
)
def test_a_one_off_that_is_not_made_up_for_once_is_found(
    monkeypatch: pytest.MonkeyPatch, function: str, bug: Callable[..., object], shape: RetryShape
) -> None:
    monkeypatch.setattr(retry_model, function, bug)
    found = explore_retries(shape, most=1_000).counterexample
    assert found is not None
    assert found.property == "retries: one-off"


class RecurringLifecycle(Lifecycle):
    """What has run comes again."""

    def complete(self, rows: Ints) -> None:
        super().complete(rows)
        self.columns.nominal[rows] = np.minimum(self.columns.nominal[rows], self.columns.accounted[rows])
        self.reset_due(rows)


def test_a_one_off_that_comes_again_is_found() -> None:
    found = explore_retries(ONE_OFF, lifecycle=RecurringLifecycle, most=1_000).counterexample
    assert found is not None
    assert found.property == "retries: one-off"


def _of_attempts(meaning: Small, flags: Flags, for_good: Bools, retried: Bools) -> tuple[Bools, Bools]:
    return ends_for_followers(meaning, flags, for_good, np.zeros_like(retried))


def _not_of_lost_runs(meaning: Small, flags: Flags, for_good: Bools, retried: Bools) -> tuple[Bools, Bools]:
    return ends_for_followers(meaning, flags, np.zeros_like(for_good), retried)


def _of_stopped_runs(meaning: Small, flags: Flags, for_good: Bools, retried: Bools) -> tuple[Bools, Bools]:
    succeeded, failed = ends_for_followers(meaning, flags, for_good, retried)
    return succeeded, failed | (meaning == outcome_meanings([Outcome.CANCELLED]))


def _of_failures_as_successes(meaning: Small, flags: Flags, for_good: Bools, retried: Bools) -> tuple[Bools, Bools]:
    succeeded, failed = ends_for_followers(meaning, flags, for_good, retried)
    return succeeded | failed, failed & ~failed


@pytest.mark.parametrize(
    ("bug", "shape"),
    [
        (_of_attempts, SMALL),
        (_not_of_lost_runs, RetryShape("lost", (1,), (Outcome.LOST,), skips=True)),
        (_of_stopped_runs, RetryShape("stopped", (1,), cancels=True)),
        (_of_failures_as_successes, SMALL),
    ],
)
def test_an_end_that_followers_should_not_learn_of_is_found(bug: EndsForFollowers, shape: RetryShape) -> None:
    found = explore_retries(shape, followed=bug).counterexample
    assert found is not None
    assert found.property == "retries: followers"
