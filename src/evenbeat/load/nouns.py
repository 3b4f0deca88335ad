"""From the tables of a file to the nouns: tasks with the defaults that suit them, periods, and all that is wrong."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final, TypeVar

import msgspec

from evenbeat.load.locate import Path
from evenbeat.model import SECOND, Days, Hash, Invalid, Period, Prefer, Schedule, Spread, Task
from evenbeat.when.duration import parse_duration
from evenbeat.when.period import compile_periods
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.zone import zone

_SECTIONS: Final = ("defaults", "periods", "checks", "tasks")
_KINDS: Final = ("every", "cron", "calendar", "at")
_SCHEDULE_KEYS: Final = Schedule.__struct_fields__
_FROM_ELSEWHERE: Final = {"name", "check", "schedule"}
"""Fields of a task that its header and its schedule keys give."""
_TASK_KEYS: Final = (*_SCHEDULE_KEYS, *(f for f in Task.__struct_fields__ if f not in _FROM_ELSEWHERE))
_DURATIONS: Final = ("every", "phase")
_BELONGS_TO: Final = {"spread": "every", "phase": "every", "hash": "cron", "days": "cron", "second": "cron"}
_CHOICES: Final = {"spread": Spread, "hash": Hash, "days": Days, "prefer": Prefer}
_Noun = TypeVar("_Noun", Schedule, Period, Task)


class Reader:
    """Reads a document once; `problems` holds every refusal with its path."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.problems: list[tuple[Path, Invalid]] = []

    def read(self) -> tuple[tuple[Task, ...], dict[str, Period]]:
        """All tasks and periods; of use only if there are no problems."""
        for section in self._document:
            if section not in _SECTIONS:
                self._refuse((section,), f"{section!r} is not a section, accepted: {', '.join(_SECTIONS)}")
        defaults = self._defaults()
        periods = self._periods(defaults)
        checks, tasks = self._tables("checks"), self._tables("tasks")
        for name in tasks:
            if name in checks:
                self._refuse(("tasks", name), f"{name!r} is a check already; names are unique")
        found = [self._task(("checks", name), table, defaults, periods) for name, table in checks.items()]
        found += [self._task(("tasks", name), table, defaults, periods) for name, table in tasks.items()]
        return tuple(task for task in found if task is not None), periods

    def _refuse(self, path: Path, problem: str | Invalid) -> None:
        error = Invalid(problem) if isinstance(problem, str) else problem
        place = ", ".join(filter(None, (".".join(map(str, path)), error.place)))
        self.problems.append((path, Invalid(error.problem, column=error.column, place=place)))

    # Tables

    def _table(self, path: tuple[str, ...], value: Any) -> dict[str, Any] | None:
        if isinstance(value, dict):
            return dict(value)
        self._refuse(path, f"{str(value)[:64]!r} where a table [{'.'.join(path)}] should be")
        return None

    def _tables(self, section: str) -> dict[str, dict[str, Any]]:
        named = self._table((section,), self._document.get(section, {})) or {}
        tables = {name: self._table((section, name), value) for name, value in named.items()}
        return {name: table for name, table in tables.items() if table is not None}

    def _only(self, path: tuple[str, ...], table: dict[str, Any], accepted: tuple[str, ...]) -> None:
        """Refuse the keys that do not belong here, and go on without them."""
        for key in [k for k in table if k not in accepted]:
            self._refuse((*path, key), f"{key!r} is not a key here, accepted: {', '.join(accepted)}")
            del table[key]

    def _plain(self, path: tuple[str, ...], table: dict[str, Any]) -> None:
        """From what people may write to what the nouns hold."""
        for key in _DURATIONS:
            if key in table:
                try:
                    table[key] = parse_duration(table[key])
                except Invalid as e:
                    self._refuse((*path, key), e)
                    del table[key]
        if isinstance(table.get("at"), date | datetime):
            table["at"] = table["at"].isoformat()
        if table.get("second") == "spread":
            del table["second"]

    def _defaults(self) -> dict[str, Any]:
        path = ("defaults",)
        defaults = self._table(path, self._document.get("defaults", {})) or {}
        self._only(path, defaults, _TASK_KEYS)
        self._plain(path, defaults)
        for key in list(defaults):
            # Each by itself, in a task it suits, so that a mistake is told once and here.
            kind = _BELONGS_TO.get(key, "cron")
            sample = {} if key in _KINDS else {"every": SECOND} if kind == "every" else {"cron": "@daily"}
            schedule = {**sample, key: defaults[key]} if key in _SCHEDULE_KEYS else sample
            rest = {} if key in _SCHEDULE_KEYS else {key: defaults[key]}
            before = len(self.problems)
            self._build(path, schedule, rest, "x")
            if len(self.problems) > before:
                del defaults[key]
        return defaults

    # Periods

    def _periods(self, defaults: Mapping[str, Any]) -> dict[str, Period]:
        before = len(self.problems)
        periods = {}
        for name, table in self._tables("periods").items():
            path = ("periods", name)
            if "zone" in defaults:
                table.setdefault("zone", defaults["zone"])
            self._only(path, table, Period.__struct_fields__)
            if (period := self._convert(path, table, Period)) is not None:
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
            self._refuse(tuple(path), Invalid(e.problem, column=e.column))

    # Tasks

    def _task(
        self, path: tuple[str, str], table: dict[str, Any], defaults: Mapping[str, Any], periods: Mapping[str, Period]
    ) -> Task | None:
        self._only(path, table, _TASK_KEYS)
        kind = next((k for k in _KINDS if k in table), next((k for k in _KINDS if k in defaults), ""))
        self._plain(path, table)
        for key, value in defaults.items():
            # A default spread is for interval tasks, a default hash for cron ones: each task takes what suits it.
            if key == kind or (key not in _KINDS and _BELONGS_TO.get(key, kind) == kind):
                table.setdefault(key, value)
        if kind and kind not in table:
            return None  # it was refused already
        schedule = {key: table.pop(key) for key in _SCHEDULE_KEYS if key in table}
        task = self._build(path, schedule, {**table, "check": path[0] == "checks"}, path[1])
        if task is not None and task.period is not None and task.period not in periods:
            known = ", ".join(sorted(periods)) or "none is defined"
            self._refuse((*path, "period"), f"there is no period {task.period!r}, known: {known}")
        return task

    def _build(self, path: tuple[str, ...], schedule: dict[str, Any], rest: dict[str, Any], name: str) -> Task | None:
        when = self._convert(path, schedule, Schedule)
        # Any schedule will do to see what else is wrong.
        whole = {**rest, "name": name, "schedule": when or Schedule(every=SECOND)}
        task = self._convert(path, whole, Task)
        if when is not None:
            self._compile(path, when, name)
        return task

    def _compile(self, path: tuple[str, ...], schedule: Schedule, name: str) -> None:
        if schedule.every is not None and schedule.phase is None:
            # The phase is not known yet; any will do to see whether the rest can be compiled.
            schedule = msgspec.structs.replace(schedule, phase=0)
        try:
            zone(schedule.zone)
        except Invalid as e:
            self._refuse((*path, "zone"), e)
            schedule = msgspec.structs.replace(schedule, zone="UTC")
        try:
            compile_schedule(schedule, name)
        except Invalid as e:
            field, _, place = e.place.partition(", ")
            self._refuse((*path, field) if field else path, Invalid(e.problem, column=e.column, place=place))

    def _convert(self, path: tuple[str, ...], table: dict[str, Any], noun: type[_Noun]) -> _Noun | None:
        """The noun of a table. A key with a wrong value is refused and left out, until the rest can be converted."""
        whole = True
        while True:
            try:
                return msgspec.convert(table, noun, strict=True)
            except msgspec.ValidationError as e:
                keys: tuple[str | int, ...]
                keys, problem = _explained(e, table)
                # What is missing after something was refused has been told.
                if keys or whole:
                    self._refuse((*path, *keys), problem)
                if not keys:
                    return None
                table = {k: v for k, v in table.items() if k != keys[0]}
                whole = False


def _explained(error: msgspec.ValidationError, table: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str]:
    """Which value msgspec could not use, and why, in words for people."""
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
    if field == "name":
        return (), f"the name: {message}"
    return tuple(keys), message
