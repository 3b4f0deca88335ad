"""The turn loop: each turn learns what has ended, releases what is due, and claims the runs.

Claims are committed before anything starts. What a turn learned and claimed is one batch.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Final

import msgspec
import numpy as np

from evenbeat.admin.worker_killers import StoredWorkerDeaths
from evenbeat.clock.node_clock import Clock
from evenbeat.core.columns import Ints
from evenbeat.core.freshness import are_stale
from evenbeat.core.lost_runs import assumed_start, repeat_lost_runs
from evenbeat.core.retries import EndedRun
from evenbeat.core.run_plan import (
    GIVES_RESULT,
    NO_STATUS,
    START_UNREPORTED,
    STARTED,
    SUCCESS,
    are_dropped_retries,
    are_lost,
    give_results,
    outcome_meanings,
    plan_runs,
    result_states,
    set_last_start,
)
from evenbeat.core.task import Bools, ClaimColumns, Flag, Flags, SkipColumns, Small
from evenbeat.core.worker_deaths import WorkerDeaths
from evenbeat.model import SECOND, Instant, Outcome, RunKind
from evenbeat.node.loop.chains import ChainRecorder
from evenbeat.node.loop.counters import RunCounters
from evenbeat.node.loop.ended_runs import EndedRuns, LearnedEnds, NewResults
from evenbeat.node.loop.ends_of_removed import EndsOfRemovedTasks
from evenbeat.node.loop.jobs_with_arguments import OwnJobs
from evenbeat.node.loop.outbox import OnCommit, Outbox
from evenbeat.node.loop.passive_checks import PassiveChecks
from evenbeat.node.loop.pending_run import PendingRun, RunEndListener
from evenbeat.node.loop.problem_holds import ProblemHolds
from evenbeat.node.loop.records import (
    condition_columns_of,
    planned_off_grid,
    problem_changes_of,
    refusal_records_of,
    returned_values,
    skip_records_of,
    task_positions_of,
    whole_outputs_of,
)
from evenbeat.node.loop.run_stops import RunStops
from evenbeat.node.loop.starter import CLAIM_AHEAD, ReadyRuns, Starter
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.node.loop.turn_pacing import TurnPacing
from evenbeat.queue.contract import Dispatcher
from evenbeat.store.contract import Batch, Claim, Finish, Refusal, RunStart, Skip, TaskProgress, WithdrawnTasks
from evenbeat.when.windows import FOREVER
from evenbeat.wire.plain_results import PlainResults, Results
from evenbeat.wire.worker_frames import RunResult, RunSpec

_STANDSTILL_AFTER: Final = 10 * SECOND
"""Without a turn for longer than this the machine slept, or the process was stopped."""
_WORKER_CLOCK_AHEAD: Final = SECOND
"""A start that lies ahead by up to this comes from a worker whose clock is ahead; by more, this node's clock was set
back."""
_EMPTY_BATCH: Final = Batch()


# Faster than `_make`: ten thousand are made at a time.
_claim_of: Final[Callable[[tuple[object, ...]], Claim]] = partial(tuple.__new__, Claim)
_finish_of: Final[Callable[[tuple[object, ...]], Finish]] = partial(tuple.__new__, Finish)
_pending_run_of: Final[Callable[[tuple[object, ...]], PendingRun]] = partial(tuple.__new__, PendingRun)


class TurnLoop:
    """Makes a turn as often as there is something to do."""

    _queue: Dispatcher
    starter: Starter

    def __init__(self, tasks: TaskTable, outbox: Outbox, clock: Clock) -> None:
        self.tasks = tasks
        self.counts = RunCounters()
        self.pending_runs: dict[int, PendingRun] = {}
        self.cursors: dict[int, bytes] = {}
        """By the number of the task: another task may get its row."""
        self.is_claiming = True
        self.may_claim: Callable[[], bool] = lambda: True
        """Called before each release: a node that may have lost its authority releases nothing."""
        self.own_jobs, self.stops = OwnJobs(), RunStops()
        self.worker_deaths = WorkerDeaths()
        """Which tasks workers died with: `StoredWorkerDeaths` on a single node; in a cluster the queue counts."""
        self.ends_of_removed = EndsOfRemovedTasks(tasks.columns, self.cursors)
        self._set_aside: list[Refusal] = []
        self.started_runs: dict[int, int] = {}
        """When runs under way started, of those whose start is known."""
        self.on_finished: list[RunEndListener] = []
        self.on_tasks_left: list[Callable[[list[int]], None]] = []
        """Called with the numbers of tasks that were handed over: the other node announces their runs."""
        self.on_withdrawn: list[Callable[[list[int]], None]] = []
        """Called with the numbers of tasks that were removed just before their runs were claimed."""
        self.on_skipped: list[Callable[[Sequence[Skip]], None]] = []
        """Called with skipped nominal times, once that is committed."""
        self.on_downtime: list[Callable[[Ints], None]] = []
        """Called with the rows of tasks that are in downtime now and were not, or the other way round."""
        self.passive = PassiveChecks(tasks, self.record)
        self.holds, self.chains = ProblemHolds(tasks, self.passive), ChainRecorder(tasks)
        self.on_problems: Callable[[Batch], None] = lambda _: None
        """Called with each batch that changed problems or what holds them, once it is committed."""
        self.on_failure: Callable[[Exception], None] = lambda _: None
        """Called if a turn failed, and there are no more turns then, or if reports of the queue could not be taken."""
        self.on_stop_asked: Callable[[], None] = lambda: None
        """Called if a run has asked for the node to stop."""
        self.on_turn: Callable[[], None] | None = None
        """Called after each turn."""
        self.on_standstill: Callable[[int], None] = lambda _: None
        """Called with its length after a time without turns, because the machine slept or the process was stopped."""
        self._outbox = outbox
        outbox.on_withdrawn = self._drop_withdrawn
        self._clock = clock
        self._moved: dict[int, int] = {}
        """How far the clock was set since runs under way were claimed, of those for which it was."""
        self._results = NewResults()
        self._starts: list[tuple[int, int]] = []
        self.token = 0
        """The token of the run that was claimed last; the next one has one more."""
        self._timer: asyncio.TimerHandle | None = None
        self._next_turn_at = float("inf")
        self._pacing = TurnPacing()
        self.last_turn: int | None = None
        """When the last turn was, on the clock of `Clock.elapsed`."""

    def attach(self, queue: Dispatcher) -> None:
        """Called once, before the first turn, with the queue whose callbacks are `add_results` and `add_starts`."""
        self._queue = queue
        self.read_outputs: dict[int, bytes] = {}
        """By token: what runs whose output is read have written, once they have ended. See `answers.live_output`."""
        self.starter = Starter(queue, self._clock, self.counts, self.pending_runs)

    # Called by the queue

    def add_results(self, results: Results) -> None:
        """Results of runs have come: the next turn learns them."""
        try:
            if not isinstance(results, PlainResults) and any(result.stop_node for result in results):
                self.on_stop_asked()
            self._results.add(results)
            unstarted = len(self.pending_runs) - len(self.started_runs)
            self._pacing.add_results(len(self._results), self.tasks.lifecycle.slots, unstarted)
            self.plan_turn_soon()
        except Exception as e:
            # It is unknown which of them were taken, but the store knows.
            self.on_failure(e)

    def add_starts(self, starts: Sequence[tuple[int, int]]) -> None:
        """Long runs have started: their tokens, and when."""
        try:
            self._starts += starts
            self.plan_turn_soon()
        except Exception as e:
            self.on_failure(e)

    # When is the next turn?

    def plan_turn_soon(self) -> None:
        """Something has happened: make a turn after the pause that the pacing asks for."""
        self._plan(self._pacing.earliest(saturated=self._is_saturated()))

    def stop(self) -> None:
        """Make no more turns, and start nothing that is held."""
        self.starter.drop()
        if self._timer is not None:
            self._timer.cancel()
        self._next_turn_at = -float("inf")

    def _is_saturated(self) -> bool:
        return self._pacing.is_full and self._queue.is_busy

    def _plan(self, when: float) -> None:
        if when >= self._next_turn_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._next_turn_at = when
        self._timer = asyncio.get_running_loop().call_at(when, self._turn)

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self._next_turn_at = float("inf")
        if self._pacing.is_too_early(begun, saturated=self._is_saturated()):
            self.plan_turn_soon()
            return
        try:
            before, self.last_turn = self.last_turn, self._clock.elapsed()
            if before is not None and self.last_turn - before > _STANDSTILL_AFTER:
                self.on_standstill(self.last_turn - before)
            now = self._clock.now()
            self.turn(now)
            if self.on_turn is not None:
                self.on_turn()
        except Exception as e:
            # Half a turn leaves memory in an unknown state. The store is right: the next start goes by that.
            self.stop()
            self.on_failure(e)
            return
        life = self.tasks.lifecycle
        self._pacing.end_turn(begun, loop.time(), is_full=life.pending >= life.slots)
        due = (
            min(
                _turn_time_for(life.timetable.next_due(), now),
                self.passive.next_due(),
                self.tasks.downtimes.next_change,
            )
            if self.is_claiming
            else FOREVER
        )
        sleep = (due - self._clock.now()) / 1e6
        self._plan(self._pacing.next_turn(sleep, saturated=self._is_saturated()))

    # A turn

    def turn(self, now: Instant) -> None:
        """Learn, then release; both are one batch."""
        ended = self._results.tokens
        batch, ends = self._learn(now) if self._results or self._starts else (Batch(), None)
        again = self.tasks.reachability.settle(lambda rows: self._are_stale(rows, now))
        if len(again):
            self.passive.reachable_again(again, now)
            self.holds.learn_ends(again, now)
        self._settle_downtimes(now)
        ready: ReadyRuns | None = None
        learned = batch.refusals[:]
        may_claim = self.is_claiming and self.may_claim()
        if may_claim:
            try:
                ready = self._release(batch, now)
            except Exception:
                # What has been learned is true, so it is recorded.
                known = Batch(starts=batch.starts, finishes=batch.finishes, refusals=learned, problems=batch.problems)
                known.returned, known.outputs = batch.returned, batch.outputs
                self.chains.add_records(known)
                self._outbox.put(known, self._after_commit(known, ended, ends, None))
                raise
        if batch.problems:
            self.holds.settle_in_turn(batch, now)
        self.chains.add_records(batch)
        if batch != _EMPTY_BATCH:
            self._outbox.put(batch, self._after_commit(batch, ended, ends, ready))
        if may_claim and self.passive.next_due() <= now:
            self.passive.check_due(now)

    def _settle_downtimes(self, now: Instant) -> None:
        """Make the flags say who is in downtime now."""
        changed = self.tasks.downtimes.settle(now)
        if not len(changed):
            return
        over = changed[self.tasks.columns.flags[changed] & int(Flag.DOWNTIME) == 0]
        self.holds.learn_ends(over, now)
        for listener in self.on_downtime:
            listener(changed)

    def _are_stale(self, rows: Ints, now: Instant) -> Bools:
        """Is a result of these checks overdue?"""
        c = self.tasks.columns
        stale, nominal = self.passive.are_stale(rows, now), c.nominal[rows]
        due = np.flatnonzero((nominal < now) & (c.flags[rows] & int(Flag.PASSIVE | Flag.CHAINED) == 0))
        if len(due):
            some, interval = rows[due], self.tasks.times.interval(rows[due], nominal[due])
            stale[due] = are_stale(nominal[due], c.timebox[some], c.longer_than[some], interval, now)
        return stale

    def _after_commit(
        self, batch: Batch, ended: list[int], ends: LearnedEnds | None, ready: ReadyRuns | None
    ) -> OnCommit:
        """What follows when a turn is committed: start the runs it claimed, announce the ends it learned."""
        moved = self.starter.moved

        def then() -> None:
            if ended:
                self._queue.confirm_stored(ended)
            if ready is not None:
                self.starter.start(ready, moved)
            self._announce_skips(batch.skips)
            if batch.problems or batch.holds:
                self.on_problems(batch)
            if ends is not None:
                self._announce(ends)

        return then

    def clock_was_set(self, by: int) -> None:
        """The clock was set: claimed runs start at the same moment as planned, which has another time now."""
        self.starter.clock_was_set(by)
        self.tasks.downtimes.clock_was_set()
        if by < 0:
            self.own_jobs.move_back(-by)
        self._moved = {token: self._moved.get(token, 0) + by for token in self.pending_runs}
        self.started_runs = {token: at + by for token, at in self.started_runs.items()}

    def _due(self, token: int) -> int:
        return self.pending_runs[token].due + self._moved.get(token, 0)

    def _is_retry_of_task(self, token: int) -> bool:
        run = self.pending_runs[token]
        return run.kind == RunKind.RETRY and not int(self.tasks.columns.flags[run.row]) & int(Flag.CHECK)

    def _announce(self, ends: LearnedEnds) -> None:
        self.counts.ended(ends.outcomes, ends.seconds)
        for listener in self.on_finished:
            listener(ends.runs, ends.finishes)

    def _announce_skips(self, skips: Sequence[Skip]) -> None:
        self.counts.skips(skips)
        for listener in self.on_skipped if skips else ():
            listener(skips)

    def _learn(self, now: Instant) -> tuple[Batch, LearnedEnds | None]:
        started = [(token, at) for token, at in self._starts if token in self.pending_runs]
        if started:
            late = [
                at - self._due(token)
                for token, at in started
                if token not in self.started_runs and not self._is_retry_of_task(token)
            ]
            self.counts.began(np.array(late) / 1e6)
            self.started_runs.update(started)
        starts = [RunStart(self.pending_runs[token].number, at) for token, at in started]
        ended = self._results.take(self.pending_runs, in_full=bool(self.stops or self.read_outputs))
        for r in ended.others if self.read_outputs else ():
            if r.token in self.read_outputs:
                self.read_outputs[r.token] = r.output
        self._starts = []
        ends = self._finish(ended, now) if ended.runs else None
        refusals, self._set_aside = self._set_aside, []
        learned = Batch(starts=starts, refusals=refusals, returned=returned_values(ended.with_more))
        if ends is not None:
            learned.finishes, learned.problems = ends.finishes, ends.problems
            learned.outputs = whole_outputs_of(ended.with_more, ends.finishes[ended.first_other :])
        return learned, ends

    def _finish(self, ended: EndedRuns, now: Instant) -> LearnedEnds:
        """Runs have ended: update their tasks."""
        life, c = self.tasks.lifecycle, self.tasks.columns
        under_way = ended.runs
        numbers, *columns = list(zip(*under_way, strict=True))[:4]
        rows, nominal, kind = (np.array(of, dtype=np.int64) for of in columns)
        self.stops.settle(ended.others)
        outcome = ended.outcomes
        meaning = outcome_meanings(outcome)
        started, ended_at = ended.started, ended.ended
        for i in np.flatnonzero((meaning & START_UNREPORTED != 0) & (started == ended_at)).tolist():
            # No worker has reported the start.
            due = under_way[i].due + self._moved.get(under_way[i].token, 0)
            started[i] = assumed_start(under_way[i].claimed, due, now)
        started[(started > now) & (started <= now + _WORKER_CLOCK_AHEAD)] = now
        on_grid = set_last_start(meaning, kind)
        # The start of a run from before the clock was set back may lie ahead: now is the best guess then.
        life.record_starts(rows[on_grid], np.minimum(started, now)[on_grid])
        last_start, flags = c.last_start[rows], c.flags[rows]
        life.retries.count_attempts(rows, flags, kind)
        with_result = give_results(meaning, flags)
        # `complete` frees the rows of removed tasks: what is known of them is read before.
        gone = np.flatnonzero(flags & int(Flag.REMOVED))
        failed = meaning & SUCCESS == 0
        left = zip(*condition_columns_of(c, rows[gone], last_start[gone], failed[gone], now), strict=True)
        left_problems = list(zip(c.problem[rows[gone]].tolist(), c.problem_opened[rows[gone]].tolist(), strict=True))
        life.complete(rows)
        changed = np.zeros(len(rows), dtype=bool)
        if with_result.any():
            status = np.array([NO_STATUS if s is None else s for s in ended.statuses], dtype=np.int64)
            state, some = result_states(meaning, status), rows[with_result]
            changed[with_result] = life.apply_results(
                some, state[with_result], started[with_result], nominal[with_result], now
            )
            self.tasks.reachability.learn_results(some)
            if self.passive.stale_rows:
                self.passive.stale_rows.difference_update(some.tolist())
        if self.tasks.timed_problems.without_result:
            self.tasks.timed_problems.learn_results(c.number[rows[meaning & GIVES_RESULT != 0]].tolist())
        retried = self._plan_retries(ended, rows, flags, meaning, now)
        for_good = self._lost_for_good(ended, rows, are_lost(meaning, flags), now)
        for_good |= are_dropped_retries(meaning, kind, flags)
        self.chains.learn_runs(under_way, flags, meaning, for_good, retried, now)
        updates = self.tasks.problems.learn_results(rows[with_result], now)
        updates += self.tasks.problems.learn_runs(rows, flags, meaning, for_good, now, retried)
        how = (started.tolist(), ended_at.tolist(), outcome, ended.statuses, ended.texts, ended.cursors)
        conditions = condition_columns_of(c, rows, last_start, changed | failed, now)
        finishes = list(map(_finish_of, zip(numbers, *how, *conditions, strict=True)))
        for i, condition in zip(gone.tolist(), left, strict=True):
            finishes[i] = _finish_of((*finishes[i][: -len(condition)], *condition))
        for u, r in ended.with_more:
            if r.cursor is not None:
                self.cursors[u.number] = r.cursor
        if len(gone):
            self.ends_of_removed.keep([finishes[i] for i in gone.tolist()], left_problems)
        # A retry of a task carries an older nominal time: that does not make it late.
        may_be_late = (kind != RunKind.RETRY) | (flags & int(Flag.CHECK) != 0)
        really = (meaning & STARTED != 0) & (meaning & GIVES_RESULT != 0)
        self._count_lateness(under_way, started, nominal, really & may_be_late)
        seconds = (ended_at - started)[meaning & STARTED != 0] / 1e6
        return LearnedEnds(under_way, finishes, outcome, problem_changes_of(c, updates), seconds)

    def _count_lateness(self, ended: Sequence[PendingRun], started: Ints, nominal: Ints, counted: Bools) -> None:
        """Count how late these runs started; the lateness of long ones was counted when their start was reported."""
        due = nominal
        if self.tasks.lifecycle.has_chains:
            due = np.array([run.due for run in ended], dtype=np.int64)
        if self.started_runs:
            counted = counted & [self.started_runs.pop(run.token, None) is None for run in ended]
        if self._moved:
            due = due + np.array([self._moved.pop(run.token, 0) for run in ended], dtype=np.int64)
        self.counts.began((started - due)[counted] / 1e6)

    def _plan_retries(self, ended: EndedRuns, rows: Ints, flags: Flags, meaning: Small, now: Instant) -> Bools:
        """Plan the retries of runs that failed; which runs try again?"""
        life = self.tasks.lifecycle

        def run_of(i: int) -> EndedRun:
            run, result = ended.runs[i], ended.result(i)
            assert result is not None, "no run with a plain result has failed"
            return EndedRun(run.name, run.nominal, result.ended, result.outcome, result.status, result.raised)

        retried = life.retries.plan(self.tasks.times, rows, flags, meaning, run_of, now)
        if retried.any():
            life.reset_due(rows[retried])
        return retried

    def _lost_for_good(self, ended: EndedRuns, rows: Ints, lost: Bools, now: Instant) -> Bools:
        """Repeat lost runs; which runs were lost, and are not repeated?"""
        if isinstance(self.worker_deaths, StoredWorkerDeaths) and (self.worker_deaths or lost.any()):
            numbers = [run.number for run in ended.runs]
            self.worker_deaths.learn_all(zip(numbers, ended.outcomes, ended.outputs, strict=True))
        if not lost.any():
            return lost
        repeatable = self._not_set_aside(rows[lost], now)
        own = [u.row for u in ended.runs if self.own_jobs.get(u.number, u.kind, u.nominal)] if self.own_jobs else []
        repeated = repeat_lost_runs(self.tasks.lifecycle, repeatable, now, np.array(own, dtype=np.int64))
        not_interrupted = np.array([outcome == Outcome.LOST for outcome in ended.outcomes])
        for_good: Bools = lost & not_interrupted & ~np.isin(rows, repeated)
        return for_good

    def _drop_withdrawn(self, numbers: WithdrawnTasks) -> None:
        """Tasks were removed before their claims were committed: drop these runs, which leave no trace.

        The starter delivers only runs that are under way.
        """
        runs = [run for run in self.pending_runs.values() if run.number in numbers]
        for run in runs:
            del self.pending_runs[run.token]
            self._moved.pop(run.token, None)
            self.cursors.pop(run.number, None)
        self.stops.forget([run.token for run in runs])
        self.tasks.lifecycle.complete(np.array([run.row for run in runs], dtype=np.int64))
        for listener in self.on_withdrawn:
            listener([run.number for run in runs])

    def _not_set_aside(self, rows: Ints, now: Instant) -> Ints:
        """Lost runs to repeat. A task whose runs have killed several workers in a row is not repeated."""
        going = self.tasks.repeatable(rows)
        if not self.worker_deaths:
            return going
        kept = []
        for row, number in zip(going.tolist(), self.tasks.columns.number[going].tolist(), strict=True):
            if not self.worker_deaths.is_set_aside(number):
                kept.append(row)
            else:
                reason = f"set aside: {self.worker_deaths.deaths(number)} workers in a row died with it"
                extra, kind = planned_off_grid(self.tasks.columns, np.array([row], dtype=np.int64), now)
                place = int(self.tasks.columns.accounted[row]), int(extra[0]), int(kind[0])
                self._set_aside.append(Refusal(number, now, RunKind.CATCH_UP, reason, now, *place))
        return np.array(kept, dtype=np.int64)

    def _release(self, batch: Batch, now: Instant) -> ReadyRuns | None:
        """Add what is due to the batch; returns the runs to start once that is committed."""
        released = self.tasks.lifecycle.release(now, CLAIM_AHEAD)
        if self.tasks.chains:
            released = self.tasks.chains.settle(released)
        claims = released.claims
        batch.skips = self.skips_of(released.skips, now)
        batch.refusals += refusal_records_of(self.tasks.columns, released.refused, now)
        batch.problems += problem_changes_of(self.tasks.columns, self.tasks.problems_of_given_up_retries(now))
        if len(released.moved):
            batch.standings = task_positions_of(self.tasks, released.moved, now)
        return self._claim(batch, claims, now) if len(claims.rows) else None

    def _claim(self, batch: Batch, claims: ClaimColumns, now: Instant) -> ReadyRuns:
        """Add claims to the batch; returns the runs to start once they are committed."""
        life, c, rows = self.tasks.lifecycle, self.tasks.columns, claims.rows
        numbers, nominal, kind = c.number[rows].tolist(), claims.nominal.tolist(), claims.kind.tolist()
        extra, extra_kind = planned_off_grid(c, rows, now)
        following = (c.accounted[rows].tolist(), extra.tolist(), extra_kind.tolist())
        tokens = range(self.token + 1, self.token + 1 + len(rows))
        claimed = zip(numbers, nominal, repeat(life.generation), kind, repeat(now), *following, tokens, strict=False)
        batch.claims = list(map(_claim_of, claimed))
        runs, timebox = self._runs(claims, tokens, numbers, now)
        names = [run.name for run in runs]
        under_way = zip(numbers, rows.tolist(), nominal, kind, repeat(now), names, timebox, tokens, strict=False)
        self.pending_runs.update(zip(tokens, map(_pending_run_of, under_way), strict=True))
        self.token += len(runs)
        # Late runs come first, in the order of their turn; the others as they are due.
        return ReadyRuns(nominal, runs, self._functions_of(claims, numbers), numbers, self.tasks.pools_of(rows))

    def _runs(
        self, claims: ClaimColumns, tokens: Iterable[int], numbers: list[int], now: Instant
    ) -> tuple[list[RunSpec], list[int]]:
        """What workers must know of these runs, and the timebox of each."""
        c, rows = self.tasks.columns, claims.rows
        plans = plan_runs(c, self.tasks.times, claims, c.timebox[rows], now)
        timebox = plans.timebox.tolist()
        runs = list(
            map(
                RunSpec,
                tokens,
                map(msgspec.Raw, self.tasks.jobs.get_many(rows)),
                self.tasks.names.names(rows),
                claims.nominal.tolist(),
                claims.kind.tolist(),
                timebox,
                plans.latest_start.tolist(),
                plans.last_start.tolist(),
                plans.interval.tolist(),
                plans.tolerance.tolist(),
                plans.attempt.tolist(),
                map(self.cursors.get, numbers),
                (c.flags[rows] & int(Flag.CHECK) != 0).tolist(),
            )
        )
        if self.worker_deaths:
            for run, number in zip(runs, numbers, strict=True):
                run.alone = self.worker_deaths.is_suspect(number)
        if self.own_jobs:
            for run, number in zip(runs, numbers, strict=True):
                if (own := self.own_jobs.begin(number, run.kind, run.nominal)) is not None:
                    run.job = msgspec.Raw(own.packed)
        return runs, timebox

    def _functions_of(self, claims: ClaimColumns, numbers: list[int]) -> list[str | None] | None:
        """The function of each run, None for a command; None if all are commands."""
        functions = self.tasks.functions_of(claims.rows)
        if not self.own_jobs:
            return functions
        functions = functions or [None] * len(numbers)
        own = map(self.own_jobs.get, numbers, claims.kind.tolist(), claims.nominal.tolist())
        return [function if job is None else job.function for function, job in zip(functions, own, strict=True)]

    def take_over(self, restored: Batch, runs: Sequence[TaskProgress], now: Instant) -> None:
        """Tasks of another node are here: record what restoring them has settled, and go on with the runs that it
        claimed. Those that no worker has are delivered again.
        """
        rows = self.tasks.rows([run.task for run in runs])
        names, timebox = self.tasks.names.names(rows), self.tasks.columns.timebox[rows].tolist()
        for run, row, name, box in zip(runs, rows.tolist(), names, timebox, strict=True):
            claimed = run.claimed if run.claimed is not None else run.claimed_at
            self.pending_runs[run.claimed_token] = PendingRun(
                run.task, row, claimed, run.claimed_kind, run.claimed_at, name, box, run.claimed_token
            )
        self.record(restored)
        untaken = [run for run in runs if run.claimed_untaken]
        if wanted := [run for run in untaken if not run.claimed_stop]:
            self._dispatch_again(wanted, now)
        if to_stop := self.stops.restore(runs):
            unstarted = {run.claimed_token for run in untaken}.intersection(to_stop)
            self._end_unstarted(unstarted)
            self.end_runs([token for token in to_stop if token not in unstarted])
        self.plan_turn_soon()

    def _dispatch_again(self, runs: Sequence[TaskProgress], now: Instant) -> None:
        runs = sorted(runs, key=lambda run: run.claimed or 0)
        numbers, tokens = [run.task for run in runs], [run.claimed_token for run in runs]
        rows = self.tasks.rows(numbers)
        nominal = np.array([run.claimed for run in runs], dtype=np.int64)
        claims = ClaimColumns(rows, nominal, np.array([run.claimed_kind for run in runs], dtype=np.uint8))
        some, _ = self._runs(claims, tokens, numbers, now)
        functions, pools = self._functions_of(claims, numbers), self.tasks.pools_of(rows)
        self.starter.start(ReadyRuns(nominal.tolist(), some, functions, numbers, pools))

    def release_tasks(self, rows: Ints) -> list[int]:
        """Forget tasks that another node has now; returns the tokens of their runs."""
        going = set(rows.tolist())
        tokens = [token for token, run in self.pending_runs.items() if run.row in going]
        for token in tokens:
            del self.pending_runs[token]
            self.started_runs.pop(token, None)
        self.stops.forget(tokens)
        numbers = self.tasks.columns.number[rows].tolist()
        for number in numbers:
            self.cursors.pop(number, None)
        for listener in self.on_tasks_left:
            listener(numbers)
        self.passive.forget(rows.tolist())
        self.tasks.release(rows)
        return tokens

    def end_undispatched(self) -> None:
        """End runs that are claimed and not due yet."""
        self._end_unstarted([run.token for run in self.starter.drop()])

    def end_runs(self, tokens: Sequence[int]) -> None:
        """End runs whose claims are committed. Each gets its result, unless it has ended before."""
        wanted = {token for token in tokens if token in self.pending_runs}
        if not wanted:
            return
        held = {run.token for run in self.starter.take_back(wanted)}
        self._end_unstarted(held)
        if running := wanted - held:
            self._queue.cancel(sorted(running))

    def _end_unstarted(self, tokens: Collection[int]) -> None:
        now = self._clock.now()
        if tokens:
            self.add_results([RunResult(token, Outcome.CANCELLED, None, now, now, b"not started") for token in tokens])

    # Records

    def skips_of(self, skips: Sequence[SkipColumns], now: Instant) -> list[Skip]:
        """Records of skips."""
        return [skip for some in skips for skip in skip_records_of(self.tasks.columns, some, now)]

    def record(self, batch: Batch, then: OnCommit | None = None) -> None:
        """Record what happened outside a turn; `then` is called when it is committed."""
        self.chains.add_records(batch)

        def committed() -> None:
            self._announce_skips(batch.skips)
            if batch.problems or batch.holds:
                self.on_problems(batch)
            if then is not None:
                then()

        self._outbox.put(batch, committed)

    def settle_holds(self, now: Instant) -> bool:
        """Record which problems are held for another reason than was recorded: downtimes, periods, time itself.

        Returns whether there was something to record.
        """
        batch = Batch()
        self.holds.settle(batch, now)
        if batch == _EMPTY_BATCH:
            return False
        self.record(batch)
        self.plan_turn_soon()
        return True


def _turn_time_for(due: int, now: Instant) -> int:
    """The time of the turn for what is due then: ahead of it, unless that turn was made and left it for its moment."""
    return due if due <= now + CLAIM_AHEAD else due - CLAIM_AHEAD
