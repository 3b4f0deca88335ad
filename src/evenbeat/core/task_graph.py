"""Tasks that name others as their parents: who is above whom, circles, and parents that a change would take away."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from evenbeat.did_you_mean import MOST_COMPARED, nearest_words
from evenbeat.model import Entry, Task

_NAMES_COMPARED: Final = MOST_COMPARED // 4
"""Names, from the first on and again from where a name would stand, that an unknown name is compared with."""
_NAMES_OF_CYCLE: Final = 10
_USERS_SHOWN: Final = 3

ParentsOf = Callable[[Task], Sequence[str]]
"""The names of the tasks above a task."""


class ParentError(NamedTuple):
    """A task names another one that cannot be its parent."""

    task: str
    key: str
    message: str


class OtherTasks(Protocol):
    """The tasks that a change leaves as they are."""

    def find(self, names: Collection[str], /) -> Mapping[str, Task]:
        """The tasks with these names, of those that exist."""

    def checks_near(self, name: str, /) -> Iterable[str]:
        """Names of checks that may have been meant."""

    def tasks_near(self, name: str, /) -> Iterable[str]:
        """Names of tasks that are no checks and may have been meant."""


class NoOtherTasks:
    """There are no tasks beside those that are looked at."""

    def find(self, _: Collection[str], /) -> Mapping[str, Task]:
        """None of them exists."""
        return {}

    def checks_near(self, _: str, /) -> Iterable[str]:
        """None."""
        return ()

    def tasks_near(self, _: str, /) -> Iterable[str]:
        """None."""
        return ()


def ancestors(
    tasks: Iterable[Task], given: Mapping[str, Task], others: OtherTasks, parents_of: ParentsOf
) -> dict[str, Task]:
    """All tasks above these, directly or not, beside the given ones: one question for each level."""
    found: dict[str, Task] = {}
    seen: set[str] = set()
    level = list(tasks)
    while wanted := {name for task in level for name in parents_of(task)} - seen - given.keys():
        seen |= wanted
        new = others.find(wanted)
        found |= new
        level = list(new.values())
    return found


def similar_name(name: str, names: Sequence[str], more: Iterable[str]) -> str:
    """A hint at a name that may have been meant, of sorted names and of more; empty if none is near."""
    near = nearest_words(name, list(dict.fromkeys((*names_near(name, names), *more))))
    return f"did you mean {near[0]!r}?" if near else ""


def names_near(name: str, names: Sequence[str]) -> Iterator[str]:
    """Of sorted names: the first ones, and those that begin like this one."""
    yield from islice(names, _NAMES_COMPARED)
    start = max(bisect_right(names, beginning_of(name)), _NAMES_COMPARED)
    yield from islice(names, start, start + _NAMES_COMPARED)


def beginning_of(name: str) -> str:
    """The first half of a name: most slips are in the other one."""
    return name[: len(name) // 2]


def cycles(tasks: Iterable[Task], known: Mapping[str, Task], parents_of: ParentsOf) -> Iterator[list[str]]:
    """Circles of tasks of which each is above the next, of those that can be reached from these tasks."""

    def parents(task: Task) -> Iterator[str]:
        # A task that names itself is refused otherwise.
        return (name for name in parents_of(task) if name in known and name != task.name)

    done: set[str] = set()
    for task in tasks:
        path: dict[str, Iterator[str]] = {}
        if task.name not in done:
            path[task.name] = parents(task)
        while path:
            name, above = next(reversed(path.items()))
            parent = next(above, None)
            if parent is None:
                done.add(name)
                del path[name]
            elif parent in path:
                names = list(path)
                yield names[names.index(parent) :]
            elif parent not in done:
                path[parent] = parents(known[parent])


def cycle_error(
    cycle: Sequence[str], given: Mapping[str, Task], key_of: Callable[[Task, str], str], words: str
) -> ParentError | None:
    """A circle begins with its first name, whoever finds it, and is reported for the first task that may be changed."""
    first = cycle.index(min(cycle))
    names = [*cycle[first:], *cycle[:first]]
    at = next((i for i, name in enumerate(names) if name in given), None)
    if at is None:
        return None
    task, following = given[names[at]], names[(at + 1) % len(names)]
    more = len(names) - _NAMES_OF_CYCLE
    shown = names if more <= 0 else [*names[:_NAMES_OF_CYCLE], f"{more:,} more"]
    return ParentError(task.name, key_of(task, following), f"{words}: {' -> '.join([*shown, names[0]])}")


def used_parents(
    lost: Collection[str],
    users: Iterable[Entry],
    parents_of: ParentsOf,
    words: Callable[[str], str],
    is_shown: Callable[[Entry], bool],
) -> Iterator[tuple[str, str]]:
    """Of parents that are about to be lost: those that tasks name, and a message that names some of these, of those
    that are shown to the caller. `words` says of a parent why it must stay.
    """
    by_parent: dict[str, list[Entry]] = {}
    for entry in users:
        for name in dict.fromkeys(parents_of(entry.task)):
            if name in lost:
                by_parent.setdefault(name, []).append(entry)
    for name in sorted(by_parent):
        found = by_parent[name]
        shown = [f"{entry.task.name!r} of {entry.owner}" for entry in found if is_shown(entry)][:_USERS_SHOWN]
        more = len(found) - len(shown)
        rest = f" and {more:,} more" if shown and more else f"{more:,}" if more else ""
        yield name, f"{words(name)}: {', '.join(shown)}{rest}"
