"""Reads the output of `icinga2 object list`.

    Object 'web1' of type 'Host':
      % declared in '/etc/icinga2/conf.d/hosts.conf', lines 52:1-52:18
      * address = "192.0.2.11"
        % = modified in '/etc/icinga2/conf.d/hosts.conf', lines 55:3-55:23
      * vars
        * os = "Linux"

Nothing in it is escaped, neither quotes nor line breaks: a text ends where the next line begins something new.
"""

import re
from typing import Any, Final, NamedTuple

from evenbeat.load.config import BadFileError, ConfigError, FilePosition

_OBJECT: Final = re.compile(r"Object '(?P<name>.*)' of type '(?P<kind>\w+)':")
_ATTRIBUTE: Final = re.compile(r"(?P<indent> {2,})\* (?P<rest>.*)", re.DOTALL)
_COMMENT: Final = re.compile(r" {2,}% ")
_NUMBER: Final = re.compile(r"-?\d{1,300}(\.\d{1,300})?")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_BETWEEN_ITEMS: Final = re.compile(r', (?=["\[{]|-?\d|true|false|null)')
_MAX_DEPTH: Final = 100
_MAX_LINES: Final = 10_000
"""Lines of one text."""


class TextObject(NamedTuple):
    """One object of the list."""

    kind: str
    name: str
    attributes: dict[str, Any]
    place: FilePosition


def read_object_list(text: str, file: str, accepted: str) -> list[TextObject]:
    """The objects of a list; raise BadFileError with the position of what is not one."""
    found: list[TextObject] = []
    open_tables: list[dict[str, Any]] = []
    for number, line in _statements(_COLOURS.sub("", text).replace("\r\n", "\n").split("\n")):
        if begin := _OBJECT.fullmatch(line):
            found.append(TextObject(begin["kind"], begin["name"], {}, FilePosition(number, 1)))
            open_tables = [found[-1].attributes]
        elif attribute := _ATTRIBUTE.fullmatch(line):
            depth = len(attribute["indent"]) // 2
            if not found or depth > len(open_tables) or depth > _MAX_DEPTH:
                raise _bad(file, number, "an attribute that belongs to nothing")
            del open_tables[depth:]
            key, equals, value = attribute["rest"].partition(" = ")
            if equals:
                open_tables[-1][key] = _value(value)
            else:
                open_tables.append({})
                open_tables[-2][key] = open_tables[-1]
        elif line.strip() and not _COMMENT.match(line):
            raise _bad(file, number, f"{line.strip()[:64]!r} is no object, {accepted}")
    return found


def _bad(file: str, number: int, problem: str) -> BadFileError:
    return BadFileError([ConfigError(file, FilePosition(number, 1), problem)])


def _statements(lines: list[str]) -> "list[tuple[int, str]]":
    """Lines with their numbers; those of a text or list that goes on belong to the line that begins it."""
    found: list[tuple[int, str]] = []
    at = 0
    while at < len(lines):
        begin = at
        opens = _opening(lines[at])
        if opens:
            end = at
            last = min(len(lines), at + _MAX_LINES)
            while end < last and not (lines[end].endswith(opens) and _is_new(lines, end + 1)):
                if end > at and _OBJECT.fullmatch(lines[end]):
                    break  # it is never closed
                end += 1
            if end < last and lines[end].endswith(opens):
                at = end
        found.append((begin + 1, "\n".join(lines[begin : at + 1])))
        at += 1
    return found


def _opening(line: str) -> str:
    """How the value of a line has to end."""
    attribute = _ATTRIBUTE.fullmatch(line)
    value = attribute["rest"].partition(" = ")[2] if attribute else ""
    if value.startswith('"'):
        return '"'
    return " ]" if value.startswith("[ ") else ""


def _is_new(lines: list[str], at: int) -> bool:
    if at >= len(lines) or not lines[at]:
        return True
    line = lines[at]
    return _COMMENT.match(line) is not None or _ATTRIBUTE.match(line) is not None or line.startswith("Object '")


def _value(text: str) -> Any:
    if text.startswith('"'):
        return text[1:-1] if len(text) > 1 and text.endswith('"') else text[1:]
    if text in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[text]
    if _NUMBER.fullmatch(text):
        number = float(text)
        return int(number) if number.is_integer() and abs(number) < 1e15 else number
    if text.startswith("[") and text.endswith("]"):
        inside = text[1:-1].strip()
        if any(item.startswith(("[", "{")) for item in _BETWEEN_ITEMS.split(inside)):
            return text  # a list in a list: where it ends is not said
        return [_value(item.strip()) for item in _BETWEEN_ITEMS.split(inside)] if inside else []
    return text
