"""A single node: it has all tasks of its store, and worker processes of its own."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from evenbeat.core.timebox import kill_after
from evenbeat.load.pause_gc import without_garbage_collection
from evenbeat.model import PARTITION_COUNT, SECOND, Entry
from evenbeat.node.alerts.sender_process import SenderProcess
from evenbeat.node.answers.running_runs import running_runs_of
from evenbeat.node.answers.status import status_of
from evenbeat.node.loop.restart import (
    GENERATION_KEY,
    LAST_SEEN_KEY,
    CopiedDefinitions,
    explain_damaged_store,
    restore_all_tasks,
)
from evenbeat.node.orderly_stop import end_all_runs
from evenbeat.node.process.memory import give_back_memory
from evenbeat.node.process.workers_left_behind import worker_records_path
from evenbeat.node.scheduler import Scheduler
from evenbeat.queue.contract import Queue
from evenbeat.queue.local.local_queue import LocalQueue
from evenbeat.store.contract import StoreError
from evenbeat.wire.live_runs import RunningRuns
from evenbeat.wire.replies import ChangeResult
from evenbeat.wire.sender_documents import DeliveryEnd
from evenbeat.wire.status import Status

_ALL_PARTITIONS: Final = frozenset(range(PARTITION_COUNT))
_START_SETTLES: Final = 3.0
"""Seconds after which what a start has recorded is committed."""
_log: Final = logging.getLogger("evenbeat.node")


class SingleMembership:
    """Of the one node that owns a store."""

    others: None = None

    def __init__(self, all_entries: Sequence[Entry] = (), copy: CopiedDefinitions | None = None) -> None:
        """`all_entries` are all tasks of the store if the caller has just created them; then they are not read again,
        which at 100,000 tasks would take a good part of the start. What is in the `copy` is not read either.
        """
        self._all_entries = all_entries
        self._copy = copy

    def attach(self, node: Scheduler) -> None:
        self.node = node

    def create_queue(self) -> Queue:
        node = self.node
        queue = LocalQueue(
            node.options.workers,
            node.turns.add_results,
            node.turns.add_starts,
            kill_after=kill_after,
            clock_offset=node.clock.offset,
            records=worker_records_path(Path(node.database)) if node.database else None,
            pass_env=node.admin.settings().pass_env or (),
        )
        queue.start()  # workers come up while the tasks are read
        return queue

    def create_sender(self, on_end: Callable[[DeliveryEnd], None]) -> SenderProcess:
        return SenderProcess(on_end, pass_env=self.node.admin.settings().pass_env or ())

    def held_partitions(self) -> frozenset[int]:
        return _ALL_PARTITIONS

    @property
    def has_workers(self) -> bool:
        return self.node.options.workers > 0

    async def start(self) -> None:
        with explain_damaged_store(self.node.database):
            self.restore_tasks()
        self.node.start_job(_give_back_memory_of_start())

    def restore_tasks(self) -> None:
        """Bring in all tasks of the store."""
        node = self.node
        with node.admin.locked(), without_garbage_collection():
            if node.pending_changes:
                node.pending_changes.clear()  # the store has them all
                self._all_entries = ()
            node.live.read_settings(node.clock.now())
            about = node.tasks, node.turns, node.store, node.clock
            node.turns.record(restore_all_tasks(*about, self._all_entries, self._copy))
            self._all_entries = ()
            node.is_up = True
        node.tasks_are_live()
        self.store_clock()

    def set_limits(self, slots: int, limits: dict[str, int]) -> None:
        self.node.tasks.set_limits(limits)
        self.node.tasks.lifecycle.slots = slots if self.has_workers else 0  # without workers due runs wait

    def take_change(self, changed: ChangeResult) -> None:
        self.node.pending_changes.append(changed)
        if self.node.is_up:
            with suppress(RuntimeError):  # the loop is closed: the next node reads the store
                self.node.loop.call_soon_threadsafe(self.node.apply_next_change)

    def handle_failure(self, error: BaseException) -> None:
        self.node.fail(error)

    def handle_standstill(self, length: int) -> None:
        """For tasks a standstill is a stop like any other."""
        _log.warning("nothing was done for %.0f s", length / SECOND, extra={"action": "stood_still", "length": length})
        self.node.live.account_for_gap(0, length)

    def store_clock(self) -> None:
        """The time and the clock generation, for the next node of this database."""
        node = self.node
        try:
            generation = node.tasks.lifecycle.generation
            node.store.set_settings({LAST_SEEN_KEY: str(node.clock.now()), GENERATION_KEY: str(generation)})
        except StoreError as e:
            _log.error("the time was not stored: %s", e, extra={"action": "store_failing"})

    def status(self) -> Status:
        return status_of(self.node)

    async def running(self, most: int) -> RunningRuns:
        return running_runs_of(self.node, most)

    async def stop(self) -> None:
        await end_all_runs(self.node)


async def _give_back_memory_of_start() -> None:
    """Once: what a start on a million tasks records takes memory until it is committed."""
    await asyncio.sleep(_START_SETTLES)
    await asyncio.to_thread(give_back_memory)
