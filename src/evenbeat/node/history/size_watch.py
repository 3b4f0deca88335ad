"""Measures the database beside the turns, and forecasts what becomes of it with the present timetable."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from evenbeat.core.retention import Retention
from evenbeat.core.task import Flag
from evenbeat.model import MINUTE, PARTITION_COUNT
from evenbeat.node.history.compactor import Compactor
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.report.history_status import history_status
from evenbeat.store.history_contract import Layer, LayeredHistory

if TYPE_CHECKING:
    from evenbeat.core.history_size import Rates
    from evenbeat.wire.status import HistoryStatus

_RATES_AFTER: Final = 10 * MINUTE
"""So long the rates of the timetable count before they are computed again."""


class SizeWatch:
    """Of the node that compacts the history."""

    def __init__(
        self,
        store: LayeredHistory,
        compactor: Compactor,
        tasks: TaskTable,
        retention: Callable[[], Retention],
        held_partitions: Callable[[], frozenset[int]],
        database: str,
    ) -> None:
        self._store = store
        self._compactor = compactor
        self._tasks = tasks
        self._retention = retention
        self._held_partitions = held_partitions
        self._database = database
        self._rates: Rates | None = None
        self._rates_at = 0
        self.status: HistoryStatus | None = None
        """As it was measured last."""

    def begin(self, now: int) -> Callable[[], None]:
        """On the loop: note what the tasks are. Returns what measures, on any thread."""
        rates = self._rates
        if rates is None or not 0 <= now - self._rates_at < _RATES_AFTER:
            c = self._tasks.columns
            on = c.used & (c.flags & int(Flag.ENABLED | Flag.REMOVED) == int(Flag.ENABLED))
            compute = self._tasks.times.runs_per_hour(np.flatnonzero(on))
            others = PARTITION_COUNT / max(len(self._held_partitions()), 1)

            def renew() -> None:
                found = compute()
                # The nodes of a cluster have about as many tasks each as they have partitions.
                self._rates = found if others == 1 else np.resize(found, round(len(found) * others))
                self._rates_at = now
        else:

            def renew() -> None:
                """They still count."""

        def measure() -> None:
            renew()
            assert self._rates is not None
            age, share = self._compactor.age(), self._compactor.notable_share
            size, hours = self._store.size(), self._store.parts(Layer.HOURS)
            self.status = history_status(size, hours, self._rates, self._retention(), age, share, self._database)

        return measure
