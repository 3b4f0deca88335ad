"""A worker of a cluster: asks before it starts a run, reports its runs, and ends those that no node renews.

`core.run_lease` decides what it may start and when it must end a run. All times are by the boot-time clock.
"""

import asyncio
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from evenbeat.child_processes.processes_left_behind import end_leftovers
from evenbeat.clock.system_clock import boot_time
from evenbeat.core import run_lease
from evenbeat.model import SECOND, Outcome
from evenbeat.queue.local.local_queue import DEFAULT_HOSTS, LocalQueue
from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.cluster_clock import ClusterClock
from evenbeat.queue.nats.connection import NatsConnection, end_tasks
from evenbeat.queue.nats.fetch import RunOfferFetcher
from evenbeat.queue.nats.fetched_messages import ACK_TERMINATE, FetchedMessages, HeldRun
from evenbeat.queue.nats.reports import RunReporter
from evenbeat.wire.cluster_messages import (
    CUT_OFF_OUTPUT,
    DEFAULT_POOL,
    CancelRuns,
    ReadRunOutput,
    ResultsStored,
    RunOutput,
    StartReply,
    StartRequest,
    WorkerStatus,
    WorkerStatusReply,
    encode_message,
    run_offer_decoder,
    worker_message_decoder,
)
from evenbeat.wire.plain_results import PlainResults, Results
from evenbeat.wire.worker_frames import RunResult

_POLL_INTERVAL: Final = 0.1
"""Seconds between two checks of its runs."""
_ASK_ALL_NODES_AFTER: Final = SECOND // 2
"""A request that its node has not answered by then goes to all nodes."""
_GATHER_SECONDS: Final = 0.003
"""Seconds that a few free slots wait for others, so that not every run is a request of its own."""
_MAX_BACKLOG_AGE: Final = SECOND
"""A run that has found no slot by then is given back for other workers."""
_KILL_DELAY: Final = 400_000
"""A run that was told to end is killed after this."""
_GUARDIAN_DELAY: Final = 600_000
"""If this worker cannot do it, the guardian kills it after this. Both are within RUN_LEASE_MARGIN."""
_CLOCK_STEP: Final = 1_000
"""Microseconds that the cluster's clock must move before the worker processes are told."""
_UNCONFIRMED_PER_SLOT: Final = 16
"""Results per slot that may be unconfirmed before the worker fetches nothing more."""
_CONFIRM_TIMEOUT: Final = 3.0
"""Seconds that a leaving worker waits for its last results to be confirmed."""
_MAX_READERS: Final = 100
"""Questions about the output of runs that are answered at the same time."""
_STOP_TIMEOUT: Final = 7.0
"""Seconds for cancelled runs to end."""
_log: Final = logging.getLogger("evenbeat.worker")


class WorkerOptions(Struct, frozen=True):
    """The configuration of a worker."""

    kill_after: Callable[[int], int]
    """The rule of `core.drop_guard`."""
    pools: tuple[str, ...] = (DEFAULT_POOL,)
    slots: int = 256
    processes: int = 1
    hosts: int = DEFAULT_HOSTS
    name: str = "worker"
    grace: float = 30.0
    """Seconds for runs to end when the worker leaves."""
    pass_env: tuple[str, ...] = ()
    """Variables that commands get besides the usual ones."""
    records: Path | None = None
    """A folder of this user, the same at every start, with the records of workers: see `processes_left_behind`."""


class _PendingRequest(Struct):
    """A StartRequest that is not answered for all of its runs."""

    runs: dict[int, HeldRun]
    is_for_all: bool = False


