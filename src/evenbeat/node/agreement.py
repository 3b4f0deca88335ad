"""Do tasks, periods and limits fit together? What a task refers to must be there, and stay as long as one does."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from evenbeat.model import Entry, Invalid, Period, Task
from evenbeat.store.contract import Conflict

_Value = TypeVar("_Value")


def must_refer_to_what_is_there(
    tasks: Iterable[Task], periods: Mapping[str, Period], limits: Mapping[str, int]
) -> None:
    """Raise Invalid for a period or a limit that there is not, and for a task with nothing to run."""
    for task in tasks:
        if task.period is not None and task.period not in periods:
            known = ", ".join(sorted(periods)) or "none is defined"
            raise Invalid(f"there is no period {task.period!r}, known: {known}", place=f"{task.name}.period")
        if task.limit is not None and task.limit not in limits:
            known = ", ".join(sorted(limits)) or "none is defined"
            raise Invalid(f"there is no limit {task.limit!r}, known: {known}", place=f"{task.name}.limit")
        if not task.job.command and task.job.function is None and not task.passive:
            raise Invalid("there is nothing to run, say `command`, `function` or `passive = true`", place=task.name)


def must_not_need(entries: Iterable[Entry], periods: set[str], limits: set[str]) -> None:
    """Raise Conflict if one of these tasks uses a period or a limit that is about to go."""
    for entry in entries:
        for kind, name, going in (("period", entry.task.period, periods), ("limit", entry.task.limit, limits)):
            if name in going:
                raise Conflict(f"the {kind} {name!r} cannot go: the task {entry.task.name!r} of {entry.owner} uses it")


def said_together(kind: str, said: Iterable[tuple[str, Mapping[str, _Value]]]) -> dict[str, _Value]:
    """What several owners say; raise Conflict where two of them say different things under one name."""
    found: dict[str, _Value] = {}
    by: dict[str, str] = {}
    for owner, values in said:
        for name, value in values.items():
            if found.setdefault(name, value) != value:
                raise Conflict(f"the {kind} {name!r} of {owner} is another one in {by[name]}")
            by.setdefault(name, owner)
    return found
