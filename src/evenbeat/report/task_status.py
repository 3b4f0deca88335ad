"""Conditions of tasks, completed by what follows from their definitions: the next run, when its result is expected, and
whether the task is late, stale, unreachable or in downtime.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Final

from msgspec.structs import replace

from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.worker_killers import deaths_by_task
from evenbeat.core.chains import ChainStatus
from evenbeat.core.freshness import interval_before, is_late, result_expected_by
from evenbeat.core.gate import Reason
from evenbeat.core.next_time import ScheduleProgress, next_run
from evenbeat.core.permission import CommandPolicy, is_blocked
from evenbeat.core.run_plan import timebox_of
from evenbeat.core.timebox import NO_TIMEBOX, usual_length
from evenbeat.model import Entry, Instant, Invalid, RunKind, State, Task
from evenbeat.report.chains import ChainReader
from evenbeat.report.downtimes import DowntimeReader
from evenbeat.report.parents import ParentReader
from evenbeat.store.contract import ALL_TASKS, COMPUTED_FILTER_STATES, FOREVER, Condition, Filter, Store
from evenbeat.store.latest_result import is_result_missing
from evenbeat.when.period import CompiledPeriod, compile_periods

_DOWNTIME: Final = "downtime"
"""A state to filter by."""
_READ_AT_ONCE: Final = 500
"""Tasks whose parents and downtimes are looked up together."""


class ConditionReader:
    """Completes the conditions that a store has, as of one moment."""

    def __init__(self, store: Store, now: Instant) -> None:
        self._store = store
        self._now = now
        self.parents: Final = ParentReader(store, self.is_stale)
        """What is known of the checks that tasks depend on."""
        self._chains: Final = ChainReader(store)

    @cached_property
    def _periods(self) -> dict[str, CompiledPeriod]:
        return compile_periods({name: period for name, (_, period) in self._store.periods().items()})

    @cached_property
    def _deaths(self) -> dict[int, int]:
        return deaths_by_task(self._store)

    @cached_property
    def _permission(self) -> CommandPolicy:
        return permission_of(self._store)

    @cached_property
    def _downtimes(self) -> DowntimeReader:
        return DowntimeReader(self._store, self._now)

    def condition(self, entry: Entry) -> Condition:
        """The condition of a task that was just found; Invalid if it is no longer there."""
        found = next(iter(self._store.conditions(Filter(names=(entry.id,)))), None)
        if found is None:
            raise unreadable(entry.task.name)
        return self.of(found)

    def of(self, condition: Condition) -> Condition:
        """A condition from the store, completed."""
        return next(self.of_all([condition]))

    def of_all(self, conditions: Iterable[Condition]) -> Iterator[Condition]:
        """Many conditions, completed some at a time."""
        rest = iter(conditions)
        while some := list(islice(rest, _READ_AT_ONCE)):
            through = self.parents.unreachable_through([condition.entry.task for condition in some])
            downtimes = self._downtimes.of([condition.entry for condition in some]) if self._downtimes.active else {}
            chains = self._chains.statuses([condition.entry for condition in some])
            for condition in some:
                name = condition.entry.task.name
                whole = self._completed(condition, through.get(name, ()), chains.get(condition.entry.number))
                yield replace(whole, downtimes=tuple(downtimes[name])) if name in downtimes else whole

    def unreachable(self, tasks: Sequence[Task]) -> set[str]:
        """The names of those of the tasks that are unreachable."""
        return set(self.parents.unreachable_through(tasks))

    def is_stale(self, condition: Condition) -> bool:
        """Is a result of this task overdue, if it is reachable?"""
        return self._completed(condition, (), None).stale

    def _completed(
        self, condition: Condition, unreachable_through: tuple[str, ...], chain: ChainStatus | None
    ) -> Condition:
        return with_next_run(
            condition,
            self._now,
            self._periods if condition.entry.task.period is not None else {},
            self._permission,
            deaths=self._deaths.get(condition.entry.number, 0),
            is_missing=self._is_missing(condition),
            unreachable_through=unreachable_through,
            chain=chain,
        )

    def _is_missing(self, condition: Condition) -> bool:
        """Is the latest record of a passive check that no result came?"""
        if not condition.entry.task.passive or condition.state in (None, State.OK):
            return False
        return is_result_missing(self._store, condition.entry.number)

    def _in_downtime(self, only: Filter) -> Iterator[Entry]:
        if not self._downtimes.active:
            return
        source = self._store.entries(replace(only, state=None, most=ALL_TASKS.most))
        while some := list(islice(source, _READ_AT_ONCE)):
            found = self._downtimes.of(some)
            yield from (entry for entry in some if entry.task.name in found)

    def _conditions_in_downtime(self, only: Filter) -> Iterator[Condition]:
        source = islice(self._in_downtime(only), only.most)
        while some := list(islice(source, _READ_AT_ONCE)):
            yield from self.of_all(self._store.conditions(Filter(names=tuple(entry.id for entry in some))))

    def conditions(self, only: Filter) -> Iterator[Condition]:
        """All that match. For the computed states every task is read."""
        if only.state not in COMPUTED_FILTER_STATES:
            return self.of_all(self._store.conditions(only))
        if only.state == _DOWNTIME:
            return self._conditions_in_downtime(only)
        state = "running" if only.state == "long" else None
        every = self._store.conditions(replace(only, state=state, most=ALL_TASKS.most))
        if only.state == "unreachable":
            every = (one for one in every if one.entry.task.depends or one.entry.task.depends_any)
        return islice((one for one in self.of_all(every) if _is_in_computed_state(one, only.state)), only.most)

    def count(self, only: Filter) -> int:
        """How many tasks match, without regard to `after` and `most`."""
        if only.state not in COMPUTED_FILTER_STATES:
            return self._store.count(only)
        return sum(1 for _ in self.entries(replace(only, after="", most=ALL_TASKS.most)))

    def entries(self, only: Filter) -> Iterator[Entry]:
        """The matching tasks, without their conditions."""
        if only.state not in COMPUTED_FILTER_STATES:
            return self._store.entries(only)
        if only.state == _DOWNTIME:
            return islice(self._in_downtime(only), only.most)
        return (condition.entry for condition in self.conditions(only))


def with_next_run(
    condition: Condition,
    now: Instant,
    periods: Mapping[str, CompiledPeriod],
    permission: CommandPolicy,
    *,
    deaths: int,
    is_missing: bool,
    unreachable_through: tuple[str, ...],
    chain: ChainStatus | None,
) -> Condition:
    """A condition from the store, with its next run and whether it is late, stale or blocked.

    `is_missing`: the latest result of a passive check says that there was none. `unreachable_through`: the checks that
    it depends on and that are not fine. `chain`: where a task stands that runs after others. Nothing is expected of an
    unreachable task, nor of one that runs after others.
    """
    extra = FOREVER if condition.extra is None else condition.extra
    progress = ScheduleProgress(
        condition.accounted, extra, condition.extra_kind, condition.pause_from, condition.pause_until
    )
    task = condition.entry.task
    blocked = is_blocked(permission, condition.entry.owner, task)
    chain_due = FOREVER if chain is None else chain.due_since
    found = next_run(task, progress, periods, now, is_blocked=blocked, chain_due=chain_due)
    is_off = task.paused or not task.enabled
    expected = None if found is None or is_off or chain is not None else result_expected_by(task, found.nominal)
    is_overdue = expected is not None and expected < now
    nominal = now if chain is not None else FOREVER if found is None else found.nominal
    timebox = NO_TIMEBOX if nominal >= FOREVER else timebox_of(task, nominal)
    since = condition.running_since
    interval = None if chain is not None or nominal >= FOREVER else interval_before(task, nominal)
    longest = usual_length(task.longer_than, interval)
    has_length = since is not None or (nominal < FOREVER and not task.passive)
    return replace(
        condition,
        blocked=Reason.NOT_FROM_A_FILE.value if blocked else "",
        deaths=deaths,
        next_run=None if found is None else found.at,
        next_kind=RunKind.GRID if found is None else found.kind,
        expected_by=expected,
        timebox=timebox if timebox < NO_TIMEBOX else None,
        longer_than=longest if has_length else None,
        long=since is not None and now - since > longest,
        late=is_late(task, found, now, is_running=since is not None),
        stale=(is_overdue or (is_missing and condition.state not in (None, State.OK))) and not unreachable_through,
        unreachable_through=unreachable_through,
        waits_for=() if chain is None else chain.waits_for,
    )


def _is_in_computed_state(condition: Condition, state: str | None) -> bool:
    match state:
        case "late":
            return condition.late
        case "stale":
            return condition.stale
        case "long":
            return condition.long
        case _:
            return bool(condition.unreachable_through)


def unreadable(name: str) -> Invalid:
    """A task that was found, but whose condition cannot be read."""
    why = "it was removed a moment ago, or the database is damaged, which its next node says"
    return Invalid(f"{name!r} cannot be read: {why}")
