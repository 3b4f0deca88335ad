"""The live tasks of a node: changes, settings, forced runs and gaps in time take effect on them here."""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from evenbeat.admin.capacity import DEFAULT_MAX_CONCURRENT, EffectiveLimit, limit_capacities, slot_capacity
from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.history_settings import stored_retention
from evenbeat.admin.stored_downtimes import downtimes_in_force
from evenbeat.admin.task_admin import LiveChange, TaskAdmin
from evenbeat.admin.task_cursors import cursor_in_use
from evenbeat.clock.node_clock import Clock
from evenbeat.core.clock_steps import clock_set_back
from evenbeat.core.columns import Ints
from evenbeat.core.first_run_pace import MAX_START_RATE, START_WINDOW
from evenbeat.core.gate import Reason
from evenbeat.core.missed_times import resume
from evenbeat.core.retention import DEFAULT_KEEP_RUNS, Retention
from evenbeat.core.stopped_runs import withdraw_planned
from evenbeat.core.task import Flag, SkipColumns
from evenbeat.load.config import DEFAULT_KEEP
from evenbeat.model import Entry, Instant, NotifyContact, RunKind
from evenbeat.node.loop.records import problem_changes_of, task_positions_of, withdrawn_records_of
from evenbeat.node.loop.run_stops import stop_words
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.node.loop.turn import TurnLoop
from evenbeat.node.options import NodeOptions
from evenbeat.node.runs_with_arguments import OwnRuns
from evenbeat.store.contract import Batch, CursorChange, RunStop, SettledDefinitions, Skip
from evenbeat.wire.replies import ChangeResult, HeldByOtherNode, StopFound

_log: Final = logging.getLogger("evenbeat.node")


class TaskStop(NamedTuple):
    """What was found of a task that is to be stopped."""

    number: int
    name: str
    found: StopFound
    token: int | None
    """Of its run under way, which ends now."""


