"""Read Nagios object files: `define host { ... }`, with the inheritance of `use`, and the settings beside them."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from evenbeat.load.config import ConfigError, FilePosition
from evenbeat.load.safe_text import name_error

_DEFINE: Final = re.compile(r"\s*define\s+(?P<kind>\w+)\s*(?P<brace>\{)?\s*(?P<rest>.*)")
_SETTING: Final = re.compile(r"\s*(?P<name>\$\w+\$|\w+)\s*=\s*(?P<value>.*?)\s*")
_HOURS: Final = re.compile(r"\s\d\d?:\d\d\s*-")
_MAX_DEPTH: Final = 32
NAME_DIRECTIVES: Final = {
    "host": "host_name",
    "service": "service_description",
    "command": "command_name",
    "timeperiod": "timeperiod_name",
    "hostgroup": "hostgroup_name",
}
"""The kinds we import, and the directive that names each object."""
_NOT_INHERITED: Final = ("use", "register", "name")
"""Directives that are not inherited."""


class DirectiveValue(NamedTuple):
    """The value of a directive, and its position."""

    text: str
    file: str
    place: FilePosition


class NagiosObject(NamedTuple):
    """One `define`."""

    kind: str
    values: dict[str, DirectiveValue]
    file: str
    place: FilePosition

    def get(self, name: str, default: str = "") -> str:
        return self.values[name].text if name in self.values else default

    def words(self, name: str) -> list[str]:
        """A comma-separated list."""
        return [word for word in (w.strip() for w in self.get(name).lstrip("+").split(",")) if word]


class NagiosObjects:
    """All objects of some files."""

    def __init__(self) -> None:
        self.errors: list[ConfigError] = []
        self.settings: dict[str, str] = {}
        """`interval_length`, `$USER1$` and the like, from nagios.cfg and resource.cfg."""
        self._found: list[NagiosObject] = []

    def read(self, text: str, file: str) -> None:
        """Read a file."""
        current: NagiosObject | None = None
        for number, line in _joined_lines(text):
            content = _without_comment(line, inside=current is not None)
            if not content.strip():
                continue
            if current is None:
                current = self._outside(content, file, number)
            elif content.strip() == "}":
                self._found.append(current)
                current = None
            elif content.strip() != "{":
                indent = len(content) - len(content.lstrip())
                name, value = _directive(content.strip(), current.kind)
                current.values[name] = DirectiveValue(value, file, FilePosition(number, indent + 1))
        if current is not None:
            self.errors.append(ConfigError(file, current.place, f"this define {current.kind} is never closed with }}"))

    def _outside(self, content: str, file: str, number: int) -> NagiosObject | None:
        define = _DEFINE.fullmatch(content)
        if define and not define["rest"]:
            return NagiosObject(define["kind"].lower(), {}, file, FilePosition(number, define.start("kind") + 1))
        if setting := _SETTING.fullmatch(content):
            self.settings[setting["name"]] = setting["value"]
            return None
        column = len(content) - len(content.lstrip()) + 1
        found = content.strip()[:64]
        self.errors.append(
            ConfigError(
                file,
                FilePosition(number, column),
                f"{found!r} is not understood, accepted: define KIND {{, alone on its line",
            )
        )
        return None

    def of(self, kind: str) -> list[NagiosObject]:
        """The objects of a kind that are not templates, with inherited directives."""
        templates = {o.get("name"): o for o in self._found if o.kind == kind and "name" in o.values}
        whole = [self._resolved(o, templates, ()) for o in self._found if o.kind == kind and o.get("register") != "0"]
        for nameless in [o for o in whole if not o.get(NAME_DIRECTIVES[kind])]:
            problem = f"this define {kind} has no {NAME_DIRECTIVES[kind]}"
            self.errors.append(ConfigError(nameless.file, nameless.place, problem))
        named = [o for o in whole if o.get(NAME_DIRECTIVES[kind])]
        for one in named:
            name = one.values[NAME_DIRECTIVES[kind]]
            if problem := name_error(name.text):
                self.errors.append(ConfigError(name.file, name.place, f"{NAME_DIRECTIVES[kind]}: {problem}"))
        return named

    def kinds(self) -> dict[str, int]:
        """How many objects there are of each kind."""
        counts: dict[str, int] = {}
        for found in self._found:
            counts[found.kind] = counts.get(found.kind, 0) + 1
        return counts

    def _resolved(self, one: NagiosObject, templates: dict[str, NagiosObject], path: tuple[str, ...]) -> NagiosObject:
        values = dict(one.values)
        for name in one.words("use"):
            template = templates.get(name)
            if template is None or name in path or len(path) > _MAX_DEPTH:
                why = "there is no such template" if template is None else "templates use each other in a circle"
                problem = ConfigError(one.file, one.values["use"].place, f"use {name}: {why}")
                if problem not in self.errors:
                    self.errors.append(problem)
                continue
            inherited = self._resolved(template, templates, (*path, name)).values
            for key, value in inherited.items():
                if key in _NOT_INHERITED:
                    continue
                if key not in values:  # the first template that says it wins
                    values[key] = value
                elif values[key].text.startswith("+"):
                    values[key] = values[key]._replace(text=f"{value.text},{values[key].text[1:]}")
        cancelled = {key: value for key, value in values.items() if value.text != "null"}
        return one._replace(values=cancelled)


def _joined_lines(text: str) -> Iterable[tuple[int, str]]:
    """Lines with their numbers; a backslash at the end joins the next one."""
    start, joined = 0, ""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        start = start or number
        if line.endswith("\\") and not line.endswith("\\\\"):
            joined += line[:-1]
            continue
        yield start, joined + line
        start, joined = 0, ""
    if joined:
        yield start, joined


def _directive(content: str, kind: str) -> tuple[str, str]:
    """Name and value; the days of a timeperiod are a name of several words."""
    hours = _HOURS.search(content) if kind == "timeperiod" else None
    if hours:
        return " ".join(content[: hours.start()].split()), content[hours.start() :].strip()
    name, *value = content.split(maxsplit=1)
    return name, value[0] if value else ""


def _without_comment(line: str, *, inside: bool) -> str:
    if line.lstrip().startswith(("#", ";")):
        return ""
    if not inside:
        return line
    # A `;` begins a comment unless it is escaped.
    content = re.split(r"(?<!\\);", line, maxsplit=1)[0]
    return content.replace("\\;", ";")
