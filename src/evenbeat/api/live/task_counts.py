"""The number of tasks that match a filter, cached: scanning a hundred thousand tasks takes a while."""

import time
from collections import OrderedDict
from threading import Lock
from typing import Final, NamedTuple

import msgspec

from evenbeat.model import Instant
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.contract import ALL_TASKS, Change, Filter, Store

_COUNT_MAX_AGE: Final = 1.0
"""Seconds for which a count by state is valid: states change without a change of any task."""
_MAX_COUNTS: Final = 256


class _CachedCount(NamedTuple):
    newest: Change | None
    at: float
    total: int


class TaskCountCache:
    """The latest counts, by filter."""

    def __init__(self) -> None:
        self._counted: OrderedDict[bytes, _CachedCount] = OrderedDict()
        self._lock = Lock()

    def of(self, store: Store, only: Filter, at: Instant) -> int:
        """The number of tasks; counted again after a change of tasks, and for a filter by state when it has expired."""
        whole = msgspec.structs.replace(only, after="", most=ALL_TASKS.most)
        key = msgspec.msgpack.encode(whole, order="deterministic")
        newest = next(iter(store.changes(most=1)), None)
        now = time.monotonic()
        with self._lock:
            known = self._counted.get(key)
        if known and known.newest == newest and (only.state is None or now - known.at < _COUNT_MAX_AGE):
            return known.total
        total = ConditionReader(store, at).count(only)
        with self._lock:
            self._counted[key] = _CachedCount(newest, now, total)
            self._counted.move_to_end(key)
            while len(self._counted) > _MAX_COUNTS:
                self._counted.popitem(last=False)
        return total
