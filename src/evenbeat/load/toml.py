"""Read tasks, checks and periods from TOML. Every problem is reported with file, line and column; nothing is guessed.

[defaults]            what every task below has unless it says otherwise
[periods.NAME]        ranges, holidays, include, exclude, prefer, zone
[checks.NAME]         every | cron | calendar | at, period, weight, command ...
[tasks.NAME]
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from evenbeat.load.locate import Path as Path_
from evenbeat.load.locate import Place, locate
from evenbeat.model import Invalid, Period, Schedule, Task
from evenbeat.when.duration import parse_duration
from evenbeat.when.period import compile_periods
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.zone import zone

SIZE_LIMIT: Final = 256 << 20
_SECTIONS: Final = ("defaults", "periods", "checks", "tasks")
_SCHEDULE_KEYS: Final = Schedule.__struct_fields__
_FROM_ELSEWHERE: Final = {"name", "check", "schedule"}
"""Fields of a task that its header and its schedule keys give."""
_ACCEPTED: Final = ", ".join((*_SCHEDULE_KEYS, *(f for f in Task.__struct_fields__ if f not in _FROM_ELSEWHERE)))
_DURATIONS: Final = {"every", "phase"}
_BELONGS_TO: Final = {"spread": "every", "phase": "every", "hash": "cron", "days": "cron", "second": "cron"}
_Noun = TypeVar("_Noun", Schedule, Period, Task)


class Config(NamedTuple):
    """What a file says."""

    tasks: tuple[Task, ...]
    periods: dict[str, Period]


class Problem(NamedTuple):
    """One thing wrong with a file, for the person who must mend it."""

    file: str
    place: Place | None
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.place.line}:{self.place.column}" if self.place else self.file
        return f"{where}: {self.message}"


class BadFileError(ValueError):
    """A file that cannot be used, with all its problems."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


def load_toml(path: Path) -> Config:
    """Read a file; raise BadFileError with every problem found."""
    try:
        if path.stat().st_size > SIZE_LIMIT:
            raise BadFileError([Problem(str(path), None, f"larger than {SIZE_LIMIT >> 20} MiB")])
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror or str(e) if isinstance(e, OSError) else f"not UTF-8 text ({e.reason} at byte {e.start})"
        raise BadFileError([Problem(str(path), None, reason)]) from None
    return parse_toml(text, str(path))


