from pathlib import Path

import numpy as np
import pytest

from evenbeat.bench.peers.contract import RunRecords
from evenbeat.bench.peers.figures import irregularity, lateness, peak_over_mean, rate
from evenbeat.bench.peers.logging_check import LoggingCheck, read_pairs


def test_only_runs_that_ended_in_the_measured_seconds_count() -> None:
    ended = np.array([9.99, 10.0, 11.5, 13.9, 14.0])
    assert rate(ended, 10, 14) == 3 / 4


def test_lateness_is_in_milliseconds_of_the_runs_inside() -> None:
    records = RunRecords(np.array([1.0, 10.0, 11.0, 12.0, 20.0]), np.array([9.0, 0.001, 0.002, 0.003, 9.0]))
    found = lateness(records, 10, 20)
    assert found["p50_ms"] == pytest.approx(2.0)
    assert found["max_ms"] == pytest.approx(3.0)
    assert 2.9 < found["p99_ms"] < 3.0


def test_without_runs_there_is_no_lateness_instead_of_a_good_one() -> None:
    nothing = RunRecords(np.array([]), np.array([]))
    assert all(np.isnan(value) for value in lateness(nothing, 0, 10).values())


def test_an_even_load_has_a_peak_of_its_mean() -> None:
    assert peak_over_mean(np.arange(100.25, 110.25, 0.25), 100.25, 110.25) == 1.0


def test_a_load_all_in_one_second_has_its_peak_there() -> None:
    assert peak_over_mean(np.full(50, 103.5), 100.0, 110.0) == 10.0


def test_empty_seconds_count_in_the_mean() -> None:
    started = np.array([100.1, 100.2, 101.1, 101.2])
    assert peak_over_mean(started, 100.0, 104.0) == 2.0


def test_a_check_is_irregular_by_what_its_own_starts_differ_from_the_interval() -> None:
    numbers = np.array([1.0, 2.0, 1.0, 2.0, 1.0])
    started = np.array([0.0, 7.0, 10.0, 17.002, 20.001])
    found = irregularity(numbers, started, 10)
    assert found["max_ms"] == pytest.approx(2.0)
    assert found["p50_ms"] == pytest.approx(1.0)


def test_the_last_line_of_a_file_counts_only_if_it_is_complete(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("3 10.5\n4 11.5\n5 1")
    first, second = read_pairs(tmp_path / "log")
    assert (first.tolist(), second.tolist()) == ([3.0, 4.0], [10.5, 11.5])


@pytest.mark.skipif(LoggingCheck.missing() is not None, reason=LoggingCheck.missing() or "")
def test_the_logging_check_writes_its_number_and_when_it_started(tmp_path: Path) -> None:
    import subprocess
    import time

    check = LoggingCheck(tmp_path)
    before = time.time()
    for number in ("7", "8"):
        done = subprocess.run([*check.command, number], capture_output=True, text=True, check=True)
        assert done.stdout == "OK: fine\n"
    numbers, started = check.starts()
    assert numbers.tolist() == [7.0, 8.0]
    assert before - 1e-5 <= started[0] <= started[1] <= time.time()
