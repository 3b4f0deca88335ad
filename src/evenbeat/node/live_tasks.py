"""The live tasks of a node: changes, settings, forced runs and gaps in time take effect on them here."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from evenbeat.admin.capacity import DEFAULT_MAX_CONCURRENT, EffectiveLimit, limit_capacities, slot_capacity
from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.task_admin import LiveChange, TaskAdmin
from evenbeat.clock.node_clock import Clock
from evenbeat.core.clock_steps import clock_set_back
from evenbeat.core.columns import Ints
from evenbeat.core.gate import Reason
from evenbeat.core.missed_times import resume
from evenbeat.core.off_grid_pace import MAX_START_RATE, START_WINDOW
from evenbeat.core.task import SkipColumns
from evenbeat.load.config import DEFAULT_KEEP
from evenbeat.model import Entry, Instant
from evenbeat.node.loop.records import problem_changes_of, task_positions_of
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.node.loop.turn import TurnLoop
from evenbeat.node.options import NodeOptions
from evenbeat.store.contract import Batch, SettledDefinitions
from evenbeat.wire.replies import ChangeResult

_log: Final = logging.getLogger("evenbeat.node")


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
        self.keep = DEFAULT_KEEP
        """Microseconds for which history is kept."""
        self._pass_env: tuple[str, ...] | None = None
        """As it is in force: the environment of worker processes is made when they start."""

    # Changes

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
            turns.passive.forget(tasks.rows([entry.number for entry in changed.removed]).tolist())
            for skips, numbers in tasks.remove([entry.number for entry in changed.removed], now):
                batch.skips += turns.skips_of([skips], now, numbers)
            running = tasks.columns.number[tasks.removed_rows()].tolist()
            for number in {entry.number for entry in changed.removed}.difference(running):
                turns.cursors.pop(number, None)
        moved = []
        if changed.changed:
            rows, postponed = tasks.change(changed.changed, now)
            batch.skips += turns.skips_of(postponed, now)
            known = tasks.rows([entry.number for entry in changed.changed])
            batch.problems += problem_changes_of(tasks.columns, tasks.problems.reconcile(known, now))
            batch.settled += [SettledDefinitions(entry.number, entry.changed) for entry in changed.changed]
            moved.append(rows)
        if changed.created:
            back, new = tasks.restore_removed(changed.created, now)
            rows = tasks.add(new)
            tasks.lifecycle.pace.mean_rate = tasks.mean_rate
            tasks.lifecycle.begin(rows, now)
            turns.ends_of_removed.restore(rows)
            problems = [update for some in (back, rows) for update in tasks.problems.reconcile_restored(some, now)]
            batch.problems += problem_changes_of(tasks.columns, problems)
            for some in (back, rows):
                batch.skips += turns.skips_of(tasks.start_at(some, now), now)
                moved.append(some)
        passive = [entry.number for entry in (*changed.changed, *changed.created) if entry.task.passive]
        turns.passive.schedule_checks(tasks.rows(passive), now, anew=True)
        turns.passive.check_rows_again(tasks.rows([entry.number for entry in changed.changed]))
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
        self._tasks.set_permission(permission_of(self._store))
        self.slots = slot_capacity(self._store, self._options.max_concurrent)
        self.limits = limit_capacities(self._store)
        self._set_limits(self.slots.most, {name: limit.most for name, limit in self.limits.items()})
        self.keep = said.keep or DEFAULT_KEEP
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

    def force(self, entries: Sequence[Entry], named: int = 0) -> dict[str, str]:
        """Run these tasks now, slots and running instances permitting; tasks that are not live here are left out.

        Of the first `named` tasks: what each that cannot start at once waits for, by its name.
        """
        now = self._clock.now()
        rows = self._tasks.runnable(self._tasks.rows([entry.number for entry in entries]))
        waiting = {self._tasks.names.name(row): waiting_reason(self._tasks, row, now) for row in rows[:named].tolist()}
        self._tasks.lifecycle.force(rows)
        self._turns.record(Batch(standings=task_positions_of(self._tasks, rows, now)))
        self._turns.plan_turn_soon()
        return {name: why for name, why in waiting.items() if why}

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
        standings = task_positions_of(self._tasks, rows, now)
        self._turns.record(Batch(standings=standings, skips=self._turns.skips_of(skips, now)))


def waiting_reason(tasks: TaskTable, row: int, now: Instant) -> str:
    """What a run of this task waits for, or a forced one would wait for now, in the words of `Reason`; empty if it need
    not wait.
    """
    reason = tasks.lifecycle.reason_to_wait(row, now)
    return "" if reason is Reason.NONE else reason.value
