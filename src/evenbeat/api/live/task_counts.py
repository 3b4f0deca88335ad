"""How many tasks a filter finds, counted once for many who ask: a hundred thousand names take a while to go through."""

import time
from collections import OrderedDict
from threading import Lock
from typing import Final, NamedTuple

import msgspec

from evenbeat.model import Instant
from evenbeat.report.task_status import Upcoming
from evenbeat.store.contract import EVERYTHING, Change, Filter, Store

_FRESH: Final = 1.0
"""Seconds for which a count is good that no change of a task shows, as states come and go."""
_KEPT: Final = 256


class _Counted(NamedTuple):
    newest: Change | None
    at: float
    total: int


class Totals:
    """The latest counts, by filter."""

    def __init__(self) -> None:
        self._counted: OrderedDict[bytes, _Counted] = OrderedDict()
        self._lock = Lock()

    def of(self, store: Store, only: Filter, at: Instant) -> int:
        """Counted again when tasks were changed since, and if it asks for a state, when it is no longer fresh."""
        whole = msgspec.structs.replace(only, after="", most=EVERYTHING.most)
        key = msgspec.msgpack.encode(whole, order="deterministic")
        newest = next(iter(store.changes(most=1)), None)
        now = time.monotonic()
        with self._lock:
            known = self._counted.get(key)
        if known and known.newest == newest and (only.state is None or now - known.at < _FRESH):
            return known.total
        total = Upcoming(store, at).count(only)
        with self._lock:
            self._counted[key] = _Counted(newest, now, total)
            self._counted.move_to_end(key)
            while len(self._counted) > _KEPT:
                self._counted.popitem(last=False)
        return total
