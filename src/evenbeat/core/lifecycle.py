"""The life of tasks: arrive, be verified, execute, complete, and be due again; forced, removed, held back, made up for.

Time and results come in, claims and skips come out. Every nominal time is accounted for exactly once: it is the
nominal of a claim, or within a skip that names the reason.
"""

from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.check import Condition, State, learn, retry_due, wants_retry
from evenbeat.core.columns import Column, Ints
from evenbeat.core.gate import REASONS, Action, Arrivals, Reason, verify
from evenbeat.core.pace import Pace
from evenbeat.core.times import ScheduleColumns, Times
from evenbeat.core.timetable import Timetable
from evenbeat.model import Instant
from evenbeat.when.windows import FOREVER, NEVER

Bools = NDArray[np.bool_]
Small = NDArray[np.uint8]

MOST_LIMITS: Final = 32_767


class Flag(IntFlag):
    """What can be said of a task in a bit."""

    ENABLED = 1
    MINE = 2
    REACHABLE = 4
    CHECK = 8
    EACH = 16
    """backlog = "each": nominal times that pass while a run waits or runs are queued, and the guard arbitrates."""
    FORCED = 32
    """A forced run waits for its slot."""
    RUNNING = 64
    """Claimed or running: pending."""
    WAITING = 128
    """Arrived and verified, held back by slots, a limit or its running instance."""
    REMOVED = 256
    """Deleted while pending: its run finishes, then the row goes."""


_FORCED: Final = int(Flag.FORCED)
_BACKLOG: Final = int(Flag.EACH | Flag.RUNNING)
_AWAY: Final = int(Flag.WAITING | Flag.REMOVED)


class Kind(IntEnum):
    """What a run is: on the grid, or one of the off-grid ones."""

    GRID = 0
    FIRST = 1
    CATCH_UP = 2
    RETRY = 3
    START_AT = 4
    OCCASION = 5
    FORCED = 6


class Missed(IntEnum):
    """What to do about nominal times that passed while the node was stopped."""

    ONCE = 0
    SKIP = 1


class TaskColumns(ScheduleColumns):
    """Everything the core knows of a task: about a hundred bytes."""

    flags = Column(np.uint16, Flag.ENABLED | Flag.MINE | Flag.REACHABLE)
    nominal = Column(np.int64, FOREVER)
    """The first nominal time that is not accounted for."""
    extra = Column(np.int64, FOREVER)
    """When an off-grid run is to be made."""
    extra_kind = Column(np.uint8, Kind.FIRST)
    last_start = Column(np.int64, NEVER)
    """Of the last on-grid run: what the guard goes by."""
    tolerance = Column(np.int64, -1)
    """How much closer than their interval two on-grid starts may be; -1 for half of it."""
    limit = Column(np.int16, 0)
    priority = Column(np.int8, 0)
    retry = Column(np.int64, 0)
    attempts = Column(np.uint8, 3)
    state = Column(np.uint8, State.OK)
    hard = Column(np.bool_, default=True)
    attempt = Column(np.uint8, 1)
    changes = Column(np.uint32, 0)
    flapping = Column(np.bool_, default=False)
    result_at = Column(np.int64, NEVER)


class Claims(NamedTuple):
    """Runs to be made now: the identity of a run is its task and nominal time (off the grid, the time it was due)."""

    rows: Ints
    nominal: Ints
    kind: Small


class Skips(NamedTuple):
    """Nominal times without a run of their own: from first to last, so many, for this reason (a number of REASONS)."""

    rows: Ints
    first: Ints
    last: Ints
    times: Ints
    reason: Small


class Released(NamedTuple):
    """What became of the tasks that arrived or waited."""

    claims: Claims
    skips: list[Skips]


