"""Sets of time: union, difference and clipping agree with the sets of integers they stand for."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import Instant
from evenbeat.when.windows import FOREVER, NEVER, Window, clip, difference, union


def window(start: int, end: int) -> Window:
    return Instant(start), Instant(end)


def points(windows: list[Window]) -> set[int]:
    return {t for start, end in windows for t in range(start, end)}


def is_canonical(windows: list[Window]) -> bool:
    """Every window has a length, and a gap before the next."""
    return all(o < c for o, c in windows) and all(left[1] < right[0] for left, right in pairwise(windows))


raw = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 15)).map(lambda w: window(w[0], w[0] + w[1])), max_size=8)
sets = raw.map(union)


def test_a_union_of_nothing_is_nothing() -> None:
    assert union() == []
    assert union([], []) == []


def test_windows_that_touch_become_one() -> None:
    assert union([window(1, 3)], [window(3, 5)]) == [window(1, 5)]


def test_windows_with_a_microsecond_between_them_stay_two() -> None:
    assert union([window(1, 3)], [window(4, 5)]) == [window(1, 3), window(4, 5)]


def test_a_window_inside_another_adds_nothing() -> None:
    assert union([window(1, 9)], [window(3, 5)]) == [window(1, 9)]


def test_a_union_sorts_what_comes_in_disorder() -> None:
    assert union([window(8, 9), window(1, 2)]) == [window(1, 2), window(8, 9)]


@given(raw, raw)
def test_a_union_has_the_points_of_both(a: list[Window], b: list[Window]) -> None:
    both = union(a, b)
    assert points(both) == points(a) | points(b)
    assert is_canonical(both)


def test_a_hole_in_the_middle_cuts_a_window_in_two() -> None:
    assert difference([window(0, 10)], [window(4, 6)]) == [window(0, 4), window(6, 10)]


def test_a_hole_that_covers_a_window_leaves_nothing() -> None:
    assert difference([window(4, 6)], [window(0, 10)]) == []
    assert difference([window(4, 6)], [window(4, 6)]) == []


def test_a_hole_that_only_touches_takes_nothing_away() -> None:
    assert difference([window(4, 6)], [window(0, 4), window(6, 9)]) == [window(4, 6)]


def test_one_hole_may_reach_over_several_windows() -> None:
    windows = [window(0, 3), window(4, 6), window(7, 10)]
    assert difference(windows, [window(2, 8)]) == [window(0, 2), window(8, 10)]


@given(sets, sets)
def test_a_difference_has_the_points_of_the_one_without_the_other(a: list[Window], b: list[Window]) -> None:
    left = difference(a, b)
    assert points(left) == points(a) - points(b)
    assert is_canonical(left)


@given(sets, st.integers(-25, 40), st.integers(0, 30))
def test_a_clip_has_the_points_within_the_stretch(windows: list[Window], start: int, length: int) -> None:
    cut = clip(windows, Instant(start), Instant(start + length))
    assert points(cut) == points(windows) & set(range(start, start + length))
    assert is_canonical(cut)


def test_never_and_forever_leave_room_for_arithmetic_in_64_bits() -> None:
    ten_years = 3_653 * 86_400 * 10**6
    assert -(2**63) < NEVER - ten_years < NEVER < FOREVER < FOREVER + ten_years < 2**63
