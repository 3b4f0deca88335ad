"""A node driven by hand: its clock, its turns, its store and its workers do what the test says.

No processes, no waiting: runs that are dispatched are collected, and end when and how the test wants them to.
"""

import asyncio
import selectors
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.task_stops import tasks_to_stop
from evenbeat.clock.node_clock import Clock
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import DAY, Entry, Instant, Outcome, Period
from evenbeat.node.alerts.sender_process import SenderProcess
from evenbeat.node.loop.starter import CLAIM_AHEAD
from evenbeat.node.options import NodeOptions
from evenbeat.node.scheduler import Scheduler
from evenbeat.node.single_membership import SingleMembership
from evenbeat.queue.contract import Queue
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.alert_records import AlertBatch, AlertRefusals
from evenbeat.store.contract import Batch, Change, Claim, Condition, Filter, StoreError, TaskProgress, WithdrawnTasks
from evenbeat.store.memory import MemoryStore
from evenbeat.wire.replies import StopFound
from evenbeat.wire.sender_documents import DeliveryEnd, DeliveryOrder, Refusal
from evenbeat.wire.worker_frames import RunResult, RunSpec

T0 = Instant(20_000 * DAY)
"""A midnight."""
_POLL = 0.001


class _Jumping(selectors.DefaultSelector):
    """Whoever would wait for a timer finds that the time has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(_POLL if timeout is None else 0)
        self.passed += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop on which an hour of waiting takes no time."""

    made: ClassVar[list["VirtualLoop"]] = []
    """All there are: they go with their test."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)
        self.made.append(self)

    def time(self) -> float:
        return self._jumping.passed

    def pass_by(self, seconds: float) -> None:
        """So long something takes, while the loop has to wait."""
        self._jumping.passed += seconds

    def wait(self, seconds: float) -> None:
        self.run_until_complete(asyncio.sleep(seconds))


class RecordingStore(MemoryStore):
    """A store that records what it was given and what was dispatched, and can fail or delay for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: list[Batch | list[RunSpec]] = []
        self.is_failing = False
        self.is_slow = False
        """Commits wait for `commit`."""
        self._uncommitted: list[tuple[tuple[Batch, ...], Future[WithdrawnTasks]]] = []

    def record(self, *batches: Batch) -> Future[WithdrawnTasks]:
        if self.is_slow:
            self._uncommitted.append((batches, later := Future[WithdrawnTasks]()))
            return later
        if self.is_failing:
            failed: Future[WithdrawnTasks] = Future()
            failed.set_exception(StoreError("the disk is full"))
            return failed
        return self._keep(*batches)

    def record_alerts(self, batch: AlertBatch) -> Future[AlertRefusals]:
        if self.is_failing:
            failed: Future[AlertRefusals] = Future()
            failed.set_exception(StoreError("the disk is full"))
            return failed
        return super().record_alerts(batch)

    def commit(self) -> None:
        """Keep what waits, and delay no longer."""
        self.is_slow = False
        uncommitted, self._uncommitted = self._uncommitted, []
        for batches, later in uncommitted:
            later.set_result(self._keep(*batches).result())

    def _keep(self, *batches: Batch) -> Future[WithdrawnTasks]:
        self.recorded += batches
        return super().record(*batches)

    @property
    def batches(self) -> list[Batch]:
        return [page for page in self.recorded if isinstance(page, Batch)]

    @property
    def claims(self) -> list[Claim]:
        return [claim for batch in self.batches for claim in batch.claims]


class _HandDrivenMembership(SingleMembership):
    """A single node whose queue is the test."""

    def __init__(self, driven: "HandDrivenNode") -> None:
        super().__init__()
        self._driven = driven

    def create_queue(self) -> Queue:
        return self._driven  # type: ignore[return-value]

    def create_sender(self, on_end: Callable[[DeliveryEnd], None]) -> SenderProcess:
        self._driven.sender = RecordingSender(on_end)
        return self._driven.sender  # type: ignore[return-value]


