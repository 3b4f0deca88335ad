"""Reachability: which tasks depend on which checks, and which are unreachable because of that.

A check is not fine while it is HARD and CRITICAL or UNKNOWN, and while it is unreachable itself. The state of a check
that is paused, disabled or stale does not count, nor does that of one that has never run. A task is unreachable if one
of the checks in `depends` is not fine, or if all of those in `depends_any` are not. That is derived, never stored.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Column, Columns, Ints
from evenbeat.core.task import ALL_FLAGS, Bools, Flag, TaskColumns
from evenbeat.model import Entry, Instant, State, Task
from evenbeat.when.windows import NEVER

_CHECK_AND_ENABLED: Final = int(Flag.CHECK | Flag.ENABLED)
_REACHABLE: Final = int(Flag.REACHABLE)
_NO_ROWS: Final[Ints] = np.empty(0, dtype=np.int64)


def is_failing(task: Task, state: State | None, *, hard: bool) -> bool:
    """Is a check not fine by its own state? `state` is None for a check that has never run."""
    return fails(is_check=task.check, is_off=task.paused or not task.enabled, state=state, hard=hard)


def fails(*, is_check: bool, is_off: bool, state: int | None, hard: bool) -> bool:
    """`is_failing`, by what counts of the definition."""
    return is_check and not is_off and hard and state in (State.CRITICAL, State.UNKNOWN)


def unreachable_names(tasks: Iterable[Task], failing: Collection[str]) -> set[str]:
    """Of these tasks, among which are all their ancestors: the names of those that are unreachable. `failing` names
    the checks that are not fine by their own states.
    """
    numbers: dict[str, int] = {}
    links = [
        (numbers.setdefault(task.name, len(numbers)), numbers.setdefault(parent, len(numbers)), is_any)
        for task in tasks
        for parent, is_any in _parents_of(task)
    ]
    unreachable = spread_unreachable(Links.of(links), np.array([name in failing for name in numbers], dtype=bool))
    return {name for name, found in zip(numbers, unreachable.tolist(), strict=True) if found}


def not_fine_parents(task: Task, not_fine: Collection[str]) -> tuple[str, ...]:
    """The checks through which a task is unreachable, of those that it depends on; empty if it is reachable."""
    through = [name for name in task.depends if name in not_fine]
    if all(name in not_fine for name in task.depends_any):
        through += (name for name in task.depends_any if name not in through)
    return tuple(through)


class Links(NamedTuple):
    """Tasks depend on checks: the numbers of both, and whether one fine check of this kind is enough for the task."""

    child: NDArray[np.int32]
    parent: NDArray[np.int32]
    is_any: Bools

    @staticmethod
    def of(links: Sequence[tuple[int, int, bool]]) -> "Links":
        child, parent, is_any = zip(*links, strict=True) if links else ((), (), ())
        return Links(np.array(child, np.int32), np.array(parent, np.int32), np.array(is_any, bool))

    def only(self, which: Bools) -> "Links":
        """Some of them."""
        return Links(self.child[which], self.parent[which], self.is_any[which])

    def joined(self, more: "Links") -> "Links":
        """These and more."""
        join = np.concatenate
        return Links(join((self.child, more.child)), join((self.parent, more.parent)), join((self.is_any, more.is_any)))


def spread_unreachable(links: Links, failing: Bools) -> Bools:
    """By number: what is unreachable if this fails. One pass for each level of the graph."""
    unreachable = np.zeros(len(failing), dtype=bool)
    if not failing.any():
        return unreachable
    of_all, of_any = links.only(~links.is_any), links.only(links.is_any)
    number = np.bincount(of_any.child, minlength=len(failing))
    for _ in failing:  # a graph has no more levels than points
        bad = failing | unreachable
        found = np.zeros(len(failing), dtype=bool)
        if len(of_any.child):
            bad_number = np.bincount(of_any.child[bad[of_any.parent]], minlength=len(failing))
            found |= (number > 0) & (bad_number == number)
        found[of_all.child[bad[of_all.parent]]] = True
        if (found == unreachable).all():
            break
        unreachable = found
    return unreachable


def _parents_of(task: Task) -> Iterator[tuple[str, bool]]:
    """The checks that a task depends on, and whether one of them is enough."""
    for name in task.depends:
        yield name, False
    for name in task.depends_any:
        yield name, True


class ForeignResult(NamedTuple):
    """What is known of the latest result of another node's check."""

    at: int
    """When its run began."""
    is_soft: bool
    is_off: bool
    """No result is to be expected: it is paused, disabled, or no check."""


