"""Load curves: they agree with listing every start, second by second."""

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, Spread
from evenbeat.when.cron import compile_cron
from evenbeat.when.curve import (
    CurveSummary,
    IntervalTasks,
    Stretch,
    grid_curve,
    icinga_curve,
    listed_curve,
    phases,
    summarize,
)
from evenbeat.when.interval import Interval
from evenbeat.when.spread import bergamot_phase, hash_phase
from evenbeat.when.wheel import LoadWheel

Floats = NDArray[np.float64]

START = Instant(1_780_000_000 * SECOND)


def tasks_of(everies: list[int], seed: int = 1, weight: float = 1.0) -> IntervalTasks:
    random = np.random.default_rng(seed)
    n = len(everies)
    return IntervalTasks(
        [f"task{i}" for i in range(n)],
        np.array(everies, dtype=np.int64),
        np.full(n, weight),
        random.random(n),
        random.integers(0, 2**31, n).astype(np.float64),
    )


@st.composite
def weighted_intervals(draw: st.DrawFn) -> tuple[Interval, float]:
    whole = st.integers(1, 400).map(lambda s: s * SECOND)
    every = draw(st.one_of(whole, st.integers(SECOND, 400 * SECOND), st.sampled_from([1_500_000, 1_100_000, HOUR])))
    return Interval(every, draw(st.integers(0, every - 1))), draw(st.sampled_from([1.0, 0.5, 10.0, 3.25]))


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(weighted_intervals(), max_size=12), st.integers(-(10**6), 2 * 10**9), st.integers(1, 900))
def test_a_grid_curve_equals_listing_every_start(rows: list[tuple[Interval, float]], start: int, seconds: int) -> None:
    stretch = Stretch(Instant(start * SECOND), seconds)
    every = np.array([i.every for i, _ in rows], dtype=np.int64)
    phase = np.array([i.phase for i, _ in rows], dtype=np.int64)
    weight = np.array([w for _, w in rows])
    listed = np.zeros(seconds)
    for interval, w in rows:
        for t in interval.between(stretch.start, stretch.end):
            listed[t // SECOND - start] += w
    # The weights are exact in binary, so sums in any order are equal, not only close.
    assert grid_curve(every, phase, weight, stretch).tolist() == listed.tolist()


def test_a_stretch_ends_after_its_seconds() -> None:
    assert Stretch(START, 90).end == START + 90 * SECOND


# phases


def test_each_strategy_gives_its_own_phases() -> None:
    tasks = tasks_of([10 * SECOND, MINUTE, HOUR, DAY] * 10)
    wheel = LoadWheel()
    rows = list(zip(tasks.names, tasks.every.tolist(), tasks.uniform.tolist(), strict=True))
    assert phases(tasks, Spread.ALIGNED, wheel, START).tolist() == [0] * 40
    assert phases(tasks, Spread.HASH, wheel, START).tolist() == [hash_phase(n, e) for n, e, _ in rows]
    assert phases(tasks, Spread.BERGAMOT, wheel, START).tolist() == [bergamot_phase(e, START, u) for _, e, u in rows]
    assert not wheel.load.any()
    assert phases(tasks, Spread.EVEN, wheel, START).tolist() == LoadWheel().place_all([(e, 1.0) for _, e, _ in rows])
    assert wheel.load.sum() == pytest.approx(sum(HOUR / e for _, e, _ in rows), rel=1e-6)


def test_even_is_the_flattest_of_the_strategies_and_aligned_the_steepest() -> None:
    tasks = tasks_of([10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE] * 500)
    stretch = Stretch(START, 3_600)
    ratio = {
        strategy: summarize(
            grid_curve(tasks.every, phases(tasks, strategy, LoadWheel(), START), tasks.weight, stretch)
        ).peak_to_mean
        for strategy in (Spread.EVEN, Spread.HASH, Spread.BERGAMOT, Spread.ALIGNED)
    }
    assert ratio[Spread.EVEN] <= 1.01
    assert ratio[Spread.EVEN] < min(ratio[Spread.HASH], ratio[Spread.BERGAMOT])
    assert max(ratio[Spread.HASH], ratio[Spread.BERGAMOT]) < ratio[Spread.ALIGNED]


# icinga


def test_under_icinga_a_check_that_has_settled_runs_once_an_interval() -> None:
    """Offset 50, so a cap of 1 s and a grid on half seconds: a minute is settled within sixty steps, at the latest.

    A daily check beside it makes the process start a day before the stretch, so the others have long settled.
    """
    n = 20
    tasks = IntervalTasks(
        [f"check{i}" for i in range(n + 1)],
        np.array([MINUTE] * n + [DAY], dtype=np.int64),
        np.array([2.0] * n + [1.0]),
        np.arange(n + 1) / 64,
        np.full(n + 1, 50.0),
    )
    curve = icinga_curve(tasks, Stretch(START, 3_600))
    daily_at_most_once = curve.sum() - 60 * n * 2.0
    assert daily_at_most_once in {0.0, 1.0}


@pytest.mark.parametrize("every", [10 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE])
def test_under_icinga_every_check_runs_at_least_once_an_interval_and_a_little_more_while_it_moves(every: int) -> None:
    tasks = tasks_of([every])
    interval = every / SECOND
    cap = 0.5 + float(tasks.offset[0]) % (interval * 5) / 100
    seconds = 40 * every // SECOND
    count = icinga_curve(tasks, Stretch(START, seconds)).sum()
    assert 40 - 1 <= count <= seconds / (interval - cap) + 1


def test_under_icinga_a_one_second_check_runs_every_second() -> None:
    assert icinga_curve(tasks_of([SECOND] * 7), Stretch(START, 100)).tolist() == [7.0] * 100


def test_an_icinga_curve_of_no_tasks_is_flat() -> None:
    assert icinga_curve(tasks_of([]), Stretch(START, 5)).tolist() == [0.0] * 5


# listed


def test_a_listed_curve_counts_each_start_in_its_second_by_weight() -> None:
    cron = compile_cron("*/2 * * * *", second=7)
    grid = Interval(MINUTE, 7 * SECOND + 999_999)
    start = Instant(1_780_000_020 * SECOND - 1_780_000_020 * SECOND % HOUR)
    curve = listed_curve([(cron, 2.0), (grid, 0.5)], Stretch(start, 240))
    assert {s: v for s, v in enumerate(curve.tolist()) if v} == {7: 2.5, 67: 0.5, 127: 2.5, 187: 0.5}


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(weighted_intervals(), max_size=6))
def test_listing_a_grid_and_folding_it_give_the_same_curve(rows: list[tuple[Interval, float]]) -> None:
    stretch = Stretch(START, 600)
    every = np.array([i.every for i, _ in rows], dtype=np.int64)
    phase = np.array([i.phase for i, _ in rows], dtype=np.int64)
    folded = grid_curve(every, phase, np.array([w for _, w in rows]), stretch)
    assert listed_curve(rows, stretch).tolist() == folded.tolist()


# summary


def test_a_summary_is_mean_peak_minimum_and_peak_over_mean() -> None:
    assert summarize(np.array([1.0, 4.0, 1.0, 2.0])) == CurveSummary(mean=2.0, peak=4.0, min=1.0, peak_to_mean=2.0)


def test_an_even_curve_and_an_empty_one_have_a_ratio_of_one() -> None:
    assert summarize(np.full(10, 3.0)).peak_to_mean == 1.0
    assert summarize(np.zeros(10)) == CurveSummary(0.0, 0.0, 0.0, 1.0)