class LiveTasks:
    """Keeps the task table and the turn loop in step with what is stored."""

    def __init__(
        self,
        admin: TaskAdmin,
        options: NodeOptions,
        clock: Clock,
        tasks: TaskTable,
        turns: TurnLoop,
        set_limits: Callable[[int, dict[str, int]], None],
        on_change: Sequence[Callable[[LiveChange], None]],
    ) -> None:
        """`set_limits` gets the maximum of runs at the same time, in all and by limit; `on_change` gets each change
        once it is in effect and committed.
        """
        self._admin, self._store = admin, admin.store
        self._options = options
        self._clock = clock
        self._tasks = tasks
        self._turns = turns
        self._set_limits = set_limits
        self._on_change = on_change
        self.slots = EffectiveLimit(options.max_concurrent or DEFAULT_MAX_CONCURRENT, "")
        self.limits: dict[str, EffectiveLimit] = {}
        """How many runs at the same time, in all and by limit, and where that is set; in a cluster, for all nodes."""
        self.retention = Retention(DEFAULT_KEEP_RUNS, DEFAULT_KEEP)
        """For how long history is kept."""
        self.page = ""
        """The URL of the page as people reach it, as files say; empty if none does."""
        self.notify: tuple[NotifyContact, ...] = ()
        """Who is told of problems of the node itself."""
        self.ping = ""
        """The URL that is called as long as the node works, or a reference to it; empty if there is none."""
        self.own_runs = OwnRuns(self._store, clock, tasks, turns)
        self.stop_grace = options.stop_grace(None)
        """Seconds that runs have to end when the node is stopped in order."""
        self._pass_env: tuple[str, ...] | None = None
        """As it is in force: the environment of worker processes is made when they start."""

    # Changes

    def _remove(self, numbers: Sequence[int], now: Instant) -> list[Skip]:
        """Remove tasks; returns records of what was due of them."""
        tasks, turns = self._tasks, self._turns
        turns.passive.forget(tasks.rows(numbers).tolist())
        skips = turns.skips_of(tasks.close_accounts(numbers, now), now)
        tasks.remove(numbers, now)
        gone = set(numbers).difference(tasks.columns.number[tasks.removed_rows()].tolist())
        for number in gone:
            turns.cursors.pop(number, None)
        self.own_runs.end([*gone])
        return skips

    def apply(self, changed: ChangeResult) -> None:
        """Make a stored change true of the live tasks."""
        now = self._clock.now()
        tasks, turns = self._tasks, self._turns
        batch = Batch()
        found = ((entry.number, tasks.row(entry.number)) for entry in changed.changed)
        old_names = {number: tasks.names.name(row) for number, row in found if row is not None}
        replanned: list[int] = []
        if changed.settings:
            rows, passed = self.read_settings(now)
            batch.skips += turns.skips_of(passed, now)
            turns.passive.schedule_checks(rows, now)
            batch.standings += task_positions_of(tasks, rows, now)
            replanned = tasks.columns.number[rows].tolist()
            batch.settled += [SettledDefinitions(number, changed.settings_at) for number in replanned]
        if changed.removed:
            batch.skips += self._remove([entry.number for entry in changed.removed], now)
        moved = []
        if changed.changed:
            known = tasks.rows([entry.number for entry in changed.changed])
            were_off = known[tasks.columns.flags[known] & int(Flag.ENABLED) == 0]
            rows, postponed = tasks.change(changed.changed, now)
            batch.skips += turns.skips_of(postponed, now)
            turns.holds.learn_ends(were_off[tasks.columns.flags[were_off] & int(Flag.ENABLED) != 0], now)
            batch.problems += problem_changes_of(tasks.columns, tasks.problems.reconcile(known, now))
            batch.settled += [SettledDefinitions(entry.number, entry.changed) for entry in changed.changed]
            moved.append(rows)
        if changed.created:
            back, new = tasks.restore_removed(changed.created, now)
            rows = tasks.add(new)
            tasks.lifecycle.pace.mean_rate = tasks.mean_rate
            tasks.lifecycle.begin(rows, now)
            turns.ends_of_removed.restore(rows)
            tasks.refresh_parents()
            problems = [update for some in (back, rows) for update in tasks.problems.reconcile_restored(some, now)]
            batch.problems += problem_changes_of(tasks.columns, problems)
            for some in (back, rows):
                batch.skips += turns.skips_of(tasks.start_at(some, now), now)
                moved.append(some)
        passive = [entry.number for entry in (*changed.changed, *changed.created) if entry.task.passive]
        turns.passive.schedule_checks(tasks.rows(passive), now, anew=True)
        turns.passive.check_rows_again(tasks.rows([entry.number for entry in changed.changed]))
        batch.problems += problem_changes_of(tasks.columns, tasks.problems_of_given_up_retries(now))
        for rows in moved:
            batch.standings += task_positions_of(tasks, rows, now)
        tasks.lifecycle.pace.mean_rate = tasks.mean_rate
        turns.record(batch, lambda: self._announce(LiveChange(changed, old_names, replanned)))
        turns.plan_turn_soon()

    def _announce(self, change: LiveChange) -> None:
        for listener in self._on_change:
            listener(change)

    def read_settings(self, now: Instant) -> tuple[Ints, list[SkipColumns]]:
        """Bring periods, limits and node settings into effect: the rows that have other periods now, and the times that
        this skips.
        """
        said = self._admin.settings()
        changed = self._tasks.set_periods({name: period for name, (_, period) in self._store.periods().items()}, now)
        self._tasks.downtimes.set(list(downtimes_in_force(self._store, now)), self._tasks.periods)
        self._tasks.set_permission(permission_of(self._store))
        self.slots = slot_capacity(self._store, self._options.max_concurrent)
        self.limits = limit_capacities(self._store)
        self._set_limits(self.slots.most, {name: limit.most for name, limit in self.limits.items()})
        self.retention = stored_retention(self._store)
        self.page, self.notify, self.ping = said.page or "", said.notify or (), said.ping or ""
        self.stop_grace = self._options.stop_grace(said.stop_grace)
        pass_env = said.pass_env or ()
        if self._pass_env is None:
            self._pass_env = pass_env
        elif pass_env != self._pass_env:
            _log.warning("`pass_env` of [node] takes effect at the next start", extra={"action": "not_in_force"})
        pace = self._tasks.lifecycle.pace
        pace.window = self._options.start_window or said.start_window or START_WINDOW
        pace.start_rate = self._options.start_rate or said.start_rate or MAX_START_RATE
        return changed

    # Forced runs

    def force(self, entries: Sequence[Entry], named: int = 0, *, is_own: bool = False) -> dict[str, str]:
        """Run these tasks now, slots and running instances permitting; tasks that are not live here are left out.

        Of the first `named` tasks: what each that cannot start at once waits for, by its name. `is_own`: with the job
        that was planned. Otherwise Conflict if such a run has not ended.
        """
        if not is_own:
            self.own_runs.refuse_merging(entries)
        now = self._clock.now()
        rows = self._tasks.runnable(self._tasks.rows([entry.number for entry in entries]))
        waiting = {self._tasks.names.name(row): waiting_reason(self._tasks, row, now) for row in rows[:named].tolist()}
        self._tasks.lifecycle.force(rows)
        self._turns.record(Batch(standings=task_positions_of(self._tasks, rows, now)))
        self._turns.plan_turn_soon()
        return {name: why for name, why in waiting.items() if why}

    # Stopped runs

    def has(self, number: int) -> bool:
        """Is this task live here, or does a run of it end here?"""
        return self._tasks.row(number) is not None or any(
            run.number == number for run in self._turns.pending_runs.values()
        )

    def stop(self, entries: Sequence[Entry], who: str, reason: str) -> list[TaskStop]:
        """End what runs of these tasks, once it is committed that it is to end, and withdraw forced runs that wait."""
        now, words = self._clock.now(), stop_words(who, reason)
        tasks, turns = self._tasks, self._turns
        numbers = {entry.number for entry in entries}
        under_way = {run.number: token for token, run in turns.pending_runs.items() if run.number in numbers}
        withdrawn = withdraw_planned(tasks.lifecycle, tasks.rows(list(numbers)), now)
        asked = {number: token for number, token in under_way.items() if turns.stops.ask(token, words)}
        batch = Batch(
            refusals=withdrawn_records_of(tasks.columns, withdrawn, words, now),
            stops=[RunStop(number, words) for number in asked],
        )
        turns.record(batch, lambda: turns.end_runs(list(asked.values())))
        turns.plan_turn_soon()
        kinds = dict(zip(tasks.columns.number[withdrawn.rows].tolist(), withdrawn.kind.tolist(), strict=True))
        self.own_runs.withdraw(list(kinds))
        return [
            TaskStop(
                entry.number,
                entry.task.name,
                _found(entry.number in under_way, kinds.get(entry.number)),
                under_way.get(entry.number),
            )
            for entry in entries
        ]

    # Cursors

    def set_cursor(self, entry: Entry, cursor: bytes | None) -> bytes | None:
        """The next run of this task goes on there; where it would have gone on before.

        In memory and in a batch at once: a run that is claimed after this is claimed by a later batch, and has it.
        Conflict while a run is under way, HeldByOtherNode if the task is not live here.
        """
        number, turns = entry.number, self._turns
        if self._tasks.row(number) is None:
            raise HeldByOtherNode(number)
        if any(run.number == number for run in turns.pending_runs.values()):
            raise cursor_in_use(entry.task.name)
        before = turns.cursors.pop(number, None)
        if cursor is not None:
            turns.cursors[number] = cursor
        turns.record(Batch(cursors=[CursorChange(number, cursor)]))
        return before

    # Time

    def account_for_gap(self, by: int, length: int) -> None:
        """Record and make up for times that passed while the node did nothing, or that come again as the clock was set
        back (`by` below zero).
        """
        now, rows, life = self._clock.now(), self._tasks.all_rows(), self._tasks.lifecycle
        if by < 0:
            skips = clock_set_back(life, rows, -by, now)
            self._turns.passive.clock_set_back(rows, -by, now)
        else:
            active = self._tasks.active(rows)
            skips = resume(life, active, now, self._tasks.catch_up_of(active))
            skips += self._turns.passive.resume_after_stop(rows, Instant(now - length), now)
        if length:
            self._turns.holds.node_stood_still(now)
        standings = task_positions_of(self._tasks, rows, now)
        problems = problem_changes_of(self._tasks.columns, self._tasks.problems_of_given_up_retries(now))
        self._turns.record(Batch(standings=standings, skips=self._turns.skips_of(skips, now), problems=problems))


def _found(is_under_way: bool, withdrawn: int | None) -> StopFound:  # noqa: FBT001
    if is_under_way:
        return StopFound.RUN
    if withdrawn is None:
        return StopFound.NOTHING
    return StopFound.FORCED if withdrawn == RunKind.FORCED else StopFound.RETRY


def waiting_reason(tasks: TaskTable, row: int, now: Instant) -> str:
    """What a run of this task waits for, or a forced one would wait for now, in the words of `Reason`; empty if it need
    not wait.
    """
    reason = tasks.lifecycle.reason_to_wait(row, now)
    return "" if reason is Reason.NONE else reason.value
