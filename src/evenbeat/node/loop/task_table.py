"""The tasks of a live node, each in its row: from the entries of the store to the columns by which the core decides."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec
import numpy as np

from evenbeat.admin.period_changes import periods_and_users
from evenbeat.core.alerts import HOLD_OF_WORD, Hold
from evenbeat.core.chains import Chains
from evenbeat.core.changed_definitions import pause, settle_past, unpause
from evenbeat.core.columns import GrowingArray, Ints
from evenbeat.core.downtimes import DowntimeRows
from evenbeat.core.gate import Reason
from evenbeat.core.label_index import LabelIndex, label_hashes
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.missing_and_long import TimedProblems
from evenbeat.core.name_index import NameIndex
from evenbeat.core.passive_results import ResultExpectation, expectation_of
from evenbeat.core.permission import CommandPolicy, may_execute
from evenbeat.core.problems import KnownProblem, Problems, ProblemUpdate
from evenbeat.core.reachability import Reachability
from evenbeat.core.task import ALL_FLAGS, Bools, Flag, SkipColumns
from evenbeat.core.task_columns import DEFINED_FLAGS, TasksByKind, enrol, enrol_alike, timebox_setting
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import Timetable
from evenbeat.model import (
    CAUSES_OF_RESULTS,
    PARTITION_COUNT,
    SECOND,
    Cause,
    Entry,
    Instant,
    Missed,
    Period,
    RunKind,
    State,
    Task,
)
from evenbeat.node.loop.packed_jobs import NodeColumns, PackedJobs
from evenbeat.node.loop.plain_definitions import DefinitionCollector, PlainDefinitions, pieces
from evenbeat.store.contract import TaskProgress
from evenbeat.store.problem_records import OpenProblem
from evenbeat.when.instant import parse_instant
from evenbeat.when.period import CompiledPeriod, compile_periods
from evenbeat.when.windows import FOREVER, NEVER
from evenbeat.when.zone import zone

_TASKS_AT_ONCE: Final = 10_000
"""Tasks that are brought in at a time: many enough for columns to be fast, few enough to need little memory."""
_SCHEDULE_COLUMNS: Final = ("every", "phase", "calendar", "second", "period", "has_moving_grid")
"""Columns that say when a task is due."""
_MISSED_ALL: Final = Missed.ALL
_PASSIVE_FLAGS: Final = int(Flag.PASSIVE | Flag.NOTHING_TO_RUN)
_Item = TypeVar("_Item")


class TaskTable:
    """Which task is in which row, and what the core and the workers must know of it."""

    def __init__(self, slots: int, generation: int) -> None:
        self.columns = NodeColumns()
        self.times = ScheduleTimes(self.columns)
        self.lifecycle = Lifecycle(self.columns, Timetable(self.columns), self.times, slots, generation=generation)
        self.chains = Chains(self.lifecycle)
        self.given_up_runs: list[tuple[int, int, Instant]] = []
        """Numbers and nominal times of runs that failed and do not try again after all, and since when; the chains
        learn them with the next batch.
        """
        self.problems = Problems(self.columns)
        self.timed_problems = TimedProblems()
        self.names = NameIndex()
        self.reachability = Reachability(self.columns, self.names.find)
        self.labels = LabelIndex()
        self.jobs = PackedJobs(self.columns)
        self._row_by_number = GrowingArray(np.int32)
        """One more than the row; 0 for none."""
        self.functions: list[str] = []
        self._function_numbers: dict[str, int] = {}
        self.pools: list[str | None] = [None]
        self._pool_numbers: dict[str | None, int] = {None: 0}
        self._owners: list[str] = []
        self._owner_numbers: dict[str, int] = {}
        self.downtimes = DowntimeRows(self.columns, self.names, self.labels, self.reachability, self._owner_numbers.get)
        self._permission = CommandPolicy()
        self.periods: dict[str, CompiledPeriod] = {}
        self._period_numbers: dict[str, int] = {}
        self._definitions: dict[str, Period] = {}
        self._limits: dict[str, int] = {}
        self.catch_up: dict[int, int] = {}
        """Of rows with missed = "all": how far back it goes."""
        self._starts: dict[int, Instant] = {}
        """Of rows with `start_at`: that time."""
        self._pause_ends: dict[int, Instant] = {}
        """Of rows that are paused until then."""
        self.expectations: dict[int, ResultExpectation] = {}
        """Of rows that are passive checks: what they say of missing results."""
        self.collector: DefinitionCollector | None = None
        """Gets the definitions of tasks that come in; None if nothing needs them."""
        self.occasions: dict[str, set[int]] = {"@reboot": set(), "@shutdown": set()}

    # Rows

    def row(self, number: int) -> int | None:
        """The row of a task by its number in the store."""
        found = int(self._row_by_number.array[number]) if 0 <= number < len(self._row_by_number.array) else 0
        return found - 1 if found else None

    def row_or_raise(self, number: int) -> int:
        """The row of a task that is here."""
        row = self.row(number)
        assert row is not None
        return row

    def name_of(self, number: int, last: str) -> str:
        """The current name of a task, or its last one if it is not here."""
        row = self.row(number)
        return last if row is None else self.names.name(row)

    def rows(self, numbers: Sequence[int]) -> Ints:
        """The rows of these tasks, without tasks that this node does not have."""
        wanted = np.array(numbers, dtype=np.int64)
        wanted = wanted[(wanted >= 0) & (wanted < len(self._row_by_number.array))]
        found = self._row_by_number.array[wanted].astype(np.int64) - 1
        return found[found >= 0]

    def all_rows(self) -> Ints:
        """The rows of all tasks that have not been removed."""
        c = self.columns
        return np.flatnonzero(c.used & (c.flags & int(Flag.REMOVED) == 0))

    def rows_in(self, partitions: Collection[int]) -> Ints:
        """All rows of these partitions, removed tasks that still run included."""
        rows = np.flatnonzero(self.columns.used)
        wanted = np.zeros(PARTITION_COUNT, dtype=bool)
        wanted[list(partitions)] = True
        found: Ints = rows[wanted[self.columns.number[rows] % PARTITION_COUNT]]
        return found

    def active(self, rows: Ints) -> Ints:
        """Of these rows, those whose schedule makes runs: all but passive checks."""
        active: Ints = rows[self.columns.flags[rows] & int(Flag.PASSIVE) == 0]
        return active

    def runnable(self, rows: Ints) -> Ints:
        """Of these rows, those with a command or function, also one that runs only if a result is missing."""
        runnable: Ints = rows[self.columns.flags[rows] & int(Flag.NOTHING_TO_RUN) == 0]
        return runnable

    def catch_up_of(self, rows: Ints) -> Ints:
        """How far back each row with missed = "all" catches up; 0 for the others."""
        if not self.catch_up:
            return np.zeros(len(rows), dtype=np.int64)
        return np.array([self.catch_up.get(row, 0) for row in rows.tolist()], dtype=np.int64)

    def functions_of(self, rows: Ints) -> list[str | None] | None:
        """The function of each row, None for a command; None if all are commands."""
        numbers = self.columns.function[rows]
        if (numbers < 0).all():
            return None
        return [self.functions[number] if number >= 0 else None for number in numbers.tolist()]

    def pools_of(self, rows: Ints) -> list[str | None] | None:
        """The pool of each row; None if all are in the default one."""
        if len(self.pools) == 1:
            return None
        return [self.pools[number] for number in self.columns.pool[rows].tolist()]

    def repeatable(self, rows: Ints) -> Ints:
        """Of these rows, those whose lost runs may be repeated: not `@shutdown` tasks, whose occasion is over."""
        stops = self.occasions["@shutdown"]
        return rows[[row not in stops for row in rows.tolist()]] if stops else rows

    @property
    def mean_rate(self) -> float:
        """Starts per second that the interval grids make by themselves."""
        c = self.columns
        able, not_passive = int(Flag.ENABLED | Flag.PERMITTED), int(Flag.ENABLED | Flag.PERMITTED | Flag.PASSIVE)
        plain = c.used & (c.calendar < 0) & (c.flags & not_passive == able)
        return float((SECOND / c.every[plain]).sum())

    # Coming, changing, going

    def add(self, entries: Iterable[Entry], periods: Mapping[str, int] | None = None) -> Ints:
        """Give tasks their rows, filled in from their definitions; they do not enter the timetable yet.

        `periods` are the numbers of the periods that they refer to, if not the current ones.
        """
        rows = [self._bring_in(some, periods) for some in _in_parts(entries, _TASKS_AT_ONCE)]
        return np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)

    def _bring_in(self, entries: Sequence[Entry], periods: Mapping[str, int] | None) -> Ints:
        rows = self.columns.allocate(len(entries))
        self.names.add_many([entry.task.name for entry in entries], rows)
        self._number(rows, np.array([entry.number for entry in entries], dtype=np.int64))
        alike = self._define(rows, entries, periods)
        if self.collector is not None:
            self.collector.take(self.columns, rows, entries, alike)
        return rows

    def add_plain(self, some: PlainDefinitions) -> Ints:
        """`add` for tasks whose definitions are in columns; they come before all tasks that depend on them."""
        rows = self.columns.allocate(len(some.numbers))
        self.names.add_texts(pieces(some.names, some.name_lengths), rows)
        self._number(rows, some.numbers)
        self.columns.owner[rows] = np.array([*map(self._owner, some.owner_names)], dtype=np.int64)[some.owners]
        self._permit(rows)
        alike = TasksByKind(some.samples, some.kinds.astype(np.int64))
        enrol_alike(self.columns, self.times, rows, alike, some.phases, self._period_numbers, self._limits)
        self._define_alike(rows, alike)
        self.labels.put_hashes(rows, some.label_counts, label_hashes(some.label_texts)[some.labels])
        self.downtimes.define(rows)
        self.jobs.put_packed(rows, some.job_lengths, some.jobs)
        if self.collector is not None:
            self.collector.take_again(rows, some)
        return rows

    def collected(self) -> PlainDefinitions | None:
        """The definitions of plain tasks that the collector has, right after they were brought in; it has no more."""
        collector, self.collector = self.collector, None
        if collector is None:
            return None
        return collector.collected(self.columns, self.names, self.jobs, self._owners.copy())

    def _number(self, rows: Ints, numbers: Ints) -> None:
        self.columns.number[rows] = numbers
        self._row_by_number.reserve(int(numbers.max(initial=0)) + 1)
        self._row_by_number.array[numbers] = rows + 1

    def _define(self, rows: Ints, entries: Sequence[Entry], periods: Mapping[str, int] | None) -> TasksByKind:
        tasks = [entry.task for entry in entries]
        owners = [entry.owner for entry in entries]
        known = {owner: self._owner(owner) for owner in dict.fromkeys(owners)}
        self.columns.owner[rows] = [known[owner] for owner in owners]
        self._permit(rows)
        numbers = self._period_numbers if periods is None else periods
        alike = enrol(self.columns, self.times, rows, tasks, numbers, self._limits)
        self._define_alike(rows, alike)
        self.reachability.define(rows, tasks)
        self.labels.put(rows, [task.labels for task in tasks])
        self.downtimes.define(rows)
        encode = msgspec.msgpack.Encoder().encode
        self.jobs.put(rows, [*map(encode, [task.job for task in tasks])])
        for i in np.flatnonzero(self.columns.flags[rows] & int(Flag.ENABLED) == 0).tolist():
            if (pause_ := tasks[i].pause) is not None and pause_.until is not None:
                self._pause_ends[int(rows[i])] = pause_.until
        for i in np.flatnonzero(alike.value_per_task(_has_extras)).tolist():
            self._define_extras(int(rows[i]), tasks[i])
        for i in np.flatnonzero(self.columns.flags[rows] & int(Flag.CHAINED)).tolist():
            self.chains.define(int(rows[i]), tasks[i].schedule, entries[i].changed)
        return alike

    def _define_alike(self, rows: Ints, alike: TasksByKind) -> None:
        self.columns.timebox[rows] = alike.value_per_task(timebox_setting)
        self.columns.retry_policy[rows] = alike.value_per_task(self.lifecycle.retries.policy_number)
        self.columns.function[rows] = alike.value_per_task(lambda task: self._function(task.job.function))
        self.columns.pool[rows] = alike.value_per_task(lambda task: self._pool(task.pool))

    def _define_extras(self, row: int, task: Task) -> None:
        if task.missed is _MISSED_ALL:
            self.catch_up[row] = task.catch_up
        if task.start_at is not None:
            self._starts[row] = parse_instant(task.start_at, zone(task.schedule.zone))
        if task.passive:
            self.expectations[row] = expectation_of(task)
        if _cron_text(task) in self.occasions:
            self.occasions[_cron_text(task)].add(row)

    def _function(self, function: str | None) -> int:
        if function is None:
            return -1
        if function not in self._function_numbers:
            self._function_numbers[function] = len(self.functions)
            self.functions.append(function)
        return self._function_numbers[function]

    def _owner(self, owner: str) -> int:
        if owner not in self._owner_numbers:
            self._owner_numbers[owner] = len(self._owners)
            self._owners.append(owner)
        return self._owner_numbers[owner]

    def set_permission(self, permission: CommandPolicy) -> Ints:
        """Set which owners may say what is executed; returns the rows for which that changes something."""
        if permission == self._permission:
            return np.empty(0, dtype=np.int64)
        self._permission = permission
        rows = self.all_rows()
        before = self.columns.flags[rows]
        self._permit(rows)
        changed: Ints = rows[self.columns.flags[rows] != before]
        self.lifecycle.reset_due(changed)
        return changed

    def _permit(self, rows: Ints) -> None:
        permitted = np.array([may_execute(self._permission, owner) for owner in self._owners], dtype=bool)
        is_one = permitted[self.columns.owner[rows]]
        self.lifecycle.set_flag(rows[is_one], Flag.PERMITTED, on=True)
        self.lifecycle.set_flag(rows[~is_one], Flag.PERMITTED, on=False)

    def _pool(self, pool: str | None) -> int:
        if pool not in self._pool_numbers:
            self._pool_numbers[pool] = len(self.pools)
            self.pools.append(pool)
        return self._pool_numbers[pool]

    def restore_progress(self, progress: Iterable[TaskProgress]) -> tuple[Ints, list[TaskProgress]]:
        """Fill in where tasks stood when the last node stopped. Returns their rows, and the runs that were under way,
        those of removed tasks included.
        """
        rows, open_claims = [], []
        for some in _in_parts(progress, _TASKS_AT_ONCE):
            where = self.rows([p.task for p in some])
            # These are all of them, unless a removed task still runs.
            known = some if len(where) == len(some) else [p for p in some if self.row(p.task) is not None]
            self._take_up(where, known)
            self.reachability.refresh()
            rows.append(where)
            open_claims += [p for p in some if p.claimed is not None]
        return (np.concatenate(rows) if rows else np.empty(0, dtype=np.int64)), open_claims

    def _take_up(self, rows: Ints, known: Sequence[TaskProgress]) -> None:
        c = self.columns
        for name, values in zip(TaskProgress._fields, zip(*known, strict=True), strict=False):
            match name:
                case "extra":
                    c.off_grid_due[rows] = values
                case "extra_kind":
                    c.off_grid_kind[rows] = values
                case "accounted" | "last_start" | "state" | "hard" | "attempt" | "changes":
                    getattr(c, name)[rows] = values
                case "flapping" | "result_at":
                    getattr(c, name)[rows] = values
        paused = {p.task: (p.pause_from, p.pause_until) for p in known if p.pause_until > NEVER}
        for number, pause_ in paused.items():
            self.lifecycle.pauses[self.row_or_raise(number)] = pause_
        before_start = rows[c.off_grid_kind[rows] == RunKind.FORCED_BEFORE_START]
        c.off_grid_kind[before_start] = RunKind.START_AT
        self.lifecycle.set_flag(before_start, Flag.FORCED, on=True)
        asked = (c.off_grid_kind[rows] == RunKind.START_AT) & (c.off_grid_due[rows] < FOREVER)
        asked &= c.flags[rows] & int(Flag.PASSIVE) == 0
        some = rows[asked]
        # A start that was missed and is made up for at another time postpones nothing any more.
        starts = np.array([self._starts.get(row, NEVER) for row in some.tolist()], dtype=np.int64)
        self.lifecycle.set_flag(some[c.off_grid_due[some] == starts], Flag.POSTPONED, on=True)

    def restore_problems(self, problems: Iterable[OpenProblem]) -> None:
        """Take over the problems that are open already."""
        for_results = []
        for known in problems:
            row, cause = self.row(known.task), Cause(known.cause)
            if row is not None and cause in CAUSES_OF_RESULTS:
                for_results.append(KnownProblem(row, cause, known.opened, State(known.state), State(known.worst)))
            elif row is not None:
                hold = HOLD_OF_WORD.get(known.hold, Hold.NONE)
                self.timed_problems.restore(known.task, cause, known.opened, hold)
        self.problems.restore(for_results)

    def change(
        self, entries: Sequence[Entry], now: Instant, periods: Mapping[str, int] | None = None
    ) -> tuple[Ints, list[SkipColumns]]:
        """Take over new definitions. What was due before is settled by the old ones; the new ones count from now on, a
        new `start_at` and a pause included. Returns the rows whose place in the timetable changed.
        """
        known = [entry for entry in entries if self.row(entry.number) is not None]
        rows = self.rows([entry.number for entry in known])
        c, life = self.columns, self.lifecycle
        before = {name: getattr(c, name)[rows] for name in (*_SCHEDULE_COLUMNS, "flags", "limit")}
        starts = [self._starts.get(row) for row in rows.tolist()]
        by_time = [row for row, e in zip(rows.tolist(), known, strict=True) if not e.task.schedule.parents]
        skips = self.chains.leave(by_time, now)
        self.chains.suspend(rows)
        for row, name, entry in zip(rows.tolist(), self.names.names(rows), known, strict=True):
            self._forget_extras(row)
            if name != entry.task.name:
                self.names.rename(row, entry.task.name)
        self._define(rows, known, periods)
        turned = (c.flags[rows] ^ before["flags"]) & _PASSIVE_FLAGS != 0
        other_start = np.array([self._starts.get(row) != t for row, t in zip(rows.tolist(), starts, strict=True)], bool)
        differs = turned | other_start
        for name in _SCHEDULE_COLUMNS:
            differs |= getattr(c, name)[rows] != before[name]
        skips += self._settle_by(before, rows, differs, now)
        self._turn(rows[turned])
        self._retry_no_more(rows[(c.flags[rows] ^ before["flags"]) & int(Flag.CHECK) != 0])
        self._start_no_more(rows[other_start])
        skips += self._reschedule(rows[differs], now)
        given_up = self._give_up_unfit_retries(rows)
        on, was_on = ((flags & int(Flag.ENABLED)) != 0 for flags in (c.flags[rows], before["flags"]))
        skips += pause(life, rows[was_on & ~on], now)
        skips += unpause(life, rows[on & ~was_on], now)
        self.know_parents()
        self.chains.make_due(rows.tolist(), now)
        if (c.limit[rows] != before["limit"]).any():
            life.recount_limits()
        return rows[differs | (on != was_on) | given_up], skips

    def _settle_by(self, before: Mapping[str, Ints], rows: Ints, differs: Bools, now: Instant) -> list[SkipColumns]:
        """Settle what was due by the columns as they were before the change."""
        c, some = self.columns, rows[differs]
        names = (*_SCHEDULE_COLUMNS, "flags")
        after = {name: getattr(c, name)[some] for name in names}
        for name in names:
            getattr(c, name)[some] = before[name][differs]
        skips = settle_past(self.lifecycle, some, now)
        for name in _SCHEDULE_COLUMNS:
            getattr(c, name)[some] = after[name]
        c.flags[some] = (c.flags[some] & (ALL_FLAGS ^ DEFINED_FLAGS)) | (after["flags"] & DEFINED_FLAGS)
        return skips

    def _turn(self, rows: Ints) -> None:
        """Tasks became passive checks, or the reverse, or their command came or went: nothing planned stays."""
        self.lifecycle.retries.drop(rows)
        self.columns.off_grid_due[rows] = FOREVER
        self.lifecycle.set_flag(rows, Flag.FORCED | Flag.CATCHING_UP, on=False)
        self.lifecycle.reset_due(rows)

    def _retry_no_more(self, rows: Ints) -> None:
        """Tasks became checks, or the reverse: these retry by other rules."""
        c = self.columns
        self.lifecycle.retries.drop(rows)
        c.off_grid_due[rows[c.off_grid_kind[rows] == RunKind.RETRY]] = FOREVER
        self.lifecycle.reset_due(rows)

    def _give_up_unfit_retries(self, rows: Ints) -> Bools:
        """Retries that the new definitions of these rows leave no room for are not made; returns whose."""
        given_up = np.isin(rows, self.lifecycle.retries.give_up_unfit(rows))
        self.lifecycle.reset_due(rows[given_up])
        return given_up

    def problems_of_given_up_retries(self, now: Instant) -> list[ProblemUpdate]:
        """The problems of tasks whose retries were given up since this was last called."""
        given_up = self.lifecycle.retries.take_given_up()
        self.given_up_runs += [(int(self.columns.number[row]), nominal, now) for row, nominal in given_up.items()]
        return self.problems.learn_given_up(np.array(list(given_up), dtype=np.int64), now)

    def _start_no_more(self, rows: Ints) -> None:
        """The `start_at` of these rows was changed or removed: the old one is not made."""
        c = self.columns
        asked = rows[(c.off_grid_kind[rows] == RunKind.START_AT) & (c.off_grid_due[rows] < FOREVER)]
        c.off_grid_due[asked] = FOREVER
        self.lifecycle.set_flag(rows, Flag.POSTPONED, on=False)

    def _reschedule(self, rows: Ints, now: Instant) -> list[SkipColumns]:
        """Make rows due by their schedules from now on, but not before their `start_at`."""
        self.lifecycle.reschedule(rows, now)
        return self.start_at(rows, now)

    def close_accounts(self, numbers: Sequence[int], now: Instant) -> list[SkipColumns]:
        """Skip what was due of tasks that are about to be removed. Their rows still say what is accounted for."""
        return self.chains.settle_skips(self.lifecycle.skip_until(self.rows(numbers), now, Reason.REMOVED))

    def remove(self, numbers: Sequence[int], now: Instant) -> None:
        """Remove tasks whose accounts are closed, running ones when they have ended."""
        rows = self.rows(numbers)
        for row in rows.tolist():
            self._forget_extras(row)
            self.names.remove(row)
        self._row_by_number.array[self.columns.number[rows]] = 0
        self.reachability.forget(rows)
        self.lifecycle.remove(rows, now)
        self.chains.forget(rows.tolist())

    def remove_again(self, numbers: Sequence[int], now: Instant) -> None:
        """Remove tasks that were removed before this node took them over: what was due was accounted for then."""
        self.columns.nominal[self.rows(numbers)] = FOREVER
        self.remove(numbers, now)

    def restore_removed(self, entries: Sequence[Entry], now: Instant) -> tuple[Ints, list[Entry]]:
        """Give created tasks that were removed here before, and still run, their rows back.

        Returns these rows, and the entries of all others, which are new here.
        """
        c = self.columns
        removed = self.removed_rows()
        row_of = dict(zip(c.number[removed].tolist(), removed.tolist(), strict=True))
        back = [entry for entry in entries if entry.number in row_of]
        rows = np.array([row_of[entry.number] for entry in back], dtype=np.int64)
        if back:
            self.names.add_many([entry.task.name for entry in back], rows)
            self._row_by_number.array[c.number[rows]] = rows + 1
            self._define(rows, back, None)
            self.lifecycle.restore_removed(rows, now)
        return rows, [entry for entry in entries if entry.number not in row_of]

    def removed_rows(self) -> Ints:
        """Rows of tasks that were removed and whose runs have not ended."""
        return np.flatnonzero(self.columns.flags & int(Flag.REMOVED))

    def release(self, rows: Ints) -> None:
        """Hand tasks over to another node, as they are."""
        named = rows[self.columns.flags[rows] & int(Flag.REMOVED) == 0]
        self.downtimes.hand_over(named)
        for row in named.tolist():
            self._forget_extras(row)
            self.names.remove(row)
        self.timed_problems.forget(self.columns.number[named].tolist())
        self._row_by_number.array[self.columns.number[named]] = 0
        self.reachability.hand_over(named)
        self.chains.forget(rows.tolist())
        self.lifecycle.hand_over(rows)

    def refresh_parents(self) -> None:
        """Tasks came: others may depend on them or follow them."""
        self.reachability.refresh()
        self.know_parents()

    def know_parents(self) -> None:
        """Parents of chained tasks that are here are known, also before any run of them has ended."""

        def number_of(name: str) -> int | None:
            row = self.names.find(name)
            return None if row is None else int(self.columns.number[row])

        self.chains.know_parents(number_of)

    def _forget_extras(self, row: int) -> None:
        self.catch_up.pop(row, None)
        self._starts.pop(row, None)
        self._pause_ends.pop(row, None)
        self.expectations.pop(row, None)
        for rows in self.occasions.values():
            rows.discard(row)

    def paused_too_long(self, now: Instant) -> list[str]:
        """The names of tasks whose pause is to have ended by now."""
        return [self.names.name(row) for row, end in self._pause_ends.items() if end <= now]

    def next_pause_end(self) -> Instant | None:
        """When the next pause ends; None if no task is paused until a time."""
        return min(self._pause_ends.values(), default=None)

    # Periods and limits

    def number_periods(self, periods: Mapping[str, Period]) -> dict[str, int]:
        """Numbers for past definitions of periods, by name."""
        return {name: self.times.period_number(period) for name, period in compile_periods(dict(periods)).items()}

    def set_periods(self, periods: Mapping[str, Period], now: Instant) -> tuple[Ints, list[SkipColumns]]:
        """Set all periods. Returns the rows of tasks whose period changed, which are due by the new one from now on."""
        compiled = compile_periods(dict(periods))
        different = periods_and_users(
            periods, [name for name in compiled if self._definitions.get(name) != periods[name]]
        )
        numbers = [self._period_numbers[name] for name in different if name in self._period_numbers]
        rows = self.all_rows()
        # A task that follows others has the same nominal times in any period.
        rows = rows[self.columns.flags[rows] & int(Flag.CHAINED) == 0]
        rows = rows[np.isin(self.columns.period[rows], numbers)]
        skips = settle_past(self.lifecycle, rows, now)
        for name in different:
            self.periods[name] = compiled[name]
            number = self._period_numbers.get(name)
            if number is None:
                self._period_numbers[name] = self.times.period_number(compiled[name])
            else:
                self.times.replace_period(number, compiled[name])
        self._definitions = dict(periods)
        skips += self._reschedule(rows, now)
        self._give_up_unfit_retries(rows)
        return rows, skips

    @property
    def period_numbers(self) -> Mapping[str, int]:
        """The number of each period, as columns have it."""
        return self._period_numbers

    @property
    def limit_numbers(self) -> Mapping[str, int]:
        """The number of each limit, as columns have it."""
        return self._limits

    def set_limits(self, limits: Mapping[str, int]) -> None:
        """Set all limits, by name."""
        for name, most in limits.items():
            number = self._limits.setdefault(name, len(self._limits) + 1)
            self.lifecycle.set_limit(number, most)

    def start_at(self, rows: Ints, since: Instant) -> list[SkipColumns]:
        """Schedule the tasks whose `start_at` lies after `since`."""
        if not self._starts:
            return []
        skips = []
        for row in rows.tolist():
            start = self._starts.get(row)
            if start is not None and start > since:
                skips += self.lifecycle.postpone_until(row, start, since)
        return skips


def _has_extras(task: Task) -> bool:
    return task.missed is _MISSED_ALL or task.start_at is not None or task.passive or _cron_text(task).startswith("@")


def _cron_text(task: Task) -> str:
    return (task.schedule.cron or "").strip()


def _in_parts(things: Iterable[_Item], most: int) -> Iterator[list[_Item]]:
    source = iter(things)
    while piece := list(islice(source, most)):
        yield piece
