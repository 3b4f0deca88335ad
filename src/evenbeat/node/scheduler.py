"""The scheduler: assembles the parts of a node, starts them, looks after clock and history, and stops."""

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Protocol

from evenbeat.admin.capacity import DEFAULT_MAX_CONCURRENT
from evenbeat.admin.history_settings import settle_default
from evenbeat.admin.submitters import Submitters
from evenbeat.admin.task_admin import LiveChange, TaskAdmin
from evenbeat.clock.node_clock import Clock
from evenbeat.load.parse_process import load_in_subprocess
from evenbeat.model import SECOND
from evenbeat.node.alerts.node_alerts import NodeAlerts
from evenbeat.node.alerts.node_services import NodeServices
from evenbeat.node.alerts.sender_process import SenderProcess
from evenbeat.node.cluster.forwarded_requests import ForwardedRequests
from evenbeat.node.cluster.relay import EventRelay
from evenbeat.node.finished_one_offs import FinishedOneOffs
from evenbeat.node.history.compactor import Compactor
from evenbeat.node.history.history_keeper import HistoryKeeper, tasks_of
from evenbeat.node.history.size_watch import SizeWatch
from evenbeat.node.live_tasks import LiveTasks
from evenbeat.node.loop.missing_and_long import LOOK_INTERVAL, TimedProblemsWatch
from evenbeat.node.loop.outbox import Outbox
from evenbeat.node.loop.restart import GENERATION_KEY, explain_damaged_store
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.node.loop.turn import TurnLoop
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.memory import give_back_memory
from evenbeat.node.process.systemd import notify_systemd, watchdog_interval
from evenbeat.queue.contract import Queue
from evenbeat.store.contract import Batch, StoreError
from evenbeat.store.history_contract import LayeredHistory
from evenbeat.wire.cluster_view import ClusterView
from evenbeat.wire.live_runs import RunningRuns
from evenbeat.wire.metrics import ClusterMetrics
from evenbeat.wire.replies import ChangeResult
from evenbeat.wire.sender_documents import DeliveryEnd
from evenbeat.wire.status import HistoryStatus, Status

if TYPE_CHECKING:
    from pathlib import Path

CHANGES_AT_ONCE: Final = 2_000
"""Tasks that are changed at once, in some tens of milliseconds: claims wait no longer than that."""
_PRUNE_INTERVAL: Final = 60.0
_GC_THRESHOLD: Final = (100_000, 10, 10)
"""As gc.set_threshold takes it: new objects before the young ones are looked through, and so on."""
_MIN_CLOCK_MOVE: Final = 100
"""Microseconds that our clock must move before workers are told."""
_log: Final = logging.getLogger("evenbeat.node")


class OtherNodes(Protocol):
    """The other nodes of a cluster, as one node sees and asks them."""

    @property
    def relay(self) -> EventRelay:
        """The events of all nodes."""

    @property
    def requests(self) -> ForwardedRequests:
        """Has requests performed by the nodes that hold their tasks."""

    @property
    def problem(self) -> str:
        """Why this node may not act for the cluster now; empty if it may."""

    def view(self) -> ClusterView | None:
        """All nodes and workers; None as long as this node has not joined."""

    def metrics(self) -> ClusterMetrics:
        """What this node measures of its place among the others."""


