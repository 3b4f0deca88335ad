"""The queue of a cluster, the node's side: runs out to whichever worker asks for them, results back, each once.

It lives on the node's asyncio loop and decides nothing: what is due is the node's to say, who may start and what is
lost is `core.run_lease`'s.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from evenbeat.core import run_lease
from evenbeat.core.run_lease import WorkerDeaths
from evenbeat.model import SECOND, Outcome
from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.batches import HandedOverRun
from evenbeat.queue.nats.connection import NatsConnection, boot_time, end_tasks
from evenbeat.queue.nats.known_workers import WorkerRegistry
from evenbeat.queue.nats.permissions import HandedOverRuns
from evenbeat.queue.nats.publishing import OfferPublisher
from evenbeat.wire.cluster_messages import (
    DEFAULT_POOL,
    MAX_MESSAGE_SIZE,
    CancelRuns,
    MessageToWorker,
    ResultsStored,
    RunReport,
    StartReply,
    StartRequest,
    WorkerStatus,
    WorkerStatusReply,
    encode_message,
    node_message_decoder,
)
from evenbeat.wire.cluster_view import PoolView, WorkerView
from evenbeat.wire.worker_frames import RunResult, RunSpec

_POLL_INTERVAL: Final = 0.5
"""Seconds between two looks at what is out."""
_STREAM_POLL_INTERVAL: Final = 3.0
"""Seconds between two looks for the stream."""
_log: Final = logging.getLogger("evenbeat.queue")


class DeliveryCounts(Struct):
    """What has happened that should be rare."""

    redispatched: int = 0
    """Runs handed over again, as their message was gone."""
    reopened: int = 0
    """Permissions that were not used."""
    late_results: int = 0
    lost: int = 0
    set_aside: int = 0
    without_worker: int = 0
    too_large: int = 0
    unreadable: int = 0
    """Messages that nobody could make sense of."""


class NatsQueue:
    """Runs that are with the workers of a cluster, or on the way there."""

    def __init__(
        self,
        where: QueueAddress,
        node: str,
        *,
        on_results: Callable[[list[RunResult]], None],
        on_started: Callable[[list[tuple[int, int]]], None],
        on_late: Callable[[str, list[tuple[int, RunResult]]], None],
        now: Callable[[], int],
        owns: Callable[[int], bool],
        may_answer: Callable[[], bool],
    ) -> None:
        """`on_results` gets every dispatched or adopted run once, unless it is forgotten; `on_late` what nobody wants.

        `now` is the cluster's clock, `owns` whether a task is ours to answer for now, `may_answer` whether our lease
        is still good: without it nothing is granted, renewed, taken or confirmed.
        """
        self._where = where
        self._node = node
        self._on_results = on_results
        self._on_started = on_started
        self._on_late = on_late
        self._clock = now
        self._may_answer = may_answer
        self._link = NatsConnection(where, f"evenbeat scheduler {node}", self._up)
        self._link.subscribe(where.node(node), self._hear)
        self._link.subscribe(where.nodes, self._hear)
        self._link.subscribe(where.feed, self._hear_nodes)
        self.on_node_message: Callable[[bytes], None] | None = None
        """Called with whatever a node has told all nodes, ourselves among them."""
        self._shipping = OfferPublisher(where, self._link, node, boot_time)
        self._books = HandedOverRuns(owns)
        self._staff = WorkerRegistry()
        self.worker_deaths = WorkerDeaths()
        self._counts = DeliveryCounts()
        self._ended: list[RunResult] = []
        self._none_out: asyncio.Event | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # What is asked about it

    early_delivery: Final = 0
    """A worker elsewhere has a clock of its own."""
    is_busy: Final = False
    """Nor do they say here what they have not begun."""

    @property
    def pending(self) -> int:
        """Runs dispatched or adopted and not ended."""
        return len(self._books.open) + len(self._ended)

    @property
    def workers(self) -> list[tuple[int, str]]:
        """All workers that were heard of lately: process, and what people call it."""
        return [(worker.pid, f"{worker.name}: {', '.join(worker.pools)}") for worker in self.worker_views]

    @property
    def restarts(self) -> int:
        """Processes of workers that ended before they were told to."""
        return sum(worker.restarts for worker in self.worker_views)

    @property
    def worker_views(self) -> list[WorkerView]:
        return self._staff.workers(boot_time())

    @property
    def pools(self) -> dict[str, PoolView]:
        return self._staff.pools(boot_time(), self._shipping.waiting())

    @property
    def problem(self) -> str:
        """Why the queue cannot be used now, or ""."""
        return self._link.problem or self._shipping.problem

    @property
    def is_cut_off(self) -> bool:
        """Is no server within reach? Otherwise a problem is one of JetStream, and others may well have it too."""
        return bool(self._link.problem)

    @property
    def counts(self) -> DeliveryCounts:
        self._counts.redispatched = self._shipping.redispatched
        return self._counts

    # What the node tells it

    async def start(self) -> None:
        """Connect, however long it takes; the stream is made as soon as there are servers for it."""
        await self._link.start()
        self._tasks = [
            asyncio.create_task(self._shipping.keep_stream(_STREAM_POLL_INTERVAL)),
            asyncio.create_task(self._keep_looking()),
        ]

    def dispatch(
        self,
        runs: Sequence[RunSpec],
        functions: Sequence[str | None] | None = None,
        tasks: Sequence[int] = (),
        pools: Sequence[str | None] | None = None,
    ) -> None:
        """Make these runs, of the tasks with these numbers, in these pools (None: the default one)."""
        now = boot_time()
        none = [None] * len(runs)
        items = [
            HandedOverRun(run.token, task, run, function, pool or DEFAULT_POOL, now)
            for run, task, function, pool in zip(runs, tasks, functions or none, pools or none, strict=True)
        ]
        self._books.open.update([(item.token, item) for item in items])
        for item in self._shipping.send(items, lambda pool: self._staff.serving(pool, now)):
            self._counts.too_large += 1
            self._end(item, Outcome.BROKEN, f"larger than a message may be, accepted: at most {MAX_MESSAGE_SIZE} bytes")

    def adopt(self, runs: Sequence[tuple[int, int]], silent: Mapping[int, int]) -> None:
        """Token and task of runs that a former owner has handed over: from now on they are ours.

        `silent`: by their tokens, how long nobody had answered for them when they were let go.
        """
        now = boot_time()
        for token, task in runs:
            if token in self._books.open:
                continue
            item = HandedOverRun(token, task, None, None, "", now)
            item.lease = run_lease.adopted_lease(silent.get(token, 0), now)
            self._books.open[token] = item

    def never_granted(self, tokens: Sequence[int]) -> list[int]:
        """Those of these that no worker has, and that none will have by our permission if they are forgotten now."""
        items = (self._books.open.get(token) for token in tokens)
        return [item.token for item in items if item is not None and not item.lease.worker and not item.lease.adopted]

    def silent_for(self, tokens: Sequence[int]) -> dict[int, tuple[int, int]]:
        """The task of each of these runs that a worker may have, and how long ago we last answered for it."""
        now = boot_time()
        items = [item for token in tokens if (item := self._books.open.get(token)) is not None]
        ages = [(item, run_lease.unanswered_for(item.lease, now)) for item in items]
        return {item.token: (item.task, age) for item, age in ages if age > 0}

    def forget(self, tokens: Sequence[int]) -> None:
        """Another node owns them from now on; their results are not ours to give."""
        for item in self._books.forget(tokens):
            self._shipping.remove(item)
        if self._ended:
            unwanted = set(tokens)
            self._ended = [result for result in self._ended if result.token not in unwanted]
        self._notice_the_end()

    def confirm_stored(self, tokens: Sequence[int]) -> None:
        """Their results are in the store: their workers need not keep them any longer."""
        for worker, theirs in self._books.mark_stored(tokens, boot_time()).items():
            self._tell(worker, ResultsStored(self._node, theirs))

    def cancel(self, tokens: Sequence[int] = ()) -> None:
        """End these runs, or all; each gets its result, `cancelled` unless it ended before its worker heard of it."""
        wanted = [self._books.open[t] for t in tokens or list(self._books.open) if t in self._books.open]
        by_worker: dict[str, list[int]] = {}
        for item in wanted:
            if item.lease.worker:
                by_worker.setdefault(item.lease.worker, []).append(item.token)
            item.is_cancelled = True
            if not item.lease.worker and not item.lease.adopted:
                self._end(item, Outcome.CANCELLED, "not started")
        for worker, theirs in by_worker.items():
            self._tell(worker, CancelRuns(self._node, theirs))

    def set_clock(self, offset: int, by: int = 0) -> None:
        """Workers learn the time from every answer."""

    async def stop(self, grace: float) -> None:
        """Wait so many seconds for what is out. What has not ended then goes on, for whoever adopts it."""
        self._none_out = asyncio.Event()
        if self.pending:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._none_out.wait(), grace)
        await end_tasks(self._tasks)
        await self._link.stop()

    # What nodes tell each other

    def tell_nodes(self, data: bytes) -> bool:
        """To all nodes that can be reached now; False if none can. Nothing that must arrive."""
        return self._link.send(self._where.feed, data)

    def _hear_nodes(self, message: Msg) -> None:
        if self.on_node_message is not None:
            self.on_node_message(message.data)

    # What workers tell it

    def _hear(self, message: Msg) -> None:
        try:
            told = node_message_decoder.decode(message.data)
        except msgspec.DecodeError:
            self._counts.unreadable += 1
            return
        now = boot_time()
        if isinstance(told, WorkerStatus):
            self._staff.record_status(told, now)
            self.worker_deaths.worker_is_alive(told.worker)
        if not self._may_answer():
            return
        if isinstance(told, StartRequest):
            self._answer(told, now, is_for_all=message.subject == self._where.nodes)
        elif isinstance(told, RunReport):
            self._take(told)
        else:
            self._renew(told, now)

    def _answer(self, question: StartRequest, now: int, *, is_for_all: bool) -> None:
        granted, refused = self._books.grant(question, now)
        for item in granted:
            self._shipping.remove(item)
        if granted or refused or not is_for_all:
            tokens = [item.token for item in granted]
            self._tell(question.worker, StartReply(self._node, question.asked, tokens, refused))

    def _renew(self, tidings: WorkerStatus, now: int) -> None:
        told = self._books.apply_status(tidings, now)
        for item in told.reopened:
            self._counts.reopened += 1
            self._shipping.reopen(item)
        self._tell(
            tidings.worker, WorkerStatusReply(self._node, tidings.sent, self._clock(), told.renewed, told.not_ours)
        )
        if told.to_cancel:
            self._tell(tidings.worker, CancelRuns(self._node, told.to_cancel))

    def _take(self, report: RunReport) -> None:
        reported = self._books.apply_report(report)
        self._learn_of_deaths(report, reported.results)
        if reported.safe:
            self._tell(report.worker, ResultsStored(self._node, reported.safe))
        if reported.starts:
            self._on_started(reported.starts)
        if reported.late:
            self._counts.late_results += len(reported.late)
            self._on_late(report.worker, reported.late)
        if reported.results:
            self._on_results(reported.results)
            self._notice_the_end()

    def _learn_of_deaths(self, report: RunReport, results: list[RunResult]) -> None:
        taken = {result.token for result in results}
        if self.worker_deaths or any(result.outcome == Outcome.LOST for result in results):
            for task, result in report.results:
                if result.token in taken:
                    self.worker_deaths.record_end(task, result.outcome, result.output)

    def _tell(self, worker: str, message: MessageToWorker) -> None:
        self._link.send(self._where.worker(worker), encode_message(message))

    # What it sees for itself

    def _up(self) -> None:
        self._staff.begin_anew(boot_time())
        self._shipping.on_reconnect()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_POLL_INTERVAL)
            try:
                await self._check_open_runs()
            except Exception:
                _log.exception("what is out could not be looked at", extra={"action": "queue_failed"})

    async def _check_open_runs(self) -> None:
        now = boot_time()
        for item in self._books.take_lost(now):
            self._counts.lost += 1
            if item.lease.worker:
                self.worker_deaths.record_silent_loss(item.task, item.lease.worker)
            who = f"its worker {self._staff.name_of(item.lease.worker)}" if item.lease.worker else "whoever had it"
            self._end(item, Outcome.LOST, f"{who} is gone or was cut off")
        self._staff.forget_old(now, {message.pool for message in self._shipping.messages})
        self.worker_deaths.settle_silent_workers(self._staff.is_dead)
        if self._link.is_up:
            self._end_runs_without_worker(now)
        for item in await self._shipping.check_stream():
            if self._books.open.get(item.token) is item and not item.lease.worker:
                self._counts.set_aside += 1
                reason = f"set aside: handed over {run_lease.MAX_DISPATCH_ATTEMPTS} times, and no worker took it"
                self._end(item, Outcome.BROKEN, reason)

    def _end_runs_without_worker(self, now: int) -> None:
        for message in list(self._shipping.messages):
            if self._staff.without_worker_for(message.pool, now) < run_lease.NO_WORKER_TIMEOUT:
                continue
            for item in [item for item in message.waiting.values() if now - item.since >= run_lease.NO_WORKER_TIMEOUT]:
                self._counts.without_worker += 1
                seconds = run_lease.NO_WORKER_TIMEOUT // SECOND
                self._end(item, Outcome.BROKEN, f"no worker of pool {message.pool!r} for {seconds} s")

    def _end(self, item: HandedOverRun, outcome: Outcome, reason: str) -> None:
        """A result that no worker tells."""
        self._books.remove(item)
        self._shipping.remove(item)
        now = self._clock()
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._give_ended)
        self._ended.append(RunResult(item.token, outcome, None, item.started or now, now, reason.encode()))

    def _give_ended(self) -> None:
        ended, self._ended = self._ended, []
        if ended:
            self._on_results(ended)
        self._notice_the_end()

    def _notice_the_end(self) -> None:
        if self._none_out is not None and not self.pending:
            self._none_out.set()
