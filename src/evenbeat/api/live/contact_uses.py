"""How many tasks name each contact, cached: it takes a look at every task."""

from threading import Lock

from evenbeat.admin.contacts import task_counts
from evenbeat.store.contract import Change, Store


class ContactUseCache:
    """Counted again after a change of tasks."""

    def __init__(self) -> None:
        self._counted: tuple[Change | None, dict[str, int]] | None = None
        self._lock = Lock()

    def of(self, store: Store) -> dict[str, int]:
        """The number of tasks, by the name of the contact."""
        newest = next(iter(store.changes(most=1)), None)
        with self._lock:
            known = self._counted
        if known is not None and known[0] == newest:
            return known[1]
        counts = task_counts(store.entries())
        with self._lock:
            self._counted = (newest, counts)
        return counts
