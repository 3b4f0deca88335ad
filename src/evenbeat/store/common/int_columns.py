"""Columns of whole numbers for blocks of history: differences that are small, as planes of bytes, compressed."""

import sys
import zlib
from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import accumulate, chain, repeat
from operator import add, sub
from typing import Final

from msgspec import Struct

_TYPES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
_LEVEL: Final = 6
"""Of zlib. Level 9 takes a third longer and gains nothing here."""
_OWN_TABLE: Final = 512
"""Bytes that get a Huffman table of their own: a table takes some 60 bytes, and one that fits saves much more."""
_INT64: Final = range(-(1 << 63), 1 << 63)


class DamagedBlock(Exception):
    """What a block of history holds is not what was written."""


class Meaning(IntEnum):
    """What the numbers of a column stand for."""

    VALUES = 0
    CHANGES = 1
    """Each is the difference to the value before."""
    DIFFERENCES = 2
    """Each is the difference to the value of another column in the same row."""


class IntColumn(Struct, array_like=True, frozen=True):
    """Whole numbers: `low` is the least, and `data` has how much each is above it."""

    meaning: Meaning
    first: int
    """The first value, if the numbers are changes."""
    low: int
    width: int
    """Bytes per number; 0 if all are equal."""
    data: bytes


class PlaneWriter:
    """Compresses planes of bytes into one stream; planes that are long enough get a Huffman table each."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
        self._made: list[bytes] = []
        self._since_table = 0

    def add(self, plane: bytes) -> None:
        """Add a plane after the others."""
        self._made.append(self._stream.compress(plane))
        self._since_table += len(plane)
        if self._since_table >= _OWN_TABLE:
            self._made.append(self._stream.flush(zlib.Z_SYNC_FLUSH))
            self._since_table = 0

    def finish(self) -> bytes:
        """The compressed planes."""
        self._made.append(self._stream.flush())
        return b"".join(self._made)


def read_planes(data: bytes, length: int) -> bytes:
    """The planes of a stream, which have this length in all."""
    reader = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        planes = reader.decompress(data, length + 1)
    except zlib.error as e:
        raise DamagedBlock(str(e)) from e
    if len(planes) != length:
        raise DamagedBlock("a column is too short or too long")
    return planes


def width_of(most: int) -> int:
    """How many bytes a number up to this one takes; raise OverflowError if there are more than eight."""
    width = (most.bit_length() + 7) // 8
    if width > 8:
        raise OverflowError
    return width


def planes_of(numbers: Iterable[int], width: int) -> list[bytes]:
    """Numbers from 0 on, as one plane per byte, the lowest first."""
    size = _size(width)
    values = array(_TYPES[size], numbers)
    if sys.byteorder == "big":
        values.byteswap()
    data = values.tobytes()
    return [data[i::size] for i in range(width)]


def numbers_of(planes: bytes, count: int, width: int, some: range, at: int = 0) -> list[int]:
    """Some of the numbers, which follow each other, of `count` ones whose planes begin at this byte."""
    size = _size(width)
    data = bytearray(len(some) * size)
    for plane in range(width):
        begin = at + plane * count
        data[plane::size] = planes[begin + some.start : begin + some.stop]
    values = array(_TYPES[size])
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def _size(width: int) -> int:
    return next(size for size in _TYPES if size >= width)


def pack_values(values: Sequence[int]) -> IntColumn:
    """A column of these values."""
    return _packed(Meaning.VALUES, 0, values)


def pack_changes(values: Sequence[int]) -> IntColumn:
    """A column of values that change little, or always by as much."""
    if not values:
        return pack_values(values)
    try:
        return _packed(Meaning.CHANGES, values[0], list(map(sub, values[1:], values)))
    except OverflowError:
        return pack_values(values)


def pack_differences(values: Sequence[int], expected: Sequence[int]) -> IntColumn:
    """A column of values that are near to those of another one."""
    try:
        return _packed(Meaning.DIFFERENCES, 0, list(map(sub, values, expected)))
    except OverflowError:
        return pack_values(values)


def _packed(meaning: Meaning, first: int, numbers: Sequence[int]) -> IntColumn:
    if not numbers:
        return IntColumn(meaning, first, 0, 0, b"")
    low, high = min(numbers), max(numbers)
    if low not in _INT64:
        raise OverflowError
    width = width_of(high - low)
    if width == 0:
        return IntColumn(meaning, first, low, 0, b"")
    writer = PlaneWriter()
    for plane in planes_of(map(sub, numbers, repeat(low)) if low else numbers, width):
        writer.add(plane)
    return IntColumn(meaning, first, low, width, writer.finish())


def unpack(
    column: IntColumn, count: int, expected: Sequence[int] = (), begin: int = 0, end: int | None = None
) -> list[int]:
    """The values of a column with this many rows, or some that follow each other.

    `expected` has as many values of the other column, if this one holds differences to one.
    """
    end = count if end is None else end
    if column.meaning == Meaning.CHANGES:
        return list(accumulate(chain((column.first,), _numbers(column, count - 1, range(end - 1)))))[begin:]
    numbers = _numbers(column, count, range(begin, end))
    return list(map(add, numbers, expected)) if column.meaning == Meaning.DIFFERENCES else numbers


def _numbers(column: IntColumn, count: int, some: range) -> list[int]:
    if column.width not in range(9):
        raise DamagedBlock("a column has an impossible width")
    if column.width == 0:
        return [column.low] * len(some)
    numbers = numbers_of(read_planes(column.data, count * column.width), count, column.width, some)
    return list(map(add, numbers, repeat(column.low))) if column.low else numbers
