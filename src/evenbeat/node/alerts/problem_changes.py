"""News: what has changed since problems were last read from the store, and what the store says of that now."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from evenbeat.admin.alert_routes import NO_ROUTE, Route, route_of
from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.contacts import UsableContact, usable_contacts
from evenbeat.admin.task_admin import LiveChange
from evenbeat.node.alerts.problems_to_notify import Case
from evenbeat.store.alert_records import AlertProblem, AlertRecord, ProblemKey
from evenbeat.store.contract import Batch, Filter, ProblemFilter, Store

_Item = TypeVar("_Item")
_AT_ONCE: Final = 100
"""Problems that are read at once: in a few milliseconds of a thread."""


class KnownProblem(NamedTuple):
    """A problem as the store has it, with its alerts, and what its task says of notifications."""

    problem: AlertProblem
    alerts: list[AlertRecord]
    route: Route


class AlertNews:
    """Collects what to look at again; may be called at any time on the loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_there = asyncio.Event()
        self.has_settings = True
        """Contacts or periods may have changed."""
        self._keys: dict[ProblemKey, None] = {}
        self._ids: dict[int, None] = {}
        self._names: dict[str, None] = {}
        """Tasks whose open problems may concern other contacts now."""
        self._tasks: set[int] = set()
        """Numbers of tasks whose cases are to be looked at again."""

    # What happens in the node

    def batch_committed(self, batch: Batch) -> None:
        """Problems opened, changed, were held or closed."""
        for change in batch.problems:
            self._keys[ProblemKey(change.task, change.cause, change.opened)] = None
        for held in batch.holds:
            self._keys[ProblemKey(held.task, held.cause, held.opened)] = None
        if batch.problems or batch.holds:
            self.is_there.set()

    def problems_changed(self, ids: Iterable[int]) -> None:
        """These problems were acknowledged, or the store knows of their alerts otherwise."""
        self._ids.update(dict.fromkeys(ids))
        self.is_there.set()

    def tasks_changed(self, change: LiveChange) -> None:
        """Tasks have other definitions or are gone, or settings have changed."""
        changed = change.changed
        self.has_settings |= changed.settings
        self._tasks.update(entry.number for entry in (*changed.changed, *changed.removed))
        self._names.update((entry.task.name, None) for entry in changed.changed if entry.task.notify)
        self.is_there.set()

    def find_cases_of_tasks(self, cases: Iterable[Case]) -> None:
        """Look again at the cases of tasks that have changed."""
        if self._tasks:
            self._ids.update((case.id, None) for case in cases if case.task in self._tasks)
            self._tasks.clear()

    def forget(self) -> None:
        """Nobody is to be told anything."""
        for waiting in (self._keys, self._ids, self._names, self._tasks):
            waiting.clear()

    # What the store says

    async def read(self) -> list[KnownProblem]:
        """Read some of the problems that changed; empty if there are none. Nothing is forgotten if the store fails."""
        if names := _some(self._names):
            self._ids.update(dict.fromkeys(await asyncio.to_thread(self._ids_of_tasks, names)))
            _drop(self._names, names)
        if keys := _some(self._keys):
            ids = await asyncio.to_thread(self._store.problem_ids, keys)
            self._ids.update((number, None) for number in ids if number is not None)
            _drop(self._keys, keys)
        some = _some(self._ids)
        if not some:
            return []
        # Forgotten before they are read: what changes meanwhile is news again.
        _drop(self._ids, some)
        try:
            return await asyncio.to_thread(self._read, some)
        except BaseException:
            self.problems_changed(some)
            raise

    @property
    def is_read(self) -> bool:
        """Has everything been read?"""
        return not (self._keys or self._ids or self._names or self._tasks)

    def _ids_of_tasks(self, names: Sequence[str]) -> list[int]:
        return [record.id for record in self._store.problems(ProblemFilter(Filter(names=tuple(names))))]

    def _read(self, ids: Sequence[int]) -> list[KnownProblem]:
        return with_routes(self._store, self._store.alert_problems(ids))

    async def learn_contacts(self) -> dict[str, UsableContact]:
        """All contacts as they are defined now; for the engine, to which a change is news once."""
        self.has_settings = False
        try:
            return await self.read_contacts()
        except BaseException:
            self.has_settings = True
            raise

    async def read_contacts(self) -> dict[str, UsableContact]:
        """All contacts as they are defined now, for anybody."""
        return await asyncio.to_thread(lambda: usable_contacts(self._store, permission_of(self._store)))


def with_routes(store: Store, found: Sequence[tuple[AlertProblem, list[AlertRecord]]]) -> list[KnownProblem]:
    """These problems with what their tasks say now."""
    names = tuple({problem.task for problem, _ in found})
    entries = store.entries(Filter(names=names)) if names else ()
    routes = {entry.number: route_of(entry.task) for entry in entries}
    return [KnownProblem(problem, alerts, routes.get(problem.number, NO_ROUTE)) for problem, alerts in found]


def _some(waiting: dict[_Item, None]) -> list[_Item]:
    return list(islice(waiting, _AT_ONCE))


def _drop(waiting: dict[_Item, None], done: Iterable[_Item]) -> None:
    for item in done:
        waiting.pop(item, None)
