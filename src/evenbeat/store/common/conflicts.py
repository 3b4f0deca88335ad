"""Refuses changes of tasks that conflict with the stored ones."""

from collections import Counter
from collections.abc import Mapping, Sequence

from evenbeat.model import Entry
from evenbeat.store.contract import Conflict


def check_names(names: Sequence[str], taken: Sequence[str]) -> None:
    """Refuse names that other tasks have, or that are given twice."""
    if taken or len(set(names)) < len(names):
        bad = {*taken, *(name for name, times in Counter(names).items() if times > 1)}
        raise Conflict(f"there is a task of this name already: {_few(sorted(bad))}", place="name")


def check_versions(numbers: Sequence[int], before: Mapping[int, Entry], version: int | None) -> None:
    """Refuse a change of tasks that are gone, are named twice, or have another version than the caller expects."""
    gone = [str(number) for number in numbers if number not in before]
    if gone:
        raise Conflict(f"there is no such task any more: number {_few(gone)}")
    if len(before) < len(numbers):
        raise Conflict("one change names a task twice")
    others = [before[number] for number in numbers if version not in (None, before[number].version)]
    if others:
        found = _few([f"{entry.task.name} has version {entry.version}" for entry in others])
        raise Conflict(f"changed meanwhile: {found}, expected {version}", place="version")


def _few(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
