"""Forced runs with arguments of their own: kept apart from other forced runs, and forgotten when they have ended."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from evenbeat.clock.node_clock import Clock
from evenbeat.core.task import Flag
from evenbeat.model import Entry, Job
from evenbeat.node.loop.pending_run import PendingRun
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.node.loop.turn import TurnLoop
from evenbeat.store.contract import Conflict, Store, StoreError

_log: Final = logging.getLogger("evenbeat.node")


class OwnRuns:
    """Keeps `TurnLoop.own_jobs` and what the store has of them in step with forced runs."""

    def __init__(self, store: Store, clock: Clock, tasks: TaskTable, turns: TurnLoop) -> None:
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._turns = turns
        self._own = turns.own_jobs
        turns.on_finished.append(self._have_ended)
        turns.on_withdrawn.append(self.end)
        turns.on_tasks_left.append(self._have_left)

    def plan(self, entry: Entry, job: Job) -> tuple[str, str] | None:
        """A run with a job of its own will be forced: the setting that stores the job, None if the task is not here.

        Conflict if a forced run of the task waits, or one with a job of its own has not ended.
        """
        row = self._tasks.row(entry.number)
        if row is None:
            return None
        self.refuse_merging([entry])
        if self._is_forced(row):
            name = entry.task.name
            raise Conflict(f"{name!r} waits for a forced run already; run it with arguments when that has begun")
        return self._own.add(entry, job, self._clock.now())

    def refuse_merging(self, entries: Sequence[Entry]) -> None:
        """A forced run with a job of its own stays alone: raise Conflict if one of these tasks has such a run."""
        for entry in entries if self._own else ():
            row = self._tasks.row(entry.number)
            if row is None or entry.number not in self._own:
                continue
            if self._is_forced(row) or self._is_retried(row, entry.number) or self._is_pending(entry.number):
                raise Conflict(
                    f"{entry.task.name!r} has a run with arguments of its own that has not ended; run it again then"
                )
            self._own.end(entry.number)  # it was withdrawn, or its retry given up

    def end(self, numbers: Sequence[int]) -> None:
        """Runs of these tasks will not be made."""
        for number in numbers:
            self._own.end(number)
        self._delete_ended()

    def withdraw(self, numbers: Sequence[int]) -> None:
        """Forced runs and retries of these tasks that had not begun will not be made."""
        for number in numbers if self._own else ():
            if not self._is_pending(number):
                self._own.end(number)
        self._delete_ended()

    def _have_ended(self, runs: Sequence[PendingRun], _: object) -> None:
        for run in runs if self._own else ():
            row = self._tasks.row(run.number)
            # A run that was lost is forced again.
            goes_on = row is not None and (self._is_forced(row) or self._is_retried(row, run.number))
            if self._own.get(run.number, run.kind, run.nominal) is not None and not goes_on:
                self._own.end(run.number)
        self._delete_ended()

    def _have_left(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._own.leave(number)

    def _is_forced(self, row: int) -> bool:
        return bool(self._tasks.columns.flags[row] & int(Flag.FORCED))

    def _is_retried(self, row: int, number: int) -> bool:
        nominal = self._own.nominal(number)
        return nominal is not None and self._tasks.lifecycle.retries.nominals.get(row) == nominal

    def _is_pending(self, number: int) -> bool:
        runs = self._turns.pending_runs.values()
        return any(run.number == number and self._own.get(number, run.kind, run.nominal) is not None for run in runs)

    def _delete_ended(self) -> None:
        keys = self._own.take_ended()
        if not keys:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._delete(keys)
        else:
            loop.run_in_executor(None, self._delete, keys)

    def _delete(self, keys: Sequence[str]) -> None:
        try:
            self._store.set_settings(dict.fromkeys(keys))
        except StoreError as e:  # the next start deletes them
            _log.warning("arguments of ended runs were not deleted: %s", e, extra={"action": "store_failing"})
