"""Entries of tasks that get a new definition, and of tasks that are created or come back, in order."""

from collections.abc import Sequence

from msgspec.structs import replace

from evenbeat.model import Entry, Instant, Task


def redefined(entry: Entry, task: Task, now: Instant, owner: str | None) -> Entry:
    """The same task with another definition; without an `owner` it keeps the one it has."""
    return replace(
        entry, version=entry.version + 1, owner=entry.owner if owner is None else owner, changed=now, task=task
    )


def in_order(tasks: Sequence[Task], new: Sequence[Entry], back: Sequence[Entry]) -> list[Entry]:
    """New entries, and those of removed tasks that came back, in the order of their tasks."""
    if not back:
        return list(new)
    by_name = {entry.task.name: entry for entry in (*new, *back)}
    return [by_name[task.name] for task in tasks]
