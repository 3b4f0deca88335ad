"""Conditions of tasks with the time of their next run, which a store does not know: it depends on the definition."""

from collections.abc import Iterable, Iterator
from functools import cached_property

from msgspec.structs import replace

from evenbeat.core.next_time import Progress, next_run
from evenbeat.model import Instant
from evenbeat.store.contract import FOREVER, Condition, Store
from evenbeat.when.period import Period, compile_periods


class Upcoming:
    """Answers for the tasks of a store, at one moment."""

    def __init__(self, store: Store, now: Instant) -> None:
        self._store = store
        self._now = now

    @cached_property
    def _periods(self) -> dict[str, Period]:
        return compile_periods({name: period for name, (_, period) in self._store.periods().items()})

    def of(self, condition: Condition) -> Condition:
        """The same, with its next run."""
        extra = FOREVER if condition.extra is None else condition.extra
        progress = Progress(
            condition.accounted, extra, condition.extra_kind, condition.pause_from, condition.pause_until
        )
        task = condition.entry.task
        found = next_run(task, progress, self._periods if task.period is not None else {}, self._now)
        return condition if found is None else replace(condition, next_run=found.at, next_kind=found.kind)

    def of_all(self, conditions: Iterable[Condition]) -> Iterator[Condition]:
        """The same for many."""
        return map(self.of, conditions)
