"""Outputs whose middle is left out, and positions in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.output_excerpt import join_parts, left_out_mark, part_after, size_of, whole_characters

CUT = b"one\ntwo\n[... 1,000 bytes left out ...]\nnine\nten\n"


def test_an_output_is_cut_between_lines_and_says_how_much_is_missing() -> None:
    assert join_parts(b"one\ntwo\nthr", 990, b"eight\nnine\nten\n") == (
        b"one\ntwo\n[... 999 bytes left out ...]\nnine\nten\n"
    )


def test_lines_that_are_too_long_are_cut_within() -> None:
    kept = join_parts(b"x" * 5_000, 100, b"y" * 5_000)
    assert kept == b"x" * 5_000 + b"\n[... 99 bytes left out ...]\n" + b"y" * 5_000
    assert size_of(kept) == 10_100


@pytest.mark.parametrize(
    ("position", "start", "data"),
    [
        (0, 0, CUT),
        (4, 4, CUT[4:]),
        (8, 1_008, b"nine\nten\n"),
        (500, 1_008, b"nine\nten\n"),
        (1_013, 1_013, b"ten\n"),
        (1_017, 1_017, b""),
    ],
)
def test_positions_count_what_is_left_out(position: int, start: int, data: bytes) -> None:
    assert part_after(CUT, position) == (start, data)
    assert size_of(CUT) == 1_017


def test_the_mark_is_a_line() -> None:
    assert left_out_mark(1_234_567) == "[... 1,234,567 bytes left out ...]\n"


@given(st.text(), st.integers(0, 3))
def test_only_whole_characters_are_shown(text: str, cut: int) -> None:
    data = text.encode()
    whole = whole_characters(data[: len(data) - cut])
    assert text.startswith(whole.decode())
    assert len(data) - cut - len(whole) <= 3


def test_what_is_no_character_is_not_waited_for() -> None:
    assert whole_characters(b"caf\xe9\n") == b"caf\xe9\n"
    assert whole_characters(b"\x80\x80\x80\x80") == b"\x80\x80\x80\x80"
