"""Histograms count every value once, where it belongs."""

import numpy as np
import pytest

from evenbeat.node.loop.counters import HistogramCounter, RunCounters


def test_each_bound_counts_what_is_at_most_so_large() -> None:
    buckets = HistogramCounter((0.1, 1.0, 10.0))
    buckets.add(np.array([0.0, 0.1, 0.1001, 1.0, 9.9, 10.0, 10.1, 1e9]))
    found = buckets.read()
    assert found.bounds == (0.1, 1.0, 10.0)
    assert found.counts == [2, 4, 6, 8]
    assert found.sum == pytest.approx(1e9 + 31.2001, abs=1e-3)


def test_one_by_one_is_the_same_as_many_at_a_time() -> None:
    values = np.abs(np.random.default_rng(1).normal(0, 1, 1_000))
    many, single = HistogramCounter((0.1, 0.5, 1.0)), HistogramCounter((0.1, 0.5, 1.0))
    many.add(values)
    for value in values.tolist():
        single.add_one(value)
    assert many.read().counts == single.read().counts
    assert many.read().sum == pytest.approx(single.read().sum)


def test_nothing_is_nothing_and_less_than_nothing_too() -> None:
    buckets = HistogramCounter((0.1,))
    buckets.add(np.array([]))
    assert buckets.read().counts == [0, 0]
    buckets.add(np.array([-5.0]))
    assert buckets.read().counts == [1, 1]
    assert buckets.read().sum == 0


def test_runs_are_counted_by_lateness_and_duration() -> None:
    counts = RunCounters()
    counts.began(np.array([0.001, 0.2]))
    counts.ended(["succeeded", "failed"], np.array([0.5, 7.0]))
    counts.ended(["dropped"], np.array([]))
    assert counts.late.read().counts[-1] == 2
    assert counts.lasted.read().counts[-1] == 2
    assert counts.lasted.read().sum == 7.5
    assert counts.outcomes == {"succeeded": 1, "failed": 1, "dropped": 1}
