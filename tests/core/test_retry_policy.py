"""Of a task that is no check: which failures are tried again, and after which delay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.retries import RetryPolicy, is_retried, retry_delay, retry_policy_of
from evenbeat.model import HOUR, MINUTE, SECOND, Outcome, Schedule, Task

NAMES = st.text(min_size=1, max_size=20)


def policy(backoff: int = 10 * SECOND, backoff_max: int = 10 * MINUTE, *retry_on: int | str) -> RetryPolicy:
    return RetryPolicy(3, backoff, backoff_max, retry_on)


class TestDelay:
    @given(NAMES, st.integers(0, HOUR), st.integers(1, 100))
    def test_it_doubles_and_up_to_a_quarter_is_taken_off(self, name: str, backoff: int, attempt: int) -> None:
        whole = min(backoff * 2 ** (attempt - 1), 10 * HOUR)
        assert whole * 3 // 4 <= retry_delay(policy(backoff, 10 * HOUR), name, attempt) <= whole

    def test_tasks_that_failed_together_do_not_try_again_together(self) -> None:
        delays = [retry_delay(policy(MINUTE), f"task {i}", 1) for i in range(100)]
        assert len({delay // SECOND for delay in delays}) > 10

    @given(NAMES, st.integers(1, 100))
    def test_it_is_the_same_whenever_it_is_asked(self, name: str, attempt: int) -> None:
        assert retry_delay(policy(), name, attempt) == retry_delay(policy(), name, attempt)


class TestPolicy:
    SCHEDULE = Schedule(every=MINUTE)

    def test_a_task_that_says_nothing_does_not_try_again(self) -> None:
        assert retry_policy_of(Task("a", self.SCHEDULE)) is None
        assert retry_policy_of(Task("a", self.SCHEDULE, retries=0)) is None

    def test_defaults(self) -> None:
        assert retry_policy_of(Task("a", self.SCHEDULE, retries=3)) == RetryPolicy(3, 10 * SECOND, 10 * MINUTE)

    def test_a_longer_backoff_is_not_cut_by_the_default_maximum(self) -> None:
        assert retry_policy_of(Task("a", self.SCHEDULE, retries=1, backoff=HOUR)) == RetryPolicy(1, HOUR, HOUR)

    def test_a_check_has_other_rules(self) -> None:
        assert retry_policy_of(Task("a", self.SCHEDULE, check=True, retries=3)) is None


class TestRetryOn:
    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED, Outcome.BROKEN])
    def test_without_it_every_failure_is_one(self, outcome: Outcome) -> None:
        assert is_retried(policy(), outcome, None, ())

    @pytest.mark.parametrize(
        ("outcome", "status", "raised", "expected"),
        [
            (Outcome.FAILED, 75, (), True),
            (Outcome.FAILED, 1, (), False),
            (Outcome.FAILED, None, (), False),
            (Outcome.FAILED, 1, ("Timeout", "shop.Timeout", "OSError"), True),
            (Outcome.FAILED, 1, ("ValueError",), False),
            (Outcome.KILLED, 75, (), False),
            (Outcome.TIMEBOXED, None, ("OSError",), False),
        ],
    )
    def test_with_it_only_these_exit_codes_and_exceptions(
        self, outcome: Outcome, status: int | None, raised: tuple[str, ...], expected: bool
    ) -> None:
        assert is_retried(policy(SECOND, MINUTE, 75, "OSError"), outcome, status, raised) is expected
