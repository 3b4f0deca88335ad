"""Conditions of tasks, completed by what follows from their definitions: the next run, when its result is expected, and
whether the task is late or stale.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice

from msgspec.structs import replace

from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.worker_killers import deaths_by_task
from evenbeat.core.freshness import is_late, result_expected_by
from evenbeat.core.gate import Reason
from evenbeat.core.next_time import ScheduleProgress, next_run
from evenbeat.core.permission import CommandPolicy, is_blocked
from evenbeat.model import Entry, Instant, Invalid, RunKind, State
from evenbeat.store.contract import ALL_TASKS, COMPUTED_FILTER_STATES, FOREVER, Condition, Filter, Store
from evenbeat.when.period import CompiledPeriod, compile_periods


class ConditionReader:
    """Completes the conditions that a store has, as of one moment."""

    def __init__(self, store: Store, now: Instant) -> None:
        self._store = store
        self._now = now

    @cached_property
    def _periods(self) -> dict[str, CompiledPeriod]:
        return compile_periods({name: period for name, (_, period) in self._store.periods().items()})

    @cached_property
    def _deaths(self) -> dict[int, int]:
        return deaths_by_task(self._store)

    @cached_property
    def _permission(self) -> CommandPolicy:
        return permission_of(self._store)

    def condition(self, entry: Entry) -> Condition:
        """The condition of a task that was just found; Invalid if it is no longer there."""
        found = next(iter(self._store.conditions(Filter(names=(entry.id,)))), None)
        if found is None:
            raise unreadable(entry.task.name)
        return self.of(found)

    def of(self, condition: Condition) -> Condition:
        """A condition from the store, completed."""
        return with_next_run(
            condition,
            self._now,
            self._periods if condition.entry.task.period is not None else {},
            self._permission,
            deaths=self._deaths.get(condition.entry.number, 0),
            is_missing=self._is_missing(condition),
        )

    def _is_missing(self, condition: Condition) -> bool:
        """Is the latest record of a passive check that no result came?"""
        if not condition.entry.task.passive or condition.state in (None, State.OK):
            return False
        latest = self._store.runs(condition.entry.number, most=1)
        return bool(latest) and latest[0].kind is RunKind.STALE

    def of_all(self, conditions: Iterable[Condition]) -> Iterator[Condition]:
        """Many conditions, completed one by one."""
        return map(self.of, conditions)

    def conditions(self, only: Filter) -> Iterator[Condition]:
        """All that match. For the states late and stale every task is read."""
        if only.state not in COMPUTED_FILTER_STATES:
            return self.of_all(self._store.conditions(only))
        every = self.of_all(self._store.conditions(replace(only, state=None, most=ALL_TASKS.most)))
        return islice((one for one in every if (one.late if only.state == "late" else one.stale)), only.most)

    def count(self, only: Filter) -> int:
        """How many tasks match, without regard to `after` and `most`."""
        if only.state not in COMPUTED_FILTER_STATES:
            return self._store.count(only)
        return sum(1 for _ in self.conditions(replace(only, after="", most=ALL_TASKS.most)))

    def entries(self, only: Filter) -> Iterator[Entry]:
        """The matching tasks, without their conditions."""
        if only.state not in COMPUTED_FILTER_STATES:
            return self._store.entries(only)
        return (condition.entry for condition in self.conditions(only))


def with_next_run(
    condition: Condition,
    now: Instant,
    periods: Mapping[str, CompiledPeriod],
    permission: CommandPolicy,
    *,
    deaths: int,
    is_missing: bool,
) -> Condition:
    """A condition from the store, with its next run and whether it is late, stale or blocked.

    `is_missing`: the latest result of a passive check says that there was none.
    """
    extra = FOREVER if condition.extra is None else condition.extra
    progress = ScheduleProgress(
        condition.accounted, extra, condition.extra_kind, condition.pause_from, condition.pause_until
    )
    task = condition.entry.task
    blocked = is_blocked(permission, condition.entry.owner, task)
    found = next_run(task, progress, periods, now, is_blocked=blocked)
    is_off = task.paused or not task.enabled
    expected = None if found is None or is_off else result_expected_by(task, found.nominal)
    return replace(
        condition,
        blocked=Reason.NOT_FROM_A_FILE.value if blocked else "",
        deaths=deaths,
        next_run=None if found is None else found.at,
        next_kind=RunKind.GRID if found is None else found.kind,
        expected_by=expected,
        late=is_late(task, found, now, is_running=condition.running_since is not None),
        stale=(expected is not None and expected < now) or (is_missing and condition.state not in (None, State.OK)),
    )


def unreadable(name: str) -> Invalid:
    """A task that was found, but whose condition cannot be read."""
    why = "it was removed a moment ago, or the database is damaged, which its next node says"
    return Invalid(f"{name!r} cannot be read: {why}")
