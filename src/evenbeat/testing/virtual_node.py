"""A node on a virtual clock: it lives from event to event, with the turns, the store and the rules of a real one."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.clock.node_clock import Clock
from evenbeat.load.config import Config
from evenbeat.model import FOREVER, Instant
from evenbeat.node.loop.restart import restore_all_tasks
from evenbeat.node.loop.starter import CLAIM_AHEAD
from evenbeat.node.options import NodeOptions
from evenbeat.node.scheduler import Scheduler
from evenbeat.node.single_membership import SingleMembership
from evenbeat.queue.contract import Queue
from evenbeat.store.memory import MemoryStore
from evenbeat.wire.worker_frames import RunResult, RunSpec

_OWNER: Final = "app:test"
_MIN_STEP: Final = 1_000
"""Microseconds that pass at least between two turns, if what is due cannot begin."""


class RunMaker(Protocol):
    """Makes runs in place of workers."""

    def make(self, run: RunSpec, now: Instant) -> RunResult: ...


class _VirtualQueue:
    """Collects what is dispatched."""

    early_delivery = CLAIM_AHEAD
    """What is claimed ahead is handed over at once: the clock is set to the moment when it is due."""
    is_busy = False
    problem = ""
    restarts = 0
    restarts_by_worker: Final[Mapping[str, int]] = {}
    workers: Final[list[tuple[int, str]]] = []

    def __init__(self) -> None:
        self.dispatched: list[RunSpec] = []

    def dispatch(
        self,
        runs: Sequence[RunSpec],
        functions: Sequence[str | None] | None = None,
        tasks: Sequence[int] = (),
        pools: Sequence[str | None] | None = None,
    ) -> None:
        self.dispatched += runs

    def confirm_stored(self, tokens: Sequence[int]) -> None:
        """There is no worker that would have to know."""

    def cancel(self, tokens: Sequence[int] = ()) -> None:
        """Runs have ended as soon as they have begun."""

    async def read_output(self, token: int, position: int) -> None:
        """No run is under way for longer than a moment."""

    def set_clock(self, offset: int, by: int = 0) -> None:
        """There is no worker that would have to know."""

    async def stop(self, grace: float) -> None:
        """Nothing runs."""


class _VirtualMembership(SingleMembership):
    """A single node without worker processes."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue

    def create_queue(self) -> Queue:
        return self._queue


class VirtualNode:
    """A scheduler on a store in memory, whose time passes in `live_until`."""

    def __init__(self, maker: RunMaker, start: Instant, declared: Config) -> None:
        self.now = start
        self._maker = maker
        self._queue = _VirtualQueue()
        self._under_way: list[RunResult] = []
        """Runs that end later, the first to end in front."""
        self._loop = asyncio.new_event_loop()
        clock = Clock(lambda: self.now, lambda: self.now)
        admin = TaskAdmin(MemoryStore(), clock.now)
        self.scheduler = Scheduler(admin, NodeOptions(), _VirtualMembership(self._queue), clock)
        admin.apply_config(_OWNER, declared, "program")
        self._assemble()

    def _assemble(self) -> None:
        node = self.scheduler
        node.assemble(self._loop)
        node.turns.stop()  # turns are made here
        node.turns.on_failure = self._fail
        with node.admin.locked():
            node.pending_changes.clear()  # the store has them all
            node.live.read_settings(self.now)
            node.turns.record(restore_all_tasks(node.tasks, node.turns, node.store, node.clock))
            node.is_up = True

    def close(self) -> None:
        """Let go of what the node has."""
        self._loop.close()

    def live_until(self, until: Instant) -> Iterator[None]:
        """Live up to and including a moment; yields after each turn, before which runs may have ended."""
        while True:
            yield from self._live_in_this_moment(until)
            following = self._next_event()
            if following > until:
                break
            self.now = max(following, Instant(self.now + _MIN_STEP))
        self.now = until

    def _live_in_this_moment(self, until: Instant) -> Iterator[None]:
        """Turns, as long as one of them starts something or learns of an end."""
        while True:
            self._end_runs()
            self._end_pauses()
            self.scheduler.turns.turn(self.now)
            started = self._start_runs(until)
            yield
            if not started and not (self._under_way and self._under_way[0].ended <= self.now):
                return

    def _start_runs(self, until: Instant) -> bool:
        held = sorted(self._queue.dispatched, key=lambda run: run.due)
        starting = [run for run in held if run.due <= until]
        self._queue.dispatched = held[len(starting) :]
        for run in starting:
            self.now = Instant(max(self.now, run.due))
            self._under_way.append(self._maker.make(run, self.now))
        self._under_way.sort(key=lambda result: result.ended)
        return bool(starting)

    def _end_runs(self) -> None:
        ended = [result for result in self._under_way if result.ended <= self.now]
        if ended:
            del self._under_way[: len(ended)]
            self.scheduler.turns.add_results(ended)

    def _end_pauses(self) -> None:
        if names := self.scheduler.tasks.paused_too_long(self.now):
            self.scheduler.admin.end_pauses(names)
            self.scheduler.apply_changes()

    def _next_event(self) -> Instant:
        turns, tasks = self.scheduler.turns, self.scheduler.tasks
        pause_end = tasks.next_pause_end()
        return Instant(
            min(
                tasks.lifecycle.timetable.next_due(),
                turns.passive.next_due(),
                tasks.downtimes.next_change,
                self._under_way[0].ended if self._under_way else FOREVER,
                self._queue.dispatched[0].due if self._queue.dispatched else FOREVER,
                FOREVER if pause_end is None else pause_end,
            )
        )

    def _fail(self, error: BaseException) -> None:
        raise error
