"""What time it is for the API of a cluster: what the database says, whatever the clock of this machine."""

import time
from typing import Any, cast

import pytest

from evenbeat.api.http import context
from evenbeat.model import HOUR, SECOND


class Ahead:
    """A store whose clock is ahead of ours."""

    def __init__(self, by: int) -> None:
        self.by = by
        self.asked = 0

    def clock(self) -> int:
        self.asked += 1
        return time.time_ns() // 1_000 + self.by


def test_the_clock_is_that_of_the_database() -> None:
    store = Ahead(HOUR)
    clock = context._ClusterClock(cast("Any", store))
    assert abs(clock.now() - store.clock()) < 10 * SECOND
    for _ in range(100):
        clock.synchronize()
    assert store.asked == 2  # once by us: it is looked at now and then, not all the time


def test_a_clock_that_was_set_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_CLOCK_CHECK_SECONDS", 0.0)
    store = Ahead(0)
    clock = context._ClusterClock(cast("Any", store))
    store.by = -HOUR
    clock.synchronize()
    assert abs(clock.now() - store.clock()) < 10 * SECOND