class RecordingSender:
    """A sender that is the test: what it is ordered is collected, and ends when and how the test wants it to."""

    def __init__(self, on_end: Callable[[DeliveryEnd], None]) -> None:
        self.on_end = on_end
        self.orders: list[DeliveryOrder] = []
        self.under_way: list[DeliveryOrder] = []
        self.is_started = False
        self.problem = ""
        self.restarts = 0

    def start(self) -> None:
        self.is_started = True

    async def stop(self, grace: float) -> None:
        """Nothing is left to end."""

    def order(self, order: DeliveryOrder) -> None:
        assert self.is_started
        assert order.channel not in [other.channel for other in self.under_way], "one message at a time"
        self.orders.append(order)
        self.under_way.append(order)

    def end_all(
        self, *, is_delivered: bool = True, may_have_arrived: bool = False, error: str = "", refusal: Refusal = ""
    ) -> None:
        """Whatever is being delivered has ended."""
        self.end_each(
            lambda order: DeliveryEnd(
                order.message, order.channel, is_delivered, error, may_have_arrived=may_have_arrived, refusal=refusal
            )
        )

    def end_each(self, end: Callable[[DeliveryOrder], DeliveryEnd]) -> None:
        """Whatever is being delivered has ended as the function says."""
        ending, self.under_way = self.under_way, []
        for order in ending:
            self.on_end(end(order))


