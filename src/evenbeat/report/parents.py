"""Which tasks are unreachable, and through which checks, by what a store knows: a live node has the same answer."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from evenbeat.core.reachability import is_failing, not_fine_parents, unreachable_names
from evenbeat.model import Entry, State, Task
from evenbeat.store.common.filters import filters_for_names
from evenbeat.store.contract import Condition, Store

MAX_PARENTS_SHOWN: Final = 10
"""Checks through which a task is unreachable that are named."""


class ParentState(NamedTuple):
    """A check that tasks depend on."""

    task: Task
    state: State | None
    is_failing: bool
    """Is it not fine by its own state?"""


class ParentReader:
    """Reads the checks that tasks depend on, each once: what it says is as of one moment."""

    def __init__(self, store: Store, is_stale: Callable[[Condition], bool]) -> None:
        """A check that `is_stale` is fine: nothing is known of it."""
        self._store = store
        self._is_stale = is_stale
        self._known: dict[str, ParentState | None] = {}

    def unreachable_through(self, tasks: Sequence[Task]) -> dict[str, tuple[str, ...]]:
        """Of these tasks, those that are unreachable: their names, and the checks that they depend on and that are not
        fine.
        """
        depending = [task for task in tasks if task.depends or task.depends_any]
        if not depending:
            return {}
        ancestors = list(self._ancestors(depending))
        bad = {parent.task.name for parent in ancestors if parent.is_failing}
        if not bad:
            return {}
        bad |= unreachable_names([parent.task for parent in ancestors], bad)
        found = {task.name: not_fine_parents(task, bad)[:MAX_PARENTS_SHOWN] for task in depending}
        return {name: through for name, through in found.items() if through}

    def sentences(self, task: Task) -> list[str]:
        """Why a task is unreachable: of each check that is not fine what it is, or through which others."""
        found: list[str] = []
        through = self.unreachable_through([task]).get(task.name, ())
        seen: set[str] = set()
        level = list(through)
        while level and len(found) < MAX_PARENTS_SHOWN:
            seen.update(level)
            parents = [parent for name in level if (parent := self._known[name]) is not None]
            above = self.unreachable_through([parent.task for parent in parents])
            for parent in parents:
                name = parent.task.name
                if parent.is_failing and parent.state is not None:
                    found.append(f"{name!r} is {parent.state.name}")
                elif name in above:
                    found.append(f"{name!r} is unreachable itself, through {', '.join(map(repr, above[name]))}")
            level = sorted({name for names in above.values() for name in names} - seen)
        return found[:MAX_PARENTS_SHOWN]

    def ancestors(self, task: Task) -> list[str]:
        """The names of all the checks that a task depends on, directly or not."""
        return [parent.task.name for parent in self._ancestors([task])]

    def _ancestors(self, tasks: Sequence[Task]) -> Iterator[ParentState]:
        """The checks that tasks depend on, directly or not: those that are not known yet by one question a level."""
        seen: set[str] = set()
        level = list(tasks)
        while names := {name for task in level for name in (*task.depends, *task.depends_any)} - seen:
            seen |= names
            self._read(names - self._known.keys())
            parents = [parent for name in sorted(names) if (parent := self._known[name]) is not None]
            yield from parents
            level = [parent.task for parent in parents]

    def _read(self, names: Collection[str]) -> None:
        self._known.update(dict.fromkeys(names))
        for condition in conditions_named(self._store, names):
            task = condition.entry.task
            failing = is_failing(task, condition.state, hard=condition.hard) and not self._is_stale(condition)
            self._known[task.name] = ParentState(task, condition.state, failing)


def conditions_named(store: Store, names: Collection[str]) -> Iterator[Condition]:
    """The conditions of the tasks with these names, of those that exist, as the store has them."""
    for only in filters_for_names(store, names):
        yield from (condition for condition in store.conditions(only) if condition.entry.task.name in names)


def entries_named(store: Store, names: Collection[str]) -> Iterator[Entry]:
    """The tasks with these names, of those that exist."""
    for only in filters_for_names(store, names):
        yield from (entry for entry in store.entries(only) if entry.task.name in names)