class Membership(Protocol):
    """What differs between a single node and a node of a cluster. One object belongs to one scheduler."""

    @property
    def others(self) -> OtherNodes | None:
        """None for a single node."""

    @property
    def has_workers(self) -> bool:
        """Without workers a node only schedules, takes submitted results, and shows."""

    def attach(self, node: "Scheduler") -> None:
        """Called once by the scheduler that it belongs to."""

    def create_queue(self) -> Queue:
        """The queue for the runs of this node, which reports to its turn loop."""

    def create_sender(self, on_end: Callable[[DeliveryEnd], None]) -> SenderProcess:
        """The process that delivers messages, which is not started yet."""

    def held_partitions(self) -> frozenset[int]:
        """The partitions whose tasks are live here, and whose contacts are told from here."""

    async def start(self) -> None:
        """Bring in the tasks of this node; everything must be there before the first turn."""

    def set_limits(self, slots: int, limits: dict[str, int]) -> None:
        """The maximum of runs at the same time, in all and by limit, is now this, for all nodes together."""

    def take_change(self, changed: ChangeResult) -> None:
        """Our own task administration has stored a change. Called on any thread."""

    def handle_failure(self, error: BaseException) -> None:
        """A batch was refused for good, or a turn failed."""

    def handle_standstill(self, length: int) -> None:
        """Nothing was done for so many microseconds: the machine slept, or the process was stopped."""

    def store_clock(self) -> None:
        """Store what the next start must know of the clock. A failing store is logged, not raised."""

    def status(self) -> Status:
        """The status of all nodes together."""

    async def running(self, most: int) -> RunningRuns:
        """The runs of all nodes together."""

    async def stop(self) -> None:
        """Stop in order: end or hand over what runs, and have everything committed."""


