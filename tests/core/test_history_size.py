"""What becomes of a history: rows by arithmetic, bytes by what was measured."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.history_size import (
    DEFAULT_BYTES,
    PART_BYTES,
    Measured,
    Rows,
    bytes_of_row,
    expected_parts,
    expected_rows,
    forecast,
)
from evenbeat.core.retention import Retention
from evenbeat.model import DAY, HOUR

RETENTION = Retention(2 * DAY, 30 * DAY)
rates_of_tasks = st.lists(st.floats(0, 3_600), max_size=20).map(np.array)


class TestRows:
    def test_of_a_check_that_runs_every_minute(self) -> None:
        rows = expected_rows(np.array([60.0]), RETENTION, 30 * DAY, 0.01)
        assert rows.runs == pytest.approx(60 * 48.5)
        assert rows.kept == pytest.approx(0.6 * 24 * 28)
        assert (rows.today, rows.hours, rows.days) == (12, 708, 30)

    def test_of_a_job_that_runs_once_a_day(self) -> None:
        rows = expected_rows(np.array([1 / 24]), RETENTION, 800 * DAY, 0.01)
        assert rows.kept == pytest.approx(100.5)
        assert (rows.hours, rows.days) == (0, 400)

    def test_of_a_check_that_always_fails_ten_an_hour_are_kept(self) -> None:
        assert expected_rows(np.array([60.0]), RETENTION, 30 * DAY, 1.0).kept == 10 * 24 * 28

    @given(rates_of_tasks, st.integers(0, 500), st.floats(0, 1))
    def test_a_history_only_grows(self, rates: np.ndarray, days: int, notable: float) -> None:
        now = expected_rows(rates, RETENTION, days * DAY, notable)
        later = expected_rows(rates, RETENTION, (days + 1) * DAY, notable)
        assert all(b >= a - 1e-6 for a, b in zip(now, later, strict=True))
        assert min(now) >= 0

    @given(rates_of_tasks)
    def test_beyond_its_horizon_it_does_not_grow(self, rates: np.ndarray) -> None:
        rates = rates[(rates > 4) | (rates == 0)]  # the last runs of rare tasks may take years to come together
        at = RETENTION.horizon
        assert expected_rows(rates, RETENTION, at, 0.02) == expected_rows(rates, RETENTION, at + DAY, 0.02)


NOTHING = Rows(*[0] * 7)


class TestBytes:
    def test_nothing_is_measured_yet(self) -> None:
        assert bytes_of_row(Measured(0, NOTHING, NOTHING, NOTHING)) == DEFAULT_BYTES

    def test_what_is_measured_stands_for_what_is_not(self) -> None:
        rows = NOTHING._replace(recent=1_000, kept=10, today=1_000)
        parts = NOTHING._replace(recent=2, today=5)
        recent, today = 2_000 * DEFAULT_BYTES.recent + 2 * PART_BYTES, 2_000 * DEFAULT_BYTES.today + 5 * PART_BYTES
        sizes = NOTHING._replace(recent=recent, kept=9_999, today=today)
        found = bytes_of_row(Measured(0, rows, parts, sizes))
        assert (found.runs, found.kept) == (2 * DEFAULT_BYTES.runs, 2 * DEFAULT_BYTES.kept)
        assert found[4:] == (2 * DEFAULT_BYTES.today, 2 * DEFAULT_BYTES.hours, 2 * DEFAULT_BYTES.days)

    def test_small_parts_say_little(self) -> None:
        rows, parts, sizes = (NOTHING._replace(hours=some) for some in (200, 50, 8_000))
        assert bytes_of_row(Measured(0, rows, parts, sizes)).hours == 10


class TestForecast:
    def test_what_is_no_history_of_runs_stays_as_it_is(self) -> None:
        now = Measured(1_500_000, NOTHING, expected_parts(RETENTION, RETENTION.horizon), NOTHING)
        found = forecast(np.array([]), RETENTION, RETENTION.horizon, 0.0, now)
        assert (found.growth_per_day, found.final) == (0, 1_600_000)

    def test_a_database_that_has_its_size_keeps_it(self) -> None:
        rates, age = np.array([60.0] * 100), RETENTION.horizon + HOUR
        rows, parts = expected_rows(rates, RETENTION, age, 0.02), expected_parts(RETENTION, age)
        found = forecast(rates, RETENTION, age, 0.02, Measured(15_000_000, rows, parts, NOTHING))
        assert found.growth_per_day == 0
        assert found.final == pytest.approx(16_000_000, rel=0.001)
