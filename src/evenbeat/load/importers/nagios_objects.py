"""Reads the text of Nagios object files: `define host { ... }`, with the inheritance of `use`, and settings."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from evenbeat.load.config import ConfigError, FilePosition
from evenbeat.load.placeholders import without_gaps
from evenbeat.load.safe_text import name_error
from evenbeat.model import NAME_LIMIT

_DEFINE: Final = re.compile(r"\s*define\s+(?P<kind>\w+)\s*(?P<brace>\{)?\s*(?P<rest>.*)")
_STATUS_BLOCK: Final = re.compile(r"\s*(?P<kind>[a-z]+)\s*\{\s*")
"""In status.dat and retention.dat, which have `key=value` lines."""
_SETTING: Final = re.compile(r"\s*(?P<name>\$\w+\$|\w+)\s*=\s*(?P<value>.*?)\s*")
_HOURS: Final = re.compile(r"\s\d\d?:\d\d\s*-")
NAME_DIRECTIVES: Final = {
    "host": "host_name",
    "service": "service_description",
    "command": "command_name",
    "timeperiod": "timeperiod_name",
    "hostgroup": "hostgroup_name",
    "contact": "contact_name",
    "contactgroup": "contactgroup_name",
    "servicegroup": "servicegroup_name",
}
"""The kinds we import, and the directive that names each object."""
_MAX_DEPTH: Final = 100
"""Templates that use each other, one within the other."""
_MAX_INHERITED: Final = 1 << 20
"""Characters of a value that templates add up to."""
_OTHER_NAMES: Final = {
    "host": {"host": "host_name", "host_groups": "hostgroups", "max_attempts": "max_check_attempts"},
    "service": {
        "host": "host_name",
        "hosts": "host_name",
        "description": "service_description",
        "hostgroup": "hostgroup_name",
        "hostgroups": "hostgroup_name",
        "service_groups": "servicegroups",
        "max_attempts": "max_check_attempts",
    },
    "contact": {"contact_groups": "contactgroups"},
}
"""Names of directives that Nagios takes, too."""
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
    is_status: bool = False
    """It is no definition, but a part of status.dat or retention.dat."""

    def get(self, name: str, default: str = "") -> str:
        return self.values[name].text if name in self.values else default

    def words(self, name: str) -> list[str]:
        """A comma-separated list."""
        return [word for word in (w.strip() for w in self.get(name).lstrip("+").split(",")) if word]


class NagiosObjects:
    """All objects of some files."""

    def __init__(self) -> None:
        self.errors: list[ConfigError] = []
        self.settings: dict[str, DirectiveValue] = {}
        """`interval_length`, `$USER1$` and the like, from nagios.cfg and resource.cfg."""
        self.status_blocks: list[NagiosObject] = []
        """What status.dat or retention.dat has of downtimes."""
        self.defined: list[NagiosObject] = []
        """What stands in the files, templates too, without what is inherited."""
        self._templates: dict[tuple[str, str], NagiosObject] = {}
        self._inherited: dict[tuple[str, str], dict[str, DirectiveValue] | None] = {}
        """The directives of templates, with those that they inherit; None while they are being looked for."""
        self._depth = 0
        self.used_templates: set[tuple[str, str]] = set()

    def setting(self, name: str, default: str = "") -> str:
        """The value of a setting."""
        return self.settings[name].text if name in self.settings else default

    def read(self, text: str, file: str) -> None:
        """Read a file."""
        current: NagiosObject | None = None
        for number, line in _joined_lines(without_gaps(text)):
            if "\0" in line:
                self.errors.append(ConfigError(file, FilePosition(number, line.index("\0") + 1), "a NUL character"))
                continue
            content = _without_comment(line, inside=current is not None)
            if not content.strip():
                continue
            if current is None:
                current = self._outside(content, file, number)
            elif content.strip() == "}":
                if not current.is_status:
                    self._add(current)
                elif current.kind.endswith("downtime"):
                    self.status_blocks.append(current)
                current = None
            elif current.is_status:
                name, _, value = content.strip().partition("=")
                current.values[name] = DirectiveValue(value, file, FilePosition(number, 1))
            elif content.strip() != "{":
                indent = len(content) - len(content.lstrip())
                name, value = _directive(content.strip(), current.kind)
                name = _OTHER_NAMES.get(current.kind, {}).get(name, name)
                current.values[name] = DirectiveValue(value, file, FilePosition(number, indent + 1))
        if current is not None:
            self.errors.append(ConfigError(file, current.place, f"this define {current.kind} is never closed with }}"))

    def _outside(self, content: str, file: str, number: int) -> NagiosObject | None:
        define = _DEFINE.fullmatch(content)
        if define and not define["rest"]:
            return NagiosObject(define["kind"].lower(), {}, file, FilePosition(number, define.start("kind") + 1))
        if block := _STATUS_BLOCK.fullmatch(content):
            return NagiosObject(block["kind"], {}, file, FilePosition(number, block.start("kind") + 1), is_status=True)
        if setting := _SETTING.fullmatch(content):
            place = FilePosition(number, setting.start("name") + 1)
            self.settings[setting["name"]] = DirectiveValue(setting["value"], file, place)
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

    def _add(self, one: NagiosObject) -> None:
        self.defined.append(one)
        if "name" in one.values:
            self._templates[one.kind, one.get("name")] = one

    def of(self, kind: str) -> list[NagiosObject]:
        """The objects of a kind that are not templates, with inherited directives."""
        whole = self.nameless(kind)
        for nameless in [o for o in whole if not o.get(NAME_DIRECTIVES[kind])]:
            problem = f"this define {kind} has no {NAME_DIRECTIVES[kind]}"
            self.errors.append(ConfigError(nameless.file, nameless.place, problem))
        named = [o for o in whole if o.get(NAME_DIRECTIVES[kind])]
        for one in named:
            name = one.values[NAME_DIRECTIVES[kind]]
            problem = name_error(name.text)
            if not problem and len(name.text) > NAME_LIMIT // 2:  # HOST/SERVICE is a name too
                problem = f"{len(name.text)} characters, accepted: at most {NAME_LIMIT // 2}"
            if problem:
                self.errors.append(ConfigError(name.file, name.place, f"{NAME_DIRECTIVES[kind]}: {problem}"))
        return named

    def nameless(self, kind: str) -> list[NagiosObject]:
        """The same of a kind whose objects need no names."""
        return [self._resolved(o) for o in self.defined if o.kind == kind and o.get("register") != "0"]

    def dependencies(self) -> list[NagiosObject]:
        """What says that hosts or services depend on others."""
        return [one for kind in ("hostdependency", "servicedependency") for one in self.nameless(kind)]

    def _resolved(self, one: NagiosObject) -> NagiosObject:
        values = self._with_inherited(one)
        return one._replace(values={key: value for key, value in values.items() if value.text != "null"})

    def _with_inherited(self, one: NagiosObject) -> dict[str, DirectiveValue]:
        """The directives of an object; one that is `null` cancels what it would inherit."""
        values = dict(one.values)
        for name in one.words("use"):
            for key, value in self._of_template(one, name).items():
                if key in _NOT_INHERITED:
                    continue
                if key not in values:  # the first template that says it wins
                    values[key] = value
                elif values[key].text.startswith("+"):
                    inherited = "" if value.text == "null" else value.text
                    if len(inherited) > _MAX_INHERITED:
                        self._refuse_use(
                            one, f"{key} of its templates adds up to more than {_MAX_INHERITED} characters"
                        )
                        continue
                    values[key] = values[key]._replace(text=f"{inherited},{values[key].text[1:]}")
        return values

    def _of_template(self, user: NagiosObject, name: str) -> dict[str, DirectiveValue]:
        key = (user.kind, name)
        if key not in self._templates:
            return self._refuse_use(user, f"use {name}: there is no such template")
        if self._inherited.get(key, {}) is None:
            return self._refuse_use(user, f"use {name}: templates use each other in a circle")
        if self._depth > _MAX_DEPTH:
            return self._refuse_use(user, f"use {name}: more than {_MAX_DEPTH} templates, each of which uses the next")
        self.used_templates.add(key)
        if key not in self._inherited:
            self._inherited[key] = None
            self._depth += 1
            self._inherited[key] = self._with_inherited(self._templates[key])
            self._depth -= 1
        return self._inherited[key] or {}

    def _refuse_use(self, user: NagiosObject, message: str) -> dict[str, DirectiveValue]:
        problem = ConfigError(user.file, user.values["use"].place, message)
        if problem not in self.errors:
            self.errors.append(problem)
        return {}


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
