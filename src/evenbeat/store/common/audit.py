"""Entries of the audit for changes of tasks and periods: the action, and the old and new values."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

import msgspec

from evenbeat.model import ENV_REFERENCE_PREFIXES, HIDDEN_VALUE, Entry, Instant, Period, Task
from evenbeat.store.contract import FOREVER, NEVER, AuditFilter, Change, FieldChange

MAX_DETAILED_CHANGES: Final = 1_000
"""If more tasks than this are created or removed at once, only their names are noted, not their definitions."""
_MOST_FIELDS: Final = 50
_LONGEST: Final = 2_000
"""Characters of one value in the audit."""
_TABLES: Final = ("labels", "env", "kwargs")
_NOT_FIELDS: Final = ("name", "check", "paused", "pause", "pinned")
"""Not keys of a file; where they matter, `detail` names them."""
_values: Final[Callable[[Task], tuple[object, ...]]] = attrgetter(*Task.__struct_fields__)
_decoder: Final = msgspec.json.Decoder(tuple[FieldChange, ...])


def created(entries: Sequence[Entry], now: Instant, who: str) -> list[Change]:
    """Changes for new tasks."""
    is_few = len(entries) <= MAX_DETAILED_CHANGES
    return [
        Change(now, who, "created", e.task.name, "", _fields({}, keys_of(e.task)) if is_few else ()) for e in entries
    ]


def restored(entries: Iterable[Entry], now: Instant, who: str) -> list[Change]:
    """Changes for tasks that were removed while they ran, and created again before the run had ended."""
    detail = "the task of this name that still runs"
    return [Change(now, who, "created", e.task.name, detail, _fields({}, keys_of(e.task))) for e in entries]


def removed(entries: Iterable[Entry], now: Instant, who: str) -> list[Change]:
    """Changes for removed tasks."""
    gone = list(entries)
    is_few = len(gone) <= MAX_DETAILED_CHANGES
    return [Change(now, who, "removed", e.task.name, "", _fields(keys_of(e.task), {}) if is_few else ()) for e in gone]


def changed(before: Entry, after: Task, now: Instant, who: str, owner: str | None = None) -> Change:
    """The change of a task whose definition or owner changed: names the parts that differ."""
    values = zip(Task.__struct_fields__, _values(before.task), _values(after), strict=True)
    names = [name for name, old, new in values if old is not new and old != new]
    if owner not in (None, before.owner):
        names.append("owner")
    if names == ["enabled"]:
        return Change(now, who, "enabled" if after.enabled else "disabled", after.name)
    if names and set(names) <= {"paused", "pause"}:
        return Change(now, who, "paused" if after.paused else "resumed", after.name, _pause_detail(after))
    was = {"name": before.task.name, "owner": before.owner}
    detail = ", ".join(f"{name} (was {was[name]})" if name in was else name for name in names)
    old, new = keys_of(before.task), keys_of(after)
    old |= {"name": before.task.name, "check": before.task.check, "owner": before.owner}
    new |= {"name": after.name, "check": after.check, "owner": before.owner if owner is None else owner}
    return Change(now, who, "changed", after.name, detail, _fields(old, new))


def _pause_detail(task: Task) -> str:
    """ "until 2026-12-01T09:00:00Z: new disks"."""
    if task.pause is None:
        return ""
    until = "" if task.pause.until is None else f"until {datetime.fromtimestamp(task.pause.until // 10**6, UTC):%FT%TZ}"
    return ": ".join(filter(None, (until, task.pause.reason)))


def periods(
    before: Mapping[str, tuple[str, Period]], after: Mapping[str, Period | None], now: Instant, who: str
) -> Iterator[Change]:
    """Changes for periods that were created, removed or redefined."""
    for name, period in after.items():
        old = before[name][1] if name in before else None
        if old != period:
            action = "created" if old is None else "removed" if period is None else "changed"
            fields = _fields(*(msgspec.to_builtins(p) if p is not None else {} for p in (old, period)))
            yield Change(now, who, action, f"period {name}", "", fields)


def keys_of(task: Task) -> dict[str, Any]:
    """The keys of a task as in a file, with one key per entry of a table. Literal values of `env` are not hidden."""
    table: dict[str, Any] = msgspec.to_builtins(task)
    table = {**table.pop("schedule"), **table.pop("job", {}), **table}
    for key in _NOT_FIELDS:
        table.pop(key, None)
    for key in _TABLES:
        table |= {f"{key}.{name}": value for name, value in table.pop(key, {}).items()}
    return table


def _fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    keys = [key for key in dict.fromkeys((*old, *new)) if old.get(key) != new.get(key)]
    found = [FieldChange(key, _shown(key, old.get(key)), _shown(key, new.get(key))) for key in keys[:_MOST_FIELDS]]
    if len(keys) > _MOST_FIELDS:
        found.append(FieldChange("...", None, f"and {len(keys) - _MOST_FIELDS:,} more keys"))
    return tuple(found)


def _shown(key: str, value: Any) -> Any:
    if value is None:
        return None
    if key.startswith("env.") and not value.startswith(ENV_REFERENCE_PREFIXES):
        return HIDDEN_VALUE
    if isinstance(value, str):
        return _cut(value)
    text = msgspec.json.encode(value).decode()
    return msgspec.json.decode(text) if len(text) <= _LONGEST else _cut(text)  # as every store reads it back


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


# The columns of the audit


def filter_values(only: AuditFilter) -> dict[str, Any]:
    """The parameters of a filter for SQL, with bounds for those that it leaves out."""
    since = NEVER if only.since is None else only.since
    before = FOREVER if only.before is None else only.before
    return {"name": only.name, "who": only.who, "since": since, "before": before, "most": only.most}


def fields_text(fields: Sequence[FieldChange]) -> str:
    """Changed fields as text for the database: JSON, empty if there are none."""
    return msgspec.json.encode(fields).decode() if fields else ""


def fields_of(text: str) -> tuple[FieldChange, ...]:
    """Changed fields from the text in the database."""
    return _decoder.decode(text) if text else ()
