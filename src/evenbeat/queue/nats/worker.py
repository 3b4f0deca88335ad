"""A worker of a cluster: asks before it starts anything, tells what it has, and ends what nobody answers for.

What it may start and when it must end a run is `core.run_lease`'s to say. All its times are of the boot-time clock.
"""

import asyncio
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from evenbeat.child_processes.leftovers import end_leftovers
from evenbeat.core import run_lease
from evenbeat.model import SECOND, Outcome
from evenbeat.queue.local.local_queue import DEFAULT_HOSTS, LocalQueue
from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.cluster_clock import ClusterClock
from evenbeat.queue.nats.connection import NatsConnection, boot_time, end_tasks
from evenbeat.queue.nats.fetch import RunOfferFetcher
from evenbeat.queue.nats.held_runs import ACK_TERMINATE, FetchedMessages, HeldRun
from evenbeat.queue.nats.reports import RunReporter
from evenbeat.wire.cluster_messages import (
    CUT_OFF_OUTPUT,
    DEFAULT_POOL,
    CancelRuns,
    ResultsStored,
    StartReply,
    StartRequest,
    WorkerStatus,
    WorkerStatusReply,
    encode_message,
    run_offer_decoder,
    worker_message_decoder,
)
from evenbeat.wire.worker_frames import RunResult

_POLL_INTERVAL: Final = 0.1
"""Seconds between two looks at what is in hand."""
_ASK_ALL_NODES_AFTER: Final = SECOND // 2
"""A question that its node has not answered by then goes to all nodes."""
_GATHER_SECONDS: Final = 0.003
"""Seconds that a few free slots wait for others, so that not every run is a question of its own."""
_MAX_BACKLOG_AGE: Final = SECOND
"""What has found no slot by then is given back for others."""
_KILL_DELAY: Final = 400_000
"""A run that must end, and has not when it was told to, is killed after this ..."""
_GUARDIAN_DELAY: Final = 600_000
"""... and should we be unable to, by the guardian after this. Both are within handover.MARGIN."""
_CLOCK_STEP: Final = 1_000
"""Microseconds that the cluster's clock must move before the processes hear of it."""
_UNCONFIRMED_PER_SLOT: Final = 16
"""Results per slot that may wait to be stored before nothing more is taken on."""
_CONFIRM_TIMEOUT: Final = 3.0
"""Seconds that a worker which leaves waits for its last results to be stored."""
_STOP_TIMEOUT: Final = 7.0
"""Seconds for what was cancelled to end."""
_log: Final = logging.getLogger("evenbeat.worker")


class WorkerOptions(Struct, frozen=True):
    """What kind of worker it is."""

    kill_after: Callable[[int], int]
    """The rule of `core.guard`."""
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    slots: int = 256
    processes: int = 1
    hosts: int = DEFAULT_HOSTS
    name: str = "worker"
    grace: float = 30.0
    """Seconds for runs to end when it leaves."""
    pass_env: tuple[str, ...] = ()
    """Variables that commands get beside the usual ones."""
    records: Path | None = None
    """A folder of this user, the same at every start: what a worker that was killed has left behind is found there."""


class _PendingRequest:
    """A question on its way."""

    __slots__ = ("is_for_all", "runs")

    def __init__(self, runs: dict[int, HeldRun]) -> None:
        self.runs = runs
        self.is_for_all = False


