"""Converts a task to the table of a file and back, and changes it key by key."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.contacts import notify_to_list
from evenbeat.load.ineffective_keys import CONDITIONAL_KEYS, why_without_effect
from evenbeat.load.size_text import format_size
from evenbeat.load.task_keys import DURATION_KEYS, TaskBuilder, inherit_keys
from evenbeat.load.timebox_text import format_timebox
from evenbeat.model import ENV_REFERENCE_PREFIXES, HIDDEN_VALUE, Invalid, Spread, Task
from evenbeat.when.duration import format_duration, parse_duration

_TABLE_KEYS: Final = ("labels", "env", "kwargs")
"""Keys whose value is a table, so that `labels.team` means one entry of it."""
_WORK_KEYS: Final = ("command", "function")


def task_to_table(task: Task) -> dict[str, Any]:
    """The keys of a task, as a file would have them: `task_of` makes the same task of it, unless it is paused."""
    table: dict[str, Any] = msgspec.to_builtins(task)
    table = {**table.pop("schedule"), **table.pop("job", {}), **table}
    for key in ("name", "check", "paused", "pause", "pinned"):
        table.pop(key, None)
    for key in DURATION_KEYS:
        if key in table:
            table[key] = format_duration(table[key])
    if task.notify:
        table["notify"] = notify_to_list(task.notify)
    if "output_keep" in table:
        table["output_keep"] = format_size(table["output_keep"])
    if "timebox" in table:
        table["timebox"] = format_timebox(table["timebox"])
    if table.get("shell"):
        table["command"] = table["command"][0]
    return table


def hide_secrets(table: dict[str, Any]) -> dict[str, Any]:
    """The keys of a task for people who may not read its secrets: names of variables and references, no values."""
    if "env" not in table:
        return table
    shown = {
        name: value if value.startswith(ENV_REFERENCE_PREFIXES) else HIDDEN_VALUE
        for name, value in table["env"].items()
    }
    return {**table, "env": shown}


def task_from_table(name: str, table: Mapping[str, Any], *, check: bool) -> Task:
    """The task of a table, as in a file; all errors are raised as one Invalid."""
    errors = DocumentErrors()
    path = ("checks" if check else "tasks", name)
    task = TaskBuilder(errors, {}).build(path, dict(table), name)
    if errors.errors:
        lines = [str(_without_header(error, ".".join(path))) for _, error in errors.errors]
        raise Invalid("\n".join([*lines, f"and {errors.errors_omitted:,} more"] if errors.errors_omitted else lines))
    assert task is not None
    return task


def _without_header(error: Invalid, header: str) -> Invalid:
    """The error without the header of the table, which the user has not typed."""
    return Invalid(error.problem, column=error.column, place=error.place.removeprefix(header).lstrip("., "))


def _is_same(key: str, new: Any, old: Any) -> bool:
    """Do both have the same interval, or the same strategy?"""
    try:
        return parse_duration(new) == parse_duration(old) if key == "every" else new == (old or Spread.EVEN)
    except (Invalid, TypeError):
        return False


def change_table(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The table with some keys set; None takes a key away, back to its default.

    One kind of schedule replaces the other, as a command and a function do, with the keys that belong to it; a passive
    check stays passive and keeps what it runs. Of a table of labels, variables or arguments single entries can be set:
    `labels.team`.
    """
    before = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    new: dict[str, Any] = {}
    for key, value in changes.items():
        head, _, entry = key.partition(".")
        if entry and head in _TABLE_KEYS:
            entries = new.setdefault(head, before.pop(head, {}))
            if value is None:
                entries.pop(entry, None)
            else:
                entries[entry] = value
            continue
        before.pop(key, None)
        if value is not None:
            new[key] = value
    if any(key in new and not _is_same(key, new[key], table.get(key)) for key in ("every", "spread")):
        before.pop("phase", None)  # it belongs to the previous grid
    if not isinstance(new.get("command", ""), str):
        before.pop("shell", None)
    stays = ("passive",) if new.keys() & set(_WORK_KEYS) else _WORK_KEYS
    new |= {key: before[key] for key in stays if key in before and key not in new}
    whole = inherit_keys(new, before)
    # Keys that belonged to a replaced value go with it; keys that were typed are refused instead.
    gone = [
        key
        for key in CONDITIONAL_KEYS & (whole.keys() - new.keys())
        if all(why_without_effect(key, whole, check=check) for check in (True, False))
    ]
    return {key: value for key, value in whole.items() if key not in gone}