def parse_toml(text: str, file: str) -> Config:
    """Parse the text of a file; `file` is how messages call it."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        message, place = _syntax_problem(e)
        raise BadFileError([Problem(file, place, message)]) from None
    reader = _Reader(document)
    config = reader.read()
    if reader.problems:
        raise BadFileError([_problem(text, file, document, path, e) for path, e in reader.problems])
    return config


def _problem(text: str, file: str, document: Mapping[str, Any], path: Path_, error: Invalid) -> Problem:
    place = locate(text, document, path, error.column)
    # The column within the value is part of the place in the file, if that was found.
    return Problem(file, place, f"{error.place}: {error.problem}" if place else str(error))


def _syntax_problem(error: tomllib.TOMLDecodeError) -> tuple[str, Place | None]:
    message, _, where = str(error).rpartition(" (at ")
    numbers = [int(w) for w in where.replace(",", " ").replace(")", " ").split() if w.isdecimal()]
    return (message, Place(*numbers)) if len(numbers) == 2 else (str(error), None)


class _Reader:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.problems: list[tuple[Path_, Invalid]] = []

    def read(self) -> Config:
        for section in self._document:
            if section not in _SECTIONS:
                self._problem((section,), Invalid(f"{section!r} is not a section, accepted: {', '.join(_SECTIONS)}"))
        defaults = self._defaults()
        periods = self._periods(defaults)
        checks, tasks = self._tables("checks"), self._tables("tasks")
        for name in tasks:
            if name in checks:
                self._problem(("tasks", name), Invalid(f"{name!r} is a check already; names are unique"))
        found = [self._task(("checks", name), table, defaults, periods) for name, table in checks.items()]
        found += [self._task(("tasks", name), table, defaults, periods) for name, table in tasks.items()]
        return Config(tuple(task for task in found if task is not None), periods)

    def _problem(self, path: Path_, error: Invalid) -> None:
        place = ", ".join(filter(None, (".".join(map(str, path)), error.place)))
        self.problems.append((path, Invalid(error.problem, column=error.column, place=place)))

    def _table(self, path: tuple[str, ...], value: Any) -> dict[str, Any] | None:
        if isinstance(value, dict):
            return dict(value)
        self._problem(path, Invalid(f"{value!r} where a table [{'.'.join(path)}] should be"))
        return None

    def _tables(self, section: str) -> dict[str, dict[str, Any]]:
        named = self._table((section,), self._document.get(section, {})) or {}
        tables = {name: self._table((section, name), value) for name, value in named.items()}
        return {name: table for name, table in tables.items() if table is not None}

    def _defaults(self) -> dict[str, Any]:
        defaults = self._table(("defaults",), self._document.get("defaults", {})) or {}
        try:
            zone(str(defaults.get("zone", "UTC")))
        except Invalid as e:
            self._problem(("defaults", "zone"), e)
            del defaults["zone"]
        return defaults

    def _periods(self, defaults: Mapping[str, Any]) -> dict[str, Period]:
        before = len(self.problems)
        periods = {}
        for name, table in self._tables("periods").items():
            if "zone" in defaults:
                table.setdefault("zone", defaults["zone"])
            if (period := self._convert(("periods", name), table, Period)) is not None:
                periods[name] = period
                self._compile_periods({name: msgspec.structs.replace(period, include=(), exclude=())})
        if len(self.problems) == before:
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
            self._problem(tuple(path), Invalid(e.problem, column=e.column))

    def _task(
        self, path: tuple[str, str], table: dict[str, Any], defaults: Mapping[str, Any], periods: Mapping[str, Period]
    ) -> Task | None:
        kind = next((k for k in ("every", "cron", "calendar", "at") if k in table), "")
        for key, value in defaults.items():
            # A default spread is for interval tasks, a default hash for cron ones: each task takes what suits it.
            if _BELONGS_TO.get(key, kind) == kind:
                table.setdefault(key, value)
        if table.get("second") == "spread":
            del table["second"]
        before = len(self.problems)
        for key in _DURATIONS & table.keys():
            try:
                table[key] = parse_duration(table[key])
            except Invalid as e:
                self._problem((*path, key), e)
        for key in _FROM_ELSEWHERE & table.keys():
            self._problem((*path, key), Invalid(f"{key!r} is not a key here, accepted: {_ACCEPTED}"))
        if len(self.problems) > before:
            return None
        schedule = self._convert(path, {k: table.pop(k) for k in _SCHEDULE_KEYS if k in table}, Schedule)
        if schedule is None:
            return None
        whole = {**table, "name": path[1], "check": path[0] == "checks", "schedule": schedule}
        task = self._convert(path, whole, Task)
        if task is None:
            return None
        if task.period is not None and task.period not in periods:
            known = ", ".join(sorted(periods)) or "none is defined"
            self._problem((*path, "period"), Invalid(f"there is no period {task.period!r}, known: {known}"))
        self._check_schedule(path, task)
        return task

    def _check_schedule(self, path: tuple[str, ...], task: Task) -> None:
        schedule = task.schedule
        if schedule.every is not None and schedule.phase is None:
            # The phase is not known yet; any will do to see whether the rest can be compiled.
            schedule = msgspec.structs.replace(schedule, phase=0)
        try:
            compile_schedule(schedule, task.name)
        except Invalid as e:
            field, _, place = e.place.partition(", ")
            self._problem((*path, field) if field else path, Invalid(e.problem, column=e.column, place=place))

    def _convert(self, path: tuple[str, ...], table: Mapping[str, Any], noun: type[_Noun]) -> _Noun | None:
        try:
            return msgspec.convert(table, noun, strict=True)
        except msgspec.ValidationError as e:
            message, _, where = str(e).partition(" - at `$")
            inner = [p for p in where.rstrip("`").replace("[", ".[").split(".") if p]
            # msgspec wraps what our own checks refuse; the refusal names the field itself.
            cause = e.__cause__
            if isinstance(cause, Invalid):
                message, inner = cause.problem, [cause.place] if cause.place in table else []
            if message.startswith("Object contains unknown field"):
                unknown = message.split("`")[1]
                accepted = _ACCEPTED if noun is Task else ", ".join(noun.__struct_fields__)
                message, inner = f"{unknown!r} is not a key here, accepted: {accepted}", [unknown]
            keys: tuple[str | int, ...] = tuple(
                int(p[1:-1]) if p[:1] == "[" and p[1:-1].isdecimal() else p for p in inner
            )
            self._problem((*path, *keys), Invalid(message))
            return None