class ClusterWorker:
    """One worker: its connection, its processes, and everything that is in its hands."""

    def __init__(self, where: QueueAddress, options: WorkerOptions) -> None:
        self.id: Final = where.new_worker(secrets.token_hex(8))
        self._where = where
        self._options = options
        self._clock = ClusterClock(time.time_ns() // 1_000 - boot_time())
        self._local_offset = self._clock.offset
        self._link = NatsConnection(where, f"evenbeat worker {options.name}", self._up)
        self._link.subscribe(where.worker(self.id), self._hear)
        self._deliveries = FetchedMessages(self._link)
        self._reports = RunReporter(where, self._link, self.id)
        self._fetchers = [RunOfferFetcher(where, self._link, pool, self._room, self._fetched) for pool in options.pools]
        self._local = LocalQueue(
            options.processes,
            self._ended,
            self._started,
            kill_after=options.kill_after,
            clock_offset=self._local_offset,
            hosts=options.hosts,
            pass_env=options.pass_env,
            records=None if options.records is None else options.records / f"worker-{os.getpid()}.workers",
        )
        self._backlog: deque[HeldRun] = deque()
        self._expected: dict[int, HeldRun] = {}
        """Runs that are not started: in the backlog, or asked for."""
        self._questions: dict[int, _PendingRequest] = {}
        self._asking = 0
        self._running: dict[int, HeldRun] = {}
        self._last_asked = 0
        self._will_ask: asyncio.TimerHandle | None = None
        self._heard_at = 0
        self._looked = self._came_up = boot_time()
        self._tidings_at = 0
        self._version = version("evenbeat")
        self._is_leaving = False
        self._is_idle = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._fetching: list[asyncio.Task[None]] = []
        self.runs = 0
        """How many it has run."""
        self.fenced = 0
        """... and how many of them it has ended because nobody answered for them."""

    # What is asked about it

    @property
    def held(self) -> int:
        """Runs that were started and whose results are not safe."""
        return len(self._running) + len(self._reports.unconfirmed)

    @property
    def problem(self) -> str:
        """Why nobody hears of it now, or ""."""
        return self._link.problem

    @property
    def has_recent_answer(self) -> bool:
        """Has any node answered lately?"""
        return self._clock.is_known and boot_time() - self._heard_at < run_lease.RUN_LEASE_DURATION

    @property
    def pids(self) -> list[int]:
        """Of its worker processes."""
        return self._local.pids

    # Its life

    async def start(self) -> None:
        """Bring up the processes, then connect, however long it takes."""
        await asyncio.to_thread(_end_leftovers_of_workers, self._options.records)
        self._local.start()
        await self._link.start()
        self._tasks = [asyncio.create_task(self._keep_looking())]
        self._fetching = [asyncio.create_task(fetcher.run()) for fetcher in self._fetchers]

    async def leave(self, grace: float) -> None:
        """Take nothing new, give back what has not begun, wait so many seconds for the rest, and go."""
        self._is_leaving = True
        for task in self._fetching:
            task.cancel()
        self._give_back(list(self._expected.values()))
        self._questions.clear()
        self._asking = 0
        self._send_status(boot_time())
        await self._idle_within(grace, lambda: not self._running)
        if self._running:
            self._local.cancel()
            await self._idle_within(_STOP_TIMEOUT, lambda: not self._running)
        await self.stop()

    async def stop(self) -> None:
        """Go now; what still runs is killed, and told as far as that is possible."""
        for task in self._fetching:
            task.cancel()
        self._is_leaving = True
        await self._local.stop(0)
        self._reports.flush()
        await self._idle_within(_CONFIRM_TIMEOUT if self._link.is_up else 0, lambda: not self.held)
        self._send_status(boot_time())
        await end_tasks([*self._tasks, *self._fetching])
        await self._link.stop()

    async def _idle_within(self, seconds: float, is_idle: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while not is_idle() and (left := deadline - time.monotonic()) > 0:
            self._is_idle.clear()
            try:
                await asyncio.wait_for(self._is_idle.wait(), left)
            except TimeoutError:
                return

    # Messages with runs

    def _room(self) -> int:
        """How many messages to ask for."""
        free = self._free
        if self._is_leaving or not self.has_recent_answer or free <= 0 or len(self._backlog) >= self._options.slots:
            return 0
        if len(self._reports.unconfirmed) > _UNCONFIRMED_PER_SLOT * self._options.slots:
            return 0
        return 2 if free > len(self._backlog) else 1

    def _fetched(self, message: Msg) -> None:
        now = self._wake()
        try:
            parcel = run_offer_decoder.decode(message.data)
        except msgspec.DecodeError:
            _log.warning("a message that makes no sense is thrown away", extra={"action": "unreadable"})
            self._link.send(message.reply, ACK_TERMINATE)
            return
        functions = parcel.functions or [None] * len(parcel.runs)
        if not len(parcel.tasks) == len(parcel.runs) == len(functions):
            self._link.send(message.reply, ACK_TERMINATE)
            return
        delivery = self._deliveries.fetched((message.metadata.sequence.stream, parcel.id), message.reply, now)
        for task, run, function in zip(parcel.tasks, parcel.runs, functions, strict=True):
            known = self._running.get(run.token) or self._reports.unconfirmed.get(run.token)
            if known is not None:
                if known.delivery is None:
                    known.delivery = delivery
                    delivery.open.add(run.token)
            elif run.token not in self._expected:
                mine = self._expected[run.token] = HeldRun(task, run, function, parcel.node, delivery, now)
                delivery.open.add(run.token)
                self._backlog.append(mine)
        self._deliveries.settle(delivery)
        if self._is_leaving:
            self._give_back(list(self._backlog))
        self._ask()

    def _give_back(self, runs: Iterable[HeldRun]) -> None:
        """Somebody else may start these, and what else came with them and is not asked for yet."""
        for mine in runs:
            self._expected.pop(mine.token, None)
            self._deliveries.give_back(mine)
        kept = [mine for mine in self._backlog if self._deliveries.is_open(mine.delivery)]
        for mine in self._backlog:
            if not self._deliveries.is_open(mine.delivery):
                self._expected.pop(mine.token, None)
        self._backlog = deque(kept)

    # Asking and starting

    @property
    def _free(self) -> int:
        return self._options.slots - len(self._running) - self._asking

    def _ask(self) -> None:
        """Ask for what there are slots for; where runs end one by one, for several at a time."""
        if not self._backlog or self._is_leaving:
            return
        if self._free >= min(len(self._backlog), max(self._options.slots // 8, 1)):
            self._ask_now()
        elif self._free > 0 and self._will_ask is None:
            self._will_ask = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._ask_now)

    def _ask_now(self) -> None:
        if self._will_ask is not None:
            self._will_ask.cancel()
            self._will_ask = None
        free = self._free
        if free <= 0 or self._is_leaving:
            return
        by_node: dict[str, dict[int, HeldRun]] = {}
        for _ in range(min(free, len(self._backlog))):
            mine = self._backlog.popleft()
            by_node.setdefault(mine.node, {})[mine.token] = mine
        for node, runs in by_node.items():
            asked = self._last_asked = max(boot_time(), self._last_asked + 1)
            self._questions[asked] = _PendingRequest(runs)
            self._asking += len(runs)
            self._send_question(self._where.node(node), asked, runs)

    def _send_question(self, subject: str, asked: int, runs: dict[int, HeldRun]) -> None:
        wanted = [(token, mine.task) for token, mine in runs.items()]
        self._link.send(subject, encode_message(StartRequest(self.id, asked, wanted)))

    def _handle_start_reply(self, permission: StartReply) -> None:
        question = self._questions.get(permission.asked)
        if question is None:
            return
        if not run_lease.is_permission_valid(permission.asked, boot_time()):
            self._give_up(permission.asked)
            return
        granted = [question.runs.pop(token) for token in permission.granted if token in question.runs]
        refused = [question.runs.pop(token) for token in permission.refused if token in question.runs]
        self._asking -= len(granted) + len(refused)
        for mine in refused:
            self._expected.pop(mine.token, None)
            self._deliveries.done(mine)
        if not question.runs:
            del self._questions[permission.asked]
        elif not question.is_for_all:
            question.is_for_all = True
            self._send_question(self._where.nodes, permission.asked, question.runs)
        if granted:
            self._start(granted, permission)
        self._fill_free_slots()

    def _start(self, granted: list[HeldRun], permission: StartReply) -> None:
        for mine in granted:
            del self._expected[mine.token]
            mine.node = permission.node
            mine.renewed_at = permission.asked
            self._running[mine.token] = mine
        self._warn_guardian()  # before anything runs
        self._local.dispatch([mine.run for mine in granted], [mine.function for mine in granted])

    def _give_up(self, asked: int) -> None:
        """Nobody has answered in time: a permission that comes now is none."""
        question = self._questions.pop(asked)
        self._asking -= len(question.runs)
        self._give_back(question.runs.values())

    # What becomes of runs

    def _started(self, starts: list[tuple[int, int]]) -> None:
        for token, when in starts:
            mine = self._running.get(token)
            if mine is not None:
                self._reports.started(mine, when)

    def _ended(self, results: list[RunResult]) -> None:
        self._wake()
        for result in results:
            mine = self._running.pop(result.token, None)
            if mine is None:
                continue
            if mine.is_fenced and result.outcome == Outcome.CANCELLED:
                result.outcome = Outcome.LOST
                result.output = CUT_OFF_OUTPUT
            mine.result = result
            self._reports.ended(mine)
        self.runs += len(results)
        self._fill_free_slots()

    def _fill_free_slots(self) -> None:
        self._ask()
        for fetcher in self._fetchers:
            fetcher.wake()
        self._is_idle.set()

    def _end_soon(self, runs: Sequence[HeldRun], now: int) -> None:
        for mine in runs:
            mine.kill_at = now + _KILL_DELAY
        self._local.cancel([mine.token for mine in runs])

    def _end_unrenewed(self, now: int) -> None:
        """End what nobody has renewed, before it can be started elsewhere."""
        fenced = [
            m for m in self._running.values() if not m.is_fenced and run_lease.has_lease_expired(m.renewed_at, now)
        ]
        if fenced:
            self.fenced += len(fenced)
            _log.warning("no node answers for %d runs: they are ended", len(fenced), extra={"action": "fenced"})
            for mine in fenced:
                mine.is_fenced = True
            self._end_soon(fenced, now)
        stubborn = [m for m in self._running.values() if m.kill_at and now >= m.kill_at]
        if stubborn:
            self._local.kill([mine.token for mine in stubborn])
            for mine in stubborn:
                mine.kill_at = now + SECOND
        self._warn_guardian()

    def _warn_guardian(self) -> None:
        oldest = min([mine.renewed_at for mine in self._running.values()], default=0)
        self._local.orphan_guard.guardian.set_deadline(
            oldest + run_lease.RUN_LEASE_DURATION + _GUARDIAN_DELAY if oldest else 0
        )

    # What nodes say

    def _hear(self, message: Msg) -> None:
        try:
            told = worker_message_decoder.decode(message.data)
        except msgspec.DecodeError:
            _log.warning("a message that makes no sense is passed over", extra={"action": "unreadable"})
            return
        now = self._wake()
        match told:
            case StartReply():
                self._handle_start_reply(told)
            case ResultsStored():
                for token in told.tokens:
                    mine = self._reports.unconfirmed.pop(token, None)
                    if mine is not None:
                        self._deliveries.done(mine)
                self._is_idle.set()
            case WorkerStatusReply():
                self._renew(told, now)
            case CancelRuns():
                cancelled = [m for t in told.tokens if (m := self._running.get(t)) and not m.is_cancelled]
                for mine in cancelled:
                    mine.is_cancelled = True
                if cancelled:
                    self._local.cancel([mine.token for mine in cancelled])

    def _renew(self, heard: WorkerStatusReply, now: int) -> None:
        if not self.has_recent_answer:
            _log.info("a node answers", extra={"action": "heard", "node": heard.node})
        self._heard_at = max(self._heard_at, heard.sent)
        self._clock.learn(heard.sent, heard.now, now)
        if abs(self._clock.offset - self._local_offset) > _CLOCK_STEP:
            self._local_offset = self._clock.offset
            self._local.set_clock(self._local_offset)
        for token in heard.renewed:
            mine = self._running.get(token) or self._reports.unconfirmed.get(token)
            if mine is not None:
                mine.renewed_at = max(mine.renewed_at, heard.sent)
                if mine.node != heard.node:
                    mine.node = heard.node
                    mine.sends, mine.sent = 0, 0  # a new owner has not heard how it ended
        over = [mine for t in heard.over if (mine := self._running.get(t)) and not mine.kill_at]
        if over:
            self._end_soon(over, now)

    # Turn after turn

    def _up(self) -> None:
        self._reports.on_reconnect()
        self._tidings_at = 0
        for fetcher in self._fetchers:
            fetcher.up()

    def _wake(self) -> int:
        """The time; and if we were stopped or asleep, first of all what must have ended by now."""
        now = boot_time()
        if now - self._looked > SECOND:
            self._looked = now
            self._end_unrenewed(now)
        return now

    async def _keep_looking(self) -> None:
        while True:
            try:
                self._look()
            except Exception:
                _log.exception("what is in hand could not be looked at", extra={"action": "failed"})
            await asyncio.sleep(_POLL_INTERVAL)

    def _look(self) -> None:
        now = self._looked = boot_time()
        self._end_unrenewed(now)
        for asked, question in list(self._questions.items()):
            if not run_lease.is_permission_valid(asked, now):
                self._give_up(asked)
            elif now - asked > _ASK_ALL_NODES_AFTER and not question.is_for_all:
                question.is_for_all = True
                self._send_question(self._where.nodes, asked, question.runs)
        old = [mine for mine in self._backlog if now - mine.fetched_at > _MAX_BACKLOG_AGE]
        if old:
            self._give_back(old)
        self._fill_free_slots()
        self._reports.resend_old()
        self._deliveries.report_progress(now)
        if now - self._tidings_at >= run_lease.WORKER_STATUS_INTERVAL:
            self._send_status(now)

    def _send_status(self, now: int) -> None:
        self._tidings_at = now
        unanswered = min(self._questions, default=now)
        held = [(m.token, m.task) for part in (self._running, self._reports.unconfirmed) for m in part.values()]
        tidings = WorkerStatus(
            worker=self.id,
            sent=now,
            settled=min(unanswered, now) - 1,
            name=self._options.name,
            pid=os.getpid(),
            pools=list(self._options.pools),
            slots=self._options.slots,
            is_leaving=self._is_leaving,
            held=held,
            started=self._came_up + self._clock.offset if self._clock.is_known else 0,
            version=self._version,
            processes=len(self._local.pids),
            restarts=self._local.restarts,
            problem=self._local.problem,
        )
        self._link.send(self._where.nodes, encode_message(tidings))


def _end_leftovers_of_workers(folder: Path | None) -> None:
    """Of every worker of this user on this machine that is gone, whichever queue it served."""
    if folder is not None:
        end_leftovers(folder.glob("worker-*.workers"))
