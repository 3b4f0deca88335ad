"""Counts, for each task, the worker processes of this node that died running it; kept in the store over restarts."""

import logging
from collections.abc import Iterable
from typing import Final

from evenbeat.core.worker_deaths import WorkerDeaths
from evenbeat.store.contract import Store, StoreError

DEATHS_PREFIX: Final = "deaths:"
"""Prefix before the number of a task: how many worker processes in a row died with its runs."""
_log: Final = logging.getLogger("evenbeat.node")


class StoredWorkerDeaths(WorkerDeaths):
    """Counts the lost workers of a single node. In a cluster the queue counts them."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        for task, deaths in deaths_by_task(store).items():
            self.restore(task, deaths)

    def learn_all(self, ends: Iterable[tuple[int, str, bytes]]) -> None:
        """Update the counts for finished runs (task, outcome, output), before their ends are committed."""
        ends = list(ends)
        before = {task: self.deaths(task) for task, _, _ in ends}
        for task, outcome, output in ends:
            self.record_end(task, outcome, output)
        now = {task: self.deaths(task) for task in before}
        changed = {f"{DEATHS_PREFIX}{t}": str(n) if n else None for t, n in now.items() if n != before[t]}
        if not changed:
            return
        try:
            self._store.set_settings(changed)
        except StoreError as e:
            _log.error("deaths of worker processes cannot be remembered: %s", e, extra={"action": "deaths"})


def deaths_by_task(store: Store) -> dict[int, int]:
    """How many worker processes in a row died with a task's runs, by the number of the task."""
    found = {key.removeprefix(DEATHS_PREFIX): value for key, value in store.settings(DEATHS_PREFIX).items()}
    return {int(task): stored_deaths(deaths) for task, deaths in found.items() if task.isdigit()}


def deaths_key(task: int) -> str:
    """The key of the setting that stores a task's count."""
    return f"{DEATHS_PREFIX}{task}"


def stored_deaths(setting: str | None) -> int:
    """The count in such a setting."""
    return int(setting) if setting is not None and setting.isdigit() else 0
