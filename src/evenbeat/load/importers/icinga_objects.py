"""Reads the objects of Icinga 2, which it resolves itself: `icinga2 object list`, its file icinga2.debug, its API."""

import json
import re
from collections.abc import Iterator, Sequence
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final, NamedTuple

from evenbeat.load.config import BadFileError, ConfigError, FilePosition
from evenbeat.load.importers.icinga_text import TextObject, read_object_list
from evenbeat.load.placeholders import without_gaps

_NETSTRING: Final = re.compile(r"\s*(\d{1,12}):(?=\{)")
_AFTER_NETSTRING: Final = re.compile(r"\s*,?\s*")
_NOT_IN_TEXTS: Final = re.compile("[\x00\ud800-\udfff]")
_KINDS_ACCEPTED: Final = (
    "accepted: the output of `icinga2 object list`, the file icinga2.debug that `icinga2 daemon -C` writes (newer "
    "versions with `--dump-objects`), or JSON of the API, /v1/objects/..."
)


class IcingaObject(NamedTuple):
    """One object, with all its attributes."""

    kind: str
    name: str
    """As Icinga identifies it: that of a service is `HOST!SERVICE`."""
    attributes: dict[str, Any]
    file: str
    """Where it is defined, or else the file that was read."""
    place: FilePosition | None

    def text(self, attribute: str) -> str:
        """A text; empty if there is none."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, str) else ""

    def number(self, attribute: str, default: float) -> float:
        """A number of a sensible size."""
        value = self.attributes.get(attribute)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number and 0 <= value < 1e9 else default  # type: ignore[arg-type,operator]

    def flag(self, attribute: str, *, default: bool) -> bool:
        """A boolean."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, bool) else default

    def table(self, attribute: str) -> dict[str, Any]:
        """A dictionary; empty if there is none."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, dict) else {}

    def words(self, attribute: str) -> list[str]:
        """A list of texts, each of them once; empty if there is none."""
        value = self.attributes.get(attribute)
        return [*dict.fromkeys(one for one in value if isinstance(one, str))] if isinstance(value, list) else []


def read_icinga(text: str, file: str) -> list[IcingaObject]:
    """The objects of a file; raise BadFileError with the position of what is wrong."""
    begin = text.lstrip()
    try:
        if _NETSTRING.match(text):
            return list(_netstrings(text, file))
        if begin.startswith(("{", "[")):
            return list(_api_results(text, file))
        return [_object(one.attributes, one.kind, one.name, file, one.place) for one in _listed(text, file)]
    except RecursionError:
        raise BadFileError([ConfigError(file, FilePosition(1, 1), "values that are nested too deeply")]) from None


def _listed(text: str, file: str) -> Sequence[TextObject]:
    if not text.strip():
        raise BadFileError([ConfigError(file, FilePosition(1, 1), f"no objects, {_KINDS_ACCEPTED}")])
    return read_object_list(text, file, _KINDS_ACCEPTED)


def _netstrings(text: str, file: str) -> Iterator[IcingaObject]:
    """`469:{...},529:{...}`: the length is redundant."""
    at = 0
    while at < len(text):
        begin = _NETSTRING.match(text, at)
        if begin is None:
            raise _bad(text, at, file, f"{text[at : at + 32]!r} where LENGTH:{{...}} should be")
        found, end = _decoded(text, begin.end(), file)
        kind, name = found.get("type"), found.get("name")
        attributes = found.get("properties")
        if not isinstance(kind, str) or not isinstance(name, str) or not isinstance(attributes, dict):
            raise _bad(text, begin.end(), file, "an object without type, name and properties")
        yield _object(attributes, kind, name, file, _position(text, begin.end()))
        after = _AFTER_NETSTRING.match(text, end)
        at = after.end() if after else end


def _api_results(text: str, file: str) -> Iterator[IcingaObject]:
    """One or more answers of the API, one after the other."""
    at = len(text) - len(text.lstrip())
    while at < len(text):
        whole, end = _decoded(text, at, file)
        answers = whole if isinstance(whole, list) else [whole]
        for answer in answers:
            results = answer.get("results") if isinstance(answer, dict) else None
            if not isinstance(results, list):
                raise _bad(text, at, file, f"no `results`, {_KINDS_ACCEPTED}")
            for one in results:
                attributes = one.get("attrs") if isinstance(one, dict) else None
                name = one.get("name") if isinstance(one, dict) else None
                kind = one.get("type") if isinstance(one, dict) else None
                if not isinstance(attributes, dict) or not isinstance(name, str) or not isinstance(kind, str):
                    raise _bad(text, at, file, "a result without type, name and attrs")
                yield _object(attributes, kind, name, file, _position(text, at))
        at = end + len(text[end:]) - len(text[end:].lstrip())


def _decoded(text: str, at: int, file: str) -> tuple[Any, int]:
    def no_constant(name: str) -> Any:
        raise _bad(text, at, file, f"{name} is not a number")

    try:
        return JSONDecoder(parse_constant=no_constant).raw_decode(text, at)
    except JSONDecodeError as e:
        raise _bad(text, e.pos, file, f"not JSON: {e.msg}") from None
    except BadFileError:
        raise
    except ValueError as e:  # a number of thousands of digits
        raise _bad(text, at, file, f"not JSON: {e}") from None


def _object(attributes: dict[str, Any], kind: str, name: str, file: str, place: FilePosition | None) -> IcingaObject:
    found = _clean(attributes)
    where = found.get("source_location")
    if isinstance(where, dict):
        path, line, column = (where.get(key) for key in ("path", "first_line", "first_column"))
        if isinstance(path, str) and path and isinstance(line, int) and isinstance(column, int) and line > 0:
            file, place = path, FilePosition(line, max(column, 1))
    whole_name = found.get("__name")
    name = whole_name if isinstance(whole_name, str) else _clean(name)
    found.setdefault("name", name.rpartition("!")[2])
    return IcingaObject(_clean(kind), name, found, file, place)


def _clean(value: Any) -> Any:
    """A value whose texts can be written."""
    if isinstance(value, str):
        return _NOT_IN_TEXTS.sub("\ufffd", without_gaps(value))
    if isinstance(value, dict):
        return {_clean(key): _clean(one) for key, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list) else value


def _position(text: str, at: int) -> FilePosition:
    return FilePosition(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _bad(text: str, at: int, file: str, problem: str) -> BadFileError:
    return BadFileError([ConfigError(file, _position(text, at), problem)])


def as_text(value: Any) -> str:
    """A value as Icinga writes it in a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, list):
        return ";".join(map(as_text, value))
    return "" if value is None else str(value) if isinstance(value, str | int) else json.dumps(value)
