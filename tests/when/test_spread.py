"""The spread strategies with a fixed phase: where in its interval each puts a task."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.model import DAY, HOUR, MAX_EVERY, MINUTE, SECOND, WEEK, Instant
from evenbeat.when.hashing import PHASE_NUMBER, stable_number
from evenbeat.when.interval import Interval
from evenbeat.when.spread import aligned_phase, bergamot_phase, even_phase, hash_phase
from evenbeat.when.wheel import LoadWheel

EVERY = st.integers(SECOND, MAX_EVERY)
NAMES = [f"host{i:05}!ping" for i in range(20_000)]
CHI_SQUARE_59 = 98.3
"""59 degrees of freedom pass this by chance once in a thousand times."""


def chi_square(phases: list[int], every: int, bins: int) -> float:
    found = np.bincount([p * bins // every for p in phases], minlength=bins)
    assert len(found) == bins
    expected = len(phases) / bins
    return float(((found - expected) ** 2 / expected).sum())


# even


@pytest.mark.parametrize("every", [10 * SECOND, 7 * SECOND, 5 * MINUTE, HOUR, DAY, WEEK, 1_500_000])
def test_even_is_the_phase_that_the_wheel_chooses(every: int) -> None:
    ours, wheel = LoadWheel(), LoadWheel()
    for weight in (1.0, 3.0, 0.5, 1.0):
        assert even_phase(ours, every, weight) == wheel.place(every, weight)
    assert (ours.load == wheel.load).all()


def test_even_counts_the_task_it_has_placed() -> None:
    wheel = LoadWheel()
    even_phase(wheel, HOUR, 2.0)
    assert wheel.load.sum() == 2.0


# hash


@settings(deadline=None)
@given(st.text(max_size=40), EVERY)
def test_a_hashed_phase_is_inside_the_interval_and_stable(name: str, every: int) -> None:
    phase = hash_phase(name, every)
    assert 0 <= phase < every
    assert hash_phase(name, every) == phase


@settings(deadline=None)
@given(st.text(max_size=40), EVERY)
def test_a_hashed_phase_is_the_same_fraction_of_every_interval(name: str, every: int) -> None:
    fraction = stable_number(name, PHASE_NUMBER) / 2**64
    assert hash_phase(name, every) == pytest.approx(fraction * every, abs=1, rel=1e-12)


def test_a_hashed_phase_is_the_same_for_ever() -> None:
    """Written down: a new release must not move the tasks of those who upgrade."""
    assert hash_phase("web1!http", 5 * MINUTE) == 180_412_884
    assert hash_phase("web2!http", 5 * MINUTE) == 80_105_587


@pytest.mark.parametrize("every", [MINUTE, 5 * MINUTE, DAY])
def test_hashed_phases_are_uniform_over_names(every: int) -> None:
    assert chi_square([hash_phase(n, every) for n in NAMES], every, 60) < CHI_SQUARE_59


def test_names_that_differ_in_one_letter_are_far_apart_as_often_as_any() -> None:
    pairs = [(hash_phase(f"db{i}a", HOUR), hash_phase(f"db{i}b", HOUR)) for i in range(5_000)]
    assert chi_square([(a - b) % HOUR for a, b in pairs], HOUR, 60) < CHI_SQUARE_59


# bergamot


@settings(deadline=None)
@given(EVERY, st.integers(0, 2**53).map(Instant), st.floats(0, 1, exclude_max=True))
def test_bergamot_delays_the_first_run_by_less_than_an_interval(every: int, first: Instant, uniform: float) -> None:
    """The first nominal time is in [first scheduled, first scheduled + interval), at the random fraction of it."""
    phase = bergamot_phase(every, first, uniform)
    assert 0 <= phase < every
    first_run = Interval(every, phase).next_after(Instant(first - 1))
    assert first <= first_run < first + every
    assert first_run - first == pytest.approx(uniform * every, abs=1)


def test_bergamot_is_uniform_over_the_interval() -> None:
    uniform = np.random.default_rng(7).random(20_000)
    first = Instant(1_700_000_123 * SECOND)
    phases = [bergamot_phase(5 * MINUTE, first, u) for u in uniform.tolist()]
    assert chi_square(phases, 5 * MINUTE, 60) < CHI_SQUARE_59


def test_bergamot_starts_from_when_it_was_first_scheduled_not_from_the_epoch() -> None:
    assert bergamot_phase(MINUTE, Instant(7 * SECOND), 0.5) == 37 * SECOND
    assert bergamot_phase(MINUTE, Instant(MINUTE + 50 * SECOND), 0.5) == 20 * SECOND


# aligned


def test_aligned_is_on_the_minute() -> None:
    times = Interval(MINUTE, aligned_phase()).between(Instant(1), Instant(HOUR + 1))
    assert [t % MINUTE for t in times] == [0] * 60
