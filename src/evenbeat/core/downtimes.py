"""Downtimes: when one is active, and which tasks are in it.

A task is in a downtime that selects it by name, owner and labels. It is also in downtime if it would be unreachable as
soon as the tasks of all active downtimes that include dependents were not fine, and nothing else. A downtime with a
limit spreads by itself, and only within the limit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.label_index import LabelIndex
from evenbeat.core.name_index import NameIndex
from evenbeat.core.reachability import Reachability
from evenbeat.core.task import ALL_FLAGS, Bools, Flag, Small, TaskColumns
from evenbeat.model import FOREVER, Downtime, DowntimeLimit, Entry, Instant
from evenbeat.name_patterns import is_pattern, matches_pattern
from evenbeat.when.period import CompiledPeriod

_DOWNTIME: Final = int(Flag.DOWNTIME)
_REMOVED: Final = int(Flag.REMOVED)
_SELECTED: Final = 1
_WITH_DEPENDENTS: Final = 2
"""Of `TaskColumns.downtime`: an active downtime selects the task itself, and one of these includes dependents."""
_NO_ROWS: Final[Ints] = np.empty(0, dtype=np.int64)


def is_active(downtime: Downtime, periods: Mapping[str, CompiledPeriod], now: Instant) -> bool:
    """Is it so far, and not over? Without its period, which somebody removed after its end, it is not."""
    if (downtime.start is not None and now < downtime.start) or is_over(downtime, now):
        return False
    if downtime.period is None:
        return True
    period = periods.get(downtime.period)
    return period is not None and period.contains(now)


def is_over(downtime: Downtime, now: Instant) -> bool:
    """Will it never be active again?"""
    return downtime.end is not None and now >= downtime.end


def next_change(downtime: Downtime, periods: Mapping[str, CompiledPeriod], now: Instant) -> Instant:
    """When it may begin or end next, after now; FOREVER if it will not."""
    edges = [edge for edge in (downtime.start, downtime.end) if edge is not None and edge > now]
    if downtime.period is not None and downtime.period in periods and not is_over(downtime, now):
        edges.append(periods[downtime.period].state(now).until)
    return min(edges, default=FOREVER)


def selects(downtime: Downtime, name: str, owner: str, labels: Mapping[str, str]) -> bool:
    """Is this task one of those that it names, dependents apart?"""
    return (
        is_within_limit(downtime.limited_to, owner, labels)
        and downtime.owner in (None, owner)
        and all(labels.get(key) == value for key, value in downtime.labels.items())
        and (not downtime.names or any(name == one or matches_pattern(one, name) for one in downtime.names))
    )


def is_within_limit(limit: DowntimeLimit | None, owner: str, labels: Mapping[str, str]) -> bool:
    """Does a downtime with this limit reach such tasks at all?"""
    return limit is None or (
        limit.owner in (None, owner) and all(labels.get(key) == value for key, value in limit.labels.items())
    )


def downtimes_by_task(family: Mapping[str, Entry], active: Sequence[Downtime]) -> dict[str, list[Downtime]]:
    """Of these tasks, among which are all that they depend on, directly or not: the active downtimes that each is in,
    its own first. The rule is that of `DowntimeRows`, for a few tasks.
    """
    free = [downtime for downtime in active if _spreads_freely(downtime)]
    groups = [free, *([downtime] for downtime in active if downtime.dependents and downtime.limited_to is not None)]
    order = _parents_first(family)
    found: dict[str, dict[str, Downtime]] = {name: {} for name in order}
    for name in order:
        entry = family[name]
        found[name] |= {one.id: one for one in active if selects(one, name, entry.owner, entry.task.labels)}
    for group in groups:
        members = {downtime.id for downtime in group}
        spread: dict[str, dict[str, Downtime]] = {}
        for name in order if group else ():
            entry, task = family[name], family[name].task
            its = {id_: one for id_, one in found[name].items() if id_ in members}
            parents = [spread.get(parent, {}) for parent in task.depends]
            alternatives = [spread.get(parent, {}) for parent in task.depends_any]
            for ones in (*parents, *(alternatives if all(alternatives) else ())):
                its |= ones
            spread[name] = its
            if is_within_limit(group[0].limited_to, entry.owner, entry.task.labels):
                found[name] |= its
    return {name: list(ones.values()) for name, ones in found.items()}


def _parents_first(family: Mapping[str, Entry]) -> list[str]:
    """All names, each after those of the tasks that it depends on."""
    order: dict[str, None] = {}
    for first in family:
        path = [first]
        seen = {first}
        while path:
            task = family[path[-1]].task
            parents = (*task.depends, *task.depends_any)
            following = next((p for p in parents if p in family and p not in order and p not in seen), None)
            if following is None:
                order[path.pop()] = None
            else:
                seen.add(following)
                path.append(following)
    return list(order)


class _ForeignParent(NamedTuple):
    """A check of another node that tasks of this one depend on."""

    owner: str
    labels: Mapping[str, str]


class DowntimeRows:
    """Which tasks of a node are in an active downtime. Changes are collected; `settle` makes them true of the flags."""

    def __init__(
        self,
        columns: TaskColumns,
        names: NameIndex,
        labels: LabelIndex,
        reachability: Reachability,
        find_owner: Callable[[str], int | None],
    ) -> None:
        """`find_owner` knows the number of an owner, if one of the node's tasks has it."""
        self._columns = columns
        self._names = names
        self._labels = labels
        self._reachability = reachability
        self._find_owner = find_owner
        self._downtimes: Sequence[Downtime] = ()
        self._periods: Mapping[str, CompiledPeriod] = {}
        self._active: list[Downtime] = []
        self.next_change: Instant = FOREVER
        """When a downtime may begin or end next."""
        self._is_new = False
        self._defined: list[Ints] = []
        self._links_version = 0
        self._foreign: dict[str, _ForeignParent] = {}
        self._foreign_selected: set[str] = set()
        """Of checks of other nodes: those in a downtime that includes dependents."""
        self._has_other_selection = False

    # What changes

    def set(self, downtimes: Sequence[Downtime], periods: Mapping[str, CompiledPeriod]) -> None:
        """These are the downtimes from now on, and the periods that there are."""
        self._downtimes, self._periods = downtimes, periods
        self._is_new = True

    def define(self, rows: Ints) -> None:
        """Tasks came in or have other definitions."""
        if self._active and len(rows):
            self._defined.append(rows)

    def hand_over(self, rows: Ints) -> None:
        """Other nodes have these tasks now: until there is news of them, they are in downtime as they were."""
        c = self._columns
        its = rows[(c.downtime[rows] & _WITH_DEPENDENTS != 0) & (c.point[rows] >= 0)]
        self._foreign_selected.update(self._names.names(its))

    def define_foreign(self, entries: Mapping[str, Entry | None]) -> None:
        """Checks of other nodes have new definitions, or do not exist (None)."""
        for name, entry in entries.items():
            if entry is None and name not in self._foreign and name not in self._foreign_selected:
                continue
            self._foreign.pop(name, None)
            self._foreign_selected.discard(name)
            if entry is not None:
                self._foreign[name] = _ForeignParent(entry.owner, entry.task.labels)
            self._has_other_selection |= bool(self._active)
        self._select_foreign(entries)

    # What follows

    @property
    def active(self) -> Sequence[Downtime]:
        """Those that were active when it was last settled."""
        return self._active

    @property
    def is_settled(self) -> bool:
        """Are the flags as all that is known says, apart from what time changes?"""
        return not (self._is_new or self._has_other_selection or self._defined)

    def settle(self, now: Instant) -> Ints:
        """Make it true of the flags who is in downtime now, once reachability is settled. Returns the rows for which
        that has changed.
        """
        if self._is_new or now >= self.next_change:
            self._activate(now)
        elif self._defined:
            rows = np.unique(np.concatenate(self._defined))
            self._select(rows[self._columns.used[rows]], self._active)
        self._defined = []
        version = self._reachability.version
        if not self._has_other_selection and (version == self._links_version or not self._active):
            self._links_version = version
            return _NO_ROWS
        self._links_version = version
        self._has_other_selection = False
        return self._mark()

    def clock_was_set(self) -> None:
        """The clock was set: what is active may be other downtimes."""
        self._is_new = True

    def _activate(self, now: Instant) -> None:
        self._is_new = False
        active = [downtime for downtime in self._downtimes if is_active(downtime, self._periods, now)]
        edges = (next_change(downtime, self._periods, now) for downtime in self._downtimes)
        self.next_change = min(edges, default=FOREVER)
        if active == self._active and not self._defined:
            return
        only_begun = not self._defined and all(downtime in active for downtime in self._active)
        begun = [downtime for downtime in active if downtime not in self._active] if only_begun else active
        self._active = active
        self._select(np.flatnonzero(self._columns.used), begun, keep=only_begun)
        known = self._reachability.foreign_parents()
        self._foreign = {name: parent for name, parent in self._foreign.items() if name in known}
        self._foreign_selected &= known.keys() if active else set()
        self._select_foreign(self._foreign)
        self._has_other_selection = True

    def _select(self, rows: Ints, downtimes: Sequence[Downtime], *, keep: bool = False) -> None:
        """Set the column `downtime` of rows by these downtimes; with `keep`, what others have set stays."""
        c = self._columns
        rows = rows[c.flags[rows] & _REMOVED == 0]
        bits: Small = c.downtime.copy() if keep else np.zeros(len(c), dtype=np.uint8)
        asked = np.zeros(len(c), dtype=bool)
        asked[rows] = True
        for downtime in downtimes:
            bits[self._selected(downtime, rows, asked)] |= (
                _SELECTED | _WITH_DEPENDENTS if _spreads_freely(downtime) else _SELECTED
            )
        if (c.downtime[rows] != bits[rows]).any():
            c.downtime[rows] = bits[rows]
            self._has_other_selection = True

    def _selected(self, downtime: Downtime, rows: Ints, asked: Bools) -> Ints:
        """Of these rows, those that a downtime names itself; `asked` says the same by row."""
        if downtime.names:
            rows = self._named(downtime.names, rows, asked)
        rows = self._of(rows, downtime.owner, downtime.labels)
        limit = downtime.limited_to
        return rows if limit is None else self._of(rows, limit.owner, limit.labels)

    def _of(self, rows: Ints, owner: str | None, labels: Mapping[str, str]) -> Ints:
        """Of these rows, those of the owner and with the labels."""
        if owner is not None:
            number = self._find_owner(owner)
            rows = _NO_ROWS if number is None else rows[self._columns.owner[rows] == number]
        for key, value in labels.items():
            rows = rows[self._labels.have(rows, key, value)]
        return rows

    def _named(self, names: Sequence[str], rows: Ints, asked: Bools) -> Ints:
        exact = [row for name in names if not is_pattern(name) and (row := self._names.find(name)) is not None]
        found = np.array(exact, dtype=np.int64)
        return np.concatenate(
            [found[asked[found]], *(self._names.matching(name, rows) for name in names if is_pattern(name))]
        )

    def _select_foreign(self, names: Iterable[str]) -> None:
        including = [downtime for downtime in self._active if _spreads_freely(downtime)]
        for name in names:
            parent = self._foreign.get(name)
            if parent is None:
                continue
            self._foreign_selected.discard(name)
            if any(selects(downtime, name, *parent) for downtime in including):
                self._foreign_selected.add(name)

    def _mark(self) -> Ints:
        c = self._columns
        selected = np.flatnonzero(c.downtime)
        including = selected[c.downtime[selected] & _WITH_DEPENDENTS != 0]
        into = np.zeros(len(c), dtype=bool)
        into[selected] = True
        if self._active:
            into[self._reachability.rows_behind(including, self._foreign_selected)] = True
        for downtime in self._active:
            if downtime.dependents and downtime.limited_to is not None:
                into[self._behind(downtime, downtime.limited_to)] = True
        was = c.flags & _DOWNTIME != 0
        changed: Ints = np.flatnonzero(into != was)
        c.flags[changed[into[changed]]] |= _DOWNTIME
        c.flags[changed[was[changed]]] &= ALL_FLAGS ^ _DOWNTIME
        return changed

    def _behind(self, downtime: Downtime, limit: DowntimeLimit) -> Ints:
        """What depends on the tasks of a downtime, within its limit."""
        c = self._columns
        asked = c.used & (c.flags & _REMOVED == 0)
        rows = self._selected(downtime, np.flatnonzero(asked), asked)
        foreign = [name for name, parent in self._foreign.items() if selects(downtime, name, *parent)]
        return self._of(self._reachability.rows_behind(rows, foreign), limit.owner, limit.labels)


def _spreads_freely(downtime: Downtime) -> bool:
    """Does it include whatever depends on its tasks?"""
    return downtime.dependents and downtime.limited_to is None
