"""What a change of tasks or periods is called in the audit."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final

from evenbeat.model import Entry, Instant, Period, Task
from evenbeat.store.contract import Change

_values: Final[Callable[[Task], tuple[object, ...]]] = attrgetter(*Task.__struct_fields__)


def created(entries: Iterable[Entry], now: Instant, who: str) -> list[Change]:
    """New tasks."""
    return [Change(now, who, "created", entry.task.name) for entry in entries]


def came_back(entries: Iterable[Entry], now: Instant, who: str) -> list[Change]:
    """Tasks that were removed while they ran, and created again before the run had ended."""
    return [Change(now, who, "created", entry.task.name, "the task of this name that still runs") for entry in entries]


def removed(entries: Iterable[Entry], now: Instant, who: str) -> list[Change]:
    """Deleted ones."""
    return [Change(now, who, "removed", entry.task.name) for entry in entries]


def changed(before: Entry, after: Task, now: Instant, who: str, owner: str | None = None) -> Change:
    """A task with another definition or another owner: which parts of it are others."""
    values = zip(Task.__struct_fields__, _values(before.task), _values(after), strict=True)
    names = [name for name, old, new in values if old is not new and old != new]
    if owner not in (None, before.owner):
        names.append("owner")
    if names == ["enabled"]:
        return Change(now, who, "enabled" if after.enabled else "disabled", after.name)
    if names == ["paused"]:
        return Change(now, who, "paused" if after.paused else "resumed", after.name)
    was = {"name": before.task.name, "owner": before.owner}
    detail = ", ".join(f"{name} (was {was[name]})" if name in was else name for name in names)
    return Change(now, who, "changed", after.name, detail)


def periods(
    before: Mapping[str, tuple[str, Period]], after: Mapping[str, Period | None], now: Instant, who: str
) -> Iterator[Change]:
    """Periods that came, went or became others."""
    for name, period in after.items():
        old = before[name][1] if name in before else None
        if old != period:
            action = "created" if old is None else "removed" if period is None else "changed"
            yield Change(now, who, action, f"period {name}")
