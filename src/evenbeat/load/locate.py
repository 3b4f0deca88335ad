"""Find where in a TOML text a value stands. Only used once something is wrong with it, so it may read slowly."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Path = tuple[str | int, ...]

_HEADER: Final = re.compile(r"\s*\[(?!\[)(?P<keys>.+)\]\s*(?:#.*)?$")
_KEY: Final = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_ASSIGNMENT: Final = re.compile(rf"(?P<keys>\s*{_KEY}(?:\s*\.\s*{_KEY})*)\s*=\s*")


class Place(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def locate(text: str, document: Mapping[str, Any], path: Path, inner_column: int | None = None) -> Place | None:
    """The place of the value at `path`, or of the nearest table around it.

    `inner_column` counts within a string value, from 1; it is used where the string stands on its line as it is read.
    """
    names = tuple(p for p in path if isinstance(p, str))
    best: tuple[int, Place, int] | None = None
    table: tuple[str, ...] = ()
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if header := _HEADER.match(line):
            table = _keys(header["keys"])
            found, column = table, header.start("keys") + 1
        elif assignment := _ASSIGNMENT.match(line):
            found, column = (*table, *_keys(assignment["keys"])), assignment.end() + 1
        else:
            continue
        # Where only a part of the path stands (a table without the key, a header that goes on), the longest part.
        shared = min(len(found), len(names))
        if found[:shared] == names[:shared] and (best is None or shared > best[0]):
            best = (shared, Place(number + 1, column), number)
    if best is None:
        return None
    value = _value(document, path)
    if isinstance(value, str) and best[0] == len(names):
        return _within_string(lines, best[2], best[1].column - 1, value, inner_column) or best[1]
    return best[1]


def _within_string(lines: list[str], first: int, start: int, value: str, inner: int | None) -> Place | None:
    for number in range(first, len(lines)):
        for quoted in (f'"{value}"', f"'{value}'"):
            at = lines[number].find(quoted, start if number == first else 0)
            if at >= 0:
                return Place(number + 1, at + 1 + (inner or 1))
    return None


def _keys(text: str) -> tuple[str, ...]:
    try:
        value: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    keys = []
    while isinstance(value, dict):
        key = next(iter(value))
        keys.append(key)
        value = value[key]
    return tuple(keys)


def _value(document: Any, path: Path) -> Any:
    value = document
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value
