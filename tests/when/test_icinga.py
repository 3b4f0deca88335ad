"""Icinga's published rule: a grid that moves earlier by at most its cap each time, until it is on a fixed grid."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.model import SECOND
from evenbeat.when.icinga import START_WINDOW, Floats, icinga_adjustment, icinga_after, icinga_first, icinga_next
from evenbeat.when.spread import RAND_MAX, icinga_phase


def column(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


def adjustment(now: float, interval: float, offset: float) -> float:
    return float(icinga_adjustment(column(now), column(interval), column(offset))[0])


def next_check(now: float, interval: float, offset: float) -> float:
    return float(icinga_next(column(now), column(interval), column(offset))[0])


def cap(interval: float, offset: float) -> float:
    return 0.5 + offset % (interval * 5) / 100


EXAMPLES = [
    pytest.param(1542190472.14, 300, 6500, 5.5, 37.14, id="5m"),
    pytest.param(1542190472, 60, 34567, 1.17, 17.67, id="1m"),
    pytest.param(1542190472, 86400, 12345, 123.95, 36995.45, id="1d"),
]


@pytest.mark.parametrize(("now", "interval", "offset", "capped", "whole_way"), EXAMPLES)
def test_the_worked_examples_of_the_document(
    now: float, interval: float, offset: float, capped: float, whole_way: float
) -> None:
    """The three examples, with the document's slips set right.

    The rule takes the remainder of the offset by five times the interval. The first example divides by the interval
    itself and finds 2.5 (6500 mod 300 = 200); by the rule it is 5.5 (6500 mod 1500 = 500). The second is printed as
    a division by 60, which would give 0.57, but its result, 1.2, is the rule's 1.17 (34567 mod 300 = 67), rounded.
    The third is 123.95 either way: 12345 is less than the interval. And the first sum, 154219053714, implies a
    fractional now, 1542190472.14.
    """
    assert adjustment(now, interval, offset) == pytest.approx(capped, abs=1e-4)
    # "starts at now + 1.2s" means: that much earlier than now + interval.
    assert next_check(now, interval, offset) == pytest.approx(now - capped + interval, abs=1e-4)


@pytest.mark.parametrize(("now", "interval", "offset", "capped", "whole_way"), EXAMPLES)
def test_the_capped_steps_add_up_to_the_whole_adjustment(
    now: float, interval: float, offset: float, capped: float, whole_way: float
) -> None:
    """37.14, 17.67 and 36995.45 s are how far each check is from its grid: taken in steps of the cap, then done."""
    gone = 0.0
    for _ in range(-int(-whole_way // capped)):
        step = adjustment(now, interval, offset)
        assert 0 < step <= capped + 1e-4
        gone += step
        now = now - step + interval
    assert gone == pytest.approx(whole_way, abs=1e-3)


@pytest.mark.parametrize(("interval", "offset"), [(60, 3000), (300, 6500), (86400, 0), (1.5, 12300)])
def test_a_check_on_its_grid_stays_on_it(interval: float, offset: float) -> None:
    """The `adj != 0` guard: no adjustment is none, not the cap, which is never less than half a second."""
    on_grid = interval * 1_000_000 - offset / 100
    assert adjustment(on_grid, interval, offset) == 0
    assert next_check(on_grid, interval, offset) == on_grid + interval


@settings(deadline=None)
@given(st.floats(0, 2e9), st.floats(0.01, 1), st.integers(0, RAND_MAX))
def test_intervals_of_a_second_or_less_have_no_adjustment(now: float, interval: float, offset: int) -> None:
    assert adjustment(now, interval, offset) == 0
    assert next_check(now, interval, offset) == now + interval


def test_an_interval_just_over_a_second_has_one() -> None:
    assert adjustment(1000.25, 1.5, 0) == pytest.approx(0.5)


@settings(deadline=None)
@given(st.floats(0, 2e9), st.integers(2, 86_400), st.integers(0, RAND_MAX))
def test_a_check_only_ever_moves_earlier_by_at_most_its_cap(now: float, interval: int, offset: int) -> None:
    step = adjustment(now, interval, offset)
    assert 0 <= step <= cap(interval, offset)
    assert step < interval
    assert now < next_check(now, interval, offset) <= now + interval


@settings(deadline=None)
@given(st.integers(0, 8 * 10**9), st.integers(1, 60), st.integers(0, RAND_MAX // 25))
def test_the_moving_grid_reaches_a_fixed_grid_and_stays(quarters: int, interval_5: int, offset_25: int) -> None:
    """Quarters of a second, intervals in 5s and offsets in 25s are exact in binary: what is seen is the rule itself."""
    now, interval, offset = quarters / 4, interval_5 * 5, offset_25 * 25
    steps = 0
    while (step := adjustment(now, interval, offset)) != 0:
        assert step <= cap(interval, offset)
        now = now - step + interval
        steps += 1
        assert steps <= interval / cap(interval, offset) + 1
    assert (now * 100 + offset) % (interval * 100) == 0
    assert next_check(now, interval, offset) == now + interval


def test_columns_are_answered_row_by_row() -> None:
    now = column(1542190472.14, 1542190472, 1542190472, 1542190472)
    interval, offset = column(300, 60, 86400, 1), column(6500, 34567, 12345, 99)
    expected = [next_check(n, i, o) for n, i, o in zip(now, interval, offset, strict=True)]
    assert icinga_next(now, interval, offset).tolist() == expected


@settings(deadline=None)
@given(st.floats(0, 2e9), st.integers(1, 86_400), st.floats(0, 1, exclude_max=True))
def test_the_first_check_is_within_the_interval_and_a_minute(started: float, interval: int, uniform: float) -> None:
    first = float(icinga_first(started, column(interval), column(uniform))[0])
    assert started <= first <= started + min(interval, START_WINDOW)
    assert first - started == pytest.approx(min(interval, 60) * uniform, abs=1e-5)


# In microseconds


@given(st.integers(1, 4 * 10**9), st.integers(1, 7 * 86_400), st.integers(0, RAND_MAX))
def test_in_microseconds_it_is_the_same_rule(hundredths: int, interval: int, offset: int) -> None:
    phase = icinga_phase(offset, interval * SECOND)
    executed = np.array([hundredths * SECOND // 100])
    found = int(icinga_after(executed, np.array([interval * SECOND]), np.array([phase]))[0])
    assert found / SECOND == pytest.approx(next_check(hundredths / 100, interval, offset), abs=1e-4)


@pytest.mark.parametrize(("offset", "interval", "most"), [(34567, 60, 1.17), (12345, 86_400, 123.95), (6500, 300, 5.5)])
def test_the_caps_of_the_worked_examples_in_microseconds(offset: int, interval: int, most: float) -> None:
    every, phase = interval * SECOND, icinga_phase(offset, interval * SECOND)
    executed = np.arange(0, every, every // 1_000)
    early = executed + every - icinga_after(executed, np.full(len(executed), every), np.full(len(executed), phase))
    assert early.max() == round(most * SECOND)
    assert early.min() >= 0