class Scheduler:
    """One scheduler on one store."""

    def __init__(
        self,
        admin: TaskAdmin,
        options: NodeOptions,
        membership: Membership,
        clock: Clock | None = None,
        database: str = "",
        *,
        files_error: str = "",
    ) -> None:
        self.admin = admin
        self.store = admin.store
        self.database = database
        self.options = options
        self.membership = membership
        self.clock = clock or Clock()
        self._sent_clock_offset = self.clock.offset
        self.submitters = Submitters()
        self.started_at = self.clock.now()
        self.started_elapsed = self.clock.elapsed()
        """The start on the clock that is never set."""
        self.start_id: Final = token_hex(8)
        """A random word for this start."""
        self.on_change: list[Callable[[LiveChange], None]] = []
        """Called with every change once it is true of the live tasks and committed."""
        self.pending_changes: deque[ChangeResult] = deque()
        """Stored changes that are not true of the live tasks yet."""
        membership.attach(self)
        admin.on_changed = membership.take_change
        admin.command_line_slots = options.max_concurrent
        admin.load = load_in_subprocess
        admin.part_size = CHANGES_AT_ONCE
        self.is_up = False
        """Are the tasks live?"""
        self._jobs: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self.stop_now = asyncio.Event()
        """Set if the stop is to be fast: runs are not waited for."""
        self.failure: BaseException | None = None
        self.reason = ""
        """Why it stops."""
        self.files_error = files_error
        """Why its files could not be applied at its start or last reload; empty if they were."""
        self.uncommitted_reason = ""
        """After a stop: why not everything is in the store; empty if it is."""
        self._queue_problem = ""
        """As it was when it was last looked at."""
        self.page = ""
        """Where its page is, if it has one."""
        self._size_watch: SizeWatch | None = None
        self._history: HistoryKeeper | None = None
        """What compacts the history, if the store has layers."""
        self.token_file: Path | None = None
        """Where the API token is kept that it has made; None if it has made none."""

    # Called from outside, on the loop

    def stop(self, reason: str) -> None:
        """Stop in order; a second call changes nothing."""
        self.reason = self.reason or reason
        self._stopping.set()

    def stop_or_stop_now(self, reason: str) -> None:
        """Stop in order; the second call stops at once."""
        if self._stopping.is_set():
            self.stop_now.set()
        self.stop(reason)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def fail(self, error: BaseException) -> None:
        """Stop because of a bug or a lost store: the next node continues from what is stored."""
        self.failure = self.failure or error
        _log.critical("the node failed", exc_info=error, extra={"action": "failed"})
        self.stop_now.set()
        self.stop("it failed")

    def store_was_inspected(self, problem: Exception | None) -> None:
        """The database was found damaged, or whole again; called on any thread. An empty batch asks the store which."""
        if problem is not None:
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self.outbox.put, Batch(), lambda: None)

    def apply_changes(self) -> None:
        """Make all pending changes true of the live tasks, in the order in which they were stored."""
        while self.is_up and self.pending_changes:
            self.live.apply(self.pending_changes.popleft())

    def apply_next_change(self) -> None:
        """Of many changes each is applied by itself, so that there are turns between them."""
        try:
            if self.is_up and self.pending_changes:
                self.live.apply(self.pending_changes.popleft())
        except Exception as e:
            self.fail(e)

    @property
    def others(self) -> OtherNodes | None:
        """The other nodes of its cluster; None for a single node."""
        return self.membership.others

    @property
    def history_status(self) -> HistoryStatus | None:
        """The size of the database, as it was measured last; None if another node of its cluster measures it."""
        watch = self._size_watch
        return None if watch is None or 0 not in self.membership.held_partitions() else watch.status

    def status(self) -> Status:
        """The status of this node, or of its whole cluster."""
        return self.membership.status()

    # Its life

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Run until stopped; `ready` is awaited when everything is up."""
        self.assemble(asyncio.get_running_loop())
        try:
            await self.membership.start()
            self.start_job(self._look_after_clock_and_queue())
            self.start_job(self._look_after_history())
            self._compact_history()
            self.start_job(self._look_after_pauses())
            self.start_job(self.alerts.run())
            self.start_job(self._look_for_timed_problems())
            if self.options.length is not None:
                self.loop.call_later(self.options.length, self.stop, "its time is over")
            self.turns.plan_turn_soon()
            await ready()
            notify_systemd("READY=1")
            await self._stopping.wait()
            if self.failure is not None:
                raise self.failure
            notify_systemd("STOPPING=1")
            await self.membership.stop()
            if not self.stop_now.is_set():
                await self.alerts.engine.finish(lambda _: True)
        finally:
            for job in self._jobs:
                job.cancel()
            self.turns.stop()
            await self.alerts.stop()
            if self._history is not None:
                await self._history.stop()
            await self.queue.stop(0)
            self.outbox.close()
            if self.is_up:
                self.membership.store_clock()

    def assemble(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make the parts; nothing runs yet, but workers come up while the tasks are read."""
        self.loop = loop
        self.outbox = Outbox(self.store, loop, self.membership.handle_failure)
        with explain_damaged_store(self.database):
            generation = int(self.store.setting(GENERATION_KEY) or 0)
            settle_default(self.store)
        self.tasks = TaskTable(self.options.max_concurrent or DEFAULT_MAX_CONCURRENT, generation)
        self.turns = TurnLoop(self.tasks, self.outbox, self.clock)
        self.turns.on_failure = self.membership.handle_failure
        self.turns.on_standstill = self.membership.handle_standstill
        self.turns.on_stop_asked = lambda: self.stop("a task asked for it")
        self.queue = self.membership.create_queue()
        self.turns.attach(self.queue)
        self.alerts = NodeAlerts(self.store, self._alert_surroundings(), self.membership.create_sender)
        self.turns.on_problems = self.alerts.engine.news.batch_committed
        self.on_change.append(self.alerts.engine.tasks_changed)
        self.live = LiveTasks(
            self.admin, self.options, self.clock, self.tasks, self.turns, self.membership.set_limits, self.on_change
        )

    def _alert_surroundings(self) -> NodeServices:
        async def settle_holds() -> None:
            if self.turns.settle_holds(self.clock.now()):
                await self.outbox.wait_committed()

        return NodeServices(
            now=self.clock.now,
            find_period=self.tasks.periods.get,
            link=lambda: self.live.page or self.page,
            has_turned=lambda: self.turns.last_turn is not None,
            settle_holds=settle_holds,
            held_partitions=self.membership.held_partitions,
        )

    def start_job(self, job: Coroutine[None, None, None]) -> None:
        """Run a job beside the turns until the node stops."""
        self._jobs.append(self.loop.create_task(job))

    def tasks_are_live(self) -> None:
        """The tasks have been read."""
        self.is_up = True
        # What has been read stays: it need not be searched for garbage again and again. Batches of thousands of tuples
        # come and go without a cycle among them: searching them took a third of a busy node's time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLD)
        give_back_memory()

    # Background jobs

    async def _look_after_clock_and_queue(self) -> None:
        """Once a second: was the clock set, do runs start, and does the service manager wait for a sign of life?"""
        interval = watchdog_interval()
        while True:
            await asyncio.sleep(1 if interval is None else min(1, interval / 3))
            if interval is not None:
                notify_systemd("WATCHDOG=1")
            self.look_at_clock()
            self._look_at_queue()
            self._settle_holds()

    def _settle_holds(self) -> None:
        """What holds problems changes by time alone, too."""
        try:
            self.turns.settle_holds(self.clock.now())
        except Exception as e:
            self.fail(e)

    def _look_at_queue(self) -> None:
        before, problem = self._queue_problem, self.queue.problem
        self._queue_problem = problem
        if problem and not before:
            _log.error("runs do not start: %s", problem, extra={"action": "queue_failing"})
        elif before and not problem:
            _log.info("runs start again", extra={"action": "queue_works"})

    def look_at_clock(self) -> None:
        """Notice a clock that was set, and tell the workers, which wait by it until their runs are due."""
        by = self.clock.compare()
        if by:
            _log.warning("the clock was set by %+.1f s", by / SECOND, extra={"action": "clock_set", "by": by})
            self.turns.clock_was_set(by)
            self.alerts.engine.clock_was_set(by)
            self.live.account_for_gap(by, max(by, 0))
            self.membership.store_clock()
            self.turns.plan_turn_soon()
        if abs(self.clock.offset - self._sent_clock_offset) > _MIN_CLOCK_MOVE:
            self._sent_clock_offset = self.clock.offset
            self.queue.set_clock(self._sent_clock_offset, by)

    async def _look_for_timed_problems(self) -> None:
        """Are results missing, and do runs last unusually long?"""
        watch = TimedProblemsWatch(self.turns, self.clock.now())
        while True:
            await asyncio.sleep(LOOK_INTERVAL / SECOND)
            if self.turns.is_claiming and self.turns.may_claim():
                watch.look(self.clock.now())

    async def _look_after_pauses(self) -> None:
        """Once a second: resume tasks whose pause is over."""
        logged = ""
        while True:
            await asyncio.sleep(1)
            if not (names := self.tasks.paused_too_long(self.clock.now())):
                continue
            try:
                await asyncio.to_thread(self.admin.end_pauses, names)
                logged = ""
            except StoreError as e:
                if str(e) != logged:
                    _log.error("tasks were not resumed: %s", e, extra={"action": "store_failing"})
                logged = str(e)

    def _compact_history(self) -> None:
        """Start to compact the history beside the turns; other stores have what `prune` does."""
        if isinstance(self.store, LayeredHistory):
            compactor = Compactor(self.store, self.clock.now, lambda: self.live.retention, lambda: tasks_of(self.store))
            held = self.membership.held_partitions
            watch = SizeWatch(self.store, compactor, self.tasks, lambda: self.live.retention, held, self.database)
            self._size_watch = watch
            self._history = HistoryKeeper(compactor, lambda: 0 in held(), lambda: watch.begin(self.clock.now()))
            self.start_job(self._history.run())

    async def _look_after_history(self) -> None:
        """Once a minute: store the clock, give back memory, and delete old history and finished one-offs."""
        one_offs = FinishedOneOffs(self.tasks, self.admin)
        while True:
            await asyncio.sleep(_PRUNE_INTERVAL)
            self.membership.store_clock()
            gc.collect()
            await asyncio.to_thread(give_back_memory)
            try:
                while await asyncio.to_thread(self.store.prune, self.clock.now(), self.live.retention.keep):
                    await asyncio.sleep(0.05)
                await asyncio.to_thread(one_offs.find(self.clock.now(), self.live.retention.keep))
            except StoreError as e:
                _log.error("old history was not deleted: %s", e, extra={"action": "store_failing"})
