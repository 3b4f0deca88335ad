"""Many similar tasks in a few lines: `use` takes keys from templates, `for` makes a task of each of its values.

[templates.http]
every = "1m"
command = ["check_http", "-H", "{host}"]

[checks."http {host}"]
use = "http"
for.host = ["web[001-500]", "shop"]

In a table with `use` or `for`, braces hold placeholders: a key of `for`, an attribute of its value ({host.address}),
or {name}, the task's name; `{{` and `}}` are braces. Texts are replaced, nothing is evaluated.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice, product
from math import prod
from typing import Any, Final, NamedTuple

from evenbeat.did_you_mean import list_known, nearest_words
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.locate import KeyPath
from evenbeat.model import Invalid

MAX_TASKS: Final = 1_000_000
"""The number of tasks that the `for` of one file may expand to."""

_BRACE: Final = re.compile(r"\{\{|\}\}|\{(?P<key>[A-Za-z_][\w-]*(?:\.[\w-]+)?)\}|[{}]", re.ASCII)
_RANGE: Final = re.compile(r"\[(\d{1,9})-(\d{1,9})\]", re.ASCII)
_KEY: Final = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_ACCEPTED: Final = 'accepted: a text such as "web[001-500]", a list of texts, or a table of them with attributes'


class _TextPattern(NamedTuple):
    """A text with placeholders: every second part is a key."""

    parts: tuple[str, ...]

    def filled(self, values: Mapping[str, str]) -> str:
        return "".join([values[part] if i % 2 else part for i, part in enumerate(self.parts)])


_Substitution = dict[str, str]
"""The texts that one value of a `for` key provides: itself, and its attributes."""


class TemplateExpander:
    """The templates of a document; expands tasks that `use` them or have a `for`."""

    def __init__(self, errors: DocumentErrors, tables: Mapping[str, dict[str, Any]]) -> None:
        self._errors = errors
        self._tables = tables
        self._left = MAX_TASKS

    def templates_used(self, path: KeyPath, use: Any) -> list[tuple[str, dict[str, Any]]]:
        """The templates that `use` names, in order of precedence."""
        names = [use] if isinstance(use, str) else use
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._errors.refuse((*path, "use"), f"{str(use)[:64]!r} is not the name of a template, or a list of them")
            return []
        found = []
        for i, name in enumerate(names):
            if name in self._tables:
                found.append((name, self._tables[name]))
                continue
            near = nearest_words(name, self._tables)
            known = f"did you mean {near[0]!r}?" if near else f"known: {list_known(self._tables, 'none is defined')}"
            where = (*path, "use") if isinstance(use, str) else (*path, "use", i)
            self._errors.refuse(where, f"there is no template {name[:64]!r}, {known}")
        return found[::-1]

    def expand(self, path: tuple[str, str], table: dict[str, Any], for_: Any) -> Iterator[tuple[str, Any]]:
        """Each task's name and table; nothing if there is an error."""
        before = len(self._errors)
        choices = self._choices((*path, "for"), for_) if for_ is not None else {}
        if len(self._errors) > before:
            return  # what its values are is not known, so neither is what may be a placeholder
        known = {
            key for options in choices.values() for key in set.intersection(*map(set, {tuple(o) for o in options}))
        }
        title = self._compiled(path, path[1], known) if for_ is not None else path[1]
        fixed: dict[str, Any] = {}
        patterns: dict[str, Any] = {}
        for key, value in table.items():
            compiled = self._compiled((*path, key), value, known | {"name"})
            (patterns if _has_pattern(compiled) else fixed)[key] = compiled
        if len(self._errors) > before:
            return
        for chosen in product(*choices.values()):
            values = {key: text for choice in chosen for key, text in choice.items()}
            name = title.filled(values) if isinstance(title, _TextPattern) else str(title)
            values = {"name": name, **values}
            yield name, fixed | {key: _filled(value, values) for key, value in patterns.items()}

    # Values of `for`

    def _choices(self, path: KeyPath, for_: Any) -> dict[str, list[_Substitution]]:
        if not isinstance(for_, dict) or not for_:
            self._errors.refuse(path, f"{str(for_)[:64]!r} is not a table, accepted: for.KEY = [...]")
            return {}
        choices = {}
        for key, value in for_.items():
            where = (*path, key)
            if not _KEY.fullmatch(key):
                self._errors.refuse(where, f"{key[:64]!r} cannot be a placeholder, accepted: letters, digits, _ and -")
                continue
            before = len(self._errors)
            options = list(islice(self._options(where, key, value), self._left + 1))
            if not options and len(self._errors) == before:
                self._errors.refuse(where, f"no values, {_ACCEPTED}")
            choices[key] = options
        count = prod(map(len, choices.values()))
        if count > self._left:
            self._errors.refuse(path, f"more than {MAX_TASKS:,} tasks in all")
            return {}
        self._left -= count
        return choices

    def _options(self, path: KeyPath, key: str, value: Any) -> Iterator[_Substitution]:
        if isinstance(value, dict):
            for text, attributes in value.items():
                if not isinstance(attributes, dict):
                    self._errors.refuse((*path, text), f"{str(attributes)[:64]!r} is not a table of attributes")
                    continue
                more = {f"{key}.{name}": self._text((*path, text, name), a) for name, a in attributes.items()}
                for one in self._ranged((*path, text), text):
                    yield {key: one, **more}
            return
        items = value if isinstance(value, list) else [value]
        for i, item in enumerate(items):
            where = (*path, i) if isinstance(value, list) else path
            if text := self._text(where, item):
                for one in self._ranged(where, text):
                    yield {key: one}

    def _text(self, path: KeyPath, value: Any) -> str:
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
        self._errors.refuse(path, f"{str(value)[:64]!r} is not a value, accepted: a text or a whole number")
        return ""

    def _ranged(self, path: KeyPath, text: str) -> Iterator[str]:
        """web[08-10] -> web08, web09, web10."""
        pieces: list[list[str]] = []
        end, count = 0, 1
        for found in _RANGE.finditer(text):
            first, last = int(found[1]), int(found[2])
            if last < first:
                self._errors.refuse(path, Invalid(f"the range {found[0]} runs backwards", column=found.start() + 1))
                return
            count *= last - first + 1
            if count > self._left:
                self._errors.refuse(path, f"more than {MAX_TASKS:,} tasks in all")
                return
            width = len(found[1]) if found[1][0] == "0" else 0
            pieces += [[text[end : found.start()]], [f"{n:0{width}d}" for n in range(first, last + 1)]]
            end = found.end()
        pieces.append([text[end:]])
        yield from map("".join, product(*pieces))

    # Placeholders

    def _compiled(self, path: KeyPath, value: Any, known: set[str]) -> Any:
        """The value with patterns in place of the texts that have placeholders."""
        if isinstance(value, str):
            return self._pattern(path, value, known) if "{" in value or "}" in value else value
        if isinstance(value, list):
            return [self._compiled((*path, i), item, known) for i, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._compiled((*path, key), item, known) for key, item in value.items()}
        return value

    def _pattern(self, path: KeyPath, text: str, known: set[str]) -> "_TextPattern | str":
        parts, end = [""], 0
        for brace in _BRACE.finditer(text):
            parts[-1] += text[end : brace.start()]
            end = brace.end()
            if brace[0] in ("{{", "}}"):
                parts[-1] += brace[0][0]
            elif brace["key"] in known:
                parts += [brace["key"], ""]
            else:
                self._errors.refuse(path, Invalid(_unknown(brace, known), column=brace.start() + 1))
        parts[-1] += text[end:]
        return _TextPattern(tuple(parts)) if len(parts) > 1 else parts[0]


def _unknown(brace: "re.Match[str]", known: set[str]) -> str:
    accepted = ", ".join(f"{{{key}}}" for key in sorted(known)) or "none: there is no `for` here"
    if brace["key"] is None:
        return f"{brace[0]!r} alone is no placeholder, write {brace[0] * 2} for a brace; placeholders: {accepted}"
    near = nearest_words(brace["key"], known)
    hint = f", did you mean {{{near[0]}}}?" if near else f", known: {accepted}; {{{{ is a brace"
    return f"{brace[0][:64]} is not a placeholder{hint}"


def _has_pattern(value: Any) -> bool:
    if isinstance(value, _TextPattern):
        return True
    if isinstance(value, dict):
        return any(map(_has_pattern, value.values()))
    return isinstance(value, list) and any(map(_has_pattern, value))


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, _TextPattern):
        return value.filled(values)
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    return value
