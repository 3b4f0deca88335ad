"""Read tasks, checks and periods from TOML. Every problem is reported with file, line and column; nothing is guessed.

[node]                max_concurrent, keep, durability, start_window, start_rate, commands, pass_env, notify, page,
                      ping, stop_grace
[defaults]            what every task below has unless it says otherwise
[templates.NAME]      what the tasks have that say `use = "NAME"`
[periods.NAME]        ranges, holidays, include, exclude, prefer, zone
[contacts.NAME]       send, webhook, secret, command, email, smtp, sender, period, states, per_hour
[limits]              NAME = how many runs at the same time
[[downtimes]]         names, owner, labels, from, until, zone, period, dependents, comment
[checks.NAME]         every | cron | calendar | at, period, weight, command ...
[tasks.NAME]
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import rtoml

from evenbeat.core.dependencies import DEPENDENCY_KEYS
from evenbeat.did_you_mean import list_known
from evenbeat.load.config import (
    NODE_DURATIONS,
    NOTHING_TO_RUN,
    BadFileError,
    Config,
    ConfigError,
    FilePosition,
    NodeSettings,
    ParsedFile,
    parse_node_duration,
)
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.contacts import contact_name_error, contact_of_table, node_url_errors, notify_of_value
from evenbeat.load.downtimes import MAX_DOWNTIMES_OF_OWNER, downtime_from_table
from evenbeat.load.locate import KeyPath, TomlPositions
from evenbeat.load.pass_env import pass_env_errors
from evenbeat.load.pause_gc import without_garbage_collection
from evenbeat.load.task_keys import TASK_KEYS, TaskBuilder, inherit_keys
from evenbeat.load.templates import TemplateExpander
from evenbeat.model import NAME_LIMIT, Contact, Downtime, Invalid, Period, Task
from evenbeat.when.period import compile_periods

_SECTIONS: Final = ("node", "defaults", "templates", "periods", "contacts", "limits", "downtimes", "checks", "tasks")
_DEPENDENCY_KEYS: Final = (*DEPENDENCY_KEYS, "when_unreachable")
_MAX_LIMIT: Final = 1_000_000
MAX_ERRORS_SHOWN: Final = 100
"""Errors beyond this number are counted, not listed: the first ones explain them."""
_WHERE: Final = re.compile(r"(?P<message>.*) at line (?P<line>\d+) column (?P<column>\d+)", re.DOTALL)


def parse_toml(text: str, file: str) -> Config:
    """Parse the text of a file; `file` is its name in messages."""
    return parse_toml_file(text, file).config


def parse_toml_file(text: str, file: str, *, must_run: bool = False) -> ParsedFile:
    """Parse the text and keep the positions of its values; with `must_run` every task needs something to run."""
    # Lines of a script end in \n, even in a file from another system.
    text = text.replace("\r\n", "\n")
    with without_garbage_collection():
        document = _document(text, file)
        reader = _DocumentReader(document, must_run=must_run)
        config = reader.read()
    if reader.errors.errors:
        places = TomlPositions(text, document)
        errors = []
        for path, error in reader.errors.errors[:MAX_ERRORS_SHOWN]:
            place = places.position_of(path, error.column)
            # The column within the value is part of the place in the file, if that was found.
            errors.append(ConfigError(file, place, f"{error.place}: {error.problem}" if place else str(error)))
        errors.sort(key=lambda error: error.place or FilePosition(0, 0))
        raise BadFileError(errors, len(reader.errors) - len(errors))
    known: list[TomlPositions] = []

    def place_of(path: KeyPath, column: int | None) -> FilePosition | None:
        if not known:
            known.append(TomlPositions(text, document))
        return known[0].position_of(
            reader.defining_path(str(path[1]), *path[2:]) if path[0] == "tasks" else path, column
        )

    return ParsedFile(file, config, place_of)


def _document(text: str, file: str) -> dict[str, Any]:
    try:
        return rtoml.loads(text)
    except rtoml.TomlParsingError as e:
        found = _WHERE.fullmatch(str(e))
        place = FilePosition(int(found["line"]), int(found["column"])) if found else None
        message = found["message"] if found else str(e)
        if "recurs" in message:
            message = "tables or arrays nested too deep"
        raise BadFileError([ConfigError(file, place, message)]) from None


class _DocumentReader:
    """Converts the sections of a document, once; `errors` holds every error with its path."""

    def __init__(self, document: Mapping[str, Any], *, must_run: bool = False) -> None:
        self._document = document
        self._must_run = must_run
        self.errors = DocumentErrors()
        self._made: dict[str, tuple[str, str]] = {}
        """The table that a generated name comes from."""

    def read(self) -> Config:
        """The content of the document; usable only if there are no errors."""
        for section in self._document:
            if section not in _SECTIONS:
                self.errors.refuse((section,), f"{section!r} is not a section, accepted: {', '.join(_SECTIONS)}")
        node = self._node()
        limits = self._limits()
        tasks = TaskBuilder(self.errors, self._section("defaults"))
        periods = self._periods(tasks.default_zone)
        contacts = self._contacts()
        downtimes = self._downtimes(tasks.default_zone)
        return Config(self._tasks(tasks, periods), periods, limits, node, contacts, downtimes)

    def defining_path(self, name: str, *keys: str | int) -> KeyPath:
        """The path of a task, or of a key of it, in the document."""
        path = self._made.get(name) or ("checks" if name in self._document.get("checks", {}) else "tasks", name)
        return self.errors.defining_path((*path, *keys))

    # Sections

    def _section(self, section: str) -> dict[str, Any]:
        return self.errors.table((section,), self._document.get(section, {})) or {}

    def _tables(self, section: str) -> dict[str, dict[str, Any]]:
        found = self._section(section)
        wrong = [name for name, table in found.items() if type(table) is not dict]
        if not wrong:
            return found
        refused = {name for name in wrong if self.errors.table((section, name), found[name]) is None}
        return {name: table for name, table in found.items() if name not in refused}

    def _node(self) -> NodeSettings | None:
        if "node" not in self._document:
            return None
        table = self.errors.known_keys(("node",), self._section("node"), NodeSettings.__struct_fields__)
        for key in NODE_DURATIONS.keys() & table.keys():
            try:
                table[key] = parse_node_duration(key, table[key])
            except Invalid as e:
                self.errors.refuse(("node", key), e)
                del table[key]
        if "notify" in table:
            table["notify"] = notify_of_value(self.errors, ("node", "notify"), table["notify"])
        node = self.errors.convert(("node",), table, NodeSettings)
        for key, problem in node_url_errors(node) if node is not None else ():
            self.errors.refuse(("node", key), problem)
        for position, problem in pass_env_errors((node and node.pass_env) or ()):
            self.errors.refuse(("node", "pass_env", position), problem)
        return node

    def _limits(self) -> dict[str, int]:
        limits = {}
        for name, value in self._section("limits").items():
            if not 1 <= len(name) <= NAME_LIMIT:
                self.errors.refuse(("limits", name), f"the name: accepted: 1 to {NAME_LIMIT} characters")
            elif type(value) is not int or not 1 <= value <= _MAX_LIMIT:
                accepted = f"a whole number from 1 to {_MAX_LIMIT:,}"
                self.errors.refuse(("limits", name), f"{str(value)[:64]!r} is not a limit, accepted: {accepted}")
            else:
                limits[name] = value
        return limits

    def _contacts(self) -> dict[str, Contact]:
        contacts = {}
        for name, table in self._section("contacts").items():
            path = ("contacts", name)
            if not isinstance(table, dict):
                self.errors.refuse(path, "accepted: a table [contacts.NAME]")  # the value may be secret
            elif problem := contact_name_error(name):
                self.errors.refuse(path, problem)
            elif (contact := contact_of_table(self.errors, path, table)) is not None:
                contacts[name] = contact
        return contacts

    # Periods

    def _periods(self, default_zone: str | None) -> dict[str, Period]:
        before = len(self.errors)
        periods = {}
        for name, found in self._tables("periods").items():
            path = ("periods", name)
            table = self.errors.known_keys(path, found, Period.__struct_fields__)
            if default_zone is not None:
                table.setdefault("zone", default_zone)
            if (period := self.errors.convert(path, table, Period)) is not None:
                periods[name] = period
                self._compile_periods({name: msgspec.structs.replace(period, include=(), exclude=())})
        if len(self.errors) == before:
            self._compile_periods(periods)
        return periods

    def _compile_periods(self, periods: dict[str, Period]) -> None:
        try:
            compile_periods(periods)
        except Invalid as e:
            place = e.place.removeprefix("periods.")
            name = max((n for n in periods if place == n or place.startswith(n + ".")), key=len)
            field, _, index = place[len(name) + 1 :].partition("[")
            path: list[str | int] = ["periods", name]
            path += [field] if field else []
            path += [int(index[:-1])] if index else []
            self.errors.refuse(tuple(path), Invalid(e.problem, column=e.column))

    # Downtimes

    def _downtimes(self, default_zone: str | None) -> tuple[Downtime, ...]:
        found = self._document.get("downtimes", [])
        if type(found) is not list or len(found) > MAX_DOWNTIMES_OF_OWNER:
            accepted = f"accepted: a table [[downtimes]] for each, up to {MAX_DOWNTIMES_OF_OWNER:,}"
            what = f"{len(found):,} downtimes" if type(found) is list else f"{str(found)[:64]!r}"
            self.errors.refuse(("downtimes",), f"{what}, {accepted}")
            return ()
        downtimes = []
        for i, value in enumerate(found):
            path = ("downtimes", i)
            table = self.errors.table(path, value)
            downtime = None if table is None else downtime_from_table(self.errors, path, table, default_zone)
            if downtime is not None:
                downtimes.append(downtime)
        return tuple(downtimes)

    # Tasks

    def _tasks(self, tasks: TaskBuilder, periods: Mapping[str, Period]) -> tuple[Task, ...]:
        tables = self._tables("templates")
        templates = TemplateExpander(
            self.errors, {n: self.errors.known_keys(("templates", n), t, TASK_KEYS) for n, t in tables.items()}
        )
        found: list[Task] = []
        names: dict[str, str] = {}
        for section in ("checks", "tasks"):
            for title, table in self._tables(section).items():
                path = (section, title)
                before = len(self.errors)
                for name, whole in self._instances(path, table, templates):
                    if name in names:
                        hint = ", so this one must mention every key of `for`" if "for" in table else ""
                        self.errors.refuse(path, f"{name!r} is a {names[name]} already; names are unique{hint}")
                    names[name] = section[:-1]
                    task = tasks.build(path, whole, name)
                    if task is None:
                        break  # the others have the same mistake
                    if task.period is not None and task.period not in periods:
                        known = list_known(sorted(periods), "none is defined")
                        self.errors.refuse((*path, "period"), f"there is no period {task.period!r}, known: {known}")
                    runs = whole.get("command") or whole.get("function") or task.job.command or task.job.function
                    if self._must_run and not runs and not task.passive:
                        self.errors.refuse(path, NOTHING_TO_RUN)
                    found.append(task)
                    if len(self.errors) > before:
                        break
        return tuple(found)

    def _instances(
        self, path: tuple[str, str], table: dict[str, Any], templates: TemplateExpander
    ) -> Iterable[tuple[str, dict[str, Any]]]:
        """The tasks of a table, by name: one, or those that `use` and `for` expand it to."""
        if "use" not in table and "for" not in table:
            return ((path[1], table),)
        whole = {key: value for key, value in table.items() if key not in ("use", "for")}
        via: dict[str, KeyPath] = {}
        for template, below in templates.templates_used(path, table.get("use", [])):
            own = whole.keys()
            whole = inherit_keys(whole, below)
            via |= dict.fromkeys(whole.keys() - own, ("templates", template))
        self.errors.inherited_from[path] = via
        made = [key for key in _DEPENDENCY_KEYS if key in whole and ("for" in table or key in via)]
        return self._remembered(path, templates.expand(path, whole, table.get("for")), made)

    def _remembered(
        self, path: tuple[str, str], instances: Iterable[tuple[str, dict[str, Any]]], made: Sequence[str]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, instance in instances:
            self._made[name] = path
            yield name, _without_itself(name, instance, made) if made else instance


def _without_itself(name: str, table: dict[str, Any], made: Collection[str]) -> dict[str, Any]:
    """The table of a task that does not depend on itself by keys that a template or `for` has made. If nothing is left
    that it depends on, `when_unreachable` goes too.
    """
    its = {key: table[key] for key in DEPENDENCY_KEYS if isinstance(table.get(key), list)}
    left = {key: [one for one in its[key] if one != name] for key in its if key in made and name in its[key]}
    if not left:
        return table
    table = table | left
    if "when_unreachable" in made and not any({**its, **left}.values()):
        del table["when_unreachable"]
    return table