class ForeignAsk(NamedTuple):
    """Another node is asked to run a check of its own."""

    number: int
    """Of the task."""
    since: int
    """The run must begin later."""
    at: int
    """When it is asked."""


class _PointColumns(Columns):
    """The points of the graph: tasks that depend on checks, and these checks."""

    row = Column(np.int64, -1)
    """Of the task, if it is one of this node."""
    is_parent = Column(np.bool_, default=False)
    failing = Column(np.bool_, default=False)
    """Of parents: they are not fine by their own states ..."""
    stale = Column(np.bool_, default=False)
    """... but nobody knows whether that is still so: a newer result is overdue. Only true of those that fail."""
    # Of checks of other nodes
    is_heard_of = Column(np.bool_, default=False)
    result_at = Column(np.int64, NEVER)
    is_soft = Column(np.bool_, default=False)
    is_off = Column(np.bool_, default=False)
    asked_at = Column(np.int64, NEVER)
    """When its node was asked for a run last ..."""
    excused_at = Column(np.int64, NEVER)
    """... and the latest such time at which that node said that the check cannot run."""


def _none_is_stale(rows: Ints) -> Bools:
    return np.zeros(len(rows), dtype=bool)


class Reachability:
    """The dependencies of a node's tasks. Changes are collected; `settle` makes them true of the flags of rows.

    A check that tasks depend on is known by its name: it may come later, leave, or be another node's.
    """

    def __init__(self, columns: TaskColumns, find_row: Callable[[str], int | None]) -> None:
        """`find_row` knows the row of a task by its name."""
        self._columns = columns
        self._find_row = find_row
        self._points = _PointColumns()
        self._links = Links.of([])
        self._new_links: list[tuple[int, int, bool]] = []
        self._parents: dict[str, int] = {}
        """The point of each check that tasks depend on."""
        self._names: dict[int, str] = {}
        """The other way round."""
        self._foreign: dict[int, tuple[int, int]] = {}
        """Of points of other nodes' checks whose definitions are known: number of the task and version."""
        self._has_other_links = False
        self._has_other_states = False
        self.has_other_nodes = False
        """May a check that is not here be another node's? Then nothing is known of it until that is heard."""
        self.version = 0
        """Counts how often who depends on what has changed."""
        self._without_links: list[Ints] = []
        """Rows that were unreachable and have no point any more, since `settle`."""

    # Tasks come, change and go

    def define(self, rows: Ints, tasks: Sequence[Task]) -> None:
        """Tasks came in or have new definitions, maybe new names: these count."""
        left = self._detach(rows)
        if self._parents:
            found = [(self._parents.get(task.name, -1), row) for task, row in zip(tasks, rows.tolist(), strict=True)]
            points, those = np.array([pair for pair in found if pair[0] >= 0], dtype=np.int64).reshape(-1, 2).T
            self._attach(points, those)
            self._unlink(points)
        if len(left):
            self._clear(left[self._points.row[left] < 0])
        its = [i for i, task in enumerate(tasks) if task.depends or task.depends_any]
        if its:
            self._link(self._points_of(rows[its]).tolist(), [tasks[i] for i in its])

    def forget(self, rows: Ints) -> None:
        """Tasks are removed: what depends on them is no worse for it."""
        self._clear(self._detach(rows))

    def hand_over(self, rows: Ints) -> None:
        """Other nodes have these tasks now: what depends on them here goes by what is known, until there is news."""
        self._detach(rows)

    def _detach(self, rows: Ints) -> Ints:
        """These rows have no points any more. Returns those that they had."""
        c, points = self._columns, self._columns.point[rows].astype(np.int64)
        if not (points >= 0).any():
            return _NO_ROWS
        some, points = rows[points >= 0], points[points >= 0]
        self._points.row[points] = -1
        self._points.stale[points] = False
        c.point[some] = -1
        self._without_links.append(some[c.flags[some] & _REACHABLE == 0])
        self._has_other_links = True
        return points

    def _attach(self, points: Ints, rows: Ints) -> None:
        self._points.row[points] = rows
        self._columns.point[rows] = points
        for point in points.tolist() if self._foreign else ():
            self._foreign.pop(point, None)
        self._points.is_heard_of[points] = False
        self._has_other_links |= bool(len(points))

    def _clear(self, points: Ints) -> None:
        """There is no task at these points any more."""
        self._points.failing[points] = False
        self._unlink(points[self._points.is_parent[points]])

    def _unlink(self, points: Ints) -> None:
        """The tasks at these points depend on nothing, until they are linked anew. For a point that nothing depends on
        that is not needed: it is dropped by `settle`, with its links, once its row has another one.
        """
        if not len(points):
            return
        self._take_in_new_links()
        going = np.zeros(len(self._points), dtype=bool)
        going[points] = True
        going = going[self._links.child]
        if going.any():
            self._links = self._links.only(~going)
            self._has_other_links = True

    def _points_of(self, rows: Ints) -> Ints:
        """The points of rows; those without one get one."""
        c = self._columns
        new = rows[c.point[rows] < 0]
        self._attach(self._points.allocate(len(new)), new)
        return c.point[rows].astype(np.int64)

    def _link(self, children: Sequence[int], tasks: Sequence[Task]) -> None:
        """The tasks at these points have these definitions."""
        self._know_parents({name for task in tasks for name, _ in _parents_of(task) if name not in self._parents})
        self._new_links += [
            (child, self._parents[name], is_any)
            for child, task in zip(children, tasks, strict=True)
            for name, is_any in _parents_of(task)
        ]
        self._has_other_links |= bool(self._new_links)

    def _know_parents(self, names: Collection[str]) -> None:
        found = {name: self._find_row(name) for name in names}
        here = {name: row for name, row in found.items() if row is not None}
        elsewhere = [name for name, row in found.items() if row is None]
        points = self._points_of(np.array(list(here.values()), dtype=np.int64)).tolist()
        points += self._points.allocate(len(elsewhere)).tolist()
        self._points.is_parent[points] = True
        self._parents.update(zip((*here, *elsewhere), points, strict=True))
        self._names.update(zip(points, (*here, *elsewhere), strict=True))

    def _take_in_new_links(self) -> None:
        if self._new_links:
            self._links = self._links.joined(Links.of(self._new_links))
            self._new_links = []

    # Checks of other nodes

    def foreign_parents(self) -> dict[str, tuple[int, int] | None]:
        """The checks that tasks of this node depend on, directly or not, and that are not this node's: of each the
        number and version of its definition, if that is known.
        """
        points = np.flatnonzero(self._points.is_parent & (self._points.row < 0))
        return {self._names[point]: self._foreign.get(point) for point in points.tolist()}

    def define_foreign(self, entries: Mapping[str, Entry | None]) -> None:
        """Checks of other nodes have new definitions, or do not exist (None)."""
        found = {point: entries[name] for name, point in self._foreign_points(entries).items()}
        self._unlink(np.array(list(found), dtype=np.int64))
        missing = np.array([point for point, entry in found.items() if entry is None], dtype=np.int64)
        self._set_failing(missing, np.zeros(len(missing), dtype=bool))
        for point in missing.tolist():
            self._foreign.pop(point, None)
        defined = {point: entry for point, entry in found.items() if entry is not None}
        self._foreign.update((point, (entry.number, entry.version)) for point, entry in defined.items())
        self._link(list(defined), [entry.task for entry in defined.values()])

    def learn_foreign(self, failing: Mapping[str, bool]) -> None:
        """Whether checks of other nodes are not fine by their own states."""
        found = self._foreign_points(failing)
        self._set_failing(np.array(list(found.values()), dtype=np.int64), np.array([failing[n] for n in found], bool))

    def learn_foreign_results(self, results: Mapping[str, ForeignResult | None]) -> None:
        """The latest results of checks of other nodes; None for checks that do not exist."""
        points = self._points
        for name, point in self._foreign_points(results).items():
            result = results[name]
            if result is None:
                points.asked_at[point] = points.excused_at[point] = NEVER
                result = ForeignResult(NEVER, is_soft=False, is_off=True)
            points.is_heard_of[point] = True
            points.result_at[point], points.is_soft[point], points.is_off[point] = result

    def learn_unable(self, asks: Mapping[str, ForeignAsk]) -> None:
        """Other nodes said, when asked, that these checks cannot run."""
        for name, point in self._foreign_points(asks).items():
            self._points.excused_at[point] = asks[name].at

    def foreign_evidence(self, points: Ints, since: Ints) -> tuple[Bools, Bools]:
        """Of checks of other nodes: does each lack a run that began after a time, and is it SOFT?"""
        p = self._points
        is_known, is_off = p.is_heard_of[points], p.is_off[points]
        may_run = np.where(is_known, ~is_off & (p.excused_at[points] < since), self.has_other_nodes)
        lacks: Bools = may_run & (~is_known | (p.result_at[points] <= since))
        soft: Bools = is_known & ~is_off & p.is_soft[points]
        return lacks, soft

    def ask_foreign(self, points: Ints, since: Ints, now: Instant, pause: int) -> dict[str, ForeignAsk]:
        """Those of these checks, by name, that other nodes are to be asked for now: each again after a pause."""
        asked_at = self._points.asked_at
        due = np.minimum(asked_at[points], now) <= now - pause
        some, which = np.unique(points[due], return_inverse=True)
        latest = np.full(len(some), NEVER, dtype=np.int64)
        np.maximum.at(latest, which, since[due])
        asks = {
            self._names[point]: ForeignAsk(self._foreign[point][0], after, int(now))
            for point, after in zip(some.tolist(), latest.tolist(), strict=True)
            if point in self._foreign
        }
        asked_at[[self._parents[name] for name in asks]] = now
        return asks

    def _foreign_points(self, names: Iterable[str]) -> dict[str, int]:
        known = {name: self._parents[name] for name in names if name in self._parents}
        return {name: point for name, point in known.items() if self._points.row[point] < 0}

    # What follows

    @property
    def is_settled(self) -> bool:
        """Are the flags of rows as all that is known says?"""
        return not (self._has_other_links or self._has_other_states)

    def learn_results(self, rows: Ints) -> None:
        """Tasks had results, and their states are known."""
        if not self._parents:
            return
        points = self._columns.point[rows].astype(np.int64)
        its = np.flatnonzero(points >= 0)
        its = its[self._points.is_parent[points[its]]]
        if len(its):
            self._set_failing(points[its], self._are_failing(rows[its]))

    def refresh(self) -> None:
        """States of tasks were set otherwise than by results."""
        self._has_other_links |= bool(self._parents)

    def _are_failing(self, rows: Ints) -> Bools:
        """`is_failing`, for columns. A check that has never run is OK there."""
        c, state = self._columns, self._columns.state[rows]
        is_on = c.flags[rows] & _CHECK_AND_ENABLED == _CHECK_AND_ENABLED
        failing: Bools = is_on & c.hard[rows] & ((state == State.CRITICAL) | (state == State.UNKNOWN))
        return failing

    def _set_failing(self, points: Ints, failing: Bools) -> None:
        if (self._points.failing[points] != failing).any():
            self._points.failing[points] = failing
            self._points.stale[points] &= failing
            self._has_other_states = True

    def parent_rows(self) -> Ints:
        """The checks of this node that tasks depend on."""
        points = self._points
        return points.row[np.flatnonzero(points.is_parent & (points.row >= 0))]

    def settle(self, are_stale: Callable[[Ints], Bools] = _none_is_stale) -> Ints:
        """Make what has changed true of the flags. Returns the rows that are reachable again.

        `are_stale` says of rows of checks whether a result is overdue; it is only asked about those that fail.
        """
        points, c = self._points, self._columns
        if self._has_other_links:
            self.version += 1
            self._take_in_new_links()
            self._drop_unneeded()
            parents = np.flatnonzero(points.is_parent & (points.row >= 0))
            points.failing[parents] = self._are_failing(points.row[parents])
        if points.failing.any():
            self._look_for_stale(are_stale)
        if self.is_settled:
            return _NO_ROWS
        self._has_other_links = self._has_other_states = False
        here = np.flatnonzero(points.row >= 0)
        unreachable = spread_unreachable(self._links, points.failing & ~points.stale)[here]
        rows = points.row[here]
        was_off = np.concatenate((*self._without_links, rows[c.flags[rows] & _REACHABLE == 0]))
        self._without_links = []
        c.flags[was_off] |= _REACHABLE
        c.flags[rows[unreachable]] &= ALL_FLAGS ^ _REACHABLE
        reachable: Ints = was_off[c.used[was_off] & (c.flags[was_off] & _REACHABLE != 0)]
        return reachable

    def parents_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """The checks of this node that some rows depend on directly: the row of the task and that of the check, of each
        such pair; once settled.
        """
        child, point = self._direct_parents(rows)
        parent = self._points.row[point]
        return child[parent >= 0], parent[parent >= 0]

    def foreign_parents_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """The same for checks of other nodes: the row of the task, and what `foreign_evidence` knows the check by."""
        child, point = self._direct_parents(rows)
        is_foreign = self._points.row[point] < 0
        return child[is_foreign], point[is_foreign]

    def _direct_parents(self, rows: Ints) -> tuple[Ints, Ints]:
        points = self._columns.point[rows].astype(np.int64)
        asked = np.zeros(len(self._points), dtype=bool)
        asked[points[points >= 0]] = True
        links = self._links.only(asked[self._links.child])
        return self._points.row[links.child], links.parent.astype(np.int64)

    def rows_behind(self, rows: Ints, foreign: Collection[str]) -> Ints:
        """Rows that would be unreachable if these, and these checks of other nodes, were not fine; once settled."""
        its = self._columns.point[rows].astype(np.int64)
        failing = np.zeros(len(self._points), dtype=bool)
        failing[its[its >= 0]] = True
        failing[list(self._foreign_points(foreign).values())] = True
        found: Ints = self._points.row[spread_unreachable(self._links, failing)]
        return found[found >= 0]

    def _look_for_stale(self, are_stale: Callable[[Ints], Bools]) -> None:
        points = self._points
        failing = np.flatnonzero(points.failing & (points.row >= 0))
        stale = are_stale(points.row[failing])
        if (points.stale[failing] != stale).any():
            points.stale[failing] = stale
            self._has_other_states = True

    def _drop_unneeded(self) -> None:
        """Drop points that are neither a task of this node nor a parent, and those that nothing is linked to."""
        points = self._points
        is_parent = points.is_parent.copy()
        for _ in range(len(points)):  # a parent that goes takes its own parents along
            is_parent = np.zeros(len(points), dtype=bool)
            is_parent[self._links.parent] = True
            needed = ((points.row >= 0) | is_parent)[self._links.child]
            if needed.all():
                break
            self._links = self._links.only(needed)
        for point in np.flatnonzero(points.is_parent & ~is_parent).tolist():
            del self._parents[self._names.pop(point)]
            self._foreign.pop(point, None)
        points.is_parent[:] = is_parent
        points.failing[~is_parent] = False
        points.stale[~points.failing] = False
        is_linked = is_parent
        is_linked[self._links.child] = True
        going = np.flatnonzero(points.used & ~is_linked)
        rows = points.row[going]
        rows = rows[rows >= 0]
        self._without_links.append(rows[self._columns.flags[rows] & _REACHABLE == 0])
        self._columns.point[rows] = -1
        points.free(going)
