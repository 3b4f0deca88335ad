"""The interval grid: nominal times are `phase + k * every` on the Unix epoch, for one task or a million."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.model import DAY, HOUR, MAX_EVERY, MINUTE, SECOND, Instant, Invalid
from evenbeat.when.interval import Interval, nominal_after, nominal_before

INSTANTS = st.integers(-(2**55), 2**55).map(Instant)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    every = draw(st.integers(SECOND, MAX_EVERY))
    return Interval(every, draw(st.integers(0, every - 1)))


def on_grid(t: int, interval: Interval) -> bool:
    return (t - interval.phase) % interval.every == 0


@settings(deadline=None)
@given(intervals(), INSTANTS)
def test_next_is_the_first_grid_point_strictly_later(interval: Interval, t: Instant) -> None:
    found = interval.next_after(t)
    assert on_grid(found, interval)
    assert t < found <= t + interval.every


@settings(deadline=None)
@given(intervals(), INSTANTS)
def test_previous_is_the_last_grid_point_strictly_earlier(interval: Interval, t: Instant) -> None:
    found = interval.previous_before(t)
    assert on_grid(found, interval)
    assert t - interval.every <= found < t


@settings(deadline=None)
@given(intervals(), INSTANTS)
def test_next_and_previous_are_inverse_on_the_grid(interval: Interval, t: Instant) -> None:
    nominal = interval.next_after(t)
    assert interval.previous_before(interval.next_after(nominal)) == nominal
    assert interval.next_after(interval.previous_before(nominal)) == nominal


@settings(deadline=None)
@given(intervals(), INSTANTS, st.integers(0, 40), st.integers(0, 40))
def test_listing_in_two_halves_equals_listing_once(interval: Interval, start: Instant, a: int, b: int) -> None:
    # An odd middle and end, so that the halves do not meet on the grid only.
    middle = Instant(start + a * interval.every // 7)
    end = Instant(middle + b * interval.every // 7)
    halves = [*interval.between(start, middle), *interval.between(middle, end)]
    assert halves == list(interval.between(start, end))


@settings(deadline=None)
@given(intervals(), INSTANTS, st.integers(1, 20))
def test_listing_equals_asking_for_the_next_again_and_again(interval: Interval, start: Instant, n: int) -> None:
    end = Instant(start + n * interval.every)
    asked = []
    t = interval.next_after(Instant(start - 1))
    while t < end:
        asked.append(t)
        t = interval.next_after(t)
    assert list(interval.between(start, end)) == asked
    assert len(asked) == n


def test_the_start_of_a_listing_is_inside_it_and_the_end_is_not() -> None:
    minutely = Interval(MINUTE, 0)
    assert list(minutely.between(Instant(0), Instant(2 * MINUTE))) == [0, MINUTE]


def test_a_listing_that_ends_before_it_starts_is_empty() -> None:
    assert list(Interval(MINUTE, 0).between(Instant(HOUR), Instant(0))) == []


@pytest.mark.parametrize(
    ("t", "after", "before"),
    [
        (0, 3, -7),
        (3, 13, -7),
        (-7, 3, -17),
        (-8, -7, -17),
        (-6, 3, -7),
        (-17, -7, -27),
    ],
)
def test_the_grid_goes_on_before_the_epoch(t: int, after: int, before: int) -> None:
    interval = Interval(10 * SECOND, 3 * SECOND)
    assert interval.next_after(Instant(t * SECOND)) == after * SECOND
    assert interval.previous_before(Instant(t * SECOND)) == before * SECOND


def test_a_thousand_steps_do_not_drift() -> None:
    interval = Interval(1_100_000, 123_457)
    t = first = interval.next_after(Instant(1_700_000_000 * SECOND))
    for _ in range(1_000):
        t = interval.next_after(Instant(t + 999_999))
    assert t == first + 1_000 * interval.every


@pytest.mark.parametrize("change", [datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)])
def test_a_daily_interval_is_86400_seconds_whatever_the_clocks_do(change: datetime) -> None:
    """Paris changes its clocks on both days: the local time of day moves by an hour, the interval does not move."""
    start = Instant(int(change.timestamp() - 86_400) * SECOND)
    times = list(Interval(DAY, 9 * HOUR).between(start, Instant(start + 4 * DAY)))
    assert [b - a for a, b in pairwise(times)] == [86_400 * SECOND] * 3
    paris = ZoneInfo("Europe/Paris")
    hours = {(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=t)).astimezone(paris).hour for t in times}
    assert hours == {10, 11}


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[Interval], Instant]:
    return draw(st.lists(intervals(), max_size=20)), draw(INSTANTS)


@settings(deadline=None)
@given(columns())
def test_columns_give_the_same_answers_as_one_at_a_time(case: tuple[list[Interval], Instant]) -> None:
    rows, t = case
    phase = np.array([i.phase for i in rows], dtype=np.int64)
    every = np.array([i.every for i in rows], dtype=np.int64)
    assert nominal_after(phase, every, t).tolist() == [i.next_after(t) for i in rows]
    assert nominal_before(phase, every, t).tolist() == [i.previous_before(t) for i in rows]


def test_asking_for_columns_leaves_them_as_they_were() -> None:
    phase, every = np.array([3, 7], dtype=np.int64), np.array([10, 20], dtype=np.int64)
    nominal_after(phase, every, Instant(1_000))
    nominal_before(phase, every, Instant(1_000))
    assert phase.tolist() == [3, 7]
    assert every.tolist() == [10, 20]


@pytest.mark.parametrize(("every", "phase"), [(MINUTE, -1), (MINUTE, MINUTE), (MINUTE, HOUR), (0, 0), (-MINUTE, 0)])
def test_a_phase_outside_its_interval_is_refused_with_what_is_accepted(every: int, phase: int) -> None:
    with pytest.raises(Invalid, match=f"a phase of {phase} us .* accepted: 0 to less than {every} us"):
        Interval(every, phase)


@pytest.mark.parametrize("phase", [0, MINUTE - 1])
def test_the_first_and_the_last_phase_of_an_interval_are_accepted(phase: int) -> None:
    assert Interval(MINUTE, phase).next_after(Instant(-1)) == phase
