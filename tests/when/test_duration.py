"""Durations as people write them, there and back."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, WEEK, Invalid
from evenbeat.when.duration import LONGEST, UNITS, format_duration, parse_duration

ACCEPTED = "accepted: 150ms 10s 5m 2h 1d 1w 1h30m, or a number of seconds"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("150ms", 150_000),
        ("10s", 10 * SECOND),
        ("5m", 5 * MINUTE),
        ("2h", 2 * HOUR),
        ("1d", DAY),
        ("1w", WEEK),
        ("1h30m", 90 * MINUTE),
        ("7us", 7),
        ("8d1h1m1s1ms1us", WEEK + DAY + HOUR + MINUTE + SECOND + 1_001),
        ("1.5h", 90 * MINUTE),
        ("0.1s", 100_000),
        ("0.000001s", 1),
        ("90m", 90 * MINUTE),
        ("  5m ", 5 * MINUTE),
        ("90", 90 * SECOND),
        ("1.25", 1_250_000),
        ("0", 0),
        ("0s", 0),
        ("007s", 7 * SECOND),
        (90, 90 * SECOND),
        (0, 0),
        (0.1, 100_000),
        (1e-6, 1),
        (2.5, 2_500_000),
        ("36600d", LONGEST),
    ],
)
def test_what_people_write(text: str | float, expected: int) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "column", "fragment"),
    [
        ("", None, f"an empty duration, {ACCEPTED}"),
        ("   ", None, "an empty duration"),
        ("abc", 1, f"'abc' is not a number with a unit, {ACCEPTED}"),
        ("h", 1, "'h' is not a number with a unit"),
        ("-5s", 1, "'-5s' is not a number with a unit"),
        ("+5s", 1, "'+5s' is not a number with a unit"),
        (".5s", 1, "'.5s' is not a number with a unit"),
        ("1h 30m", 3, "' 30m' is not a number with a unit"),
        ("1h-30m", 3, "'-30m' is not a number with a unit"),
        ("٣s", 1, "'٣s' is not a number with a unit"),
        ("inf", 1, "'inf' is not a number with a unit"),
        ("5x", 2, "'x' is not a unit, accepted: w d h m s ms us"),
        ("   5x", 5, "'x' is not a unit"),
        ("5min", 2, "'min' is not a unit"),
        ("1h5M", 4, "'M' is not a unit"),
        ("1µs", 2, "'µs' is not a unit"),
        ("1e3", 2, "'e' is not a unit"),
        ("5 m", 1, "'5' has no unit"),
        ("1h30", 3, "'30' has no unit"),
        ("1.5.2s", 1, "'1.5' has no unit"),
        ("1,5s", 1, "'1' has no unit"),
        ("30m1h", 5, "'h' after 'm': larger units come first, each once"),
        ("1m1m", 4, "'m' after 'm': larger units come first, each once"),
        ("1s1ms1s", 7, "'s' after 'ms'"),
        ("0.5us", None, "'0.5us' is finer than a microsecond"),
        ("0.0000001", None, "'0.0000001' is finer than a microsecond"),
        ("36601d", None, "'36601d' is out of range, accepted: 0 to 36600d"),
        ("9" * 60, None, "is out of range"),
        ("1w" * 40, None, "a duration of 80 characters"),
    ],
)
def test_a_malformed_duration_is_refused_at_its_column(text: str, column: int | None, fragment: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_duration(text)
    assert fragment in refusal.value.problem
    assert refusal.value.column == column


@pytest.mark.parametrize(
    ("value", "fragment"),
    [
        (True, "'True' is not a duration"),
        (None, "'None' is not a duration"),
        ([], r"'[]' is not a duration"),
        ({"s": 1}, "is not a duration"),
        (-1, "'-1' is out of range"),
        (-0.5, "'-0.5' is out of range"),
        (float("nan"), "'nan' is out of range"),
        (float("inf"), "'inf' is out of range"),
        (float("-inf"), "'-inf' is out of range"),
        (10**400, "is out of range"),
        (1e300, "is out of range"),
        (1e-7, "'1e-07' is finer than a microsecond"),
    ],
)
def test_what_is_no_duration_is_refused(value: object, fragment: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_duration(value)  # type: ignore[arg-type]
    assert fragment in refusal.value.problem


@given(st.integers(0, LONGEST))
@example(LONGEST)
@example(1)
def test_what_is_written_is_read_back(microseconds: int) -> None:
    assert parse_duration(format_duration(microseconds)) == microseconds


@pytest.mark.parametrize(
    ("microseconds", "expected"),
    [
        (0, "0s"),
        (90 * MINUTE, "1h30m"),
        (WEEK, "1w"),
        (8 * DAY, "8d"),
        (150_000, "150ms"),
        (SECOND + 1, "1s1us"),
    ],
)
def test_it_is_written_in_the_largest_units(microseconds: int, expected: str) -> None:
    assert format_duration(microseconds) == expected


@given(st.integers(0, 10**6), st.sampled_from(list(UNITS)))
def test_a_number_and_its_unit_multiply(number: int, unit: str) -> None:
    if number * UNITS[unit] <= LONGEST:
        assert parse_duration(f"{number}{unit}") == number * UNITS[unit]


@given(st.one_of(st.text(max_size=80), st.text(alphabet="0123456789.wdhmsu ", max_size=80), st.integers(), st.floats()))
def test_anything_is_read_or_refused(text: str | float) -> None:
    try:
        assert 0 <= parse_duration(text) <= LONGEST
    except Invalid as refusal:
        assert refusal.problem
        assert refusal.column is None or 1 <= refusal.column <= len(str(text))
