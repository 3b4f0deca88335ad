"""Converts the table of a task to a Task, with the defaults that suit it. Files have a hundred thousand of them."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from evenbeat.core.dependencies import DEPENDENCY_KEYS
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.contacts import notify_of_value, notify_range_error
from evenbeat.load.ineffective_keys import CONDITIONAL_KEYS, why_without_effect
from evenbeat.load.one_off import RELATIVE_REFUSED, is_relative
from evenbeat.load.retry_keys import backoff_error, retry_on_error
from evenbeat.load.size_text import parse_size
from evenbeat.load.timebox_text import parse_timebox
from evenbeat.model import (
    SCHEDULE_KINDS,
    SECOND,
    CommandWord,
    Invalid,
    Job,
    Name,
    NotifyContact,
    Schedule,
    Task,
    WhenMissing,
)
from evenbeat.when.cron_entry import DAY_FIELD, MONTH_FIELD, WEEKDAY_FIELD, parse_cron_entry
from evenbeat.when.duration import parse_duration
from evenbeat.when.instant import parse_instant
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.zone import zone

_WORK_KEYS: Final = ("command", "function", "passive")
_SCHEDULE_KEYS: Final = tuple(field for field in Schedule.__struct_fields__ if field != "pinned")
_JOB_KEYS: Final = Job.__struct_fields__
_FIELDS_NOT_KEYS: Final = {"name", "check", "schedule", "job", "paused", "pause"}
"""Fields of a task that come from its header, from other keys, or are set by hand."""
TASK_KEYS: Final = (
    *_SCHEDULE_KEYS,
    *_JOB_KEYS,
    *(f for f in Task.__struct_fields__ if f not in _FIELDS_NOT_KEYS),
)
DURATION_KEYS: Final = (
    *("every", "phase", "longer_than", "tolerance", "catch_up", "retry", "grace", "repeat", "gather", "backoff"),
    "backoff_max",
)
_TIME_KEYS: Final = ("at", "start_at")
_BELONGS_TO: Final = {
    "spread": "every",
    "phase": "every",
    "hash": "cron",
    "days": "cron",
    "second": "cron",
    "shell": "command",
    "args": "function",
    "kwargs": "function",
    "when_missing": "passive",
}
_COMPANION_KEYS: Final = {
    "command": ("shell",),
    "shell": ("command",),
    "args": ("function",),
    "kwargs": ("function",),
    "when_missing": ("passive",),
    "backoff_max": ("backoff",),
}
_SAMPLES: Final[dict[str, dict[str, Any]]] = {
    "every": {"every": SECOND},
    "cron": {"cron": "@daily"},
    "command": {"command": ["x"]},
    "function": {"function": "x:x"},
    "passive": {"passive": True},
}
_MERGED_TABLES: Final = ("labels", "env")
"""Tables that a task merges with those of its template and the defaults."""
_CRITICAL: Final = WhenMissing.CRITICAL
_ANY_SCHEDULE: Final = Schedule(every=SECOND)
"""A stand-in for a bad schedule, so that the other errors are found too."""

_ALL_KEYS: Final = frozenset(TASK_KEYS)
_SCHEDULE_KEY_SET: Final = frozenset(_SCHEDULE_KEYS)
_JOB_KEY_SET: Final = frozenset(_JOB_KEYS)
_PARSED_KEYS: Final = frozenset((*DURATION_KEYS, *_TIME_KEYS, "timebox", "second", "notify", "output_keep"))


class _OwnValues(msgspec.Struct):
    """What may differ from task to task in a table that is like others."""

    name: Name
    command: tuple[CommandWord, ...]
    labels: dict[Name, Name] = {}


_OWN_KEYS: Final = frozenset({"command", "labels"})


class _TableShape(NamedTuple):
    """Facts shared by all tables with the same keys; there are few such sets."""

    kind: str
    is_known: bool
    """Are all keys known keys of a task?"""
    spelt: list[str]
    """Keys whose values must be converted."""
    suiting: dict[str, Any]
    """The defaults for these keys."""
    conditional: list[str]
    """The keys that have an effect only on some kinds of tasks."""
    common: Callable[[dict[str, Any]], tuple[Any, ...]] | None
    """The values that tables have in common if they differ in name, command and labels only; None if others may."""
    alike: dict[object, Task]
    """A task by those values, their types, and whether it is a check."""


class TaskBuilder:
    """Builds tasks; their errors go to `errors`."""

    def __init__(self, errors: DocumentErrors, defaults: dict[str, Any]) -> None:
        self._errors = errors
        self._schedules: dict[Any, tuple[Schedule, bool]] = {}
        self._notified: dict[str, tuple[NotifyContact, ...]] = {}
        self._shapes: dict[tuple[object, ...], _TableShape] = {}
        self._defaults = self._checked_defaults(defaults)
        self._default_parents = {
            key: self._defaults[key] for key in DEPENDENCY_KEYS if isinstance(self._defaults.get(key), list)
        }

    @property
    def default_zone(self) -> str | None:
        zone_: str | None = self._defaults.get("zone")
        return zone_

    def _checked_defaults(self, table: dict[str, Any]) -> dict[str, Any]:
        path = ("defaults",)
        known = self._errors.known_keys(path, table, TASK_KEYS)
        defaults = self._parse_values(path, known, [key for key in known if key in _PARSED_KEYS])
        for key in list(defaults):
            # Each by itself, in a task it suits, so that an error is reported once, and here.
            kind = "every" if _BELONGS_TO.get(key) == "every" else "cron"
            sample: dict[str, Any] = {} if key in SCHEDULE_KINDS else _SAMPLES[kind].copy()
            for other in _COMPANION_KEYS.get(key, ()):
                sample |= {other: defaults[other]} if other in defaults else _SAMPLES.get(other, {})
            before = len(self._errors)
            self._build(path, {**sample, key: defaults[key]}, "x", check=False)
            if len(self._errors) > before:
                del defaults[key]
        return defaults

    def build(self, path: tuple[str, str], table: dict[str, Any], name: str) -> Task | None:
        """The task of a table, or None if it was refused."""
        for key, parents in self._default_parents.items():
            if key not in table and name in parents:
                table = {**table, key: [parent for parent in parents if parent != name]}
        keys = (table.get("passive") is True, *table)
        shape = self._shapes.get(keys)
        if shape is None:
            shape = self._shapes[keys] = self._shape(table)
        if shape.common is None:
            return self._built(path, table, name, shape)
        values = shape.common(table)
        # True equals 1, but is another value.
        those = (path[0], values, tuple(map(type, values)))
        try:
            like = shape.alike.get(those)
        except TypeError:  # a list, or a table
            return self._built(path, table, name, shape)
        if like is not None and (task := _like(like, table, name)) is not None:
            return task
        before = len(self._errors)
        task = self._built(path, table, name, shape)
        if task is not None and len(self._errors) == before and _is_plain(task):
            shape.alike[those] = task
        return task

    def _built(self, path: tuple[str, str], table: dict[str, Any], name: str, shape: "_TableShape") -> Task | None:
        if not shape.is_known:
            table = self._errors.known_keys(path, table, TASK_KEYS)
        if shape.spelt:
            table = self._parse_values(path, table, shape.spelt)
        if shape.conditional:
            table = self._without_ineffective_keys(path, table, shape)
        elif shape.suiting:
            table = _merge(table, shape.suiting)
        if shape.kind and shape.kind not in table:
            return None  # it was refused already
        return self._build(path, table, name, check=path[0] == "checks")

    def _shape(self, table: dict[str, Any]) -> "_TableShape":
        kind, work = (
            _schedule_kind(table) or _schedule_kind(self._defaults),
            _work_kind(table) or _work_kind(self._defaults),
        )
        suiting = {key: value for key, value in self._defaults.items() if _default_applies(key, kind, work)}
        conditional = [
            key for key in (*table, *(key for key in suiting if key not in table)) if key in CONDITIONAL_KEYS
        ]
        is_known = table.keys() <= _ALL_KEYS
        spelt = [key for key in table if key in _PARSED_KEYS]
        rest = [key for key in table if key not in _OWN_KEYS]
        has_common = is_known and kind == "every" and "command" in table and "labels" not in suiting and len(rest) > 1
        # For two keys and more an itemgetter makes a tuple.
        common: Any = itemgetter(*rest) if has_common else None
        return _TableShape(kind, is_known, spelt, suiting, conditional, common, {})

    def _without_ineffective_keys(
        self, path: tuple[str, str], table: dict[str, Any], shape: "_TableShape"
    ) -> dict[str, Any]:
        """The table with its defaults, without those that have no effect: defaults need not suit every task."""
        whole = _merge(table, shape.suiting)
        for key in shape.conditional:
            why = why_without_effect(key, whole, check=path[0] == "checks")
            if why:
                if key in table:
                    self._errors.refuse((*path, key), f"`{key}` has no effect here: {why}")
                whole.pop(key, None)
        return whole

    def _parse_values(self, path: tuple[str, ...], table: dict[str, Any], spelt: Iterable[str]) -> dict[str, Any]:
        """Convert values from their written form to that of the model."""
        table = table.copy()
        for key in spelt:
            value = table[key]
            if key in DURATION_KEYS or key == "timebox":
                try:
                    parse = parse_timebox if key == "timebox" else parse_duration
                    table[key] = _cached(parse, value) if type(value) is str else parse(value)
                    if problem := notify_range_error(key, table[key]):
                        raise Invalid(f"{value!r} is out of range, {problem}")
                except Invalid as e:
                    self._errors.refuse((*path, key), e)
                    del table[key]
            elif key == "output_keep":
                try:
                    table[key] = parse_size(value)
                except Invalid as e:
                    self._errors.refuse((*path, key), e)
                    del table[key]
            elif key == "notify":
                table[key] = self._notify((*path, key), value)
            elif key == "at" and is_relative(value):
                self._errors.refuse((*path, key), RELATIVE_REFUSED)
                del table[key]
            elif key in _TIME_KEYS and isinstance(value, date):
                table[key] = value.isoformat()
            elif key == "second" and value == "spread":
                del table[key]
        return table

    def _notify(self, path: tuple[str, ...], value: Any) -> tuple[NotifyContact, ...]:
        """The contacts that a task names; the same object for all that name the same."""
        key = repr(value)
        found = self._notified.get(key)
        if found is None:
            found = notify_of_value(self._errors, path, value)
            if found is None:
                return ()
            self._notified[key] = found
        return found

    def _build(self, path: tuple[str, ...], table: dict[str, Any], name: str, *, check: bool) -> Task | None:
        schedule: dict[str, Any] = {}
        job: dict[str, Any] = {}
        whole: dict[str, Any] = {"name": name, "check": check}
        for key, value in table.items():
            (schedule if key in _SCHEDULE_KEY_SET else job if key in _JOB_KEY_SET else whole)[key] = value
        if whole.get("passive") is True:
            whole["check"] = True
        if "phase" in schedule:
            schedule["pinned"] = True
        when = self._schedule(path, schedule, name)
        if type(job.get("command")) is str:
            self._split(path, job)
        whole["schedule"] = when or _ANY_SCHEDULE
        whole["job"] = job
        try:
            task = msgspec.convert(whole, Task)
        except msgspec.ValidationError:
            whole["job"] = self._errors.convert(path, job, Job) or Job()
            refused = self._errors.convert(path, whole, Task)
            if refused is None:
                return None
            task = refused
        if task.retry_on or task.backoff_max is not None:
            self._check_retries(path, task)
        if (
            task.start_at is not None
            or task.passive
            or task.when_missing is not _CRITICAL
            or task.job.env
            or task.job.function is not None
            or "\0" in "".join(task.job.command)
        ):
            self._check_texts(path, task)
        return task if when is not None else None

    def _check_retries(self, path: tuple[str, ...], task: Task) -> None:
        if error := backoff_error(task):
            self._errors.refuse((*path, "backoff_max"), error)
        for i, cause in enumerate(task.retry_on):
            if error := retry_on_error(cause):
                self._errors.refuse((*path, "retry_on", i), error)

    def _split(self, path: tuple[str, ...], job: dict[str, Any]) -> None:
        """A command that is one text: a line for the shell, or an error."""
        line = job["command"]
        if job.get("shell") is True:
            job["command"] = [line]
            return
        try:
            words = f"a list of words: [{', '.join(map(_quoted, shlex.split(line[:200])))}]"
        except ValueError:
            words = "a list of words"
        self._errors.refuse((*path, "command"), f"one text, accepted: {words}; or shell = true beside it")
        del job["command"]

    def _check_texts(self, path: tuple[str, ...], task: Task) -> None:
        if task.start_at is not None:
            try:
                parse_instant(task.start_at, zone(task.schedule.zone))
            except Invalid as e:
                self._errors.refuse((*path, "start_at"), e)
        if task.passive:
            self._check_passive(path, task)
        elif task.when_missing is not _CRITICAL:
            self._errors.refuse((*path, "when_missing"), "`when_missing` belongs to passive checks")
        if any("\0" in word for word in task.job.command):
            self._errors.refuse((*path, "command"), "a NUL, which no command can have")
        for name in task.job.env:
            if not name or "=" in name or "\0" in name:
                self._errors.refuse((*path, "env", name), f"{name[:64]!r} cannot be the name of a variable")
        function = task.job.function
        if function is not None and not all(function.rpartition(":")[::2]):
            self._errors.refuse((*path, "function"), f"{function[:64]!r} is not a function, accepted: module:function")

    def _check_passive(self, path: tuple[str, ...], task: Task) -> None:
        """Refuse keys and events that concern starts: results of a passive check are submitted."""
        if task.start_at is not None:
            self._errors.refuse((*path, "start_at"), "a passive check does not start: its results are submitted")
        entry = (task.schedule.cron or "").strip()
        if entry in ("@reboot", "@shutdown"):
            self._errors.refuse((*path, "cron"), f"{entry}: a passive check needs times at which results are expected")

    def _schedule(self, path: tuple[str, ...], table: dict[str, Any], name: str) -> Schedule | None:
        # True equals 1, but is no second.
        key = (*table.items(), type(table.get("second")))
        try:
            known = self._schedules.get(key)
        except TypeError:  # a list, or a table, which is not accepted here
            known, key = None, ()
        if known is None:
            before = len(self._errors)
            schedule = self._errors.convert(path, table, Schedule)
            if schedule is None:
                return None
            self._compile(path, schedule, name)
            if len(self._errors) == before and key:
                self._schedules[key] = (schedule, _depends_on_name(schedule))
            return schedule
        if known[1]:
            self._compile(path, known[0], name)
        return known[0]

    def _compile(self, path: tuple[str, ...], schedule: Schedule, name: str) -> None:
        if schedule.every is not None and schedule.phase is None:
            # The phase is not known yet; any will do to see whether the rest can be compiled.
            schedule = msgspec.structs.replace(schedule, phase=0)
        try:
            zone(schedule.zone)
        except Invalid as e:
            self._errors.refuse((*path, "zone"), e)
            schedule = msgspec.structs.replace(schedule, zone="UTC")
        try:
            compile_schedule(schedule, name)
        except Invalid as e:
            field, _, place = e.place.partition(", ")
            self._errors.refuse((*path, field) if field else path, Invalid(e.problem, column=e.column, place=place))


def _is_plain(task: Task) -> bool:
    """Does nothing but name, command and labels have to be checked in a task like this one?"""
    return (
        task.schedule.every is not None
        and bool(task.job.command)
        and task.job.function is None
        and not task.job.env
        and not task.job.shell
        and task.start_at is None
        and not task.passive
    )


def _like(like: Task, table: dict[str, Any], name: str) -> Task | None:
    """The task of a table that differs from that of another task in name, command and labels only; None if it has to
    be looked at.
    """
    try:
        own = msgspec.convert({**table, "name": name}, _OwnValues)
    except msgspec.ValidationError:
        return None
    if not own.command or "\0" in "".join(own.command):
        return None
    return replace(like, name=own.name, job=replace(like.job, command=own.command), labels=own.labels)


def inherit_keys(table: dict[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """A table with the keys it takes from what is below it, itself winning.

    `command`, `function` and `passive` go together: a table that says one of them takes none of the others.
    """
    kind, work = _schedule_kind(table) or _schedule_kind(below), _work_kind(table) or _work_kind(below)
    return _merge(table, {key: value for key, value in below.items() if _default_applies(key, kind, work)})


def _merge(table: dict[str, Any], below: dict[str, Any]) -> dict[str, Any]:
    found = below | table
    for key in _MERGED_TABLES:
        if key in below and key in table and isinstance(table[key], dict) and isinstance(below[key], dict):
            found[key] = below[key] | table[key]
    return found


def _schedule_kind(table: Mapping[str, Any]) -> str:
    for kind in SCHEDULE_KINDS:
        if kind in table:
            return kind
    return ""


def _work_kind(table: Mapping[str, Any]) -> frozenset[str]:
    """The command or function of a table, and whether it is passive."""
    found = {key for key in ("command", "function") if key in table}
    return frozenset(found | {"passive"} if table.get("passive") is True else found)


def _default_applies(key: str, kind: str, work: frozenset[str]) -> bool:
    # A default spread is for interval tasks, a default hash for cron ones: each task takes what suits it.
    if key in SCHEDULE_KINDS:
        return key == kind
    if key in _WORK_KEYS:
        return key in work
    return key not in _BELONGS_TO or _BELONGS_TO[key] == kind or _BELONGS_TO[key] in work


def _depends_on_name(schedule: Schedule) -> bool:
    """May it be possible for one name and not for another? Only a hashed date can miss: H(29-31) in February."""
    if schedule.cron is None:
        return False
    fields = parse_cron_entry(schedule.cron).fields
    return bool(fields) and any(fields[kind].uses_hash for kind in (DAY_FIELD, MONTH_FIELD, WEEKDAY_FIELD))


@lru_cache(maxsize=4096)
def _cached(parse: Callable[[str], int], text: str) -> int:
    return parse(text)


def _quoted(word: str) -> str:
    return msgspec.json.encode(word).decode()
