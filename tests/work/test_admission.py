import msgspec
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import SECOND
from evenbeat.wire.worker_frames import RunSpec
from evenbeat.work.admission import TOO_LATE, TOO_SOON, refusal_reason

NEVER = -(2**63)
LATEST = 10**16


def due(
    last_start: int = NEVER, interval: int = 60 * SECOND, tolerance: int = 0, latest_start: int = LATEST
) -> RunSpec:
    return RunSpec(
        1, msgspec.Raw(b"\x80"), "task", 0, 0, SECOND, latest_start, last_start, interval, tolerance, 1, None
    )


def test_a_run_without_a_last_start_is_admitted() -> None:
    assert refusal_reason(due(), 0) is None


def test_a_run_that_comes_too_soon_is_told_by_how_much() -> None:
    reason = refusal_reason(due(last_start=100 * SECOND, tolerance=5 * SECOND), 110 * SECOND)
    assert reason == f"{TOO_SOON}: 10 s after it, accepted: at least 55 s"
    assert refusal_reason(due(last_start=100 * SECOND, tolerance=5 * SECOND), 155 * SECOND) is None


def test_a_run_may_start_at_its_latest_start_and_not_after() -> None:
    assert refusal_reason(due(latest_start=SECOND), SECOND) is None
    assert refusal_reason(due(latest_start=SECOND), 3 * SECOND) == f"{TOO_LATE}: 2 s past the latest start"


@given(st.integers(0, 10**15), st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**12))
def test_waiting_long_enough_is_always_enough(last_start: int, interval: int, tolerance: int, more: int) -> None:
    run = due(last_start, interval, tolerance)
    assert refusal_reason(run, last_start + max(interval - tolerance, 0) + more) is None
