"""The output of a run as it is kept: all of it, or its beginning and its end with a mark that says what lies between.

A position counts the bytes that a run has written, also those that are not kept.
"""

import re
from typing import Final

_MARK: Final = re.compile(rb"^\[\.\.\. (\d{1,3}(?:,\d{3})*) bytes left out \.\.\.\]\n", re.MULTILINE)
MARK_ROOM: Final = 64
"""Bytes that the mark takes at most."""
_LONGEST_LINE: Final = 1_000
"""Bytes of a broken line that are left out as well, so that what is kept begins and ends with whole lines."""


def left_out_mark(count: int) -> str:
    """The line that stands for bytes that are not kept."""
    return f"[... {count:,} bytes left out ...]\n"


def join_parts(head: bytes, left_out: int, tail: bytes) -> bytes:
    """The beginning and the end of an output, at whole lines where that costs little, with the mark between them."""
    line_end = head.rfind(b"\n", max(len(head) - _LONGEST_LINE, 0)) + 1
    if line_end:
        left_out, head = left_out + len(head) - line_end, head[:line_end]
    elif head:
        left_out, head = left_out - 1, head + b"\n"  # it stands for one of the bytes that are left out
    line_start = tail.find(b"\n", 0, _LONGEST_LINE) + 1
    if 0 < line_start < len(tail):
        left_out, tail = left_out + line_start, tail[line_start:]
    return head + left_out_mark(left_out).encode() + tail


def part_after(output: bytes, position: int) -> tuple[int, bytes]:
    """What a kept output has from a position on, and where that begins: later, if bytes from there on are left out."""
    mark = _MARK.search(output)
    if mark is None:
        return position, output[position:]
    left_out, tail = int(mark[1].replace(b",", b"")), output[mark.end() :]
    tail_start = mark.start() + left_out
    if position < mark.start():
        return position, output[position:]
    return (tail_start, tail) if position < tail_start else (position, tail[position - tail_start :])


def size_of(output: bytes) -> int:
    """Bytes that the run has written, also those that are left out."""
    mark = _MARK.search(output)
    return len(output) if mark is None else len(output) - len(mark[0]) + int(mark[1].replace(b",", b""))


def whole_characters(data: bytes) -> bytes:
    """The data without an incomplete UTF-8 character at its end: the rest of that may be on its way."""
    for back in range(1, min(len(data), 3) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return data[:-back] if length > back else data
    return data
