"""References of tasks to periods and limits: what a task names must exist, and stays as long as a task names it."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from evenbeat.model import Entry, Task
from evenbeat.when.nearest import list_known


class Reference(NamedTuple):
    """What a task names under one of its keys."""

    key: str
    """`period` or `limit`."""
    name: str


class BlockedRemoval(NamedTuple):
    """A period or limit that cannot be removed, as a task uses it."""

    section: str
    """Of documents: `periods` or `limits`."""
    name: str
    message: str


def references_of(task: Task) -> Iterator[Reference]:
    """Everything that a task refers to by name."""
    if task.period is not None:
        yield Reference("period", task.period)
    if task.limit is not None:
        yield Reference("limit", task.limit)


def missing_references(
    task: Task, periods: Collection[str], limits: Collection[str]
) -> Iterator[tuple[Reference, str]]:
    """What a task names and does not exist, and what to say of it."""
    if task.period is not None and task.period not in periods:
        yield Reference("period", task.period), _missing("period", task.period, periods)
    if task.limit is not None and task.limit not in limits:
        yield Reference("limit", task.limit), _missing("limit", task.limit, limits)


def _missing(key: str, name: str, known: Collection[str]) -> str:
    return f"there is no {key} {name!r}, known: {list_known(sorted(known), 'none is defined')}"


def blocked_removals(
    entries: Iterable[Entry], periods: Collection[str], limits: Collection[str]
) -> Iterator[BlockedRemoval]:
    """Of these periods and limits, which are about to be removed: those that a task uses, each once."""
    going = {Reference("period", name) for name in periods} | {Reference("limit", name) for name in limits}
    for entry in entries:
        for reference in references_of(entry.task):
            if reference in going:
                going.remove(reference)
                key, name = reference
                message = f"the {key} {name!r} cannot go: the task {entry.task.name!r} of {entry.owner} uses it"
                yield BlockedRemoval(f"{key}s", name, message)
