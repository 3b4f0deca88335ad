"""The drop guard: what comes too soon is dropped."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.drop_guard import default_tolerance, is_too_soon
from evenbeat.model import DAY, MINUTE, SECOND, Instant


def at(text: str) -> Instant:
    minutes, seconds = text.split(":")
    return Instant((int(minutes) * 60 + int(seconds)) * SECOND)


@pytest.mark.parametrize(
    ("now", "last", "dropped"),
    [
        ("01:32", "00:35", False),  # 57 s is within a minute less the 5 s of tolerance
        ("02:37", "01:35", False),  # a full queue delays both alike
        ("02:03", "01:35", True),  # the first was late, the second on time: 28 s apart
        ("02:56", "01:35", False),
        ("01:30", "00:35", False),  # exactly at the limit is allowed
        ("01:29", "00:35", True),
    ],
)
def test_with_a_tolerance_of_five_seconds_a_minute_apart_means_55_s(now: str, last: str, dropped: bool) -> None:
    assert is_too_soon(at(now), at(last), MINUTE, 5 * SECOND) is dropped


def test_without_a_last_start_or_an_interval_nothing_is_too_soon() -> None:
    assert not is_too_soon(Instant(0), None, MINUTE, 0)
    assert not is_too_soon(Instant(0), Instant(0), None, 0)


@given(st.integers(1, 10 * DAY), st.integers(0, 10**15), st.integers(0, 10 * DAY))
def test_a_run_that_started_late_never_costs_the_next_one_that_is_on_time(every: int, nominal: int, late: int) -> None:
    late = min(late, every // 2)
    start, next_nominal = Instant(nominal + late), Instant(nominal + every)
    assert not is_too_soon(next_nominal, start, every, default_tolerance(every))
    assert not is_too_soon(start, start, every, default_tolerance(every, each=True))


def test_a_worker_imports_the_drop_guard_without_numpy() -> None:
    code = "import sys, evenbeat.core.drop_guard; print([m for m in ('numpy', 'asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
