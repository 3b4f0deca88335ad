"""Collects all errors of a document with their paths, and converts tables to model objects despite errors."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from evenbeat.core.chain_rules import CHAIN_KEYS
from evenbeat.core.dependencies import DEPENDENCY_KEYS
from evenbeat.did_you_mean import nearest_words
from evenbeat.load.config import Durability
from evenbeat.load.locate import KeyPath
from evenbeat.model import Backlog, Days, Hash, Invalid, Missed, Prefer, Spread, WhenUnreachable

_CHOICES: Final[dict[str, type[StrEnum]]] = {
    "spread": Spread,
    "hash": Hash,
    "days": Days,
    "prefer": Prefer,
    "missed": Missed,
    "backlog": Backlog,
    "durability": Durability,
    "when_unreachable": WhenUnreachable,
}
_MAX_ACCEPTED_LISTED: Final = 10
MAX_ERRORS: Final = 100
"""Errors of one document that are kept. The first ones explain the others, which are only counted."""
_MOST_SUGGESTIONS: Final = 20
"""Unknown keys of one document for which a similar known key is searched."""
_StructT = TypeVar("_StructT", bound=msgspec.Struct)


class DocumentErrors:
    """The errors of a document: the first ones, and their number."""

    def __init__(self) -> None:
        self.errors: list[tuple[KeyPath, Invalid]] = []
        self.inherited_from: dict[KeyPath, dict[str, KeyPath]] = {}
        """Where the keys that a task inherits by `use` are defined: that is where they must be fixed."""
        self._reported: set[tuple[KeyPath, str]] = set()
        self._count = 0
        self._suggestions = _MOST_SUGGESTIONS

    def __len__(self) -> int:
        return self._count

    @property
    def errors_omitted(self) -> int:
        """The number of errors that are not kept."""
        return self._count - len(self.errors)

    def refuse(self, path: KeyPath, problem: str | Invalid) -> None:
        """Add an error at a path."""
        error = Invalid(problem) if isinstance(problem, str) else problem
        origin = self.defining_path(path)
        if origin != path:
            # All tasks that use a template share its error.
            if (origin, error.problem) in self._reported:
                return
            self._reported.add((origin, error.problem))
        self._count += 1
        if len(self.errors) >= MAX_ERRORS:
            return
        place = ", ".join(filter(None, (".".join(map(str, origin)), error.place)))
        self.errors.append((origin, Invalid(error.problem, column=error.column, place=place)))

    def defining_path(self, path: KeyPath) -> KeyPath:
        """The path where the value at `path` is written."""
        via = self.inherited_from.get(path[:2])
        return (*via[str(path[2])], *path[2:]) if via and len(path) > 2 and path[2] in via else path

    def table(self, path: KeyPath, value: Any) -> dict[str, Any] | None:
        """The value, if it is a table."""
        if isinstance(value, dict):
            return value
        self.refuse(path, f"{str(value)[:64]!r} where a table [{'.'.join(map(str, path))}] should be")
        return None

    def known_keys(self, path: KeyPath, table: dict[str, Any], accepted: Sequence[str]) -> dict[str, Any]:
        """Refuse unknown keys, and return the table without them."""
        known = frozenset(accepted)
        for key in [k for k in table if k not in known]:
            self.refuse((*path, key), f"{key[:64]!r} is not a key here{self._hint(key, tuple(accepted))}")
        return {key: value for key, value in table.items() if key in known}

    def _hint(self, key: str, accepted: tuple[str, ...]) -> str:
        if self._suggestions <= 0:
            return ""
        self._suggestions -= 1
        return f", {_hint(key[:64], accepted)}"

    def convert(self, path: KeyPath, table: dict[str, Any], noun: type[_StructT]) -> _StructT | None:
        """Convert a table to a model object. Keys with wrong values are refused and dropped until the rest converts."""
        whole = True
        while True:
            try:
                return msgspec.convert(table, noun, strict=True)
            except msgspec.ValidationError as e:
                keys: KeyPath
                keys, problem = _explain_validation_error(e, table)
                # A key that is missing because its value was refused has been reported.
                if keys or whole:
                    self.refuse((*path, *keys), problem)
                if not keys:
                    return None
                table = {k: v for k, v in table.items() if k != keys[0]}
                whole = False


@lru_cache(maxsize=256)
def _hint(key: str, accepted: tuple[str, ...]) -> str:
    # Of a long list, only the similar key is worth reading.
    near = nearest_words(key, accepted) if len(accepted) > _MAX_ACCEPTED_LISTED else []
    return f"did you mean {near[0]}?" if near else f"accepted: {', '.join(accepted)}"


def _explain_validation_error(error: msgspec.ValidationError, table: Mapping[str, Any]) -> tuple[KeyPath, str]:
    """The path of the value that msgspec refused, and why, in words for people."""
    if isinstance(error.__cause__, Invalid):
        # Our own checks, which msgspec has wrapped: they name the field.
        place = error.__cause__.place
        return ((place,) if place in table else ()), error.__cause__.problem
    message, _, where = str(error).partition(" - at `$")
    keys: list[str | int] = []
    for key, index in re.findall(r"\.(\w+)|\[(\d+)\]", where):
        keys.append(key or int(index))
    message = message.replace(" | null", "")
    field = keys[0] if keys else ""
    if message.startswith("Invalid enum value") and field in _CHOICES:
        message = f"{table[str(field)]!r} is not a choice, accepted: {', '.join(_CHOICES[str(field)])}"
    if field in DEPENDENCY_KEYS and isinstance(table.get(str(field)), str):
        one = msgspec.json.encode(table[str(field)][:64]).decode()
        message = f"one text, accepted: a list of checks: [{one}]"
    if field in CHAIN_KEYS and isinstance(table.get(str(field)), str):
        one = msgspec.json.encode(table[str(field)][:64]).decode()
        message = f"one text, accepted: a list of tasks: [{one}]"
    if field == "name":
        return (), f"the name: {message}"
    return tuple(keys), message
