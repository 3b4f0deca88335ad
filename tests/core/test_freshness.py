"""By when a result must be there, and what is late or stale."""

from typing import Any

import numpy as np
import pytest

from evenbeat.core.freshness import LATE_AFTER, are_stale, is_late, result_expected_by, usual_lengths
from evenbeat.core.next_time import NextRun
from evenbeat.core.task_columns import timebox_setting
from evenbeat.core.timebox import usual_length
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, RunKind, Task
from evenbeat.when.windows import FOREVER

T = Instant(20_000 * DAY)


def task(*, check: bool = False, **keys: Any) -> Task:
    what = {} if "passive" in keys else {"command": ["true"]}
    return task_from_table("t", {**what, **keys}, check=check)


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        (task(every="10m", phase="0s", timebox="20s"), 20 * SECOND),
        (task(every="10m", phase="0s"), HOUR),
        (task(every="10m", phase="0s", longer_than="5s"), 5 * SECOND),
        (task(every="10m", phase="0s", longer_than="5s", timebox="20s"), 20 * SECOND),
        (task(every="2h", phase="0s"), 4 * HOUR),
        (task(every="10m", phase="0s", timebox="50%"), 5 * MINUTE),
        (task(every="10m", phase="0s", timebox="none"), HOUR),
        (task(check=True, every="10m", phase="0s"), MINUTE),
        (task(cron="0 0 * * *", second=0), 2 * DAY),
        (task(at="2024-10-04T00:00Z"), HOUR),
        (task(cron="0 0 * * *", second=0, timebox="50%"), DAY // 2),
        (task(check=True, cron="* * * * *", second=0), 55 * SECOND),
        (task(cron="0 0 * * *", second=0, timebox="1h"), HOUR),
        (task(check=True, passive=True, every="1d", phase="0s", timebox="10m"), 10 * MINUTE + HOUR),
        (task(check=True, passive=True, every="1d", phase="0s", timebox="10m", grace="5m"), 15 * MINUTE),
        (task(check=True, passive=True, cron="0 * * * *", second=0, timebox="10m"), 40 * MINUTE),
    ],
)
def test_a_result_is_expected_after_the_longest_run_and_the_grace(said: Task, allowed: int) -> None:
    assert result_expected_by(said, T) == T + allowed


def test_nothing_is_expected_if_no_time_is_left() -> None:
    assert result_expected_by(task(every="10m", phase="0s"), FOREVER) is None


class TestLate:
    DUE = NextRun(Instant(T - LATE_AFTER - 1), RunKind.GRID)

    def test_is_what_is_due_for_more_than_a_moment_and_has_not_started(self) -> None:
        said = task(every="10m", phase="0s")
        assert is_late(said, self.DUE, T, is_running=False)
        assert not is_late(said, NextRun(Instant(T - LATE_AFTER), RunKind.GRID), T, is_running=False)
        assert not is_late(said, self.DUE, T, is_running=True)
        assert not is_late(said, None, T, is_running=False)

    def test_is_no_passive_check(self) -> None:
        assert not is_late(task(check=True, passive=True, every="1h"), self.DUE, T, is_running=False)

    def test_is_no_task_that_is_off(self) -> None:
        assert not is_late(task(every="10m", enabled=False), self.DUE, T, is_running=False)


def test_rows_of_a_live_node_are_stale_by_the_same_rule() -> None:
    said = [
        task(every="10m", phase="0s", timebox="20s"),
        task(every="10m", phase="0s"),
        task(every="10m", phase="0s", longer_than="5s"),
        task(cron="0 * * * *", second=0),
        task(cron="0 * * * *", second=0, longer_than="3h"),
        task(cron="0 * * * *", second=0, timebox="20%"),
        task(cron="0 * * * *", second=0, check=True),
    ]
    for each, interval in zip(said, (*[10 * MINUTE] * 3, *[HOUR] * 4), strict=True):
        timebox = timebox_setting(each)
        by = result_expected_by(each, T)
        assert by is not None
        values = T, timebox, each.longer_than or 0, interval
        nominal, box, longer, length = (np.array([value], dtype=np.int64) for value in values)
        assert are_stale(nominal, box, longer, length, by).tolist() == [False]
        assert are_stale(nominal, box, longer, length, Instant(by + 1)).tolist() == [True]
    none = np.zeros(1, dtype=np.int64)
    assert are_stale(none + FOREVER, none, none, none, T).tolist() == [False]


def test_a_run_is_long_by_what_its_task_says_or_by_its_interval_or_after_an_hour() -> None:
    said = (10 * SECOND, 0), (10 * SECOND, HOUR), (0, MINUTE), (0, 0), (0, 2 * HOUR)
    longer_than, interval = (np.array(values, dtype=np.int64) for values in zip(*said, strict=True))
    expected = [10 * SECOND, 10 * SECOND, HOUR, HOUR, 4 * HOUR]
    assert usual_lengths(longer_than, interval).tolist() == expected
    assert [usual_length(longer, every) for longer, every in said] == expected
    assert [usual_length(longer or None, every or None) for longer, every in said] == expected
