"""Holds: which open problems are told to nobody now, and why. One vectorised pass over the rows with an open problem.

Like `core.alerts` it compares what is with what was recorded, so it may be called at any time: `settle` once a second,
and after whatever changed problems, before alerts are decided. What it keeps beside the column `hold` is there only for
rows with an open problem, and for runs that are under way when something ends that held their tasks.

After a downtime, an unreachability, a pause or a stop of the node a *state* problem awaits a result of a run that began
after that end. The column `result_at` says when the run of the latest result began, so results need not be reported
here. Before a problem is told, the checks that its task depends on must have had a run that began after the problem
opened, and none of them may be SOFT; that is waited for at most PARENTS_LIMIT. So it is for checks of other nodes, too:
`foreign_asks` says which of them to ask those nodes for, and `Reachability` learns from the store what came of it. A
node that does not answer, or that is gone, holds nothing up for longer.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.alerts import Hold
from evenbeat.core.columns import Ints
from evenbeat.core.problems import Problems
from evenbeat.core.reachability import ForeignAsk, Reachability
from evenbeat.core.task import Bools, Flag, Small, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import MINUTE, SECOND, Cause, Instant, State
from evenbeat.when.windows import FOREVER, NEVER

PARENTS_LIMIT: Final = 5 * MINUTE
"""How long the parents of a task can hold its problem."""
ASK_AGAIN_AFTER: Final = 10 * SECOND
"""A parent is asked for a run at most this often, however many problems its dependents have one after the other."""
_CHECK: Final = int(Flag.CHECK)
_RUNNING: Final = int(Flag.RUNNING)
_ENABLED: Final = int(Flag.ENABLED)
_DOWNTIME: Final = int(Flag.DOWNTIME)
_REACHABLE: Final = int(Flag.REACHABLE)
_SKIPS_UNREACHABLE: Final = int(Flag.SKIPS_UNREACHABLE)
_NOTIFIES: Final = int(Flag.NOTIFIES)
_CAN_RUN: Final = int(Flag.ENABLED | Flag.PERMITTED)
_CANNOT_RUN: Final = int(Flag.NOTHING_TO_RUN | Flag.REMOVED | Flag.PASSIVE | Flag.POSTPONED)
"""Of tasks that run when somebody else says so, and of those that have nothing to run."""


class HoldUpdate(NamedTuple):
    """An open problem is held for another reason than before, or not any more."""

    row: int
    """Of the task."""
    cause: Cause
    opened: int
    hold: Hold
    at: int


class HeldRows(NamedTuple):
    """Rows with an open problem, in order, and what is known of each."""

    rows: Ints
    opened: Ints
    hold: Ints
    """As recorded."""
    needs_since: Ints
    """Needs the result of a run that began later; NEVER for any result."""
    needs_until: Ints
    """... or this time to pass."""
    parents_since: Ints
    """Needs runs of the parents that began later; NEVER while something else holds it."""

    def only(self, which: Bools | Ints) -> "HeldRows":
        return HeldRows(*(values[which] for values in self))


def _nothing_known(rows: Ints, opened: Ints) -> HeldRows:
    never = np.full(len(rows), NEVER, dtype=np.int64)
    return HeldRows(rows, opened, np.zeros(len(rows), dtype=np.int64), never, never.copy(), never.copy())


_NO_ROWS: Final[Ints] = np.empty(0, dtype=np.int64)


class Holds:
    """The holds of a node's open problems."""

    def __init__(
        self,
        columns: TaskColumns,
        problems: Problems,
        times: ScheduleTimes,
        reachability: Reachability,
        expected_by: Callable[[Ints], Ints],
    ) -> None:
        """`expected_by` says by when the next result of each row must be there; FOREVER where none is expected."""
        self._columns = columns
        self._problems = problems
        self._times = times
        self._reachability = reachability
        self._expected_by = expected_by
        self.held = _nothing_known(_NO_ROWS, _NO_ROWS)
        """What is known of the open problems, as of the last `settle`."""
        self.ended: dict[int, int] = {}
        """Rows whose run was under way when a downtime, unreachability, pause or stop of the node ended, and when."""
        self._just_ended: list[tuple[Ints, int]] = []
        """The same for all rows, since the last `settle`."""
        self.asked = (_NO_ROWS, _NO_ROWS)
        """Parents that were asked for a run lately, in order, and when."""
        self._wanted: list[Ints] = []
        self._foreign_asks: dict[str, ForeignAsk] = {}

    # What is heard

    def restore(self, rows: Ints, holds: Small, now: Instant) -> None:
        """These tasks came from a stop, or from another node, with open problems and recorded holds. Call it after
        `Problems.restore`. The latest results of checks are from before: fresh ones are needed.
        """
        order = np.argsort(rows, kind="stable")
        rows, holds = rows[order], holds[order]
        c = self._columns
        c.hold[rows] = holds
        came = _nothing_known(rows, c.problem_opened[rows])
        came.hold[:] = holds
        # Who was told of a problem before the stop is not kept waiting for its parents.
        came.parents_since[:] = np.where(holds == Hold.NONE, came.opened, NEVER)
        self._need_results(came, c.flags[rows] & _CHECK != 0, now)
        stays = ~np.isin(self.held.rows, rows)
        self.held = _joined(self.held.only(stays), came)

    def learn_ends(self, rows: Ints, now: Instant) -> None:
        """A downtime, unreachability, pause or stop of the node has ended for these tasks, whether they have a problem
        or not: the results of runs that are under way, or that came at the same time, are no fresh evidence.
        """
        running = rows[self._columns.flags[rows] & _RUNNING != 0]
        self.ended.update(dict.fromkeys(running.tolist(), int(now)))
        if len(rows):
            self._just_ended.append((rows, int(now)))

    def ask_for_other_node(self, rows: Ints, since: Ints, now: Instant) -> Bools:
        """Problems of another node wait for runs of these checks that began later: these are asked for once, however
        often the node asks. Returns which of them can be expected to run.
        """
        can_run = self._can_run(rows, now)
        lacking = can_run & (self._columns.result_at[rows] <= since)
        self._ask_parents(rows[lacking], since[lacking], now)
        return can_run

    # What follows

    def settle(self, now: Instant) -> list[HoldUpdate]:
        """The holds that have changed. The column `hold` has them all."""
        rows = self._problems.rows()
        if not len(rows) and not len(self.held.rows):
            self._forget_ended()
            return []
        held = self._followed(rows, now)
        self.held, c = held, self._columns
        found = self._holds_of(held, now)
        changed = np.flatnonzero(found != held.hold)
        held.hold[:] = found
        c.hold[rows] = found
        return [
            HoldUpdate(row, Cause.STATE if is_check else Cause.FAILED, opened, Hold(hold), int(now))
            for row, is_check, opened, hold in zip(
                rows[changed].tolist(),
                (c.flags[rows[changed]] & _CHECK != 0).tolist(),
                held.opened[changed].tolist(),
                found[changed].tolist(),
                strict=True,
            )
        ]

    def wanted_runs(self) -> Ints:
        """Rows of which one run off the grid is asked for, as soon as the pace allows; each is named once."""
        wanted, self._wanted = self._wanted, []
        rows = np.unique(np.concatenate(wanted)) if wanted else _NO_ROWS
        runs: Ints = rows[self._columns.used[rows]]
        return runs

    def foreign_asks(self) -> dict[str, ForeignAsk]:
        """Checks of other nodes, by name, that those are asked for runs of: again and again while one is needed, as an
        answer can be lost and a check can go to another node.
        """
        asks, self._foreign_asks = self._foreign_asks, {}
        return asks

    # How it is decided

    def _followed(self, rows: Ints, now: Instant) -> HeldRows:
        """What is known of the problems that are open now; those that have closed are forgotten."""
        c, before = self._columns, self.held
        opened = c.problem_opened[rows]
        if np.array_equal(rows, before.rows) and np.array_equal(opened, before.opened):
            self._forget_ended()
            return before
        places = np.searchsorted(before.rows, rows)
        known = np.zeros(len(rows), dtype=bool)
        inside = places < len(before.rows)
        known[inside] = (before.rows[places[inside]] == rows[inside]) & (
            before.opened[places[inside]] == opened[inside]
        )
        held = _nothing_known(rows, opened)
        for values, old in zip(held, before, strict=True):
            values[known] = old[places[known]]
        gone = before.rows[~np.isin(before.rows, rows)]
        c.hold[gone[gone < len(c)]] = Hold.NONE
        if self.ended or self._just_ended:
            self._need_results(held, ~known & self._is_old_evidence(rows), now)
        self._forget_ended()
        return held

    def _is_old_evidence(self, rows: Ints) -> Bools:
        """Is the latest result of each row that of a run which was under way when something ended?"""
        c = self._columns
        ended = np.array([self.ended.get(row, NEVER) for row in rows.tolist()], dtype=np.int64)
        for some, at in self._just_ended:
            ended[np.isin(rows, some)] = at
        old: Bools = (c.flags[rows] & _CHECK != 0) & (c.result_at[rows] <= ended)
        return old

    def _forget_ended(self) -> None:
        self._just_ended.clear()
        if self.ended:
            rows = np.array(list(self.ended), dtype=np.int64)
            for row in rows[self._columns.flags[rows] & _RUNNING == 0].tolist():
                del self.ended[row]

    def _need_results(self, held: HeldRows, which: Bools, now: Instant) -> None:
        """From now on these problems await fresh results. One run of each is asked for, if somebody is to be told."""
        if not which.any():
            return
        rows = held.rows[which]
        expected = self._expected_by(rows)
        held.needs_since[which] = now
        held.needs_until[which] = np.where(expected < FOREVER, expected, now + PARENTS_LIMIT)
        self._wanted.append(rows[self._can_run(rows, now) & self._notify(rows)])

    def _notify(self, rows: Ints) -> Bools:
        """Is somebody to be told of problems of these tasks? Nothing runs sooner for those of which nobody is."""
        notify: Bools = np.bitwise_and(self._columns.flags[rows], _NOTIFIES).astype(np.bool_)
        return notify

    def _can_run(self, rows: Ints, now: Instant) -> Bools:
        """May a run off the grid be expected to bring a result now?"""
        flags = self._columns.flags[rows]
        found: Bools = (flags & (_CAN_RUN | _CANNOT_RUN) == _CAN_RUN) & self._times.is_open(rows, now)
        found &= (flags & _REACHABLE != 0) | (flags & _SKIPS_UNREACHABLE == 0)
        return found

    def _holds_of(self, held: HeldRows, now: Instant) -> Small:
        rows, c = held.rows, self._columns
        flags = c.flags[rows]
        found = holds_by_flags(c, self._times, rows, now)
        ends_now = _needs_result_after(held.hold) & ~_needs_result_after(found)
        self._need_results(held, ends_now & (flags & _CHECK != 0), now)
        np.minimum(held.needs_since, now, out=held.needs_since)  # the clock may have been set back
        has_result = (c.result_at[rows] > held.needs_since) | (now >= held.needs_until)
        held.needs_since[has_result], held.needs_until[has_result] = NEVER, NEVER
        found[(found == Hold.NONE) & ~has_result] = Hold.AWAITING_RESULT
        self._check_parents(held, found, now)
        return found

    def _check_parents(self, held: HeldRows, found: Small, now: Instant) -> None:
        """Hold what nothing else holds while the parents of its task are checked."""
        free = found == Hold.NONE
        held.parents_since[~free] = NEVER
        begins = free & (held.parents_since == NEVER)
        held.parents_since[begins] = now
        np.minimum(held.parents_since, now, out=held.parents_since)
        some = np.flatnonzero(free & (now < held.parents_since + PARENTS_LIMIT))
        some = some[self._columns.point[held.rows[some]] >= 0]
        if len(some):
            self._check_parents_here(held, some, found, now)
            self._check_foreign_parents(held, some, found, now)

    def _check_foreign_parents(self, held: HeldRows, some: Ints, found: Small, now: Instant) -> None:
        child, point = self._reachability.foreign_parents_of(held.rows[some])
        if not len(child):
            return
        places = some[np.searchsorted(held.rows[some], child)]
        since = held.parents_since[places]
        lacks_run, is_soft = self._reachability.foreign_evidence(point, since)
        found[places[lacks_run | is_soft]] = Hold.CHECKING_PARENTS
        asks = lacks_run & self._notify(child)
        self._foreign_asks |= self._reachability.ask_foreign(point[asks], since[asks], now, ASK_AGAIN_AFTER)

    def _check_parents_here(self, held: HeldRows, some: Ints, found: Small, now: Instant) -> None:
        child, parent = self._reachability.parents_of(held.rows[some])
        if not len(child):
            return
        c = self._columns
        places = some[np.searchsorted(held.rows[some], child)]
        since = held.parents_since[places]
        lacks_run = self._can_run(parent, now) & (c.result_at[parent] <= since)
        is_soft = (c.flags[parent] & _ENABLED != 0) & ~c.hard[parent] & (c.state[parent] != State.OK)
        found[places[lacks_run | is_soft]] = Hold.CHECKING_PARENTS
        asks = lacks_run & self._notify(child)
        self._ask_parents(parent[asks], since[asks], now)

    def _ask_parents(self, parents: Ints, since: Ints, now: Instant) -> None:
        """Ask for runs that began after `since`, unless they were asked for since then or just before."""
        asked_rows, asked_at = self.asked
        lately = asked_at > now - PARENTS_LIMIT
        asked_rows, asked_at = asked_rows[lately], np.minimum(asked_at[lately], now)
        if len(parents):
            rows, which = np.unique(parents, return_inverse=True)
            latest = np.full(len(rows), NEVER, dtype=np.int64)
            np.maximum.at(latest, which, since)
            last = np.full(len(rows), NEVER, dtype=np.int64)
            places = np.searchsorted(asked_rows, rows)
            inside = places < len(asked_rows)
            inside[inside] = asked_rows[places[inside]] == rows[inside]
            last[inside] = asked_at[places[inside]]
            asks = rows[(last < latest) & (last <= now - ASK_AGAIN_AFTER)]
            self._wanted.append(asks)
            stays = ~np.isin(asked_rows, asks)
            asked_rows = np.concatenate((asked_rows[stays], asks))
            asked_at = np.concatenate((asked_at[stays], np.full(len(asks), now, dtype=np.int64)))
            order = np.argsort(asked_rows, kind="stable")
            asked_rows, asked_at = asked_rows[order], asked_at[order]
        self.asked = asked_rows, asked_at


def holds_by_flags(columns: TaskColumns, times: ScheduleTimes, rows: Ints, now: Instant) -> Small:
    """What holds the problems of these tasks, of whatever cause, as long as it lasts."""
    flags = columns.flags[rows]
    found = np.full(len(rows), Hold.NONE, dtype=np.uint8)
    # The last that is set counts.
    found[~times.is_open(rows, now)] = Hold.OUTSIDE_PERIOD
    found[flags & _ENABLED == 0] = Hold.PAUSED
    found[flags & _REACHABLE == 0] = Hold.UNREACHABLE
    found[flags & _DOWNTIME != 0] = Hold.DOWNTIME
    return found


def _needs_result_after(hold: Ints | Small) -> Bools:
    """Is a fresh result needed when such a hold ends?"""
    found: Bools = (hold == Hold.DOWNTIME) | (hold == Hold.UNREACHABLE) | (hold == Hold.PAUSED)
    return found


def _joined(some: HeldRows, more: HeldRows) -> HeldRows:
    both = HeldRows(*(np.concatenate((one, other)) for one, other in zip(some, more, strict=True)))
    return both.only(np.argsort(both.rows, kind="stable"))
