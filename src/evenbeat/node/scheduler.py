"""The node: takes up where the last one stopped, keeps the beat going, and stops in order."""

import asyncio
import gc
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from evenbeat.admin.capacity import DEFAULT_MAX_CONCURRENT, EffectiveLimit, limit_capacities, slot_capacity
from evenbeat.admin.command_permission import permission_of
from evenbeat.admin.submitters import Submitters
from evenbeat.admin.task_admin import LiveChange, TaskAdmin
from evenbeat.core.columns import Ints
from evenbeat.core.downtime import clock_set_back, resume
from evenbeat.core.guard import kill_after
from evenbeat.core.pace import MAX_START_RATE, START_WINDOW
from evenbeat.core.task import Flag, SkipColumns
from evenbeat.load.config import DEFAULT_KEEP
from evenbeat.load.parse_process import load_in_subprocess
from evenbeat.load.pause_gc import without_garbage_collection
from evenbeat.model import SECOND, Entry, Instant, Invalid
from evenbeat.node.loop.clock import Clock
from evenbeat.node.loop.outbox import Outbox
from evenbeat.node.loop.records import task_positions_of
from evenbeat.node.loop.restart import GENERATION_KEY, LAST_SEEN_KEY, explain_damaged_store, restore_all_tasks
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.node.loop.turn import TurnLoop
from evenbeat.node.process.leftovers import worker_records_path
from evenbeat.node.process.listen import ListenAddress
from evenbeat.node.process.memory import give_back_memory
from evenbeat.node.process.systemd import notify_systemd, watchdog_interval
from evenbeat.queue.contract import Queue
from evenbeat.queue.local.local_queue import LocalQueue
from evenbeat.report.obstacles import node_problems_of
from evenbeat.report.status import status_of
from evenbeat.report.task_now import running_runs_of, waiting_reason
from evenbeat.store.contract import Batch, SettledDefinitions, Store, StoreError
from evenbeat.when.windows import FOREVER
from evenbeat.wire.live_runs import RunningRuns
from evenbeat.wire.replies import ChangeResult
from evenbeat.wire.status import Status
from evenbeat.wire.worker_frames import RunResult

if TYPE_CHECKING:
    from evenbeat.node.cluster.relay import EventRelay
    from evenbeat.wire.cluster_view import ClusterView
    from evenbeat.wire.metrics import ClusterMetrics
    from evenbeat.wire.replies import Reply
    from evenbeat.wire.requests import ForceTasks, Request

DEFAULT_STOP_GRACE: Final = 30.0
"""Seconds that runs have to end when the node is stopped."""
_CHANGES_AT_ONCE: Final = 2_000
"""Tasks that are changed at once, in some tens of milliseconds: claims wait no longer than that."""
_PRUNE_INTERVAL: Final = 60.0
_GC_THRESHOLD: Final = (100_000, 10, 10)
"""As gc.set_threshold takes it: new objects before the young ones are looked through, and so on."""
_MIN_CLOCK_MOVE: Final = 100
"""Microseconds that our clock must move before workers hear of it."""
_log: Final = logging.getLogger("evenbeat.node")


class NodeOptions(Struct, frozen=True):
    """How a node runs."""

    files: tuple[Path, ...] = ()
    is_strict: bool = False
    """Do not start if a file cannot be applied, also if it could be before."""
    workers: int = 1
    max_concurrent: int | None = None
    """None for what files say, else 512."""
    start_window: int | None = None
    """Microseconds within which first and catch-up runs are made; None for what files say, else a minute."""
    start_rate: int | None = None
    """First and catch-up runs per second at most; None for what files say, else 200."""
    grace: float = DEFAULT_STOP_GRACE
    length: float | None = None
    """Seconds after which it stops by itself."""
    listen: ListenAddress | None = None
    """Where its API and page are served; None for nowhere."""


