"""Cursors that people set: which values they can be, and how they are saved."""

import pytest

from evenbeat.model import CURSOR_LIMIT, ArgumentValue, Invalid
from evenbeat.wire.cursor_values import checked_cursor, packed_cursor, unpacked_cursor


@pytest.mark.parametrize("value", ["", "page 7", 0, -(1 << 63), (1 << 64) - 1, 2.5, True, False, None])
def test_a_value_comes_back_as_it_was(value: ArgumentValue) -> None:
    found = unpacked_cursor(packed_cursor(value))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1 << 64, -(1 << 63) - 1, [1], {}, "x" * CURSOR_LIMIT])
def test_what_could_not_be_saved_or_shown_is_refused(value: ArgumentValue) -> None:
    with pytest.raises(Invalid, match="cursor: accepted: "):
        packed_cursor(value)


def test_a_cursor_has_a_size() -> None:
    assert len(packed_cursor("x" * (CURSOR_LIMIT - 3)) or b"") == CURSOR_LIMIT
    assert checked_cursor(b"x" * CURSOR_LIMIT) == b"x" * CURSOR_LIMIT
    with pytest.raises(Invalid, match="at most 4096"):
        checked_cursor(b"x" * (CURSOR_LIMIT + 1))
