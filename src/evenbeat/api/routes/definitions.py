"""Converts the JSON of a task to a Task, with the rules and messages of files; errors have pointers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from evenbeat.api.http.errors import MAX_ERRORS, FieldError, HttpError, invalid_request, json_pointer
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.task_keys import TASK_KEYS, TaskBuilder
from evenbeat.load.task_tables import change_table, task_to_table
from evenbeat.model import NAME_LIMIT, Task

_TABLE_KEYS: Final = ("labels", "env", "kwargs")


def parse_task(body: Mapping[str, Any], name: str | None = None) -> Task:
    """The task of a complete definition; `name` is used if it has none. Raise 422 with all errors."""
    if empty := [key for key, value in body.items() if value is None]:
        raise _same_error_for(empty, lambda _: "null; leave the key out")
    table = dict(body)
    return _build_task(table.pop("name", name), table, table.pop("check", False))


def patch_task(before: Task, patch: Mapping[str, Any]) -> Task:
    """The task after a merge patch: null removes a key, tables are merged."""
    changes: dict[str, Any] = {}
    known = {*TASK_KEYS, "name", "check"}
    if unknown := [key for key in patch if key not in known]:
        raise _same_error_for(unknown, lambda key: f"{key[:64]!r} is not a key of a task")
    for key, value in patch.items():
        if key in _TABLE_KEYS and isinstance(value, dict):
            changes |= {f"{key}.{entry}": inner for entry, inner in value.items()}
        else:
            changes[key] = value
    name = changes.pop("name", before.name)
    check = changes.pop("check", before.check)
    return _build_task(name, change_table(task_to_table(before), changes), False if check is None else check)


def _same_error_for(keys: Sequence[str], detail: Callable[[str], str]) -> HttpError:
    """One error at each of several places."""
    first = keys[:MAX_ERRORS]
    return invalid_request(
        *(FieldError(json_pointer((key,)), detail(key)) for key in first), more=len(keys) - len(first)
    )


def _build_task(name: object, table: dict[str, Any], check: object) -> Task:
    errors = []
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_LIMIT:
        errors.append(FieldError("/name", f"a task has a name of 1 to {NAME_LIMIT} characters"))
        name = "x"
    if not isinstance(check, bool):
        errors.append(FieldError("/check", f"found {str(check)[:64]!r}, accepted: true, false"))
    found = DocumentErrors()
    task = TaskBuilder(found, {}).build(("checks" if check else "tasks", name), table, name)
    errors += [FieldError(json_pointer(path[2:]), error.problem, error.column) for path, error in found.errors]
    if errors or task is None:
        raise invalid_request(*errors, more=found.errors_omitted)
    return task
