"""What becomes of a history: rows by arithmetic, bytes by what was measured."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.history_size import DEFAULT_BYTES, Rows, bytes_of_row, expected_rows, forecast
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


class TestBytes:
    def test_nothing_is_measured_yet(self) -> None:
        assert bytes_of_row(Rows(*[0] * 7), Rows(*[0] * 7)) == DEFAULT_BYTES

    def test_what_is_measured_stands_for_what_is_not(self) -> None:
        found = bytes_of_row(
            Rows(0, 1_000, 0, 10, 1_000, 0, 0), Rows(0, 2 * DEFAULT_BYTES.recent * 1_000, 0, 9_999, 96_000, 0, 0)
        )
        assert found.runs == 2 * DEFAULT_BYTES.runs
        assert found.kept == 2 * DEFAULT_BYTES.kept
        assert (found.today, found.hours, found.days) == (96, 2 * DEFAULT_BYTES.hours, 2 * DEFAULT_BYTES.days)


class TestForecast:
    def test_what_is_no_history_of_runs_stays_as_it_is(self) -> None:
        nothing = Rows(*[0] * 7)
        found = forecast(
            np.array([]), RETENTION, DAY, notable=0.0, row_bytes=DEFAULT_BYTES, used=1_500_000, now=nothing
        )
        assert (found.growth_per_day, found.in_30_days, found.final) == (0, 1_600_000, 1_600_000)

    def test_a_database_that_has_its_size_keeps_it(self) -> None:
        rates, age = np.array([60.0] * 100), RETENTION.horizon + HOUR
        now = expected_rows(rates, RETENTION, age, 0.02)
        used = 15_000_000
        found = forecast(rates, RETENTION, age, notable=0.02, row_bytes=DEFAULT_BYTES, used=used, now=now)
        assert found.growth_per_day == 0
        assert found.final == pytest.approx(16_000_000, rel=0.001)
