"""The life of tasks: arrive, be verified, execute, complete, and be due again; forced, postponed, removed, held back.

Time and results come in, claims and skips come out. Every nominal time is accounted for exactly once: it is the
nominal of a claim, or within a skip that names the reason. Stops are in `missed_times`, clock changes in `clock_steps`.
"""

from typing import Final

import numpy as np

from evenbeat.core.check_states import CheckStates, apply_results, retry_after_opening, retry_due, wants_retry
from evenbeat.core.columns import Ints
from evenbeat.core.first_run_pace import OffGridPace
from evenbeat.core.gate import PRIORITY_STEP, REASONS, Arrivals, GateAction, Reason, split_front, verify
from evenbeat.core.retries import Retries
from evenbeat.core.task import (
    ALL_FLAGS,
    Bools,
    ClaimColumns,
    Flag,
    Flags,
    RefusedRuns,
    ReleaseResult,
    SkipColumns,
    Small,
    TaskColumns,
    tolerance_of,
)
from evenbeat.core.times import Times
from evenbeat.core.timetable import Timetable
from evenbeat.model import SECOND, Instant, RunKind
from evenbeat.when.windows import FOREVER, NEVER

MOST_LIMITS: Final = 32_767


# Plain numbers for the hot path: enums are slow to ask.
_ENABLED: Final = int(Flag.ENABLED)
_MINE: Final = int(Flag.MINE)
_REACHABLE: Final = int(Flag.REACHABLE)
_PERMITTED: Final = int(Flag.PERMITTED)
_SKIPS_UNREACHABLE: Final = int(Flag.SKIPS_UNREACHABLE)
_REACHABLE_OR_SKIPS: Final = _REACHABLE | _SKIPS_UNREACHABLE
_EACH: Final = int(Flag.EACH)
_FORCED: Final = int(Flag.FORCED)
_RUNNING: Final = int(Flag.RUNNING)
_REMOVED: Final = int(Flag.REMOVED)
_CATCHING_UP: Final = int(Flag.CATCHING_UP)
_QUEUES: Final = int(Flag.EACH | Flag.CATCHING_UP)
"""Nominal times that pass during a run of these tasks are not merged: they wait for its end."""
_CHECK: Final = int(Flag.CHECK)
_PASSIVE: Final = int(Flag.PASSIVE)
_POSTPONED: Final = int(Flag.POSTPONED)
_CHAINED: Final = int(Flag.CHAINED)
_OFF_GRID_ONLY: Final = int(Flag.CATCHING_UP | Flag.PASSIVE | Flag.POSTPONED)
"""Tasks that arrive when their off-grid run is due, whatever their nominal time."""
_NOT_IN_TIMETABLE: Final = int(Flag.WAITING | Flag.REMOVED | Flag.NOTHING_TO_RUN | Flag.LEAVING)
_SPECIAL: Final = _QUEUES | _FORCED | _PASSIVE | _POSTPONED | _CHAINED | _NOT_IN_TIMETABLE
"""Tasks that are not simply due at the earlier of nominal time and off-grid run."""
_RUNNABLE: Final = _ENABLED | _MINE | _REACHABLE | _PERMITTED
_NEEDS_VERIFICATION: Final = _RUNNABLE | _RUNNING | _SPECIAL


OWED: Final[Bools] = np.isin(np.arange(len(RunKind)), (RunKind.FIRST, RunKind.CATCH_UP, RunKind.RETRY))
"""By kind of run: does it stay owed while its task is disabled? Runs of other kinds are refused then."""
_PERIOD_CLOSED: Final = REASONS.index(Reason.PERIOD_CLOSED)
_DISABLED: Final = REASONS.index(Reason.DISABLED)
_TOO_SOON: Final = REASONS.index(Reason.TOO_SOON)
_GRID: Final = np.uint8(RunKind.GRID)
_FORCED_KIND: Final = np.uint8(RunKind.FORCED)
_FIRST: Final = np.uint8(RunKind.FIRST)
_CATCH_UP: Final = np.uint8(RunKind.CATCH_UP)
_CHAIN: Final = np.uint8(RunKind.CHAIN)


def _merged(one: ReleaseResult, two: ReleaseResult) -> ReleaseResult:
    a, b, r, s = one.claims, two.claims, one.refused, two.refused
    join = np.concatenate
    claims = ClaimColumns(join((a.rows, b.rows)), join((a.nominal, b.nominal)), join((a.kind, b.kind)))
    due, kind = join((r.due, s.due)), join((r.kind, s.kind))
    refused = RefusedRuns(join((r.rows, s.rows)), due, kind, join((r.reason, s.reason)))
    return ReleaseResult(claims, one.skips + two.skips, refused, join((one.moved, two.moved)))


_QUEUE_FRONT_SIZE: Final = 128
"""Of a long queue this many tasks are verified, and two more for each free slot, as some of them will be skipped."""
_NO_ROWS: Final[Ints] = np.empty(0, dtype=np.int64)
_NONE: Final[Small] = np.empty(0, dtype=np.uint8)
_NONE_REFUSED: Final = RefusedRuns(_NO_ROWS, _NO_ROWS, _NONE, _NONE)


