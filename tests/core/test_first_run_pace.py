"""The pace of off-grid runs: evenly, together within the rate, and not at all where the grid comes first."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.first_run_pace import MAX_START_RATE, MIN_START_RATE, OffGridPace
from evenbeat.model import HOUR, MINUTE, SECOND, Instant
from evenbeat.when.windows import FOREVER

NOW = Instant(1_800_000_000 * SECOND + 123_457)


def release(pace: OffGridPace, grid: list[int], now: int = NOW) -> list[int]:
    """When each may run, in the order given."""
    return [int(t) for t in pace.plan(np.array(grid, dtype=np.int64), Instant(now))]


def released(due: list[int]) -> list[int]:
    return sorted(t for t in due if t != FOREVER)


def even_grid(count: int, every: int, now: int = NOW) -> list[int]:
    """The next nominal times of so many tasks with evenly spread phases."""
    return [now + 1 + (every * i) // count for i in range(count)]


def allowed(rate: float) -> float:
    """Runs per second, as found; a little less than the mean, so that no second is rounded up beyond it."""
    first, *_, last = release(OffGridPace(rate), [FOREVER] * 301)
    found = 300 * SECOND / (last - first)
    assert min(max(0.8 * rate, 10), MAX_START_RATE) * 0.999 <= found <= min(max(rate, 10), MAX_START_RATE) * 1.001
    return found


def per_second(due: list[int]) -> Counter[int]:
    return Counter((t - NOW) // SECOND for t in released(due))


rates = st.floats(0, 1_000)
ahead = st.integers(-MINUTE, 5 * MINUTE) | st.just(FOREVER - NOW)
crowds = st.lists(ahead, max_size=60)


@given(rates, st.lists(st.tuples(crowds, st.integers(0, 10 * SECOND)), min_size=1, max_size=6))
def test_over_several_calls_runs_are_spaced_by_the_rate_and_never_before_now(
    rate: float, calls: list[tuple[list[int], int]]
) -> None:
    pace, now, all_due = OffGridPace(rate), int(NOW), []
    for crowd, passed in calls:
        due = released(release(pace, [now + t for t in crowd], now))
        assert all(t >= now for t in due)
        all_due += due
        now += passed
    gap = SECOND / allowed(rate)
    assert all_due == sorted(all_due)
    assert all(b - a > gap - 1 for a, b in pairwise(all_due))


@given(rates, st.integers(1, 200))
def test_runs_that_are_not_hurried_by_their_grid_follow_at_exactly_the_rate(rate: float, count: int) -> None:
    due = release(OffGridPace(rate), [FOREVER] * count)
    for i, t in enumerate(due):
        assert t == pytest.approx(NOW + i * SECOND / allowed(rate), rel=0, abs=1)


@given(rates, crowds)
def test_who_is_released_is_released_before_its_grid_point(rate: float, crowd: list[int]) -> None:
    grid = [NOW + t for t in crowd]
    for t, point in zip(release(OffGridPace(rate), grid), grid, strict=True):
        assert t == FOREVER or NOW <= t < point


@given(rates, crowds)
def test_who_is_left_out_has_its_grid_point_before_the_next_free_turn(rate: float, crowd: list[int]) -> None:
    grid = [NOW + t for t in crowd]
    due = release(OffGridPace(rate), grid)
    turn = NOW + len(released(due)) * SECOND / allowed(rate)
    assert all(point <= turn + 1 for t, point in zip(due, grid, strict=True) if t == FOREVER)


@given(rates, crowds)
def test_the_farthest_grid_point_is_served_first(rate: float, crowd: list[int]) -> None:
    due = release(OffGridPace(rate), [NOW + t for t in crowd])
    by_grid = [due[i] for i in sorted(range(len(crowd)), key=lambda i: -crowd[i])]
    assert by_grid == sorted(by_grid)


def test_a_small_timetable_may_add_ten_runs_a_second() -> None:
    assert MIN_START_RATE == 10
    assert release(OffGridPace(0), [FOREVER] * 3) == [NOW, NOW + 100_000, NOW + 200_000]
    assert release(OffGridPace(9.5), [FOREVER] * 2) == [NOW, NOW + 100_000]


def test_a_large_timetable_may_add_its_own_mean_rate() -> None:
    due = release(OffGridPace(150), [FOREVER] * 2_000)
    assert 0.8 * 150 <= sum(t < NOW + SECOND for t in due) <= 150


def test_whose_grid_point_comes_first_gets_no_run_of_its_own() -> None:
    assert release(OffGridPace(0), [NOW - 1, NOW, NOW + 1]) == [FOREVER, FOREVER, NOW]
    assert release(OffGridPace(0), [NOW + 100_000, NOW + HOUR]) == [FOREVER, NOW]
    assert release(OffGridPace(0), [NOW + 100_001, NOW + HOUR]) == [NOW + 100_000, NOW]


def test_who_is_left_out_takes_no_turn() -> None:
    pace = OffGridPace(0)
    release(pace, [NOW] * 50)
    assert release(pace, [NOW + HOUR]) == [NOW]


def test_a_second_crowd_queues_behind_the_first() -> None:
    pace = OffGridPace(0)
    release(pace, [FOREVER] * 30)
    assert release(pace, [FOREVER] * 2, NOW + SECOND) == [NOW + 3 * SECOND, NOW + 3 * SECOND + 100_000]


def test_turns_that_nobody_took_are_not_saved_up() -> None:
    pace = OffGridPace(0)
    release(pace, [FOREVER])
    assert release(pace, [FOREVER] * 2, NOW + HOUR) == [NOW + HOUR, NOW + HOUR + 100_000]


def test_nobody_to_release_is_nothing_to_do() -> None:
    pace = OffGridPace(0)
    assert release(pace, []) == []
    assert release(pace, [FOREVER]) == [NOW]


def test_600_new_five_minute_checks_have_run_within_about_a_minute_evenly() -> None:
    grid = even_grid(600, 5 * MINUTE)
    due = release(OffGridPace(2), grid)
    assert max(min(t, point) for t, point in zip(due, grid, strict=True)) <= NOW + 61 * SECOND
    gaps = [b - a for a, b in pairwise(released(due))]
    assert len(gaps) > 400
    assert set(gaps) == {100_000}


def test_with_100_000_new_five_minute_checks_no_second_exceeds_twice_the_mean() -> None:
    every, count = 5 * MINUTE, 100_000
    mean = count / (every // SECOND)
    grid = np.array(even_grid(count, every), dtype=np.int64)
    due = np.array(release(OffGridPace(mean), grid.tolist()), dtype=np.int64)
    extra = due[due != FOREVER]
    # The grid of each goes on at its pace beside the first runs.
    on_grid = np.concatenate([grid, grid + every])
    load = np.bincount((np.concatenate([extra, on_grid]) - NOW) // SECOND)
    assert len(extra) > count // 3
    assert load.max() <= 2 * mean


# The start window and the start rate


def test_3_000_new_hourly_checks_all_have_their_first_run_planned_within_the_minute_evenly() -> None:
    grid = even_grid(3_000, HOUR)
    due = release(OffGridPace(3_000 / 3_600), grid)
    assert max(min(t, point) for t, point in zip(due, grid, strict=True)) <= NOW + MINUTE
    assert set(per_second(due).values()) <= {49, 50, 51}


def test_checks_that_come_in_two_parts_are_within_the_minute_too_and_share_one_slope() -> None:
    pace = OffGridPace(1)
    due = release(pace, [FOREVER] * 2_000) + release(pace, [FOREVER] * 1_000, NOW + SECOND)
    assert max(due) <= NOW + MINUTE + SECOND
    assert max(per_second(due).values()) <= 52


def test_one_at_a_time_they_do_not_meet_in_one_moment() -> None:
    pace = OffGridPace(0)
    due = [release(pace, [FOREVER])[0] for _ in range(1_200)]
    assert max(due) <= NOW + MINUTE + SECOND
    assert max(per_second(due).values()) <= 22
    assert max(Counter(due).values()) <= 2


def test_never_above_the_start_rate_however_many_there_are() -> None:
    due = release(OffGridPace(500), [FOREVER] * 100_000)
    assert max(per_second(due).values()) == MAX_START_RATE == 200
    assert max(due) == pytest.approx(NOW + 500 * SECOND, abs=SECOND)


def test_a_start_window_and_a_start_rate_can_be_set() -> None:
    pace = OffGridPace(0)
    pace.window = 10 * SECOND
    assert max(release(pace, [FOREVER] * 1_000)) == pytest.approx(NOW + 10 * SECOND, abs=SECOND)
    slow = OffGridPace(50)
    slow.start_rate = 2
    assert release(slow, [FOREVER] * 3) == [NOW, NOW + 500_000, NOW + SECOND]


def test_nodes_with_a_share_each_release_together_what_one_would() -> None:
    due = []
    for _ in range(4):
        pace = OffGridPace(100)
        pace.share = 0.25
        due += release(pace, [FOREVER] * 10_000)
    assert max(per_second(due).values()) <= MAX_START_RATE


def test_what_was_planned_before_a_stop_is_part_of_the_slope() -> None:
    before = release(OffGridPace(0), [FOREVER] * 3_000)
    pace = OffGridPace(0)
    pace.add_planned(np.array(before, dtype=np.int64))
    due = before + release(pace, [FOREVER] * 3_000)
    assert max(per_second(due).values()) <= 106  # seconds are counted whole, and the first is not
    assert max(due) <= NOW + MINUTE + SECOND


@given(rates, st.integers(1, 120), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9 * SECOND)), max_size=8))
def test_no_second_has_more_than_the_rate_and_one_for_each_call(
    rate: float, window: int, calls: list[tuple[int, int]]
) -> None:
    pace, now, due, most = OffGridPace(rate), int(NOW), [], MIN_START_RATE
    pace.window = window * SECOND
    for number, passed in calls:
        due += release(pace, [FOREVER] * number, now)
        coming = sum(t > now for t in due)
        most = max(most, rate, (coming + 1) / window)
        now += passed
    assert all(t < FOREVER for t in due)
    assert max(per_second(due).values(), default=0) <= min(most, MAX_START_RATE) + len(calls) + 1


def test_those_that_have_to_wait_are_part_of_the_same_slope() -> None:
    pace = OffGridPace(0)
    grid = np.full(300, FOREVER, dtype=np.int64)
    later = [int(t) for t in pace.plan(grid, NOW, 10 * SECOND)]
    due = later + release(pace, [FOREVER] * 300)
    assert min(later) == NOW + 10 * SECOND
    assert max(due) <= NOW + MINUTE + SECOND
    assert max(per_second(due).values()) <= 11