class HandDrivenNode:
    """A node, its store and its clock; and what it has dispatched."""

    sender: RecordingSender

    def __init__(self, *, slots: int | None = None, now: Instant = T0, store: RecordingStore | None = None) -> None:
        self.store = store or RecordingStore()
        self.loop = VirtualLoop()
        self.now: int = now
        self.dispatched: list[RunSpec] = []
        self.functions: list[str | None] = []
        self.pools: Sequence[str | None] | None = None
        self.safe: list[int] = []
        self.cancelled: list[int] = []
        """The tokens of runs that the queue was told to end."""
        self._options = NodeOptions(max_concurrent=slots)
        self._set_by = 0
        self.clock_offset = 0
        self.restart()

    # What the turns and the node ask of a queue

    early_delivery = CLAIM_AHEAD
    """Whatever is claimed is handed over at once, so that a turn needs no loop."""
    is_busy = False
    problem = ""
    restarts_by_worker: Mapping[str, int] = {}

    def confirm_stored(self, tokens: Sequence[int]) -> None:
        self.safe += tokens

    def dispatch(
        self,
        runs: Sequence[RunSpec],
        functions: Sequence[str | None] | None = None,
        tasks: Sequence[int] = (),
        pools: Sequence[str | None] | None = None,
    ) -> None:
        assert len(tasks) == len(runs)
        self.pools = pools
        self.store.recorded.append(list(runs))
        self.dispatched += runs
        self.functions += functions or [None] * len(runs)

    def cancel(self, tokens: Sequence[int] = ()) -> None:
        self.cancelled += tokens

    def set_clock(self, offset: int, by: int = 0) -> None:
        self.clock_offset = offset
        for run in self.under_way.values():
            run.move(by)

    # Time

    def clock_is_set(self, by: int) -> None:
        """Somebody sets the clock, and the node notices."""
        self.now += by
        self._set_by += by
        self.node.look_at_clock()

    def restart(self, after: int = 0) -> None:
        """The node is killed and another one starts on its store."""
        self.now += after
        self.under_way: dict[str, RunSpec] = {}
        self.clock = Clock(lambda: self.now, lambda: self.now - self._set_by)
        membership = _HandDrivenMembership(self)
        self.node = Scheduler(TaskAdmin(self.store, self.clock.now), self._options, membership, self.clock)
        self.node.assemble(self.loop)
        self.node.turns.stop()  # turns are made by hand
        membership.restore_tasks()
        self.admin = self.node.admin
        self.turns, self.tasks, self.outbox = self.node.turns, self.node.tasks, self.node.outbox
        self.lifecycle, self.columns = self.tasks.lifecycle, self.tasks.columns

    def turn(self, after: int = 0) -> list[RunSpec]:
        """Some time passes, then there is a turn; what was dispatched by it."""
        self.now += after
        before = len(self.dispatched)
        self.turns.turn(Instant(self.now))
        new = self.dispatched[before:]
        self.under_way |= {run.name: run for run in new}
        return new

    def turn_by_timer(self) -> None:
        """A turn as the timer of the loop makes it, on the loop: it keeps its pace, and plans the next one."""
        self.turns._turn()

    def advance(self, length: int, step: int = 1_000_000) -> list[RunSpec]:
        """Turns, one after the other; every run ends well at once."""
        made, until = [], self.now + length
        while self.now < until:
            runs = self.turn(min(step, until - self.now))
            made += runs
            for run in runs:
                self.end(run.name)
        self.turn()
        return made

    # Tasks

    def add(self, name: str, *, check: bool = False, owner: str = "ana", **keys: Any) -> Entry:
        if not keys.keys() & {"command", "function", "passive"}:
            keys["command"] = ["true"]
        if not keys.keys() & {"every", "cron", "at", "calendar", "after", "after_failure"}:
            keys |= {"every": "1m", "phase": "0s"}
        (entry,) = self.admin.add([task_from_table(name, keys, check=check)], owner, "ana").created
        self.node.apply_changes()
        return entry

    def set(self, name: str, *, new_name: str | None = None, **keys: Any) -> Entry:
        check = self.admin.find_or_raise(name).task.check
        changed = self.admin.set(name, task_from_table(new_name or name, keys, check=check), "ana")
        self.node.apply_changes()
        return changed.changed[0] if changed.changed else self.admin.find_or_raise(new_name or name)

    def remove(self, *names: str) -> None:
        self.admin.remove(Filter(names=names), "ana")
        self.node.apply_changes()

    def pause(self, *names: str, paused: bool = True) -> None:
        self.admin.pause(Filter(names=names), "ana", paused=paused)
        self.node.apply_changes()

    def force(self, *names: str) -> None:
        self.node.live.force(self.admin.select_forced(names, "ana"))

    def stop_runs(self, *names: str, reason: str = "") -> dict[str, StopFound]:
        """A person stops these tasks; what was found of each."""
        entries = tasks_to_stop(self.store, Filter(names=names), Instant(self.now))
        return {stop.name: stop.found for stop in self.node.live.stop(entries, "ana", reason)}

    def periods(self, **periods: Period) -> None:
        """Set them, and let the node know."""
        self.store.set_periods(periods, "ana", Instant(self.now))
        self.tasks.set_periods({name: period for name, (_, period) in self.store.periods().items()}, Instant(self.now))

    def limits(self, **limits: int) -> None:
        self.store.set_settings({"limits:ana": str(limits).replace("'", '"')})
        self.tasks.set_limits(limits)

    # Runs

    def end(
        self,
        name: str,
        outcome: Outcome = Outcome.SUCCEEDED,
        status: int | None = 0,
        *,
        lasted: int = 0,
        output: bytes = b"",
        cursor: bytes | None = None,
    ) -> None:
        """The run of this task has ended; the next turn learns it."""
        run = self.under_way.pop(name)
        started = self.now
        self.now += lasted
        self.turns.add_results([RunResult(run.token, outcome, status, started, self.now, output, cursor)])

    # What is known

    def row(self, name: str) -> int:
        row = self.tasks.row(self.admin.find_or_raise(name).number)
        assert row is not None
        return row

    def condition(self, name: str) -> Condition:
        (found,) = self.store.conditions(Filter(names=(name,)))
        return ConditionReader(self.store, Instant(self.now)).of(found)

    def progress(self, name: str) -> TaskProgress:
        number = self.admin.find_or_raise(name).number
        (found,) = [progress for progress in self.store.progress() if progress.task == number]
        return found

    def names(self, runs: Sequence[RunSpec]) -> list[str]:
        return [run.name for run in runs]

    def audit(self) -> list[Change]:
        return self.store.changes()