class Lifecycle:
    """All tasks of a node, who of them is idle and who pending, and what each event does to them."""

    def __init__(self, columns: TaskColumns, timetable: Timetable, times: Times, slots: int) -> None:
        self.columns = columns
        self.timetable = timetable
        self.times = times
        self.slots = slots
        self.idle = 0
        self.pending = 0
        self.limits: Ints = np.array([MOST_LIMITS], dtype=np.int64)
        self.pending_by_limit: Ints = np.zeros(1, dtype=np.int64)
        self.waiting: Ints = np.empty(0, dtype=np.int64)
        """Those with Flag.WAITING: out of the timetable until they may run or are skipped."""

    # Tasks come, change and go

    def arrive(self, rows: Ints, now: Instant) -> None:
        """New tasks, whose columns are filled in, enter the timetable: each is idle until its first nominal time."""
        self.idle += len(rows)
        self.columns.nominal[rows] = self.times.next_after(rows, now)
        self._set_due(rows)

    def make_first_runs(self, rows: Ints, pace: Pace, now: Instant) -> None:
        """Checks that are new get one run soon, evenly, unless their grid comes first."""
        self._make_up(rows, pace, now, Kind.FIRST)

    def resume(self, rows: Ints, missed: Missed, pace: Pace, now: Instant) -> list[Skips]:
        """After a stop: record what passed meanwhile; `once` makes one run up for it. `rows` share the policy."""
        late = rows[self.columns.nominal[rows] <= now]
        if not len(late):
            return []
        skips = self._skip_until(late, now, Reason.MISSED)
        if missed is Missed.ONCE:
            self._make_up(late, pace, now, Kind.CATCH_UP)
        self._set_due(late)
        return [skips]

    def _make_up(self, rows: Ints, pace: Pace, now: Instant, kind: Kind) -> None:
        c = self.columns
        c.extra[rows] = pace.release(c.nominal[rows], now)
        c.extra_kind[rows] = kind
        self._set_due(rows)

    def start_at(self, row: int, t: Instant, now: Instant) -> list[Skips]:
        """Run exactly at `t`, not before, and follow the schedule after it."""
        rows = np.array([row], dtype=np.int64)
        skips = self._skip_until(rows, t, Reason.POSTPONED) if self.columns.nominal[row] <= t else None
        self.columns.extra[row] = max(t, now)
        self.columns.extra_kind[row] = Kind.START_AT
        self._requeue(rows)
        return [] if skips is None else [skips]

    def occasion(self, rows: Ints, now: Instant) -> None:
        """`@reboot` or `@shutdown`: they are due by this event."""
        self.columns.extra[rows] = now
        self.columns.extra_kind[rows] = Kind.OCCASION
        self._set_due(rows)

    def reschedule(self, rows: Ints, now: Instant) -> None:
        """Their schedules have changed: due by the new one from now on. What is due already remains so."""
        later = rows[self.columns.nominal[rows] > now]
        self.columns.nominal[later] = self.times.next_after(later, now)
        self._set_due(later)

    def remove(self, rows: Ints) -> None:
        """Delete tasks. One that is pending finishes first: its result is recorded, it does not come back."""
        c = self.columns
        running = self._has(rows, Flag.RUNNING)
        idle = rows[~running]
        self.idle -= len(idle)
        c.free(idle)
        leaving = rows[running]
        c.flags[leaving] = (c.flags[leaving] & ~Flag.FORCED) | Flag.REMOVED
        self._requeue(leaving)

    def _requeue(self, rows: Ints) -> None:
        """What they may be waiting for has changed: back into the timetable."""
        self.set_flag(rows, Flag.WAITING, on=False)
        self.waiting = self.waiting[self._has(self.waiting, Flag.WAITING)]
        self._set_due(rows)

    def set_flag(self, rows: Ints, flag: Flag, *, on: bool) -> None:
        """Enable or disable, gain or lose authority, become reachable or not."""
        c = self.columns
        bit = int(flag)
        c.flags[rows] = c.flags[rows] | bit if on else c.flags[rows] & (0xFFFF ^ bit)

    def force(self, rows: Ints) -> None:
        """Run now, ignoring enabled and period; a second force while one waits merges into it."""
        self.set_flag(rows, Flag.FORCED, on=True)
        self._set_due(rows)

    def set_limit(self, key: int, most: int) -> None:
        """How many runs with this limit key may be pending. Lowering it never kills, it drains."""
        missing = key + 1 - len(self.limits)
        if missing > 0:
            self.limits = np.append(self.limits, np.full(missing, MOST_LIMITS))
            self.pending_by_limit = np.append(self.pending_by_limit, np.zeros(missing, dtype=np.int64))
        self.limits[key] = most

    # Arrival, verification, execution

    def release(self, now: Instant) -> Released:
        """Verify all that have arrived or still wait, and take slots for those that may run now."""
        c = self.columns
        rows = np.concatenate((self.waiting, self.timetable.arrived(now)))
        kind = self._kind(rows, now)
        # A forced run is due since it was first seen: it grows older as it waits, like everybody.
        c.extra[rows[(kind == Kind.FORCED) & (c.extra[rows] == FOREVER)]] = now
        nominal = np.where(kind == Kind.GRID, c.nominal[rows], np.minimum(c.extra[rows], now))
        verdicts = verify(
            self._arrivals(rows, kind, nominal, now),
            self.slots - self.pending,
            self.limits - self.pending_by_limit,
        )
        waits = verdicts.action == Action.WAIT
        self.set_flag(rows, Flag.WAITING, on=False)
        self.waiting = rows[waits]
        self.set_flag(self.waiting, Flag.WAITING, on=True)
        self._set_due(self.waiting)
        executed = verdicts.action == Action.EXECUTE
        claims = Claims(rows[executed], nominal[executed], kind[executed])
        skipped = verdicts.action == Action.SKIP
        skips = self._skip(rows[skipped], verdicts.reason[skipped], now)
        return Released(claims, [*skips, *self._execute(claims, now)])

    def _kind(self, rows: Ints, now: Instant) -> Small:
        c = self.columns
        # An off-grid run that still waits at the next nominal time merges into it.
        off_grid = np.where(c.nominal[rows] <= now, Kind.GRID, c.extra_kind[rows])
        return np.where(self._has(rows, Flag.FORCED), Kind.FORCED, off_grid).astype(np.uint8)

    def _arrivals(self, rows: Ints, kind: Small, nominal: Ints, now: Instant) -> Arrivals:
        c = self.columns
        on_grid = kind == Kind.GRID
        return Arrivals(
            forced=kind == Kind.FORCED,
            on_grid=on_grid,
            enabled=self._has(rows, Flag.ENABLED),
            period_open=self.times.is_open(rows, now),
            mine=self._has(rows, Flag.MINE),
            reachable=self._has(rows, Flag.REACHABLE),
            running=self._has(rows, Flag.RUNNING),
            too_soon=on_grid & self._is_too_soon(rows, nominal, now),
            nominal=nominal,
            priority=c.priority[rows],
            limit=c.limit[rows],
        )

    def _is_too_soon(self, rows: Ints, nominal: Ints, now: Instant) -> Bools:
        """`guard.is_too_soon`, for columns."""
        c = self.columns
        interval = self.times.interval(rows, nominal)
        tolerance = np.where(c.tolerance[rows] < 0, interval // 2, c.tolerance[rows])
        too_soon: Bools = now < c.last_start[rows] + interval - tolerance
        return too_soon

    def _execute(self, claims: Claims, now: Instant) -> list[Skips]:
        c, rows = self.columns, claims.rows
        self.idle -= len(rows)
        self.pending += len(rows)
        np.add.at(self.pending_by_limit, c.limit[rows], 1)
        c.flags[rows] = (c.flags[rows] & ~Flag.FORCED) | Flag.RUNNING
        self._clear_extra(rows, now)
        ran = rows[claims.kind == Kind.GRID]
        c.nominal[ran] = self.times.following(ran, c.nominal[ran], now)
        # What else has passed is made up for by this run; a backlog waits for its end.
        merging = rows[~self._has(rows, Flag.EACH) & (c.nominal[rows] <= now)]
        skips = [self._skip_until(merging, now, Reason.COALESCED)] if len(merging) else []
        self._set_due(rows)
        return skips

    def _clear_extra(self, rows: Ints, now: Instant) -> None:
        """Whatever runs or is skipped now, an off-grid run that was due by now is settled with it."""
        c = self.columns
        c.extra[rows[c.extra[rows] <= now]] = FOREVER

    def _skip(self, rows: Ints, reason: Small, now: Instant) -> list[Skips]:
        c = self.columns
        self._clear_extra(rows, now)
        self.set_flag(rows, Flag.FORCED, on=False)
        # Also of a forced run that is refused: a nominal time that has come meanwhile is refused with it.
        on_grid = c.nominal[rows] <= now
        # Of a backlog each nominal time is judged on its own.
        single = on_grid & self._has(rows, Flag.EACH)
        merged = on_grid & ~single
        skips = []
        if single.any():
            some = rows[single]
            first = c.nominal[some]
            skips.append(Skips(some, first, first, np.ones(len(some), dtype=np.int64), reason[single]))
            c.nominal[some] = self.times.following(some, first, now)
        if merged.any():
            skips.append(self._skip_until(rows[merged], now, reason[merged]))
        self._set_due(rows)
        return skips

    def _skip_until(self, rows: Ints, t: Instant, reason: Reason | Small) -> Skips:
        """Account for all nominal times up to and including `t`, and move on to the one after it."""
        c = self.columns
        first = c.nominal[rows]
        count, last = self.times.count_between(rows, first, t)
        c.nominal[rows] = self.times.next_after(rows, t)
        numbers = np.full(len(rows), REASONS.index(reason), np.uint8) if isinstance(reason, Reason) else reason
        return Skips(rows, first, last, count, numbers)

    # What comes back

    def started(self, rows: Ints, at: Ints) -> None:
        """On-grid runs have really started: from then on the guard counts."""
        self.columns.last_start[rows] = at

    def complete(self, rows: Ints) -> None:
        """Runs have ended, however they ended: by themselves, at their timebox, or lost with their worker."""
        c = self.columns
        self.pending -= len(rows)
        np.subtract.at(self.pending_by_limit, c.limit[rows], 1)
        self.set_flag(rows, Flag.RUNNING, on=False)
        gone = self._has(rows, Flag.REMOVED)
        c.free(rows[gone])
        stays = rows[~gone]
        self.idle += len(stays)
        # The backlog may go now; what waits for this end is looked at with the next release anyway.
        self._set_due(stays)

    def results(self, rows: Ints, result: Small, started: Ints, nominal: Ints, now: Instant) -> Bools:
        """Results of checks: the new state, and a retry while the problem is SOFT. Says which changed."""
        c = self.columns
        before = Condition(
            c.state[rows], c.hard[rows], c.attempt[rows], c.changes[rows], c.flapping[rows], c.result_at[rows]
        )
        learned = learn(before, result, started, c.attempts[rows])
        after = learned.condition
        c.state[rows], c.hard[rows], c.attempt[rows] = after.state, after.hard, after.attempt
        c.changes[rows], c.flapping[rows], c.result_at[rows] = after.changes, after.flapping, after.result_at
        again = learned.accepted & wants_retry(after) & (c.retry[rows] > 0)
        some = rows[again]
        due = retry_due(nominal[again], c.retry[some], np.full(len(some), now, dtype=np.int64), c.nominal[some])
        # Never later than what is planned anyway, and never instead of a start that somebody asked for.
        asked = (c.extra_kind[some] == Kind.START_AT) & (c.extra[some] < FOREVER)
        sooner = ~asked & (due < np.minimum(c.nominal[some], c.extra[some]))
        c.extra[some[sooner]] = due[sooner]
        c.extra_kind[some[sooner]] = Kind.RETRY
        self._set_due(some)
        return learned.changed

    def _set_due(self, rows: Ints) -> None:
        """Into the timetable, by what is known of each row: the one place that says when a task arrives."""
        c = self.columns
        flags = c.flags[rows]
        forced = flags & _FORCED != 0
        due = np.minimum(c.nominal[rows], c.extra[rows])
        due[forced] = NEVER
        # A backlog waits for the run before it, one that waits for a slot is not in the timetable, and a removed
        # task does not come back.
        away = ((flags & _BACKLOG == _BACKLOG) & ~forced) | (flags & _AWAY != 0)
        due[away] = FOREVER
        self.timetable.set_due(rows, due)

    def _has(self, rows: Ints, flag: Flag) -> Bools:
        has: Bools = (self.columns.flags[rows] & int(flag)) != 0
        return has
