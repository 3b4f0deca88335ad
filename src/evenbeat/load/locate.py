"""Finds the position of a value in a TOML text. Used only for errors, so it may parse the text again."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from evenbeat.load.config import FilePosition

KeyPath = tuple[str | int, ...]

_HEADER: Final = re.compile(r"\s*\[\[?(?P<keys>[^\[\]].*?)\]\]?\s*(?:#.*)?$")
_KEY: Final = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_LONG_QUOTES: Final = ('"""', "'''")
_BARE: Final = re.compile(r"[\w-]+(?:\s*\.\s*[\w-]+)*", re.ASCII)
_ASSIGNMENT: Final = re.compile(rf"(?P<keys>\s*{_KEY}(?:\s*\.\s*{_KEY})*)\s*=\s*")


class TomlPositions:
    """The positions of the tables and keys of a text."""

    def __init__(self, text: str, document: Mapping[str, Any]) -> None:
        self._document = document
        self._lines = text.split("\n")
        self._known: dict[tuple[str, ...], FilePosition] = {}
        table: tuple[str, ...] = ()
        open_string = ""
        counts: dict[tuple[str, ...], int] = {}
        """How many tables of an array of tables there were."""
        for number, line in enumerate(self._lines, start=1):
            if open_string:  # a script, perhaps, whose lines look like ours
                open_string = "" if open_string in line else open_string
                continue
            start = line.lstrip()[:1]
            if start in ("", "#"):
                continue
            open_string = next((q for q in _LONG_QUOTES if q in line and line.count(q) % 2), "")
            if start == "[" and (header := _HEADER.match(line)):
                table = _keys(header["keys"])
                if line.lstrip().startswith("[["):
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, _nth(counts[table]))
                # A header [a.b] also says where [a] is, if nothing before it does.
                found, known, column = table, 0, header.start("keys") + 1
            elif assignment := _ASSIGNMENT.match(line):
                found, known, column = (*table, *_keys(assignment["keys"])), len(table), assignment.end() + 1
            else:
                continue
            for length in range(known + 1, len(found) + 1):
                self._known.setdefault(found[:length], FilePosition(number, column))

    def position_of(self, path: KeyPath, inner_column: int | None = None) -> FilePosition | None:
        """The place of the value at `path`, or of the nearest table around it.

        `inner_column` counts within a string value, from 1; it is used where the string stands on its line as it is.
        """
        names: tuple[str, ...] = ()
        for part in path:
            if (*names, _nth(part)) in self._known:
                names = (*names, _nth(part))
            elif isinstance(part, str):
                names = (*names, part)
        for length in range(len(names), 0, -1):
            if place := self._known.get(names[:length]):
                value = _value(self._document, path)
                if isinstance(value, dict) and inner_column:
                    value = path[-1]  # a problem of the name itself
                return self._within_string(place, value, inner_column) if isinstance(value, str) else place
        return None

    def _within_string(self, place: FilePosition, value: str, inner: int | None) -> FilePosition:
        for number in range(place.line, len(self._lines) + 1):
            start = place.column - 1 if number == place.line else 0
            for quoted in (f'"{value}"', f"'{value}'"):
                at = self._lines[number - 1].find(quoted, start)
                if at >= 0:
                    return FilePosition(number, at + 1 + (inner or 1))
            if number > place.line and _ASSIGNMENT.match(self._lines[number - 1]):
                break  # the next key: the string is written in a way we cannot follow
        return place


def _nth(number: int | str) -> str:
    """Stands for a table of an array of tables: no key looks like this."""
    return f"\0{number}"


def _keys(text: str) -> tuple[str, ...]:
    if _BARE.fullmatch(text.strip()):
        return tuple(key.strip() for key in text.split("."))
    if "\\" not in text:
        return tuple(key[1:-1] if key[0] in "\"'" else key for key in re.findall(_KEY, text))
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


def _value(document: Any, path: KeyPath) -> Any:
    value = document
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value
