"""Passive checks of a live node: takes submitted results, and looks for missing ones when they are due.

A submitted result needs no worker and no slot, and does not disturb a run of its check. If a result is missing, a check
with a command or function is run off the grid; the others get a result that says that theirs is missing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np

from evenbeat.admin.passive_settings import PassiveTimes
from evenbeat.core import passive_results as core
from evenbeat.core.columns import Ints
from evenbeat.core.submitted_results import ResultColumns, known_as_of
from evenbeat.core.task import Bools, Flag, SkipColumns
from evenbeat.model import Entry, Instant, Outcome, RunKind, State
from evenbeat.node.loop.outbox import OnCommit
from evenbeat.node.loop.pending_run import PendingRun, RunEndListener
from evenbeat.node.loop.records import problem_changes_of, skip_records_of, task_positions_of
from evenbeat.node.loop.submitted_results import finish_of_submitted, learn_submitted_results, log_records
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.store.contract import Batch, SubmittedResult
from evenbeat.store.problem_records import ProblemChange
from evenbeat.when.duration import format_duration
from evenbeat.when.instant import spoken_instant
from evenbeat.when.windows import FOREVER, NEVER
from evenbeat.when.zone import zone

_UTC: Final = zone("UTC")
_CAN_BE_STALE: Final = int(Flag.ENABLED | Flag.REACHABLE)
"""A check that is disabled or unreachable is not stale."""
_MAX_OBSOLETE_ALARMS: Final = 1_000
"""Obsolete alarms may outnumber the others by this many before they are cleared away."""


class _AlarmKind(IntEnum):
    """What to look for when an alarm is due."""

    EXPECTED = 0
    """The result that the schedule asks for must be there."""
    TTL = 1
    """The TTL of the latest result ends."""
    BEGUN = 2
    """A sender that said that it began must have ended."""


class PassiveChecks:
    """Takes submitted results, and looks when they are due."""

    def __init__(self, tasks: TaskTable, record: Callable[[Batch, OnCommit | None], None]) -> None:
        self.submitted_count = 0
        """Results that were submitted since the start."""
        self.missing_count = 0
        """Results that were missing since the start, whether or not a run took their place."""
        self.stale_rows: set[int] = set()
        """Rows whose latest result says that theirs is missing."""
        self.begun_rows: dict[int, int] = {}
        """When senders began, by row, of those that said so and have not ended."""
        self.on_submitted: list[RunEndListener] = []
        """Called with submitted results, as if they were runs, once they are committed."""
        self._tasks = tasks
        self._record = record
        self._alarms: dict[tuple[int, _AlarmKind], int] = {}
        """The time of each alarm. The heap has them in order, beside obsolete ones."""
        self._heap: list[tuple[int, int, _AlarmKind]] = []
        self._not_before: dict[int, int] = {}
        """Rows whose senders have more time, and until when."""
        self._good_for: dict[int, tuple[int, int]] = {}
        """Of rows with a TTL: the time of the result that has it, and its length."""

    # What is expected, and when to look

    def next_due(self) -> int:
        """When the next alarm is due; FOREVER if there is none."""
        while self._heap:
            when, row, about = self._heap[0]
            if self._alarms.get((row, about)) == when:
                return when
            heappop(self._heap)
        return FOREVER

    def schedule_checks(self, rows: Ints, now: Instant, *, anew: bool = False) -> None:
        """Set alarms for the passive checks among these rows. New and changed checks (`anew`) have an interval more."""
        rows = self._passive(rows)
        c = self._tasks.columns
        c.off_grid_due[rows[c.flags[rows] & int(Flag.NOTHING_TO_RUN) != 0]] = FOREVER
        if anew:
            self._give_time(rows, now)
        life = self._tasks.lifecycle
        later = np.array([self._not_before.get(row, NEVER) for row in rows.tolist()], dtype=np.int64)
        times = core.settle_at(life, rows, self._allowed(rows), later)
        for row, nominal, when in zip(rows.tolist(), c.nominal[rows].tolist(), times.tolist(), strict=True):
            self._set(row, _AlarmKind.EXPECTED, when if nominal < FOREVER else FOREVER)

    def _give_time(self, rows: Ints, now: Instant) -> None:
        """A sender with an interval comes at its own phase: it is late only after a whole one. A calendar says when."""
        c = self._tasks.columns
        some = rows[c.calendar[rows] < 0]
        until = now + c.every[some] + self._allowed(some)
        self._not_before.update(zip(some.tolist(), until.tolist(), strict=True))

    def resume_after_stop(self, rows: Ints, stopped: Instant, now: Instant) -> list[SkipColumns]:
        """The node was down since `stopped`: results that are missing are recorded, and senders get more time."""
        rows, life = self._passive(rows), self._tasks.lifecycle
        allowed = self._allowed(rows)
        self._give_time(rows[core.result_was_missed(life, rows, allowed, stopped, now)], now)
        skips = core.record_missed_results(life, rows, allowed, now)
        self.schedule_checks(rows, now)
        for (row, about), when in list(self._alarms.items()):
            if about is not _AlarmKind.EXPECTED and when <= now:
                self._set(row, about, now + self._time_for_sender(row))
        return skips

    def _time_for_sender(self, row: int) -> int:
        c = self._tasks.columns
        every = int(c.every[row]) if c.calendar[row] < 0 else 0
        return every + int(self._allowed(np.array([row], dtype=np.int64))[0])

    def clock_set_back(self, rows: Ints, by: int, now: Instant) -> None:
        """Move all alarms that go by elapsed time."""
        for known in (self.begun_rows, self._not_before):
            known.update({row: when - by for row, when in known.items()})
        self._good_for = {row: (known - by, length) for row, (known, length) in self._good_for.items()}
        for (row, about), when in list(self._alarms.items()):
            if about is not _AlarmKind.EXPECTED:
                self._set(row, about, when - by)
        self.schedule_checks(rows, now)

    def forget(self, rows: Sequence[int]) -> None:
        """These rows are freed, and other tasks may get them."""
        for row in rows:
            for about in _AlarmKind:
                self._alarms.pop((row, about), None)
            self.begun_rows.pop(row, None)
            self._not_before.pop(row, None)
            self._good_for.pop(row, None)
            self.stale_rows.discard(row)

    def _set(self, row: int, about: _AlarmKind, when: int) -> None:
        if when >= FOREVER:
            self._alarms.pop((row, about), None)
            return
        self._alarms[row, about] = when
        heappush(self._heap, (when, row, about))
        if len(self._heap) > 2 * len(self._alarms) + _MAX_OBSOLETE_ALARMS:
            self._heap = [(time, of, what) for (of, what), time in self._alarms.items()]
            heapify(self._heap)

    # Results

    def submit(
        self, row: int, status: int, output: str, at: Instant, now: Instant, ttl: int | None = None
    ) -> SubmittedResult:
        """Apply a submitted result that speaks of the time `at`; with a `ttl`, it is good for so long."""
        result = self._take_one(row, status, output, at, at, now)
        if result.made is not None:
            self._good_for.pop(row, None)
            if ttl is not None:
                self._good_for[row] = (result.result_at, ttl)
            self._set(row, _AlarmKind.TTL, FOREVER if ttl is None else at + ttl)
        return result

    def begin(self, row: int, began: Instant) -> None:
        """The sender of a row has begun: it must end within its timebox."""
        self.begun_rows[row] = began
        self._set(row, _AlarmKind.BEGUN, began + int(self._tasks.columns.timebox[row]))

    def end(self, row: int, status: int, output: str, now: Instant) -> SubmittedResult:
        """The sender of a row has ended; its duration is known if it said when it began."""
        began = min(self.begun_rows.pop(row, now), now)
        self._set(row, _AlarmKind.BEGUN, FOREVER)
        return self._take_one(row, status, output, Instant(began), now, now)

    def log(self, row: int, output: str, now: Instant) -> None:
        """What the sender of a row says meanwhile: it enters the history and changes nothing."""
        rows, at, status = (np.array([value], dtype=np.int64) for value in (row, now, State.OK))
        results = ResultColumns(rows, at, at, at, at, status, [output], RunKind.LOG)
        self._record(Batch(told=log_records(self._tasks, results, now)), None)

    def _take_one(
        self, row: int, status: int, output: str, started: Instant, at: Instant, now: Instant
    ) -> SubmittedResult:
        last = int(self._tasks.columns.result_at[row])
        known = known_as_of(at, last, now)
        rows, nominal, known_, begun, ended, statuses = (
            np.array([value], dtype=np.int64) for value in (row, at, known, started, at, status)
        )
        results = ResultColumns(rows, nominal, known_, begun, ended, statuses, [output], RunKind.TOLD)
        (result,) = self._take(results, now, self._count_one)
        return result

    def _count_one(self) -> None:
        self.submitted_count += 1

    def good_until(self, row: int) -> tuple[int, int] | None:
        """The end of the TTL of a row, and the time of its result; None without one."""
        until = self._alarms.get((row, _AlarmKind.TTL))
        return None if until is None else (until, self._good_for[row][0])

    def restore(self, times: PassiveTimes, entries: Iterable[Entry]) -> None:
        """What the last node remembered of these tasks."""
        for entry in entries if times.ids else ():
            row = self._tasks.row(entry.number)
            if row is None:
                continue
            if entry.id in times.begun:
                self.restore_begun(row, times.begun[entry.id])
            if entry.id in times.good_until:
                self.restore_ttl(row, *times.good_until[entry.id])

    def are_stale(self, rows: Ints, now: Instant) -> Bools:
        """Which of these rows are passive checks without a result that was expected?"""
        stale = np.zeros(len(rows), dtype=bool)
        some = np.flatnonzero(self._tasks.columns.flags[rows] & int(Flag.PASSIVE) != 0)
        if len(some):
            passive = rows[some]
            overdue = self._tasks.columns.nominal[passive] + self._allowed(passive) < now
            stale[some] = overdue | np.isin(passive, list(self.stale_rows))
        return stale

    def unsure(self, rows: Ints) -> dict[int, int]:
        """Numbers of those of these rows whose latest result may say that theirs is missing, and its time."""
        c, rows = self._tasks.columns, self._passive(rows)
        some = rows[(c.state[rows] != State.OK) & (c.result_at[rows] > NEVER)]
        return dict(zip(c.number[some].tolist(), c.result_at[some].tolist(), strict=True))

    def restore_missing(self, missing: Mapping[int, int]) -> None:
        """Of these, by number, the latest result said that theirs is missing; unless a newer one than then is known."""
        found = {row: known for number, known in missing.items() if (row := self._tasks.row(number)) is not None}
        self.stale_rows.update(row for row, known in found.items() if self._tasks.columns.result_at[row] == known)

    def restore_ttl(self, row: int, until: int, known: int) -> None:
        """The result of the time `known` is good until then, unless a newer result is known."""
        if self._tasks.columns.result_at[row] == known:
            self._good_for[row] = (known, until - known)
            self._set(row, _AlarmKind.TTL, until)

    def restore_begun(self, row: int, began: int) -> None:
        """The sender began then, unless a newer result is known."""
        if self._tasks.columns.result_at[row] < began:
            self.begin(row, Instant(began))

    # Alarms

    def check_rows_again(self, rows: Ints) -> None:
        """These checks have changed, and may be enabled again: alarms that came while they were disabled are due."""
        for row in rows.tolist():
            for about in (_AlarmKind.TTL, _AlarmKind.BEGUN):
                when = self._alarms.get((row, about))
                if when is not None:
                    heappush(self._heap, (when, row, about))

    def reachable_again(self, rows: Ints, now: Instant) -> None:
        """Checks among these rows were unreachable: nothing was expected of them, and senders get time to come."""
        rows = self._passive(rows)
        self._give_time(rows, now)
        self.schedule_checks(rows, now)
        for row in rows.tolist():
            for about in (_AlarmKind.TTL, _AlarmKind.BEGUN):
                if self._alarms.get((row, about), FOREVER) <= now:
                    self._set(row, about, now + self._time_for_sender(row))

    def check_due(self, now: Instant) -> None:
        """Handle all alarms that are due by now."""
        found: dict[_AlarmKind, list[int]] = {about: [] for about in _AlarmKind}
        while self.next_due() <= now:
            _, row, about = heappop(self._heap)
            flags = self._tasks.columns.flags[row]
            if about is not _AlarmKind.EXPECTED and flags & _CAN_BE_STALE != _CAN_BE_STALE:
                continue  # until `check_rows_again` or `reachable_again`: the alarm is kept
            del self._alarms[row, about]
            found[about].append(row)
        begun, ttl, expected = (np.array(found[about], dtype=np.int64) for about in reversed(_AlarmKind))
        self._handle_begun(begun, now)
        self._handle_ttl(ttl, now)
        self._handle_expected(expected, now)

    def _handle_begun(self, rows: Ints, now: Instant) -> None:
        began = np.array([self.begun_rows.pop(row) for row in rows.tolist()], dtype=np.int64)
        without = ~self._run_instead(rows, now)
        rows, began = rows[without], began[without]
        outputs = [
            f"began {_utc_text(since)} and has not ended within its timebox of {format_duration(box)}"
            for since, box in zip(began.tolist(), self._tasks.columns.timebox[rows].tolist(), strict=True)
        ]
        at, status = _filled(rows, now), self._when_missing(rows)
        self._take(ResultColumns(rows, at, at, began, at, status, outputs, RunKind.TOLD, Outcome.TIMEBOXED), now)

    def _handle_ttl(self, rows: Ints, now: Instant) -> None:
        good_for = np.array([self._good_for.pop(row) for row in rows.tolist()], dtype=np.int64).reshape(-1, 2)
        latest = good_for[:, 0] == self._tasks.columns.result_at[rows]
        rows, lengths = rows[latest], good_for[latest, 1]
        words = [f"that one was good for {format_duration(length)}" for length in lengths.tolist()]
        self._handle_missing(rows, _filled(rows, now), words, now)

    def _handle_expected(self, rows: Ints, now: Instant) -> None:
        c = self._tasks.columns
        rows = self._passive(rows)  # a row may have got another task
        for row in rows.tolist():
            self._not_before.pop(row, None)
        seen = core.settle_due_results(self._tasks.lifecycle, rows, self._allowed(rows), now)
        skips = [skip for some in seen.skips for skip in skip_records_of(c, some, now)]
        if skips or len(seen.fresh):
            self._record(Batch(standings=task_positions_of(self._tasks, seen.fresh, now), skips=skips), None)
        expected_by = seen.nominal + self._allowed(seen.stale, seen.nominal)
        words = [f"expected by {_utc_text(t)}" for t in expected_by.tolist()]
        self._handle_missing(seen.stale, seen.nominal, words, now)
        self.schedule_checks(rows, now)

    def _handle_missing(self, rows: Ints, nominal: Ints, words: Sequence[str], now: Instant) -> None:
        """Results of these rows are missing: run those that have a job, and mark the others as stale."""
        without = ~self._run_instead(rows, now, counted=True)
        self._mark_stale(rows[without], nominal[without], [words[i] for i in np.flatnonzero(without).tolist()], now)

    def _run_instead(self, rows: Ints, now: Instant, *, counted: bool = False) -> Bools:
        provided = core.run_own_job_instead(self._tasks.lifecycle, rows, now)
        if provided.any():
            standings = task_positions_of(self._tasks, rows[provided], now)
            self._record(Batch(standings=standings), self._missed(len(standings)) if counted else None)
        return provided

    def _missed(self, number: int) -> OnCommit:
        """What follows when so many missing results are committed."""

        def count() -> None:
            self.missing_count += number

        return count

    def _mark_stale(self, rows: Ints, nominal: Ints, words: Sequence[str], now: Instant) -> None:
        latest = self._tasks.columns.result_at[rows].tolist()
        since = [f"no result since {_utc_text(t)}" if t > NEVER else "no result yet" for t in latest]
        outputs = [f"{how}, {why}" for how, why in zip(since, words, strict=True)]
        known = core.missing_result_time(self._tasks.lifecycle, rows, nominal)
        at = _filled(rows, now)
        results = ResultColumns(rows, nominal, known, at, at, self._when_missing(rows), outputs, RunKind.STALE)
        self._take(results, now, self._missed(len(rows)))
        self.stale_rows.update(rows.tolist())

    def _take(self, results: ResultColumns, now: Instant, then: OnCommit | None = None) -> list[SubmittedResult]:
        if not len(results.rows):
            return []
        learned = learn_submitted_results(self._tasks, results, now)
        self._tasks.reachability.learn_results(results.rows)
        self.stale_rows -= {row for row, t in zip(results.rows.tolist(), learned, strict=True) if t.made is not None}
        changes = self._problem_changes(results.rows, now)
        self._record(Batch(told=learned, problems=changes), self._announcement(learned, then))
        return learned

    def _announcement(self, results: Sequence[SubmittedResult], then: OnCommit | None) -> OnCommit:
        """What follows when these results are committed."""
        runs = list(map(self._as_run, results)) if self.on_submitted else []

        def announce() -> None:
            if then is not None:
                then()
            for listener in self.on_submitted if runs else ():
                listener(runs, [finish_of_submitted(result) for result in results])

        return announce

    def _as_run(self, result: SubmittedResult) -> PendingRun:
        row = self._tasks.row_or_raise(result.task)
        return PendingRun(result.task, row, result.nominal, result.kind, result.at, self._tasks.names.name(row), 0, 0)

    def _problem_changes(self, rows: Ints, now: Instant) -> list[ProblemChange]:
        updates = self._tasks.problems.learn_results(rows, now)
        return problem_changes_of(self._tasks.columns, updates) if updates else []

    # Definitions

    def _passive(self, rows: Ints) -> Ints:
        c = self._tasks.columns
        passive: Ints = rows[c.used[rows] & (c.flags[rows] & int(Flag.PASSIVE) != 0)]
        return passive

    def _when_missing(self, rows: Ints) -> Ints:
        """The state of each row while its result is missing: UNKNOWN if it is no passive check any more."""
        said = map(self._tasks.expectations.get, rows.tolist())
        return np.array([State.UNKNOWN if e is None else e.when_missing for e in said], dtype=np.int64)

    def expected_by(self, rows: Ints) -> Ints:
        """By when the next result of each of these passive checks must be there."""
        nominal = self._tasks.columns.nominal[rows]
        comes = nominal < FOREVER
        nominal[comes] += self._allowed(rows[comes])
        return nominal

    def _allowed(self, rows: Ints, nominal: Ints | None = None) -> Ints:
        """How long after a nominal time a result may come; by default after the next one that is not settled."""
        c = self._tasks.columns
        said = [self._tasks.expectations.get(row) for row in rows.tolist()]
        grace = [0 if e is None else -1 if e.grace is None else e.grace for e in said]
        if nominal is None:
            nominal = c.nominal[rows]
        return core.allowed_after(
            self._tasks.lifecycle, rows, nominal, c.timebox[rows], np.array(grace, dtype=np.int64)
        )


def _filled(rows: Ints, value: int) -> Ints:
    return np.full(len(rows), int(value), dtype=np.int64)


def _utc_text(t: int) -> str:
    return spoken_instant(Instant(t), _UTC)
