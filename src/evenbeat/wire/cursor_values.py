"""Cursors as values of people and as they are saved."""

import math
from typing import Final

import msgspec

from evenbeat.model import CURSOR_LIMIT, ArgumentValue, Invalid

_decoder: Final = msgspec.msgpack.Decoder(ArgumentValue)


def checked_cursor_value(value: object) -> ArgumentValue:
    """A value that can be a cursor, or None; raise Invalid if it is none."""
    if value is not None and not isinstance(value, str | int | float):
        raise _refused(f"a text, a number, true or false, found {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise _refused(f"a text, a number, true or false, found {value}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise _refused("a whole number of up to 64 bits, found a larger one")
    return value


def packed_cursor(value: ArgumentValue) -> bytes | None:
    """A cursor as it is saved; None for none."""
    if checked_cursor_value(value) is None:
        return None
    return checked_cursor(msgspec.msgpack.encode(value))


def checked_cursor(packed: bytes) -> bytes:
    """A cursor as it may be saved; raise Invalid if it is too large."""
    if len(packed) > CURSOR_LIMIT:
        raise _refused(f"at most {CURSOR_LIMIT} bytes, found {len(packed)}")
    return packed


def unpacked_cursor(packed: bytes | None) -> ArgumentValue:
    """A saved cursor as a value; None if there is none."""
    return None if packed is None else _decoder.decode(packed)


def _refused(accepted: str) -> Invalid:
    return Invalid(f"accepted: {accepted}", place="cursor")