class Scheduler:
    """One scheduler on one store."""

    def __init__(self, store: Store, options: NodeOptions, clock: Clock | None = None, database: str = "") -> None:
        self.store = store
        self.database = database
        self.options = options
        self.clock = clock or Clock()
        self._sent_clock_offset = self.clock.offset
        self.admin = TaskAdmin(store, self.clock.now)
        self.submitters = Submitters()
        self.started_at = self.clock.now()
        self.started_elapsed = self.clock.elapsed()
        """The same on the clock that nobody sets."""
        self.start_id: Final = token_hex(8)
        """A word for this start, and no other."""
        self.on_change: list[Callable[[LiveChange], None]] = []
        """Called with every change once it is true of the live tasks and committed."""
        self.created_entries: list[Entry] = []
        """All tasks of the store, if somebody has just created them and has them at hand; else the store tells."""
        self._changes_to_apply: deque[ChangeResult] = deque()
        self.admin.on_changed = self._queue_change
        self.admin.command_line_slots = options.max_concurrent
        self.slots = EffectiveLimit(options.max_concurrent or DEFAULT_MAX_CONCURRENT, "")
        self.limits: dict[str, EffectiveLimit] = {}
        """How many runs at the same time, in all and by limit, and who says so; in a cluster, of all nodes."""
        self.admin.load = load_in_subprocess
        self.admin.part_size = _CHANGES_AT_ONCE
        self._is_up = False
        self._pass_env: tuple[str, ...] = ()
        """As it is in force: the environment of worker processes is made when they start."""
        self._stopping = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._failure: BaseException | None = None
        self.reason = ""
        self.files_error = ""
        """Why its files could not be applied when it started, or was last told to reload; empty if they were."""
        self.uncommitted_reason = ""
        """After a stop: why not all that was done is in the store."""
        self._queue_problem = ""
        """As it was when it was last looked at."""
        self.page = ""
        """Where its page is, if it has one."""
        self.token_file: Path | None = None
        """Where the token is kept that it has made; None if it has made none."""
        self.relay: EventRelay | None = None
        """How it hears what happens at the other nodes of its cluster."""

    # From outside, on the loop

    def stop(self, reason: str) -> None:
        """Stop in order; asked again, it goes on as before."""
        self.reason = self.reason or reason
        self._stopping.set()

    def stop_or_stop_now(self, reason: str) -> None:
        """Stop in order; asked a second time, at once."""
        if self._stopping.is_set():
            self._stop_now.set()
        self.stop(reason)

    def store_was_inspected(self, problem: Exception | None) -> None:
        """From any thread: the database was found damaged, or whole again. What the store says now is asked of it."""
        if problem is not None:
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self.outbox.put, Batch(), lambda: None)

    def apply_changes(self) -> None:
        """What the desk has changed becomes true of the live tasks, in the order in which it was done."""
        while self._is_up and self._changes_to_apply:
            self._apply_change(self._changes_to_apply.popleft())

    def _queue_change(self, changed: ChangeResult) -> None:
        """On any thread. Of many changes each is taken over by itself, so that there are turns between them."""
        self._changes_to_apply.append(changed)
        if self._is_up:
            with suppress(RuntimeError):  # the loop is closed: the next node goes by the store
                self.loop.call_soon_threadsafe(self._apply_next_change)

    def _apply_next_change(self) -> None:
        try:
            if self._changes_to_apply:
                self._apply_change(self._changes_to_apply.popleft())
        except Exception as e:
            self._fail(e)

    def _apply_change(self, changed: ChangeResult) -> None:
        now = self.clock.now()
        batch = Batch()
        names = self.tasks.names
        found = ((entry.number, self.tasks.row(entry.number)) for entry in changed.changed)
        old_names = {number: names.name(row) for number, row in found if row is not None}
        replanned: list[int] = []
        if changed.settings:
            rows, passed = self._read_settings(now)
            batch.skips += self.turns.skips_of(passed, now)
            self.turns.passive.schedule_checks(rows, now)
            batch.standings += task_positions_of(self.tasks, rows, now)
            replanned = self.tasks.columns.number[rows].tolist()
            batch.settled += [SettledDefinitions(number, changed.settings_at) for number in replanned]
        if changed.removed:
            self.turns.passive.forget(self.tasks.rows([entry.number for entry in changed.removed]).tolist())
            for skips, numbers in self.tasks.remove([entry.number for entry in changed.removed], now):
                batch.skips += self.turns.skips_of([skips], now, numbers)
            running = self.tasks.columns.number[self.tasks.removed_rows()].tolist()
            for number in {entry.number for entry in changed.removed}.difference(running):
                self.turns.cursors.pop(number, None)
        moved = []
        if changed.changed:
            rows, postponed = self.tasks.change(changed.changed, now)
            batch.skips += self.turns.skips_of(postponed, now)
            batch.settled += [SettledDefinitions(entry.number, entry.changed) for entry in changed.changed]
            moved.append(rows)
        if changed.created:
            back, new = self.tasks.restore_removed(changed.created, now)
            rows = self.tasks.add(new)
            self.tasks.begin(rows, now)
            self.turns.restore_ended(rows)
            for some in (back, rows):
                batch.skips += self.turns.skips_of(self.tasks.start_at(some, now), now)
                moved.append(some)
        told_of = [entry.number for entry in (*changed.changed, *changed.created) if entry.task.passive]
        self.turns.passive.schedule_checks(self.tasks.rows(told_of), now, anew=True)
        self.turns.passive.check_rows_again(self.tasks.rows([entry.number for entry in changed.changed]))
        for rows in moved:
            batch.standings += task_positions_of(self.tasks, rows, now)
        self.tasks.lifecycle.pace.mean_rate = self.tasks.mean_rate
        self.turns.record(batch, lambda: self._announce(LiveChange(changed, old_names, replanned)))
        self.turns.plan_turn_soon()

    def _announce(self, taken_over: LiveChange) -> None:
        for listener in self.on_change:
            listener(taken_over)

    def raise_if_elsewhere(self, number: int) -> None:
        """A task is not known: raise whom to ask, if there is anybody else."""

    async def forward(self, number: int, request: "Request", patience: float | None = None) -> "Reply":  # noqa: ARG002
        """Have it done by the node that has the task; a single one has all there are."""
        raise Invalid(f"there is no task with the number {number}")

    async def forward_force(self, entries: Sequence[Entry], request: "ForceTasks") -> "list[Reply]":  # noqa: ARG002
        """Have those run that other nodes have; what those nodes answered."""
        return []

    @property
    def has_workers(self) -> bool:
        """Has it workers? Without, it only schedules, takes results from outside, and shows."""
        return self.options.workers > 0

    def problems(self) -> list[str]:
        """What keeps it from executing or recording anything at the moment."""
        return node_problems_of(self)

    def status(self) -> Status:
        """How it is, together with all others of its cluster."""
        return status_of(self)

    def cluster(self) -> "ClusterView | None":
        """Who else there is; None if it is alone."""
        return None

    def membership(self) -> "ClusterMetrics | None":
        """What it measures of its place among others; None if it is alone."""
        return None

    async def running(self, most: int) -> RunningRuns:
        """What runs, together with all others of its cluster."""
        return running_runs_of(self, most)

    def force(self, entries: Sequence[Entry], named: int = 0) -> dict[str, str]:
        """Run these now, slots and running instances permitting. Of the first so many: what those wait for that cannot
        start at once, by their names.
        """
        self.apply_changes()  # one of them may be that new
        now = self.clock.now()
        rows = self.tasks.runnable(self.tasks.rows([entry.number for entry in entries]))
        waiting = {self.tasks.names.name(row): waiting_reason(self, row) for row in rows[:named].tolist()}
        self.tasks.lifecycle.force(rows)
        self.turns.record(Batch(standings=task_positions_of(self.tasks, rows, now)))
        self.turns.plan_turn_soon()
        return {name: why for name, why in waiting.items() if why}

    # Its life

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Live until stopped; `ready` is awaited when everything is up."""
        loop = self.loop = asyncio.get_running_loop()
        self.outbox = Outbox(self.store, loop, self._fail)
        with explain_damaged_store(self.database):
            generation = int(self.store.setting(GENERATION_KEY) or 0)
        self.tasks = TaskTable(self.options.max_concurrent or DEFAULT_MAX_CONCURRENT, generation)
        self.queue = self._new_queue()
        self.turns = TurnLoop(self.tasks, self.outbox, self.queue, self.clock)
        self.turns.on_failure = self._fail
        self.turns.on_standstill = self._handle_standstill
        care: list[asyncio.Task[None]] = []
        try:
            await self._start()
            care += [asyncio.create_task(some) for some in self._background_jobs()]
            if self.options.length is not None:
                loop.call_later(self.options.length, self.stop, "its time is over")
            self.turns.plan_turn_soon()
            await ready()
            notify_systemd("READY=1")
            await self._stopping.wait()
            if self._failure is not None:
                raise self._failure
            notify_systemd("STOPPING=1")
            await self._stop_in_order()
        finally:
            for task in care:
                task.cancel()
            self.turns.stop()
            await self.queue.stop(0)
            self.outbox.close()
            if self._is_up:
                self._store_clock()

    def _new_queue(self) -> Queue:
        self._pass_env = self.admin.settings().pass_env or ()
        queue = LocalQueue(
            self.options.workers,
            self._results,
            self._started,
            kill_after=kill_after,
            clock_offset=self.clock.offset,
            records=worker_records_path(Path(self.database)) if self.database else None,
            pass_env=self._pass_env,
        )
        queue.start()  # workers come up while we read what there is to do
        return queue

    async def _start(self) -> None:
        """Everything that must be there before the first turn."""
        with explain_damaged_store(self.database):
            self._restore_tasks()

    def _background_jobs(self) -> list[Coroutine[None, None, None]]:
        """What goes on beside the beat."""
        return [self._tick(), self._prune()]

    def _restore_tasks(self) -> None:
        with self.admin.locked(), without_garbage_collection():
            if self._changes_to_apply:
                self._changes_to_apply.clear()  # whatever the desk has done until now, the store tells
                self.created_entries = []
            self._read_settings(self.clock.now())
            self.turns.record(restore_all_tasks(self.tasks, self.turns, self.store, self.clock, self.created_entries))
            self.created_entries = []
            self._is_up = True
        self._tune_garbage_collector()
        self._store_clock()

    def _tune_garbage_collector(self) -> None:
        # What has been read stays: nobody needs to look through it for garbage again and again. Batches of thousands of
        # tuples come and go without a cycle among them: looking for one took a third of a busy node's time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLD)
        give_back_memory()

    def _fail(self, error: BaseException) -> None:
        """Something is wrong with us. Better no node than one that only looks alive: the next goes by the store."""
        self._failure = self._failure or error
        _log.critical("the node failed", exc_info=error, extra={"action": "failed"})
        self._stop_now.set()
        self.stop("it failed")

    def _started(self, starts: list[tuple[int, int]]) -> None:
        try:
            self.turns.add_starts(starts)
        except Exception as e:
            self._fail(e)

    def _results(self, results: list[RunResult]) -> None:
        try:
            if any(result.stop_node for result in results):
                self.stop("a task asked for it")
            self.turns.add_results(results)
        except Exception as e:
            # Nobody knows which of them were taken, but the store does.
            self._fail(e)

    # What it is told

    def _read_settings(self, now: Instant) -> tuple[Ints, list[SkipColumns]]:
        """Which rows have other periods now, and what that skips."""
        said = self.admin.settings()
        changed = self.tasks.set_periods({name: period for name, (_, period) in self.store.periods().items()}, now)
        self.tasks.set_permission(permission_of(self.store))
        self.tasks.set_limits(self.admin.limits())
        self.slots, self.limits = slot_capacity(self.store, self.options.max_concurrent), limit_capacities(self.store)
        self.tasks.lifecycle.slots = self.slots.most if self.has_workers else 0  # whatever is due waits
        self._keep = said.keep or DEFAULT_KEEP
        pass_env = said.pass_env or ()
        if not self._is_up:
            self._pass_env = pass_env
        elif pass_env != self._pass_env:
            _log.warning("`pass_env` of [node] counts from the next start", extra={"action": "not_in_force"})
        pace = self.tasks.lifecycle.pace
        pace.window = self.options.start_window or said.start_window or START_WINDOW
        pace.start_rate = self.options.start_rate or said.start_rate or MAX_START_RATE
        return changed

    # While it lives

    async def _tick(self) -> None:
        """Once a second: has somebody set the clock? Is the service manager waiting to hear from us?"""
        interval = watchdog_interval()
        while True:
            await asyncio.sleep(1 if interval is None else min(1, interval / 3))
            if interval is not None:
                notify_systemd("WATCHDOG=1")
            self._look_at_the_clock()
            self._look_at_the_queue()

    def _look_at_the_queue(self) -> None:
        before, problem = self._queue_problem, self.queue.problem
        self._queue_problem = problem
        if problem and not before:
            _log.error("runs do not start: %s", problem, extra={"action": "queue_failing"})
        elif before and not problem:
            _log.info("runs start again", extra={"action": "queue_works"})

    def _look_at_the_clock(self) -> None:
        by = self.clock.compare()
        if by:
            self._handle_clock_step(by)
        if abs(self.clock.offset - self._sent_clock_offset) > _MIN_CLOCK_MOVE:
            # Workers wait by it until their runs are due.
            self._sent_clock_offset = self.clock.offset
            self.queue.set_clock(self._sent_clock_offset, by)

    def _handle_standstill(self, length: int) -> None:
        """The machine slept, or somebody stopped the process: for tasks that is a stop like any other."""
        _log.warning("nothing was done for %.0f s", length / SECOND, extra={"action": "stood_still", "length": length})
        self._account_for_gap(0, length)

    def _handle_clock_step(self, by: int) -> None:
        _log.warning("the clock was set by %+.1f s", by / SECOND, extra={"action": "clock_set", "by": by})
        self.turns.clock_was_set(by)
        self._account_for_gap(by, max(by, 0))
        self._store_clock()
        self.turns.plan_turn_soon()

    def _account_for_gap(self, by: int, length: int) -> None:
        """What passed without us, or comes again as the clock was set back, is recorded and made up for."""
        now, rows, life = self.clock.now(), self.tasks.all_rows(), self.tasks.lifecycle
        if by < 0:
            skips = clock_set_back(life, rows, -by, now)
            self.turns.passive.clock_set_back(rows, -by, now)
        else:
            active = self.tasks.active(rows)
            skips = resume(life, active, now, self.tasks.catch_up_of(active))
            skips += self.turns.passive.resume_after_stop(rows, Instant(now - length), now)
        standings = task_positions_of(self.tasks, rows, now)
        self.turns.record(Batch(standings=standings, skips=self.turns.skips_of(skips, now)))

    def _store_clock(self) -> None:
        """For the nodes to come: what time it is, and of which generation. It is not worth dying for."""
        try:
            generation = self.tasks.lifecycle.generation
            self.store.set_settings({LAST_SEEN_KEY: str(self.clock.now()), GENERATION_KEY: str(generation)})
        except StoreError as e:
            _log.error("the time could not be remembered: %s", e, extra={"action": "store_failing"})

    async def _prune(self) -> None:
        while True:
            await asyncio.sleep(_PRUNE_INTERVAL)
            self._store_clock()
            gc.collect()
            await asyncio.to_thread(give_back_memory)
            try:
                while await asyncio.to_thread(self.store.prune, self.clock.now(), self._keep):
                    await asyncio.sleep(0.05)
            except StoreError as e:
                _log.error("the history could not be shortened: %s", e, extra={"action": "store_failing"})

    # Ending

    async def _stop_in_order(self) -> None:
        """Stop claiming, let runs end, run what is to run at a stop, and have everything safe."""
        _log.info("stopping: %s", self.reason, extra={"action": "stopping", "running": len(self.turns.pending_runs)})
        self.turns.is_claiming = False
        await self._wait_for_runs(self.options.grace)
        shutdown = np.array(sorted(self.tasks.occasions["@shutdown"]), dtype=np.int64)
        if len(shutdown) and not self._stop_now.is_set():
            life = self.tasks.lifecycle
            # All others have their place in the store; here nothing else is due any more.
            everybody = self.tasks.all_rows()
            life.set_flag(life.waiting, Flag.WAITING, on=False)
            life.waiting = life.waiting[:0]
            life.timetable.set_due(everybody, np.full(len(everybody), FOREVER))
            life.trigger_node_event(shutdown, self.clock.now())
            self.turns.is_claiming = True
            self.turns.turn(self.clock.now())
            await self._wait_for_runs(self.options.grace)
            self.turns.is_claiming = False
        await self._flush_outbox()

    async def _wait_for_runs(self, grace: float) -> None:
        """Wait for what runs or may still be claimed; what takes longer than the grace is cancelled."""
        deadline = time.monotonic() + grace
        while self._is_busy() and time.monotonic() < deadline and not self._stop_now.is_set():
            await asyncio.sleep(0.02)
        self.turns.is_claiming = False
        if self.turns.pending_runs:
            self.turns.cancel_undispatched()
            self.queue.cancel()
            deadline = time.monotonic() + 10
            while self._runs_something() and time.monotonic() < deadline:
                await asyncio.sleep(0.02)

    def _is_busy(self) -> bool:
        if self.outbox.is_store_damaged:
            return self._runs_something()
        return bool(self.turns.pending_runs) or (self.turns.is_claiming and len(self.tasks.lifecycle.waiting) > 0)

    def _runs_something(self) -> bool:
        """Runs whose claims a failing store has not taken have not begun, and nothing will come of them."""
        not_begun = self.outbox.unsafe_claims() if self.outbox.store_error else set()
        return any(run.number not in not_begun for run in self.turns.pending_runs.values())

    async def _flush_outbox(self) -> None:
        """All into the store. One that fails is waited for as long as runs are, unless somebody is in a hurry."""
        deadline = time.monotonic() + self.options.grace
        outbox = self.outbox
        while outbox.waiting:
            if self._failure is not None:
                raise self._failure
            in_vain = outbox.is_store_damaged or self._stop_now.is_set() or time.monotonic() > deadline
            if outbox.store_error and in_vain:
                self.uncommitted_reason = outbox.store_error
                _log.error("not all is in the store: %s", outbox.store_error, extra={"action": "store_failing"})
                return
            await asyncio.sleep(0.005)
