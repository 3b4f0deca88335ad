"""Downtimes for people and programs: which there are, and which a task is in, now or at a time in the past."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from evenbeat.admin.stored_downtimes import declared_downtimes, stored_downtimes
from evenbeat.core.downtimes import downtimes_by_task, is_active, is_over, next_change
from evenbeat.model import FOREVER, Downtime, Entry, Instant
from evenbeat.report.documents import iso_time
from evenbeat.store.contract import Filter, Store
from evenbeat.when.period import CompiledPeriod, compile_periods

_MOST_CHANGES: Final = 100
"""Of downtimes, that are looked at within a time that is asked about."""


class KnownDowntime(NamedTuple):
    """A downtime, and how it stands."""

    downtime: Downtime
    is_active: bool
    is_over: bool
    next_change: Instant | None
    """When it may begin or end next; None: never."""
    is_declared: bool
    """A file or an owner declares it: it is changed and ended there."""


def read_downtimes(store: Store, now: Instant, *, is_all: bool = False) -> list[KnownDowntime]:
    """Those that are not over; with `is_all`, also those that are and still kept. The earliest come first."""
    periods = _periods(store)
    declared = {downtime.id for some in declared_downtimes(store).values() for downtime in some}
    return [
        known_downtime(downtime, periods, now, is_declared=downtime.id in declared)
        for downtime in stored_downtimes(store)
        if is_all or not is_over(downtime, now)
    ]


def known_downtime(
    downtime: Downtime, periods: dict[str, CompiledPeriod], now: Instant, *, is_declared: bool = False
) -> KnownDowntime:
    """A downtime as of now."""
    change = next_change(downtime, periods, now)
    return KnownDowntime(
        downtime,
        is_active(downtime, periods, now),
        is_over(downtime, now),
        None if change == FOREVER else change,
        is_declared,
    )


def downtime_document(known: KnownDowntime) -> dict[str, Any]:
    """A downtime."""
    one = known.downtime
    limit = one.limited_to
    return {
        "id": one.id,
        "names": list(one.names),
        "owner": one.owner,
        "labels": dict(one.labels),
        "from": iso_time(one.start),
        "until": iso_time(one.end),
        "period": one.period,
        "dependents": one.dependents,
        "comment": one.comment,
        "who": one.who,
        "created": iso_time(one.created),
        "active": known.is_active,
        "over": known.is_over,
        "next_change": iso_time(known.next_change),
        "declared": known.is_declared,
        "ended_by": one.ended_by,
        "limited_to": limit and {"owner": limit.owner, "labels": dict(limit.labels)},
    }


class DowntimeReader:
    """Which downtimes tasks are in at one moment; what they depend on is read when it is asked for, and kept."""

    def __init__(self, store: Store, at: Instant) -> None:
        self._store = store
        self._at = at
        self._known: dict[str, Entry | None] = {}

    @cached_property
    def active(self) -> list[Downtime]:
        """The active downtimes."""
        downtimes = stored_downtimes(self._store)
        periods = _periods(self._store) if any(one.period is not None for one in downtimes) else {}
        return [downtime for downtime in downtimes if is_active(downtime, periods, self._at)]

    def changes(self, end: Instant) -> Iterator[Instant]:
        """The moment itself, and the next ones at which another downtime may be active, up to a limit."""
        downtimes = stored_downtimes(self._store)
        periods = _periods(self._store) if any(one.period is not None for one in downtimes) else {}
        at = self._at
        for _ in range(_MOST_CHANGES if downtimes else 1):
            yield at
            at = min((next_change(downtime, periods, at) for downtime in downtimes), default=FOREVER)
            if at >= end:
                return

    def of(self, entries: Sequence[Entry]) -> dict[str, list[Downtime]]:
        """The downtimes of each of these tasks that is in any, by name."""
        if not self.active:
            return {}
        family = self._with_parents(entries) if any(one.dependents for one in self.active) else entries
        found = downtimes_by_task({entry.task.name: entry for entry in family}, self.active)
        return {entry.task.name: found[entry.task.name] for entry in entries if found[entry.task.name]}

    def _with_parents(self, entries: Iterable[Entry]) -> Iterable[Entry]:
        """These tasks and all that they depend on: one query for each level of what is not known yet."""
        family: dict[str, Entry] = {}
        level = list(entries)
        while level:
            family |= {entry.task.name: entry for entry in level}
            wanted = {
                name for entry in level for name in (*entry.task.depends, *entry.task.depends_any)
            } - family.keys()
            if missing := sorted(wanted - self._known.keys()):
                self._known |= dict.fromkeys(missing)
                self._known |= {entry.task.name: entry for entry in self._store.entries(Filter(names=tuple(missing)))}
            level = [entry for name in wanted if (entry := self._known[name]) is not None]
        return family.values()


def downtimes_during(store: Store, entry: Entry, start: Instant, end: Instant) -> list[Downtime]:
    """The downtimes that a task is in at some time from `start` until before `end`, or at `start`."""
    found: dict[str, Downtime] = {}
    reader = DowntimeReader(store, start)
    for t in reader.changes(end):
        found |= {downtime.id: downtime for downtime in DowntimeReader(store, t).of([entry]).get(entry.task.name, ())}
    return list(found.values())


def _periods(store: Store) -> dict[str, CompiledPeriod]:
    return compile_periods({name: period for name, (_, period) in store.periods().items()})