class Lifecycle:
    """All tasks of a node, which of them are idle or pending, and what each event does to them.

    After `slots` or a limit were set, the caller releases, so that waiting tasks are verified. The caller also sets
    `pace.mean_rate` to what the interval grids start per second.
    """

    def __init__(
        self, columns: TaskColumns, timetable: Timetable, times: Times, slots: int, *, generation: int = 0
    ) -> None:
        self.columns = columns
        self.timetable = timetable
        self.times = times
        self.slots = slots
        self.pace = OffGridPace()
        self.retries = Retries(columns)
        self.generation = generation
        """The generation of the clock: it is part of the identity of nominal times."""
        self.idle = 0
        self.pending = 0
        self.limits: Ints = np.array([MOST_LIMITS], dtype=np.int64)
        self.pending_by_limit: Ints = np.zeros(1, dtype=np.int64)
        self.front = _QUEUE_FRONT_SIZE
        self.waiting: Ints = _NO_ROWS
        """Rows with Flag.WAITING: not in the timetable until they may run or are skipped."""
        self.waits_for: Small = _NONE
        """By row, for waiting rows: the reason, as the gate last decided (in REASONS). Empty until a row waits."""
        self.has_chains = False
        """Is any task, or was one, due by what becomes of others?"""
        self.pauses: dict[int, tuple[int, int]] = {}
        """Start and end of the pause of rows that owed runs for several nominal times when it began. Nominal times
        within the pause are accounted for, earlier ones still owed. While a pause lasts, its end is FOREVER.
        """

    # Tasks come, change and go

    def add_new(self, rows: Ints, now: Instant) -> None:
        """New tasks, whose columns are filled in, enter the timetable: each is idle until its first nominal time."""
        self.idle += len(rows)
        self.account(rows, now)
        self._set_due(rows)

    def begin(self, rows: Ints, now: Instant) -> None:
        """New tasks enter the timetable, and checks that are due by time also have a first run soon, unless passive."""
        self.add_new(rows, now)
        self.plan_first_runs(rows[self.columns.flags[rows] & (_CHECK | _PASSIVE | _CHAINED) == _CHECK], now)

    def add_restored(self, rows: Ints, now: Instant, running: Ints = _NO_ROWS) -> None:
        """Tasks from before a stop, or of another node, enter the timetable again: what is accounted for is as it was,
        and their current schedules say what comes next. Runs of `running` go on, and their ends come to this node.
        """
        c = self.columns
        self.idle += len(rows)
        c.nominal[rows] = self.times.next_after_each(rows, c.accounted[rows])
        self._skip_pauses(rows)
        self.set_flag(running, Flag.RUNNING, on=True)
        self._count_pending(running, 1)
        self._set_due(rows)
        planned = c.off_grid_due[rows[self.is_paced(rows)]]
        self.pace.add_planned(planned[planned > now])

    def account(self, rows: Ints, t: Instant) -> None:
        """Every nominal time up to `t` is accounted for: the first one after it comes next."""
        c = self.columns
        c.accounted[rows] = t
        c.nominal[rows] = self.times.next_after(rows, t)
        if self.times.any_moves:
            # Without an execution a grid does not move: it goes on where the rule leads, and that follows from this.
            some = rows[c.has_moving_grid[rows] & (c.nominal[rows] < FOREVER)]
            c.accounted[some] = c.nominal[some] - c.every[some]
        self._skip_pauses(rows)

    def _skip_pauses(self, rows: Ints) -> None:
        """Rows whose next nominal time lies in their pause go on after it."""
        if not self.pauses:
            return
        c = self.columns
        for row in [row for row in rows.tolist() if row in self.pauses]:
            since, until = self.pauses[row]
            if c.nominal[row] <= since or until == FOREVER:
                continue
            del self.pauses[row]
            if c.accounted[row] < until:
                self.account(np.array([row], dtype=np.int64), Instant(until))

    def _free(self, rows: Ints) -> None:
        for row in rows.tolist() if self.pauses else ():
            self.pauses.pop(row, None)
        self.retries.forget(rows)
        self.columns.free(rows)

    def prepare_hand_over(self, rows: Ints) -> None:
        """Another node will have these tasks: nothing more of them is released, and running ones may still end here."""
        self.set_flag(rows, Flag.LEAVING, on=True)
        self.reset_due(rows)

    def hand_over(self, rows: Ints) -> None:
        """These tasks go to another node as they are, running ones too: it accounts for them."""
        self._count_pending(rows[self._has_flag(rows, Flag.RUNNING)], -1)
        self.idle -= len(rows)
        self._free(rows)
        self.waiting = self.waiting[self._has_flag(self.waiting, Flag.WAITING)]

    def plan_first_runs(self, rows: Ints, now: Instant) -> None:
        """New checks get one run soon, evenly spread, unless their grid comes first or their period is closed."""
        c = self.columns
        new = rows[(c.nominal[rows] > now) & self.times.is_open(rows, now)]
        c.off_grid_due[new] = self.off_grid_times(new, now)
        c.off_grid_kind[new] = RunKind.FIRST
        self._set_due(new)

    def postpone_until(self, row: int, t: Instant, now: Instant) -> list[SkipColumns]:
        """Run exactly at `t`, not before, and follow the schedule after it. Results count from then on, too."""
        rows, t = np.array([row], dtype=np.int64), max(t, now)
        self.retries.give_up(rows)
        is_passive = bool(self.columns.flags[row] & _PASSIVE)
        skips = self.skip_until(rows, t if is_passive else now, Reason.POSTPONED)
        self.set_flag(rows, Flag.CATCHING_UP, on=False)
        self.set_flag(rows, Flag.POSTPONED, on=not is_passive)
        self.columns.off_grid_due[row] = t
        self.columns.off_grid_kind[row] = RunKind.START_AT
        self.reset_due(rows)
        return skips

    def end_postponement(self, rows: Ints) -> list[SkipColumns]:
        """The start that rows were postponed to has come: their nominal times before it are skipped."""
        c, skips = self.columns, []
        postponed = rows[self._has_flag(rows, Flag.POSTPONED)]
        self.set_flag(postponed, Flag.POSTPONED, on=False)
        for i, start in enumerate(c.off_grid_due[postponed].tolist()):
            skips += self.skip_until(postponed[i : i + 1], Instant(start), Reason.POSTPONED)
        return skips

    def trigger_node_event(self, rows: Ints, now: Instant) -> None:
        """Tasks with `@reboot` or `@shutdown` are due by this event."""
        self.retries.drop(rows)
        self.columns.off_grid_due[rows] = now
        self.columns.off_grid_kind[rows] = RunKind.OCCASION
        self._set_due(rows)

    def make_due(self, row: int, t: Instant) -> None:
        """A task that is never due by time is due since then."""
        self.columns.nominal[row] = t
        self._set_due(np.array([row], dtype=np.int64))

    def reschedule(self, rows: Ints, now: Instant) -> None:
        """Their columns have changed: due by the new schedule from now on. What was due before is settled already, see
        `edits.settle_past`.
        """
        self.account(rows, now)
        self.reset_due(rows)

    def recount_limits(self) -> None:
        """Rows have other limit keys than before, and some of them may be pending."""
        c = self.columns
        self._declare_limits(int(c.limit.max(initial=0)))
        pending = np.flatnonzero(c.flags & _RUNNING)
        self.pending_by_limit = np.bincount(c.limit[pending], minlength=len(self.limits))

    def remove(self, rows: Ints, now: Instant) -> list[SkipColumns]:
        """Delete tasks. One that is pending finishes first: its result is recorded, it does not come back."""
        skips = self.skip_until(rows, now, Reason.REMOVED)
        running = self._has_flag(rows, Flag.RUNNING)
        idle = rows[~running]
        self.idle -= len(idle)
        self._free(idle)
        leaving = rows[running]
        self.set_flag(leaving, Flag.FORCED, on=False)
        self.set_flag(leaving, Flag.REMOVED, on=True)
        self.reset_due(leaving)
        return skips

    def restore_removed(self, rows: Ints, now: Instant) -> None:
        """Tasks that were removed while pending are here again, with their columns filled in anew.

        The run goes on, and counts; what was planned before the removal does not.
        """
        c = self.columns
        self.set_flag(rows, Flag.REMOVED | Flag.CATCHING_UP, on=False)
        c.off_grid_due[rows] = c.nominal[rows] = FOREVER
        self.reschedule(rows, now)
        self.recount_limits()

    def reset_due(self, rows: Ints) -> None:
        """What these rows wait for may have changed: back into the timetable."""
        self.set_flag(rows, Flag.WAITING, on=False)
        self.waiting = self.waiting[self._has_flag(self.waiting, Flag.WAITING)]
        self._set_due(rows)

    def set_flag(self, rows: Ints, flag: Flag, *, on: bool) -> None:
        """Enable or disable, gain or lose authority, become reachable or not."""
        c = self.columns
        bit = int(flag)
        c.flags[rows] = c.flags[rows] | bit if on else c.flags[rows] & (ALL_FLAGS ^ bit)

    def force(self, rows: Ints) -> None:
        """Run now, ignoring enabled and period; a second force while one waits merges into it."""
        self.set_flag(rows, Flag.FORCED, on=True)
        self._set_due(rows)

    def set_limit(self, key: int, most: int) -> None:
        """How many runs with this limit key may be pending. Lowering it never kills, it drains."""
        self._declare_limits(key)
        self.limits[key] = most

    def _declare_limits(self, highest: int) -> None:
        """A key without a limit is unlimited."""
        missing = highest + 1 - len(self.limits)
        if missing > 0:
            self.limits = np.append(self.limits, np.full(missing, MOST_LIMITS))
            self.pending_by_limit = np.append(self.pending_by_limit, np.zeros(missing, dtype=np.int64))

    # Arrival, verification, execution

    def release(self, now: Instant, ahead: int = 0) -> ReleaseResult:
        """Verify all tasks that have arrived or still wait, and take slots for those that may run now.

        Tasks that will be due within `ahead` are released too, to be started when they are due, if it is certain now
        that they may run then. All others are verified when they are due.
        """
        arrived = self.timetable.arrived(Instant(now + ahead))
        skips = self.end_postponement(arrived[self.columns.off_grid_due[arrived] <= now + ahead])
        late = len(arrived) if not ahead else int(self.columns.due[arrived].searchsorted(now, side="right"))
        released = self._release_due(arrived[:late], now)
        early = self._certain_to_run(arrived[late:], now, Instant(now + ahead))
        if len(early):
            released = _merged(released, self._verify_and_execute(early, Instant(now + ahead)))
        return released._replace(skips=skips + released.skips) if skips else released

    def _certain_to_run(self, rows: Ints, now: Instant, horizon: Instant) -> Ints:
        """Of rows that are due by the horizon, those that are certain to run then."""
        if not len(rows) or len(self.waiting) or self.pending + len(rows) > self.slots // 2:
            return _NO_ROWS
        c = self.columns
        nominal = c.nominal[rows]
        flags = c.flags[rows]
        certain = (flags & _NEEDS_VERIFICATION == _RUNNABLE) & (c.limit[rows] == 0)
        off_grid_due = c.off_grid_due[rows]
        if self.retries.nominals:
            certain &= ~np.isin(rows, list(self.retries.nominals))  # they carry other nominal times than they are due
        is_one = nominal == off_grid_due
        # Not two runs at once, of which one would settle the other.
        certain &= (np.maximum(nominal, off_grid_due) > horizon) | is_one
        if len(off_grid := np.flatnonzero((off_grid_due <= horizon) & ~is_one)):
            certain[off_grid] &= nominal[off_grid] - self.least_gap(rows[off_grid]) > horizon
        certain &= (nominal > horizon) | ~self._is_too_soon(rows, flags, nominal, now)
        certain &= self.times.is_open(rows, now) & self.times.is_open(rows, horizon)
        found: Ints = rows[certain]
        return found

    def _release_due(self, arrived: Ints, now: Instant) -> ReleaseResult:
        """Of a long queue only the front is verified, as much as there may be room for: tasks behind it are verified
        when they are near their turn.
        """
        before = len(self.waiting)
        rows = np.concatenate((self.waiting, arrived)) if before else arrived
        front = 2 * max(self.slots - self.pending, 0) + self.front
        if before == 0 or len(rows) <= front:
            return self._verify_and_execute(rows, now)
        first, rest = split_front(self._order_key(rows, now), front)
        ahead = self._verify_and_execute(rows[first], now)
        # With room left, tasks behind have their turn too; without, only tasks that have just arrived are verified.
        has_turn = (rest >= before) | (self.pending < self.slots)
        still_waiting = np.concatenate((self.waiting, rows[rest[~has_turn]]))
        behind = self._verify_and_execute(rows[rest[has_turn]], now)
        self.waiting = np.concatenate((still_waiting, self.waiting))
        return _merged(ahead, behind)

    def _order_key(self, rows: Ints, now: Instant) -> Ints:
        """The key by which waiting tasks are ordered: the time they are due, and their priority."""
        c = self.columns
        nominal = c.nominal[rows]
        settles = (nominal <= now) & (c.flags[rows] & (_FORCED | _PASSIVE) == 0)
        due: Ints = np.where(settles, nominal, np.minimum(c.off_grid_due[rows], now))
        return due - c.priority[rows].astype(np.int64) * PRIORITY_STEP

    def _verify_and_execute(self, rows: Ints, now: Instant) -> ReleaseResult:
        c = self.columns
        if len(self.waiting):
            self.set_flag(rows, Flag.WAITING, on=False)
            self.waiting = _NO_ROWS
        if not len(rows):
            return ReleaseResult(ClaimColumns(_NO_ROWS, _NO_ROWS, _NONE), [], _NONE_REFUSED, _NO_ROWS)
        flags, nominal, off_grid_due = c.flags[rows], c.nominal[rows], c.off_grid_due[rows]
        forced = flags & _FORCED != 0
        if forced.any():
            # A forced run is due since it was first seen: it grows older as it waits, like all others.
            first_seen = forced & (off_grid_due == FOREVER)
            c.off_grid_due[rows[first_seen]] = off_grid_due[first_seen] = now
        # What has come by the schedule is settled by this run, and an off-grid run that still waits merges into it.
        settles = (nominal <= now) & (flags & (_FORCED | _PASSIVE) == 0)
        kind = np.where(settles & (flags & _CATCHING_UP == 0), _GRID, c.off_grid_kind[rows])
        if self.has_chains:
            kind[settles & (flags & _CHAINED != 0)] = _CHAIN
        kind[forced] = _FORCED_KIND
        near = self._is_near_the_grid(rows, settles, kind, off_grid_due, now)
        moved = _NO_ROWS
        if near.any():
            moved = rows[near]
            self._merge_into_grid(moved)
            rest = ~near
            rows, flags, nominal, off_grid_due = rows[rest], flags[rest], nominal[rest], off_grid_due[rest]
            settles, kind = settles[rest], kind[rest]
        due = np.where(settles, nominal, np.minimum(off_grid_due, now))
        arrivals = self._arrivals(rows, flags, kind, due, now)
        action, reason = verify(arrivals, self.slots - self.pending, self.limits - self.pending_by_limit)
        waits = action == GateAction.WAIT
        self.waiting = rows[waits]
        if len(self.waiting):
            self._keep_reasons(self.waiting, reason[waits])
            self.set_flag(self.waiting, Flag.WAITING, on=True)
            self._set_due(self.waiting)
        executed, skipped = action == GateAction.EXECUTE, action == GateAction.SKIP
        claims = ClaimColumns(rows[executed], due[executed], kind[executed])
        skips, refused = (
            self._execute(claims, flags[executed], nominal[executed], off_grid_due[executed], now),
            _NONE_REFUSED,
        )
        if skipped.any():
            off_grid = skipped & ~settles
            retries = off_grid & (kind == RunKind.RETRY) & (reason == _PERIOD_CLOSED) & (flags & _CHECK != 0)
            off_grid &= ~retries
            refused = RefusedRuns(rows[off_grid], due[off_grid], kind[off_grid], reason[off_grid])
            skips += self._skip(rows[skipped], reason[skipped], now)
            self._go_on_retrying(rows[skipped & settles], reason[skipped & settles], now)
            if retries.any():
                self._retry_when_open(rows[retries], now)
                moved = np.concatenate((moved, rows[retries]))
        return ReleaseResult(claims, skips, refused, moved)

    def _keep_reasons(self, rows: Ints, reason: Small) -> None:
        if len(self.waits_for) <= int(rows.max()):
            grown = np.zeros(len(self.columns.flags), dtype=np.uint8)
            grown[: len(self.waits_for)] = self.waits_for
            self.waits_for = grown
        self.waits_for[rows] = reason

    def reason_to_wait(self, row: int, now: Instant) -> Reason:
        """What a run of this task waits for, as the gate decided; if none waits, what a forced one would wait for now.
        NONE if it need not wait.
        """
        c, rows = self.columns, np.array([row], dtype=np.int64)
        if c.flags[row] & int(Flag.WAITING):
            return REASONS[int(self.waits_for[row])]
        forced, due = np.full(1, _FORCED_KIND), np.full(1, now, dtype=np.int64)
        arrivals = self._arrivals(rows, c.flags[rows], forced, due, now)
        action, reason = verify(arrivals, self.slots - self.pending, self.limits - self.pending_by_limit)
        return REASONS[int(reason[0])] if action[0] == GateAction.WAIT else Reason.NONE

    def _is_near_the_grid(self, rows: Ints, settles: Bools, kind: Small, off_grid_due: Ints, now: Instant) -> Bools:
        """Which rows have waited so long for their first or catch-up run that the next one on the grid is as good?

        A run that is made in time keeps its distance by `off_grid_times`.
        """
        near: Bools = ~settles & ((kind == _FIRST) | (kind == _CATCH_UP)) & (off_grid_due < now)
        if not near.any():
            return near
        which = np.flatnonzero(near)
        some = rows[which]
        gap = self.least_gap(some)
        # With a long interval, a task waits no longer for the grid than it has waited already.
        waits = np.where(
            gap < self.pace.window // 2, gap, np.minimum(gap, np.maximum(now - off_grid_due[which], SECOND))
        )
        near[which] = self.next_grid_due(some) - waits < now
        return near

    def _merge_into_grid(self, rows: Ints) -> None:
        """Drop the first or catch-up runs of these rows: the next run on the grid serves."""
        self.columns.off_grid_due[rows] = FOREVER
        self._set_due(rows)

    def _go_on_retrying(self, rows: Ints, reason: Small, now: Instant) -> None:
        """Runs on the grid that would have been retries of SOFT problems were dropped: the retries are still made."""
        c = self.columns
        soft = ~c.hard[rows] & (c.retry[rows] > 0) & (c.off_grid_due[rows] == FOREVER)
        soft &= (reason == _TOO_SOON) | (reason == _PERIOD_CLOSED)
        if not soft.any():
            return
        some = rows[soft]
        due = now + c.retry[some]
        sooner = due < self.next_grid_due(some)
        c.off_grid_due[some[sooner]] = due[sooner]
        c.off_grid_kind[some[sooner]] = RunKind.RETRY
        self._set_due(some)

    def _retry_when_open(self, rows: Ints, now: Instant) -> None:
        """Retries that find their period closed are made when it opens: as evenly as grids are, within one `retry`."""
        c = self.columns
        opens = self.times.opens_at(rows, now)
        rows, opens = rows[opens < FOREVER], opens[opens < FOREVER]
        due = opens + retry_after_opening(c.phase[rows], c.every[rows], c.second[rows].astype(np.int64), c.retry[rows])
        sooner = due < c.nominal[rows]
        c.off_grid_due[rows[sooner]] = due[sooner]
        c.off_grid_kind[rows[sooner]] = RunKind.RETRY
        self._set_due(rows)

    def _arrivals(self, rows: Ints, flags: Flags, kind: Small, due: Ints, now: Instant) -> Arrivals:
        c = self.columns
        on_grid, limit = kind == _GRID, c.limit[rows]
        self._declare_limits(int(limit.max(initial=0)))
        return Arrivals(
            forced=kind == _FORCED_KIND,
            on_grid=on_grid,
            enabled=flags & _ENABLED != 0,
            period_open=self.times.is_open(rows, now),
            mine=flags & _MINE != 0,
            reachable=flags & _REACHABLE_OR_SKIPS != _SKIPS_UNREACHABLE,
            permitted=flags & _PERMITTED != 0,
            running=flags & _RUNNING != 0,
            too_soon=on_grid & self._is_too_soon(rows, flags, due, now),
            nominal=due,
            priority=c.priority[rows],
            limit=limit,
        )

    def _is_too_soon(self, rows: Ints, flags: Flags, nominal: Ints, now: Instant) -> Bools:
        """`drop_guard.is_too_soon`, for columns."""
        c = self.columns
        interval = self.times.interval(rows, nominal)
        too_soon: Bools = c.last_start[rows] + interval - tolerance_of(c, rows, flags, interval) > now
        return too_soon

    def _execute(
        self, claims: ClaimColumns, flags: Flags, nominal: Ints, off_grid_due: Ints, now: Instant
    ) -> list[SkipColumns]:
        # The caller passes the columns of the claims: to read them again is most of what a segment costs.
        c, rows = self.columns, claims.rows
        self._count_pending(rows, 1)
        c.flags[rows] = (flags & (ALL_FLAGS ^ _FORCED)) | _RUNNING
        if self.retries.nominals:
            self.retries.begin(rows, claims.nominal, claims.kind, off_grid_due)
        self._clear_off_grid(rows, off_grid_due, now)
        settles = (nominal <= now) & (claims.kind != _FORCED_KIND) & (flags & _PASSIVE == 0)
        ran = rows[settles]
        nominal[settles] = self._advance_nominal(ran, nominal[settles], now)
        # What else has passed is made up for by this run; a backlog waits for its end, a postponed task for its start.
        merges = (nominal <= now) & (flags & (_QUEUES | _PASSIVE | _POSTPONED) == 0)
        skips = self.skip_until(rows[merges], now, Reason.COALESCED)
        if skips:
            nominal[merges] = c.nominal[rows[merges]]
        if self.times.any_moves:
            self._move_grids(claims, flags, nominal, now)
        if (flags & _SPECIAL).any():
            self.assign_catch_up_turns(rows[flags & _CATCHING_UP != 0], now)
            self._set_due(rows)
        else:
            self.timetable.set_due(rows, np.minimum(nominal, off_grid_due))
        return skips

    def _advance_nominal(self, rows: Ints, nominal: Ints, now: Instant) -> Ints:
        """Rows have these nominal times behind them, and go on to the next."""
        c = self.columns
        c.accounted[rows] = nominal
        following = self.times.following(rows, nominal, now)
        c.nominal[rows] = following
        if self.pauses:
            self._skip_pauses(rows)
            following = c.nominal[rows]
        return following

    def _move_grids(self, claims: ClaimColumns, flags: Flags, nominal: Ints, now: Instant) -> None:
        """Icinga's rule: an execution, of whatever kind, sets the next nominal time. A backlog keeps to its grid."""
        which = np.flatnonzero(self.columns.has_moving_grid[claims.rows] & (flags & (_QUEUES | _POSTPONED) == 0))
        rows, due = claims.rows[which], claims.nominal[which]
        # The rule corrects half a second at least: a run that is less late is on time.
        executed = np.where(now - due < SECOND // 2, due, now)
        self._set_executed(rows, executed)
        nominal[which] = self.columns.nominal[rows]

    def record_past_executions(self, rows: Ints, at: Ints) -> None:
        """Rows whose grids move were executed then, before anything that is recorded here."""
        self._set_executed(rows, at)
        self.reset_due(rows)

    def _set_executed(self, rows: Ints, at: Ints) -> None:
        self.columns.accounted[rows] = at
        self.columns.nominal[rows] = self.times.after_execution(rows, at)

    def assign_catch_up_turns(self, rows: Ints, now: Instant) -> None:
        """Of these rows, which catch up, those with more nominal times behind get a turn for the next one."""
        if not len(rows):
            return
        c = self.columns
        behind = rows[c.nominal[rows] <= now]
        # A nominal time that comes by the grid joins the queue and releases the first one in it: it gets no longer.
        comes = self.times.next_after(behind, now)
        self.retries.give_up(behind)
        c.off_grid_due[behind] = np.minimum(self.pace.plan(comes, now), comes)
        c.off_grid_kind[behind] = RunKind.CATCH_UP

    def _end_catching_up(self, rows: Ints) -> None:
        """Rows without a further turn stop catching up; what has come due meanwhile stays due."""
        c = self.columns
        rows = rows[c.flags[rows] & _CATCHING_UP != 0]
        if not len(rows):
            return
        has_turn = (c.off_grid_due[rows] < FOREVER) & (c.off_grid_kind[rows] == RunKind.CATCH_UP)
        self.set_flag(rows[~has_turn], Flag.CATCHING_UP, on=False)

    def _clear_off_grid(self, rows: Ints, off_grid_due: Ints, now: Instant) -> None:
        """Rows run or are skipped: an off-grid run that was due by now is settled with that."""
        over = off_grid_due <= now
        self.columns.off_grid_due[rows[over]] = off_grid_due[over] = FOREVER

    def _skip(self, rows: Ints, reason: Small, now: Instant) -> list[SkipColumns]:
        c = self.columns
        flags = c.flags[rows]
        settled = (reason != _DISABLED) | ~OWED[c.off_grid_kind[rows]]
        if self.retries.nominals:
            self.retries.give_up(rows[(c.nominal[rows] <= now) | (settled & (c.off_grid_due[rows] <= now))])
        self._clear_off_grid(rows[settled], c.off_grid_due[rows[settled]], now)
        c.flags[rows] = flags & (ALL_FLAGS ^ (_FORCED | _CATCHING_UP))
        # Each nominal time of a backlog is judged on its own. Other tasks skip all that have come, also where a forced
        # run is refused or a task catches up: what keeps one nominal time from running keeps them all.
        passive = flags & _PASSIVE != 0
        single = (flags & _QUEUES == _EACH) & (c.nominal[rows] <= now) & ~passive
        some = rows[single]
        first = c.nominal[some]
        self._advance_nominal(some, first, now)
        together = ~single & ~passive & (flags & _POSTPONED == 0)
        skips = self.skip_until(rows[together], now, reason[together])
        if len(some):
            skips.append(SkipColumns(some, first, first, np.ones(len(some), dtype=np.int64), reason[single]))
        self._set_due(rows)
        return skips

    def skip_until(self, rows: Ints, t: Instant, reason: Reason | Small) -> list[SkipColumns]:
        """Account for all nominal times up to and including `t`, and move on to the one after it."""
        if isinstance(reason, Reason):
            reason = np.full(len(rows), REASONS.index(reason), np.uint8)
        skips = []
        if self.pauses:
            # What is owed from before a pause and what has come since are two ranges.
            apart = np.isin(rows, list(self.pauses))
            for i in np.flatnonzero(apart).tolist():
                before = Instant(min(t, self.pauses[int(rows[i])][0]))
                skips += self._skip_until(rows[i : i + 1], before, reason[i : i + 1])
                skips += self._skip_until(rows[i : i + 1], t, reason[i : i + 1])
            rows, reason = rows[~apart], reason[~apart]
        return skips + self._skip_until(rows, t, reason)

    def _skip_until(self, rows: Ints, t: Instant, reason: Small) -> list[SkipColumns]:
        c = self.columns
        which = np.flatnonzero(c.nominal[rows] <= t)
        if not len(which):
            return []
        rows = rows[which]
        first = c.nominal[rows]
        count, last = self.times.count_between(rows, first, t)
        self.retries.give_up(rows)
        self.account(rows, t)
        return [SkipColumns(rows, first, last, count, reason[which])]

    # What comes back

    def record_starts(self, rows: Ints, at: Ints) -> None:
        """On-grid runs have really started, by the current clock: the guard counts from then."""
        self.columns.last_start[rows] = at

    def complete(self, rows: Ints) -> None:
        """Runs have ended, however they ended: by themselves, at their timebox, or lost with their worker."""
        c = self.columns
        self._count_pending(rows, -1)
        flags = c.flags[rows]
        c.flags[rows] = flags & (ALL_FLAGS ^ _RUNNING)
        gone = flags & _REMOVED != 0
        if gone.any():
            self.idle -= int(np.count_nonzero(gone))
            self._free(rows[gone])
            rows, flags = rows[~gone], flags[~gone]
        self._end_catching_up(rows)
        # A backlog is due now. Tasks that wait for this end are verified with the next release anyway; all others are
        # in the timetable already.
        apart = flags & _SPECIAL != 0
        if apart.any():
            self._set_due(rows[apart])

    def _count_pending(self, rows: Ints, change: int) -> None:
        self.idle -= change * len(rows)
        self.pending += change * len(rows)
        if len(self.limits) == 1:
            self.pending_by_limit += change * len(rows)
        else:
            self.pending_by_limit += change * np.bincount(self.columns.limit[rows], minlength=len(self.limits))

    def apply_results(self, rows: Ints, result: Small, started: Ints, nominal: Ints, now: Instant) -> Bools:
        """Apply results of checks: their new states, and a retry while a problem is SOFT. Returns which changed."""
        c = self.columns
        # These may lie ahead for a run from before the clock was set back: now is the best guess then.
        started, nominal = np.minimum(started, now), np.minimum(nominal, now)
        before = CheckStates(
            c.state[rows], c.hard[rows], c.attempt[rows], c.changes[rows], c.flapping[rows], c.result_at[rows]
        )
        learned = apply_results(before, result, started, c.attempts[rows])
        after = learned.condition
        c.state[rows], c.hard[rows], c.attempt[rows] = after.state, after.hard, after.attempt
        c.changes[rows], c.flapping[rows], c.result_at[rows] = after.changes, after.flapping, after.result_at
        again = learned.accepted & wants_retry(after) & (c.retry[rows] > 0)
        some = rows[again]
        grid = self.next_grid_due(some)
        due = retry_due(nominal[again], c.retry[some], np.full(len(some), now, dtype=np.int64), grid)
        # Never later than what is planned anyway, and never in place of a `start_at`.
        asked = (c.off_grid_kind[some] == RunKind.START_AT) & (c.off_grid_due[some] < FOREVER)
        sooner = ~asked & (due < np.minimum(grid, c.off_grid_due[some]))
        c.off_grid_due[some[sooner]] = due[sooner]
        c.off_grid_kind[some[sooner]] = RunKind.RETRY
        self._set_due(some)
        return learned.changed

    def off_grid_times(self, rows: Ints, now: Instant, wait: int = 0) -> Ints:
        """When each of some rows may have its first or catch-up run, `wait` from now at the earliest; with the run on
        the grid where that comes first, or so soon after it that the two are one.
        """
        grid, gap = self.next_grid_due(rows), self.least_gap(rows)
        # A run that is promised within the start window does not come later only because the grid is near.
        in_time = grid <= now + self.pace.window
        least = np.where(in_time, gap, np.minimum(gap, SECOND))
        found = self.pace.plan(grid - np.maximum(least - 1, 0), now, wait)
        # It stays owed until then: if the grid is moved away meanwhile, it is made all the same.
        return np.minimum(found, grid)

    def least_gap(self, rows: Ints) -> Ints:
        """If the grid follows a first or catch-up run sooner than this, only the run on the grid is made.

        It is the interval less the tolerance, but at most half of the interval or of the start window: a missed run
        does not wait for longer than that.
        """
        c = self.columns
        nominal = c.nominal[rows]
        interval = np.where(nominal < FOREVER, self.times.interval(rows, np.minimum(nominal, FOREVER - 1)), 0)
        least = interval - tolerance_of(c, rows, c.flags[rows], interval)
        gap: Ints = np.clip(np.minimum(least, interval // 2), 0, self.pace.window // 2)
        return gap

    def next_grid_due(self, rows: Ints) -> Ints:
        """When the schedule of each row makes its next run; FOREVER for passive checks, whose schedule makes none."""
        c = self.columns
        return np.where(c.flags[rows] & _PASSIVE != 0, FOREVER, c.nominal[rows])

    def _set_due(self, rows: Ints) -> None:
        """Put rows into the timetable: the one place that decides when a task arrives."""
        c = self.columns
        flags, nominal, off_grid_due = c.flags[rows], c.nominal[rows], c.off_grid_due[rows]
        self._suspend(rows, flags, nominal, off_grid_due)
        due = np.minimum(nominal, off_grid_due)
        apart = np.flatnonzero(flags & _SPECIAL)
        if len(apart):
            flags = flags[apart]
            forced = flags & _FORCED != 0
            instead = np.where(flags & _OFF_GRID_ONLY != 0, off_grid_due[apart], due[apart])
            instead[forced] = NEVER
            # A backlog waits for the end of the run before it, a task that waits for a slot is not in the timetable,
            # most passive checks have nothing to run, and a removed task does not come back.
            instead[((flags & _RUNNING != 0) & ~forced) | (flags & _NOT_IN_TIMETABLE != 0)] = FOREVER
            due[apart] = instead
        self.timetable.set_due(rows, due)

    def _suspend(self, rows: Ints, flags: Flags, nominal: Ints, off_grid_due: Ints) -> None:
        """Runs that disabled tasks owe wait until they are enabled again."""
        off = np.flatnonzero(flags & _ENABLED == 0)
        if not len(off):
            return
        off_grid_due[off[OWED[self.columns.off_grid_kind[rows[off]]]]] = FOREVER
        if self.pauses:
            nominal[off[np.isin(rows[off], list(self.pauses))]] = FOREVER

    def is_paced(self, rows: Ints) -> Bools:
        """Which rows have a first or catch-up run to come, at a time that the pace gave?"""
        c = self.columns
        kind = c.off_grid_kind[rows]
        off_grid_due = c.off_grid_due[rows]
        paced: Bools = (
            (off_grid_due < FOREVER)
            & (off_grid_due != c.nominal[rows])
            & ((kind == RunKind.FIRST) | (kind == RunKind.CATCH_UP))
        )
        return paced

    def _has_flag(self, rows: Ints, flag: Flag) -> Bools:
        has: Bools = (self.columns.flags[rows] & int(flag)) != 0
        return has
