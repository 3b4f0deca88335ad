"""Find where in a TOML text a value stands. Only used once something is wrong with it, so it may read it again."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Path = tuple[str | int, ...]

_HEADER: Final = re.compile(r"\s*\[\[?(?P<keys>[^\[\]].*?)\]\]?\s*(?:#.*)?$")
_KEY: Final = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_ASSIGNMENT: Final = re.compile(rf"(?P<keys>\s*{_KEY}(?:\s*\.\s*{_KEY})*)\s*=\s*")


class Place(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


class Places:
    """Where the tables and keys of a text stand."""

    def __init__(self, text: str, document: Mapping[str, Any]) -> None:
        self._document = document
        self._lines = text.splitlines()
        self._known: dict[tuple[str, ...], Place] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(self._lines, start=1):
            if header := _HEADER.match(line):
                table = _keys(header["keys"])
                found, column = table, header.start("keys") + 1
            elif assignment := _ASSIGNMENT.match(line):
                found, column = (*table, *_keys(assignment["keys"])), assignment.end() + 1
            else:
                continue
            # A header [a.b] also says where [a] is, if nothing before it does.
            for length in range(1, len(found) + 1):
                self._known.setdefault(found[:length], Place(number, column))

    def find(self, path: Path, inner_column: int | None = None) -> Place | None:
        """The place of the value at `path`, or of the nearest table around it.

        `inner_column` counts within a string value, from 1; it is used where the string stands on its line as it is.
        """
        names = tuple(p for p in path if isinstance(p, str))
        for length in range(len(names), 0, -1):
            if place := self._known.get(names[:length]):
                value = _value(self._document, path) if length == len(names) else None
                return self._within_string(place, value, inner_column) if isinstance(value, str) else place
        return None

    def _within_string(self, place: Place, value: str, inner: int | None) -> Place:
        for number in range(place.line, len(self._lines) + 1):
            start = place.column - 1 if number == place.line else 0
            for quoted in (f'"{value}"', f"'{value}'"):
                at = self._lines[number - 1].find(quoted, start)
                if at >= 0:
                    return Place(number, at + 1 + (inner or 1))
            if number > place.line and _ASSIGNMENT.match(self._lines[number - 1]):
                break  # the next key: the string is written in a way we cannot follow
        return place


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