class ClusterWorker:
    """One worker: its connection, its processes, and its runs."""

    def __init__(self, address: QueueAddress, options: WorkerOptions) -> None:
        self.id: Final = address.new_worker(secrets.token_hex(8))
        self._address = address
        self._options = options
        self._clock = ClusterClock(time.time_ns() // 1_000 - boot_time())
        self._local_offset = self._clock.offset
        self._connection = NatsConnection(address, f"evenbeat worker {options.name}", self._on_reconnect)
        self._connection.subscribe(address.worker(self.id), self._on_message)
        self._messages = FetchedMessages(self._connection)
        self._reporter = RunReporter(address, self._connection, self.id)
        self._fetchers = [
            RunOfferFetcher(address, self._connection, pool, self._room, self._on_offer) for pool in options.pools
        ]
        self._local_queue = LocalQueue(
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
        """Runs that are not started: in the backlog, or in a StartRequest."""
        self._requests: dict[int, _PendingRequest] = {}
        self._requested_count = 0
        self._running: dict[int, HeldRun] = {}
        self._last_request = 0
        self._request_timer: asyncio.TimerHandle | None = None
        self._answered_at = 0
        self._checked_at = self._started_at = boot_time()
        self._status_sent_at = 0
        self._version = version("evenbeat")
        self._is_leaving = False
        self._is_idle = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._fetching: list[asyncio.Task[None]] = []
        self._answering: set[asyncio.Task[None]] = set()
        """Questions about the output of runs that are being answered."""
        self.runs = 0
        """Number of runs that have ended here."""
        self.fenced = 0
        """Number of runs that were ended because no node renewed them."""

    # State

    @property
    def held(self) -> int:
        """Runs that were started and whose results are not confirmed."""
        return len(self._running) + len(self._reporter.unconfirmed)

    @property
    def problem(self) -> str:
        """Why no node can be reached now, or ""."""
        return self._connection.problem

    @property
    def has_recent_answer(self) -> bool:
        """Has a node answered lately?"""
        return self._clock.is_known and boot_time() - self._answered_at < run_lease.RUN_LEASE_DURATION

    @property
    def pids(self) -> list[int]:
        """Process ids of its worker processes."""
        return self._local_queue.pids

    # Start and stop

    async def start(self) -> None:
        """Start the worker processes, then connect, however long it takes."""
        if self._options.records is not None:
            # What dead workers of this user on this machine have left, whichever queue they served.
            await asyncio.to_thread(end_leftovers, self._options.records.glob("worker-*.workers"))
        self._local_queue.start()
        await self._connection.start()
        self._tasks = [asyncio.create_task(self._check_regularly())]
        self._fetching = [asyncio.create_task(fetcher.run()) for fetcher in self._fetchers]

    async def leave(self, grace: float) -> None:
        """Fetch nothing new, give back runs that have not started, wait `grace` seconds for the rest, and stop."""
        self._is_leaving = True
        for task in self._fetching:
            task.cancel()
        self._give_back(list(self._expected.values()))
        self._requests.clear()
        self._requested_count = 0
        self._send_status(boot_time())
        await self._idle_within(grace, lambda: not self._running)
        if self._running:
            self._local_queue.cancel()
            await self._idle_within(_STOP_TIMEOUT, lambda: not self._running)
        await self.stop()

    async def stop(self) -> None:
        """Stop now: kill what still runs, and report it as far as possible."""
        for task in self._fetching:
            task.cancel()
        self._is_leaving = True
        await self._local_queue.stop(0)
        self._reporter.flush()
        await self._idle_within(_CONFIRM_TIMEOUT if self._connection.is_up else 0, lambda: not self.held)
        self._send_status(boot_time())
        await end_tasks([*self._tasks, *self._fetching, *self._answering])
        await self._connection.stop()

    async def _idle_within(self, seconds: float, is_idle: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while not is_idle() and (left := deadline - time.monotonic()) > 0:
            self._is_idle.clear()
            # Not by wait_for, which swallows a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._is_idle.wait()

    # Offers

    def _room(self) -> int:
        """How many messages to fetch."""
        free = self._free
        if self._is_leaving or not self.has_recent_answer or free <= 0 or len(self._backlog) >= self._options.slots:
            return 0
        if len(self._reporter.unconfirmed) > _UNCONFIRMED_PER_SLOT * self._options.slots:
            return 0
        return 2 if free > len(self._backlog) else 1

    def _on_offer(self, message: Msg) -> None:
        now = self._time_after_sleep()
        try:
            offer = run_offer_decoder.decode(message.data)
        except msgspec.DecodeError:
            _log.warning("discarded an offer that cannot be decoded", extra={"action": "unreadable"})
            self._connection.send(message.reply, ACK_TERMINATE)
            return
        functions = offer.functions or [None] * len(offer.runs)
        if not len(offer.tasks) == len(offer.runs) == len(functions):
            self._connection.send(message.reply, ACK_TERMINATE)
            return
        delivery = self._messages.fetched((message.metadata.sequence.stream, offer.id), message.reply, now)
        for task, run, function in zip(offer.tasks, offer.runs, functions, strict=True):
            known = self._running.get(run.token) or self._reporter.unconfirmed.get(run.token)
            if known is not None:
                if known.delivery is None:
                    known.delivery = delivery
                    delivery.open.add(run.token)
            elif run.token not in self._expected:
                held_run = self._expected[run.token] = HeldRun(task, run, function, offer.node, delivery, now)
                delivery.open.add(run.token)
                self._backlog.append(held_run)
        self._messages.settle(delivery)
        if self._is_leaving:
            self._give_back(list(self._backlog))
        self._request_starts()

    def _give_back(self, runs: Iterable[HeldRun]) -> None:
        """Return the messages of these runs to the servers, with all of their runs that are not requested yet."""
        for held_run in runs:
            self._expected.pop(held_run.token, None)
            self._messages.give_back(held_run)
        kept = [held_run for held_run in self._backlog if self._messages.is_open(held_run.delivery)]
        for held_run in self._backlog:
            if not self._messages.is_open(held_run.delivery):
                self._expected.pop(held_run.token, None)
        self._backlog = deque(kept)

    # Requests and starts

    @property
    def _free(self) -> int:
        return self._options.slots - len(self._running) - self._requested_count

    def _request_starts(self) -> None:
        """Request runs for free slots; several at a time, also where runs end one by one."""
        if not self._backlog or self._is_leaving:
            return
        if self._free >= min(len(self._backlog), max(self._options.slots // 8, 1)):
            self._request_starts_now()
        elif self._free > 0 and self._request_timer is None:
            self._request_timer = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._request_starts_now)

    def _request_starts_now(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
        free = self._free
        if free <= 0 or self._is_leaving:
            return
        by_node: dict[str, dict[int, HeldRun]] = {}
        for _ in range(min(free, len(self._backlog))):
            held_run = self._backlog.popleft()
            by_node.setdefault(held_run.node, {})[held_run.token] = held_run
        for node, runs in by_node.items():
            asked = self._last_request = max(boot_time(), self._last_request + 1)
            self._requests[asked] = _PendingRequest(runs)
            self._requested_count += len(runs)
            self._send_request(self._address.node(node), asked, runs)

    def _send_request(self, subject: str, asked: int, runs: dict[int, HeldRun]) -> None:
        wanted = [(token, held_run.task) for token, held_run in runs.items()]
        self._connection.send(subject, encode_message(StartRequest(self.id, asked, wanted)))

    def _handle_start_reply(self, reply: StartReply) -> None:
        request = self._requests.get(reply.asked)
        if request is None:
            return
        if not run_lease.is_permission_valid(reply.asked, boot_time()):
            self._give_up_request(reply.asked)
            return
        if reply.takes_plain:
            self._reporter.takes_plain.add(reply.node)
        granted = [request.runs.pop(token) for token in reply.granted if token in request.runs]
        refused = [request.runs.pop(token) for token in reply.refused if token in request.runs]
        self._requested_count -= len(granted) + len(refused)
        for held_run in refused:
            self._expected.pop(held_run.token, None)
            self._messages.done(held_run)
        if not request.runs:
            del self._requests[reply.asked]
        elif not request.is_for_all:
            request.is_for_all = True
            self._send_request(self._address.nodes, reply.asked, request.runs)
        if granted:
            self._start(granted, reply)
        self._fill_free_slots()

    def _start(self, granted: list[HeldRun], reply: StartReply) -> None:
        for held_run in granted:
            del self._expected[held_run.token]
            held_run.node = reply.node
            held_run.renewed_at = reply.asked
            self._running[held_run.token] = held_run
        self._set_guardian_deadline()  # before anything runs
        self._local_queue.dispatch([held_run.run for held_run in granted], [held_run.function for held_run in granted])

    def _give_up_request(self, asked: int) -> None:
        """No node has answered in time: a grant that comes now is invalid."""
        request = self._requests.pop(asked)
        self._requested_count -= len(request.runs)
        self._give_back(request.runs.values())

    # Runs

    def _started(self, starts: list[tuple[int, int]]) -> None:
        for token, when in starts:
            held_run = self._running.get(token)
            if held_run is not None:
                self._reporter.started(held_run, when)

    def _ended(self, reported: Results) -> None:
        self._time_after_sleep()
        if isinstance(reported, PlainResults):
            self._ended_plain(reported)
        else:
            self._ended_one_by_one(reported)
        self._fill_free_slots()

    def _ended_plain(self, reported: PlainResults) -> None:
        ended = []
        for token, *times in zip(*reported, strict=True):
            held_run = self._running.pop(token, None)
            if held_run is not None:
                held_run.plain_times = (times[0], times[1])
                ended.append(held_run)
        self._reporter.ended(ended)
        self.runs += len(reported.tokens)

    def _ended_one_by_one(self, results: Sequence[RunResult]) -> None:
        for result in results:
            held_run = self._running.pop(result.token, None)
            if held_run is None:
                continue
            if held_run.is_fenced and result.outcome == Outcome.CANCELLED:
                result.outcome = Outcome.LOST
                result.output = CUT_OFF_OUTPUT
            held_run.result = result
            self._reporter.ended([held_run])
        self.runs += len(results)

    def _fill_free_slots(self) -> None:
        self._request_starts()
        for fetcher in self._fetchers:
            fetcher.wake()
        self._is_idle.set()

    def _end_runs(self, runs: Sequence[HeldRun], now: int) -> None:
        for held_run in runs:
            held_run.kill_at = now + _KILL_DELAY
        self._local_queue.cancel([held_run.token for held_run in runs])

    def _end_unrenewed(self, now: int) -> None:
        """End runs that no node has renewed, before they can be started elsewhere."""
        fenced = [
            m for m in self._running.values() if not m.is_fenced and run_lease.has_lease_expired(m.renewed_at, now)
        ]
        if fenced:
            self.fenced += len(fenced)
            _log.warning("no node has renewed %d runs: ending them", len(fenced), extra={"action": "fenced"})
            for held_run in fenced:
                held_run.is_fenced = True
            self._end_runs(fenced, now)
        unkilled = [m for m in self._running.values() if m.kill_at and now >= m.kill_at]
        if unkilled:
            self._local_queue.kill([held_run.token for held_run in unkilled])
            for held_run in unkilled:
                held_run.kill_at = now + SECOND
        self._set_guardian_deadline()

    def _set_guardian_deadline(self) -> None:
        oldest = min([held_run.renewed_at for held_run in self._running.values()], default=0)
        self._local_queue.orphan_guard.guardian.set_deadline(
            oldest + run_lease.RUN_LEASE_DURATION + _GUARDIAN_DELAY if oldest else 0
        )

    # Messages of nodes

    def _on_message(self, message: Msg) -> None:
        try:
            content = worker_message_decoder.decode(message.data)
        except msgspec.DecodeError:
            _log.warning("ignored a message that cannot be decoded", extra={"action": "unreadable"})
            return
        now = self._time_after_sleep()
        match content:
            case StartReply():
                self._handle_start_reply(content)
            case ResultsStored():
                for token in content.tokens:
                    held_run = self._reporter.unconfirmed.pop(token, None)
                    if held_run is not None:
                        self._messages.done(held_run)
                self._is_idle.set()
            case WorkerStatusReply():
                self._take_status_reply(content, now)
            case CancelRuns():
                cancelled = [m for t in content.tokens if (m := self._running.get(t)) and not m.is_cancelled]
                for held_run in cancelled:
                    held_run.is_cancelled = True
                if cancelled:
                    self._local_queue.cancel([held_run.token for held_run in cancelled])
            case ReadRunOutput():
                if content.token in self._running and len(self._answering) < _MAX_READERS:
                    answering = asyncio.get_running_loop().create_task(self._answer_reader(content))
                    self._answering.add(answering)
                    answering.add_done_callback(self._answering.discard)

    async def _answer_reader(self, question: ReadRunOutput) -> None:
        frame = await self._local_queue.read_output(question.token, question.position)
        if frame is not None:
            answer = RunOutput(self.id, frame.token, frame.asked, frame.start, frame.data)
            self._connection.send(self._address.node(question.node), encode_message(answer))

    def _take_status_reply(self, reply: WorkerStatusReply, now: int) -> None:
        if not self.has_recent_answer:
            _log.info("a node answers", extra={"action": "heard", "node": reply.node})
        self._answered_at = max(self._answered_at, reply.sent)
        self._clock.learn(reply.sent, reply.now, now)
        if abs(self._clock.offset - self._local_offset) > _CLOCK_STEP:
            self._local_offset = self._clock.offset
            self._local_queue.set_clock(self._local_offset)
        for token in reply.renewed:
            held_run = self._running.get(token) or self._reporter.unconfirmed.get(token)
            if held_run is not None:
                held_run.renewed_at = max(held_run.renewed_at, reply.sent)
                if held_run.node != reply.node:
                    held_run.node = reply.node
                    held_run.sends, held_run.sent = 0, 0  # a new owner does not know its result
        over = [held_run for t in reply.over if (held_run := self._running.get(t)) and not held_run.kill_at]
        if over:
            self._end_runs(over, now)

    # Regular checks

    def _on_reconnect(self) -> None:
        self._reporter.on_reconnect()
        self._status_sent_at = 0
        for fetcher in self._fetchers:
            fetcher.on_reconnect()

    def _time_after_sleep(self) -> int:
        """The time. If this process was stopped or asleep, runs that must have ended by now are ended first."""
        now = boot_time()
        if now - self._checked_at > SECOND:
            self._checked_at = now
            self._end_unrenewed(now)
        return now

    async def _check_regularly(self) -> None:
        while True:
            try:
                self._check()
            except Exception:
                _log.exception("runs could not be checked", extra={"action": "failed"})
            await asyncio.sleep(_POLL_INTERVAL)

    def _check(self) -> None:
        now = self._checked_at = boot_time()
        self._end_unrenewed(now)
        for asked, request in list(self._requests.items()):
            if not run_lease.is_permission_valid(asked, now):
                self._give_up_request(asked)
            elif now - asked > _ASK_ALL_NODES_AFTER and not request.is_for_all:
                request.is_for_all = True
                self._send_request(self._address.nodes, asked, request.runs)
        old = [held_run for held_run in self._backlog if now - held_run.fetched_at > _MAX_BACKLOG_AGE]
        if old:
            self._give_back(old)
        self._fill_free_slots()
        self._reporter.resend_old()
        self._messages.report_progress(now)
        if now - self._status_sent_at >= run_lease.WORKER_STATUS_INTERVAL:
            self._send_status(now)

    def _send_status(self, now: int) -> None:
        self._status_sent_at = now
        unanswered = min(self._requests, default=now)
        held = [(m.token, m.task) for part in (self._running, self._reporter.unconfirmed) for m in part.values()]
        status = WorkerStatus(
            worker=self.id,
            sent=now,
            settled=min(unanswered, now) - 1,
            name=self._options.name,
            pid=os.getpid(),
            pools=list(self._options.pools),
            slots=self._options.slots,
            is_leaving=self._is_leaving,
            held=held,
            started=self._started_at + self._clock.offset if self._clock.is_known else 0,
            version=self._version,
            processes=len(self._local_queue.pids),
            restarts=self._local_queue.restarts,
            problem=self._local_queue.problem,
        )
        self._connection.send(self._address.nodes, encode_message(status))
