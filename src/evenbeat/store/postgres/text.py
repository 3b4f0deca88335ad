"""Encodes texts and columns for PostgreSQL, and decodes texts.

A text in PostgreSQL cannot contain NUL, but output and names can. So NUL is written as two characters, in a way that
keeps the order of texts, their prefixes and their parts.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from psycopg.types.string import StrDumperUnknown

_encode: Final = msgspec.json.Encoder().encode


def to_text(text: str) -> str:
    """A text as the database keeps it."""
    if "\0" in text or "\1" in text:
        return text.replace("\1", "\1\2").replace("\0", "\1\1")
    return text


def from_text(text: str) -> str:
    """The original text."""
    if "\1" in text:
        return text.replace("\1\1", "\0").replace("\1\2", "\1")
    return text


class TextDumper(StrDumperUnknown):
    """Encodes every text parameter."""

    def dump(self, obj: str) -> Any:
        return super().dump(to_text(obj))


def numbers(column: Sequence[object]) -> str:
    """A column of ints, bools, plain words or None as an array for PostgreSQL, whose syntax is almost that of JSON."""
    return "{" + _encode(column).decode()[1:-1] + "}"


def one_value(value: object) -> str | None:
    """An int, bool or text as a parameter whose type the statement says: by their own types, ints of different sizes
    would be prepared as different statements.
    """
    return value if value is None or isinstance(value, str) else _encode(value).decode()


def texts(column: Iterable[str]) -> str:
    """A column of arbitrary texts as an array for PostgreSQL."""
    return "{" + ",".join(map(_quoted, column)) + "}"


def _quoted(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if '"' in text:
        text = text.replace('"', '\\"')
    return f'"{text}"'
