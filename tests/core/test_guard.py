"""The guard: too soon is dropped, boxes end, cursors are small."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.guard import (
    CURSOR_LIMIT,
    Timebox,
    checked_cursor,
    default_timebox,
    default_tolerance,
    is_too_soon,
    kill_after,
)
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, Invalid


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


def test_a_box_is_half_the_interval_and_for_cron_all_of_it() -> None:
    assert default_timebox(MINUTE, check=False) == 30 * SECOND
    assert default_timebox(DAY, check=False, cron=True) == DAY
    assert default_timebox(None, check=False) == HOUR


def test_a_check_has_at_most_a_minute() -> None:
    assert default_timebox(MINUTE, check=True) == 30 * SECOND
    assert default_timebox(DAY, check=True) == MINUTE
    assert default_timebox(None, check=True) == MINUTE


def test_the_run_of_the_fourth_table_ends_at_its_box() -> None:
    box = Timebox(at("00:35"), default_timebox(MINUTE, check=False))
    assert box.ends == at("01:05")
    assert box.remaining(at("00:45")) == 20 * SECOND
    assert not box.is_expired(Instant(box.ends - 1))
    assert box.is_expired(box.ends)
    assert box.remaining(at("02:00")) == 0


def test_the_kill_follows_after_five_seconds_or_half_the_box() -> None:
    assert kill_after(HOUR) == 5 * SECOND
    assert kill_after(4 * SECOND) == 2 * SECOND
    assert Timebox(Instant(0), HOUR).kills == HOUR + 5 * SECOND


def test_a_cursor_has_a_size() -> None:
    assert checked_cursor(b"x" * CURSOR_LIMIT) == b"x" * CURSOR_LIMIT
    with pytest.raises(Invalid, match="at most 4096"):
        checked_cursor(b"x" * (CURSOR_LIMIT + 1))


def test_a_worker_imports_the_guard_without_numpy() -> None:
    code = "import sys, evenbeat.core.guard; print([m for m in ('numpy', 'asyncio') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
