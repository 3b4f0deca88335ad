"""Requests that wait for the ends of runs: of forced ones, and of those that are stopped."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from evenbeat.admin.task_admin import LiveChange
from evenbeat.model import Invalid, RunKind
from evenbeat.node.loop.pending_run import PendingRun
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import Batch, Finish, StoreError


class RunEnd(NamedTuple):
    """A run, and how it ended."""

    run: PendingRun
    finish: Finish


class _Waiter(NamedTuple):
    end: asyncio.Future[RunEnd]
    is_meant: Callable[[PendingRun], bool]


class RunWaiters:
    """Who waits for the end of which run, by the numbers of tasks."""

    def __init__(self, node: Scheduler) -> None:
        self._node = node
        self._waiting: dict[int, list[_Waiter]] = {}
        node.turns.on_finished.append(self._finished)
        node.turns.on_tasks_left.append(self._has_left)
        node.turns.on_withdrawn.append(self._were_withdrawn)
        node.on_change.append(self._forget)

    def forced_run_of(self, task: int) -> asyncio.Future[RunEnd]:
        """The end of the forced run of a task that is asked for now: one that is claimed already is not meant."""
        claimed = self._node.turns.token
        return self._wait(task, lambda run: run.kind == RunKind.FORCED and run.token > claimed)

    def run_under_way(self, task: int, token: int) -> asyncio.Future[RunEnd]:
        """The end of a run that is claimed or running."""
        return self._wait(task, lambda run: run.token == token)

    def withdrawn(self, tasks: Sequence[int], why: str) -> None:
        """Forced runs of these tasks that have not begun will never begin."""
        self._refuse_unbegun(set(tasks), Invalid(why))

    def _wait(self, task: int, is_meant: Callable[[PendingRun], bool]) -> asyncio.Future[RunEnd]:
        end: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(task, []).append(_Waiter(end, is_meant))
        return end

    def _finished(self, runs: Sequence[PendingRun], finishes: Sequence[Finish]) -> None:
        for run, finish in zip(runs, finishes, strict=True) if self._waiting else ():
            for waiter in self._waiting.get(run.number, ()):
                if waiter.is_meant(run) and not waiter.end.done():
                    waiter.end.set_result(RunEnd(run, finish))
        self._forget_answered()

    def _forget(self, taken_over: LiveChange) -> None:
        """Forced runs that had not begun when their tasks were removed will never end."""
        removed = {entry.number for entry in taken_over.changed.removed} & self._waiting.keys()
        self._refuse_unbegun(removed, Invalid("the task was removed before it ran"))

    def _refuse_unbegun(self, tasks: set[int], why: Exception) -> None:
        tasks = tasks & self._waiting.keys()
        if not tasks:
            return
        running = [run for run in self._node.turns.pending_runs.values() if run.number in tasks]
        never = [
            waiter
            for number in tasks
            for waiter in self._waiting[number]
            if not any(run.number == number and waiter.is_meant(run) for run in running)
        ]
        # A run may have ended, with its end on the way into the store: then that end is the reply.
        self._node.outbox.put(Batch(), partial(self._refuse, never, why))

    def _were_withdrawn(self, numbers: list[int]) -> None:
        """These tasks were removed at the moment when their runs were claimed."""
        some = [waiter for number in numbers for waiter in self._waiting.get(number, ())]
        self._refuse(some, Invalid("the task was removed before it ran"))

    def _has_left(self, numbers: list[int]) -> None:
        """Another node of the cluster holds these tasks now and receives the results of their runs."""
        some = [waiter for number in numbers if self._waiting for waiter in self._waiting.get(number, ())]
        words = "the task has moved to another node while its run was waited for: `evenbeat history` tells how it ends"
        self._refuse(some, StoreError(words))

    def _refuse(self, waiters: Sequence[_Waiter], why: Exception) -> None:
        for waiter in waiters:
            if not waiter.end.done():
                waiter.end.set_exception(why)
        self._forget_answered()

    def _forget_answered(self) -> None:
        if self._waiting:
            left = {number: [w for w in some if not w.end.done()] for number, some in self._waiting.items()}
            self._waiting = {number: some for number, some in left.items() if some}
