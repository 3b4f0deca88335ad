"""The roster: the tasks of a live node, each in its row - from what the store has to what the core decides by."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec
import numpy as np

from evenbeat.core.columns import GrowingArray, Ints
from evenbeat.core.enrol import enrol, timebox
from evenbeat.core.index import NameIndex
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.passive import Expectation, expectation_of
from evenbeat.core.task import Flag, Skips
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import Timetable
from evenbeat.model import PARTITIONS, SECOND, Entry, Instant, Kind, Missed, Period, Task
from evenbeat.node.arena import JobArena, NodeColumns
from evenbeat.store.contract import Progress
from evenbeat.when.instant import parse_instant
from evenbeat.when.period import Period as CompiledPeriod
from evenbeat.when.period import compile_periods
from evenbeat.when.windows import FOREVER
from evenbeat.when.zone import zone

_AT_ONCE: Final = 10_000
"""Tasks that are brought in together: enough for columns to pay, few enough to need little memory."""
_WHEN: Final = ("every", "phase", "calendar", "second", "period", "limit")
_ALL: Final = Missed.ALL
_PASSIVE: Final = int(Flag.PASSIVE | Flag.NOTHING_TO_RUN)
_Thing = TypeVar("_Thing")


class Roster:
    """Who is in which row, and all that the core and the workers must know of them."""

    def __init__(self, slots: int, generation: int) -> None:
        self.columns = NodeColumns()
        self.times = ScheduleTimes(self.columns)
        self.lifecycle = Lifecycle(self.columns, Timetable(self.columns), self.times, slots, generation=generation)
        self.names = NameIndex()
        self.jobs = JobArena(self.columns)
        self._row_by_number = GrowingArray(np.int32)
        """One more than the row; 0 for none."""
        self.functions: list[str] = []
        self._function_numbers: dict[str, int] = {}
        self.pools: list[str | None] = [None]
        self._pool_numbers: dict[str | None, int] = {None: 0}
        self.periods: dict[str, CompiledPeriod] = {}
        self._period_numbers: dict[str, int] = {}
        self._definitions: dict[str, Period] = {}
        self._limits: dict[str, int] = {}
        self.catch_up: dict[int, int] = {}
        """Of the rows with missed = "all": how far back."""
        self._starts: dict[int, Instant] = {}
        """Of the rows with `start_at`: when that is."""
        self.expectations: dict[int, Expectation] = {}
        """Of the rows that are passive checks: what they say of missing results."""
        self.occasions: dict[str, set[int]] = {"@reboot": set(), "@shutdown": set()}

    # Who is where

    def row(self, number: int) -> int | None:
        """The row of a task by its number in the store."""
        found = int(self._row_by_number.array[number]) if 0 <= number < len(self._row_by_number.array) else 0
        return found - 1 if found else None

    def rows(self, numbers: Sequence[int]) -> Ints:
        """The rows of some tasks; those that are not here are left out."""
        wanted = np.array(numbers, dtype=np.int64)
        wanted = wanted[(wanted >= 0) & (wanted < len(self._row_by_number.array))]
        found = self._row_by_number.array[wanted].astype(np.int64) - 1
        return found[found >= 0]

    def all_rows(self) -> Ints:
        """All tasks that have not been removed."""
        c = self.columns
        return np.flatnonzero(c.used & (c.flags & int(Flag.REMOVED) == 0))

    def rows_in(self, partitions: Collection[int]) -> Ints:
        """All rows of some partitions, also of what was removed."""
        rows = np.flatnonzero(self.columns.used)
        wanted = np.zeros(PARTITIONS, dtype=bool)
        wanted[list(partitions)] = True
        found: Ints = rows[wanted[self.columns.number[rows] % PARTITIONS]]
        return found

    def active(self, rows: Ints) -> Ints:
        """Those of some rows that run by their schedule: all but passive checks."""
        active: Ints = rows[self.columns.flags[rows] & int(Flag.PASSIVE) == 0]
        return active

    def runnable(self, rows: Ints) -> Ints:
        """Those of some rows that have something to run, by their schedule or when a result is missing."""
        runnable: Ints = rows[self.columns.flags[rows] & int(Flag.NOTHING_TO_RUN) == 0]
        return runnable

    def catch_up_of(self, rows: Ints) -> Ints:
        """How far back those with missed = "all" go; 0 for the others."""
        if not self.catch_up:
            return np.zeros(len(rows), dtype=np.int64)
        return np.array([self.catch_up.get(row, 0) for row in rows.tolist()], dtype=np.int64)

    def made_up_for(self, rows: Ints) -> Ints:
        """Those of some rows whose lost runs are to be made up for: a stop is over when it is over."""
        stops = self.occasions["@shutdown"]
        return rows[[row not in stops for row in rows.tolist()]] if stops else rows

    @property
    def mean_rate(self) -> float:
        """Starts per second that the interval grids make by themselves."""
        c = self.columns
        plain = c.used & (c.calendar < 0) & (c.flags & int(Flag.ENABLED | Flag.PASSIVE) == int(Flag.ENABLED))
        return float((SECOND / c.every[plain]).sum())

    # Coming, changing, going

    def bring_in(self, entries: Iterable[Entry]) -> Ints:
        """Tasks get their rows and everything a definition says; not yet in the timetable."""
        rows = [self._bring_in(some) for some in _pieces(entries, _AT_ONCE)]
        return np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)

    def _bring_in(self, entries: Sequence[Entry]) -> Ints:
        rows = self.columns.allocate(len(entries))
        self.names.add_many([entry.task.name for entry in entries], rows)
        numbers = np.array([entry.number for entry in entries], dtype=np.int64)
        self.columns.number[rows] = numbers
        self._row_by_number.reserve(int(numbers.max(initial=0)) + 1)
        self._row_by_number.array[numbers] = rows + 1
        self._define(rows, [entry.task for entry in entries])
        return rows

    def _define(self, rows: Ints, tasks: Sequence[Task]) -> None:
        alike = enrol(self.columns, self.times, rows, tasks, self._period_numbers, self._limits)
        self.columns.timebox[rows] = alike.each(timebox)
        self.columns.function[rows] = alike.each(lambda task: self._function(task.job.function))
        self.columns.pool[rows] = alike.each(lambda task: self._pool(task.pool))
        encode = msgspec.msgpack.Encoder().encode
        self.jobs.put(rows, [encode(task.job) for task in tasks])
        for i in np.flatnonzero(alike.each(_has_extras)).tolist():
            self._define_extras(int(rows[i]), tasks[i])

    def _define_extras(self, row: int, task: Task) -> None:
        if task.missed is _ALL:
            self.catch_up[row] = task.catch_up
        if task.start_at is not None:
            self._starts[row] = parse_instant(task.start_at, zone(task.schedule.zone))
        if task.passive:
            self.expectations[row] = expectation_of(task)
        if _occasion(task) in self.occasions:
            self.occasions[_occasion(task)].add(row)

    def _function(self, function: str | None) -> int:
        if function is None:
            return -1
        if function not in self._function_numbers:
            self._function_numbers[function] = len(self.functions)
            self.functions.append(function)
        return self._function_numbers[function]

    def _pool(self, pool: str | None) -> int:
        if pool not in self._pool_numbers:
            self._pool_numbers[pool] = len(self.pools)
            self.pools.append(pool)
        return self._pool_numbers[pool]

    def take_up(self, progress: Iterable[Progress]) -> tuple[Ints, list[Progress]]:
        """Where tasks stood when the node was stopped. Says for which rows, and which runs were under way, also those
        of tasks that have been removed.
        """
        rows, open_claims = [], []
        for some in _pieces(progress, _AT_ONCE):
            where = self.rows([p.task for p in some])
            # All of them, unless one that was removed is still running.
            known = some if len(where) == len(some) else [p for p in some if self.row(p.task) is not None]
            self._take_up(where, known)
            rows.append(where)
            open_claims += [p for p in some if p.claimed is not None]
        return (np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)), open_claims

    def _take_up(self, rows: Ints, known: Sequence[Progress]) -> None:
        c = self.columns
        for name, values in zip(Progress._fields, zip(*known, strict=True), strict=False):
            match name:
                case "next_nominal":
                    c.nominal[rows] = values
                case "extra" | "extra_kind" | "last_start" | "state" | "hard" | "attempt" | "changes":
                    getattr(c, name)[rows] = values
                case "flapping" | "result_at":
                    getattr(c, name)[rows] = values

    def change(self, entries: Sequence[Entry], now: Instant) -> tuple[Ints, list[Skips]]:
        """New definitions. Who has other nominal times than before is due by the new ones, a new `start_at` counts.

        Says who that is: all others stand where they stood.
        """
        known = [entry for entry in entries if self.row(entry.number) is not None]
        rows = self.rows([entry.number for entry in known])
        c = self.columns
        before = [getattr(c, name)[rows] for name in _WHEN]
        starts = [self._starts.get(row) for row in rows.tolist()]
        was_passive = c.flags[rows] & _PASSIVE
        for row, name, entry in zip(rows.tolist(), self.names.names(rows), known, strict=True):
            self._forget_extras(row)
            if name != entry.task.name:
                self.names.rename(row, entry.task.name)
        self._define(rows, [entry.task for entry in known])
        turned = c.flags[rows] & _PASSIVE != was_passive
        self._turn(rows[turned])
        other = [self._starts.get(row) != start for row, start in zip(rows.tolist(), starts, strict=True)]
        differs = np.array(other, dtype=bool)
        self._start_no_more(rows[differs])
        differs |= turned
        for name, old in zip(_WHEN, before, strict=True):
            differs |= getattr(c, name)[rows] != old
        other_times = rows[differs]
        return other_times, self._reschedule(other_times, now)

    def _turn(self, rows: Ints) -> None:
        """From something that runs to a passive check, or back; or its command came or went. Nothing planned stays."""
        self.columns.extra[rows] = FOREVER
        self.lifecycle.set_flag(rows, Flag.FORCED | Flag.CATCHING_UP, on=False)
        self.lifecycle.requeue(rows)

    def _start_no_more(self, rows: Ints) -> None:
        """Whoever asked for a start at some time has changed their mind."""
        c = self.columns
        asked = rows[(c.extra_kind[rows] == Kind.START_AT) & (c.extra[rows] < FOREVER)]
        c.extra[asked] = FOREVER

    def _reschedule(self, rows: Ints, now: Instant) -> list[Skips]:
        """Due by what they say now: by the schedule, but not before the start that they ask for."""
        self.lifecycle.reschedule(rows, now)
        return self.start_at(rows, now)

    def remove(self, numbers: Sequence[int], now: Instant) -> list[tuple[Skips, Ints]]:
        """Tasks go, those that run when they have ended. What was due of them is skipped, beside their numbers."""
        rows = self.rows(numbers)
        c = self.columns
        number = c.number[rows]
        for row in rows.tolist():
            self._forget_extras(row)
            self.names.remove(row)
        self._row_by_number.array[number] = 0
        by_row = dict(zip(rows.tolist(), number.tolist(), strict=True))
        skips = self.lifecycle.remove(rows, now)
        return [(s, np.array([by_row[row] for row in s.rows.tolist()], dtype=np.int64)) for s in skips]

    def remove_again(self, numbers: Sequence[int], now: Instant) -> None:
        """Tasks that were removed before they came here: what was due of them was accounted for then."""
        self.columns.nominal[self.rows(numbers)] = FOREVER
        self.remove(numbers, now)

    def bring_back(self, entries: Sequence[Entry], now: Instant) -> tuple[Ints, list[Entry]]:
        """Of tasks that were created, those that were removed here before and still run get their rows back.

        Returns these rows, and the other tasks, which are new here.
        """
        c = self.columns
        removed = self.removed_rows()
        row_of = dict(zip(c.number[removed].tolist(), removed.tolist(), strict=True))
        back = [entry for entry in entries if entry.number in row_of]
        rows = np.array([row_of[entry.number] for entry in back], dtype=np.int64)
        if back:
            self.names.add_many([entry.task.name for entry in back], rows)
            self._row_by_number.array[c.number[rows]] = rows + 1
            self._define(rows, [entry.task for entry in back])
            self.lifecycle.bring_back(rows, now)
        return rows, [entry for entry in entries if entry.number not in row_of]

    def removed_rows(self) -> Ints:
        """Rows of tasks that were removed and whose runs have not ended."""
        return np.flatnonzero(self.columns.flags & int(Flag.REMOVED))

    def leave(self, rows: Ints) -> None:
        """Tasks go to another node, as they are."""
        named = rows[self.columns.flags[rows] & int(Flag.REMOVED) == 0]
        for row in named.tolist():
            self._forget_extras(row)
            self.names.remove(row)
        self._row_by_number.array[self.columns.number[named]] = 0
        self.lifecycle.leave(rows)

    def _forget_extras(self, row: int) -> None:
        self.catch_up.pop(row, None)
        self._starts.pop(row, None)
        self.expectations.pop(row, None)
        for rows in self.occasions.values():
            rows.discard(row)

    # Periods and limits

    def set_periods(self, periods: Mapping[str, Period], now: Instant) -> list[Skips]:
        """All periods there are; tasks of those that differ are due by the new ones."""
        compiled = compile_periods(dict(periods))
        different = [name for name in compiled if self._definitions.get(name) != periods[name]]
        # A period that includes or excludes one that differs is different too.
        uses = {name: {*period.include, *period.exclude} for name, period in periods.items()}
        while grown := [n for n in uses if n not in different and uses[n] & set(different)]:
            different += grown
        c, skips = self.columns, []
        for name in different:
            self.periods[name] = compiled[name]
            number = self._period_numbers.get(name)
            if number is None:
                self._period_numbers[name] = self.times.period_number(compiled[name])
            else:
                self.times.replace_period(number, compiled[name])
                rows = self.all_rows()
                skips += self._reschedule(rows[c.period[rows] == number], now)
        self._definitions = dict(periods)
        return skips

    @property
    def limit_numbers(self) -> Mapping[str, int]:
        """The number of each limit, as columns have it."""
        return self._limits

    def set_limits(self, limits: Mapping[str, int]) -> None:
        """All limits there are, by name."""
        for name, most in limits.items():
            number = self._limits.setdefault(name, len(self._limits) + 1)
            self.lifecycle.set_limit(number, most)

    def begin(self, rows: Ints, now: Instant) -> None:
        """New tasks: each on its grid, checks with a first run soon."""
        life = self.lifecycle
        life.pace.mean_rate = self.mean_rate
        life.arrive(rows, now)
        life.make_first_runs(self.active(rows[self.columns.flags[rows] & int(Flag.CHECK) != 0]), now)

    def start_at(self, rows: Ints, now: Instant) -> list[Skips]:
        """Those that say when to start, and that is to come, start then."""
        if not self._starts:
            return []
        skips = []
        for row in rows.tolist():
            start = self._starts.get(row)
            if start is not None and start > now:
                skips += self.lifecycle.start_at(row, start, now)
        return skips


def _has_extras(task: Task) -> bool:
    return task.missed is _ALL or task.start_at is not None or task.passive or _occasion(task).startswith("@")


def _occasion(task: Task) -> str:
    return (task.schedule.cron or "").strip()


def _pieces(things: Iterable[_Thing], most: int) -> Iterator[list[_Thing]]:
    source = iter(things)
    while piece := list(islice(source, most)):
        yield piece
