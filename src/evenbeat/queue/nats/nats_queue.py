"""The queue of a cluster, the node's side: offers runs to workers, grants them to the worker that asks, takes results.

It lives on the node's asyncio loop and decides nothing: the node says what is due, and `core.run_lease` says which
worker may start a run and when a run is lost.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from evenbeat.clock.system_clock import boot_time
from evenbeat.core import run_lease
from evenbeat.core.worker_deaths import WorkerDeaths
from evenbeat.model import OUTPUT_LIMIT, SECOND, Outcome
from evenbeat.queue.contract import OUTPUT_ANSWER_TIMEOUT
from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.batches import HandedOverRun
from evenbeat.queue.nats.connection import NatsConnection, end_tasks
from evenbeat.queue.nats.handed_over_runs import HandedOverRuns, RunReportEffect
from evenbeat.queue.nats.known_workers import WorkerRegistry
from evenbeat.queue.nats.output_pieces import OutputPieces
from evenbeat.queue.nats.publishing import OfferPublisher
from evenbeat.wire.cluster_messages import (
    DEFAULT_POOL,
    MAX_MESSAGE_SIZE,
    CancelRuns,
    MessageToWorker,
    OutputPiece,
    ReadRunOutput,
    ResultsStored,
    RunOutput,
    RunReport,
    StartReply,
    StartRequest,
    WorkerStatus,
    WorkerStatusReply,
    encode_message,
    node_message_decoder,
)
from evenbeat.wire.cluster_view import PoolView, WorkerView
from evenbeat.wire.plain_results import Results, decode_records
from evenbeat.wire.worker_frames import OutputFrame, RunResult, RunSpec

_POLL_INTERVAL: Final = 0.5
"""Seconds between two checks of the open runs."""
_STREAM_POLL_INTERVAL: Final = 3.0
"""Seconds between two checks of the stream."""
_log: Final = logging.getLogger("evenbeat.queue")


class DeliveryCounts(Struct):
    """How often rare events have happened."""

    redispatched: int = 0
    """Runs sent again, as their message had disappeared."""
    reopened: int = 0
    """Grants that were not used."""
    late_results: int = 0
    lost: int = 0
    set_aside: int = 0
    without_worker: int = 0
    too_large: int = 0
    unreadable: int = 0
    """Messages that could not be decoded."""


class NatsQueue:
    """Runs that workers of a cluster hold, or that are on their way there."""

    def __init__(
        self,
        address: QueueAddress,
        node: str,
        *,
        on_results: Callable[[Results], None],
        on_started: Callable[[list[tuple[int, int]]], None],
        on_late: Callable[[str, list[tuple[int, RunResult]]], None],
        now: Callable[[], int],
        owns: Callable[[int], bool],
        may_answer: Callable[[], bool],
    ) -> None:
        """For `on_results` and `on_started` see `queue.contract`. `on_results` also gets every adopted run once, but no
        forgotten one; `on_late` gets results that came too late to count, with the id of their worker.

        `now` is the cluster's clock, `owns` says whether this node owns a task now, `may_answer` whether its lease is
        valid: without that nothing is granted, renewed, accepted or confirmed.
        """
        self._address = address
        self._node = node
        self._on_results = on_results
        self._on_started = on_started
        self._on_late = on_late
        self._clock = now
        self._may_answer = may_answer
        self._connection = NatsConnection(address, f"evenbeat scheduler {node}", self._on_reconnect)
        self._connection.subscribe(address.node(node), self._on_message)
        self._connection.subscribe(address.nodes, self._on_message)
        self._connection.subscribe(address.feed, self._on_feed)
        self.on_node_message: Callable[[bytes], None] | None = None
        """Called with each message that a node has sent to all nodes, also with our own."""
        self._publisher = OfferPublisher(address, self._connection, node, boot_time)
        self._handed_over = HandedOverRuns(owns)
        self._registry = WorkerRegistry()
        self.worker_deaths = WorkerDeaths()
        self._counts = DeliveryCounts()
        self._ended: list[RunResult] = []
        self._pieces = OutputPieces()
        self._readers: dict[int, asyncio.Future[OutputFrame]] = {}
        """Questions about the output of a run that are not answered, at most one for each run."""
        self._none_pending: asyncio.Event | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # State

    early_delivery: Final = 0
    """None: a worker on another machine has a clock of its own."""
    is_busy: Final = False
    """Never: these workers do not report what they have not started."""

    @property
    def pending(self) -> int:
        """Runs that were dispatched or adopted and have not ended."""
        return len(self._handed_over.open) + len(self._ended)

    @property
    def workers(self) -> list[tuple[int, str]]:
        """Process id, name and pools of all workers that have reported lately."""
        return [(worker.pid, f"{worker.name}: {', '.join(worker.pools)}") for worker in self.worker_views]

    @property
    def restarts(self) -> int:
        """Processes of these workers that ended before they were told to."""
        return sum(self.restarts_by_worker.values())

    @property
    def restarts_by_worker(self) -> dict[str, int]:
        return {worker.id: worker.restarts for worker in self.worker_views}

    @property
    def worker_views(self) -> list[WorkerView]:
        return self._registry.workers(boot_time())

    @property
    def pools(self) -> dict[str, PoolView]:
        return self._registry.pools(boot_time(), self._publisher.waiting())

    @property
    def problem(self) -> str:
        """Why the queue cannot be used now, or ""."""
        return self._connection.problem or self._publisher.problem

    @property
    def is_cut_off(self) -> bool:
        """Can no server be reached? Any other problem is one of JetStream, which other nodes may well have too."""
        return bool(self._connection.problem)

    @property
    def counts(self) -> DeliveryCounts:
        self._counts.redispatched = self._publisher.redispatched
        return self._counts

    # Calls of the node

    async def start(self) -> None:
        """Connect, however long it takes; the stream is created as soon as there are servers for it."""
        await self._connection.start()
        self._tasks = [
            asyncio.create_task(self._publisher.keep_stream(_STREAM_POLL_INTERVAL)),
            asyncio.create_task(self._check_regularly()),
        ]

    def dispatch(
        self,
        runs: Sequence[RunSpec],
        functions: Sequence[str | None] | None = None,
        tasks: Sequence[int] = (),
        pools: Sequence[str | None] | None = None,
    ) -> None:
        """Offer these runs to the workers of their pools (None: the default one); `tasks` are the numbers of their
        tasks.
        """
        now = boot_time()
        none = [None] * len(runs)
        items = [
            HandedOverRun(run.token, task, run, function, pool or DEFAULT_POOL, now)
            for run, task, function, pool in zip(runs, tasks, functions or none, pools or none, strict=True)
        ]
        self._handed_over.open.update([(item.token, item) for item in items])
        for item in self._publisher.send(items, lambda pool: self._registry.serving(pool, now)):
            self._counts.too_large += 1
            self._end(item, Outcome.BROKEN, f"larger than a message may be, accepted: at most {MAX_MESSAGE_SIZE} bytes")

    def adopt(self, runs: Sequence[tuple[int, int]], silent: Mapping[int, int]) -> None:
        """Take over runs, by token and task, that a former owner has handed over or left.

        `silent`: by token, how long no node had answered for a run when it was handed over.
        """
        now = boot_time()
        for token, task in runs:
            if token in self._handed_over.open:
                continue
            item = HandedOverRun(token, task, None, None, "", now)
            item.lease = run_lease.adopted_lease(silent.get(token, 0), now)
            self._handed_over.open[token] = item

    def never_granted(self, tokens: Sequence[int]) -> list[int]:
        """Runs among these that no worker holds and that no grant of ours covers, so that they can be forgotten."""
        items = (self._handed_over.open.get(token) for token in tokens)
        return [item.token for item in items if item is not None and not item.lease.worker and not item.lease.adopted]

    def silent_for(self, tokens: Sequence[int]) -> dict[int, tuple[int, int]]:
        """For each of these runs that a worker may hold: its task, and how long ago we last answered for it."""
        now = boot_time()
        items = [item for token in tokens if (item := self._handed_over.open.get(token)) is not None]
        ages = [(item, run_lease.unanswered_for(item.lease, now)) for item in items]
        return {item.token: (item.task, age) for item, age in ages if age > 0}

    def forget(self, tokens: Sequence[int]) -> None:
        """Another node owns these runs from now on: their results are not reported here."""
        for item in self._handed_over.forget(tokens):
            self._publisher.remove(item)
        if self._ended:
            unwanted = set(tokens)
            self._ended = [result for result in self._ended if result.token not in unwanted]
        self._notice_none_pending()

    def confirm_stored(self, tokens: Sequence[int]) -> None:
        """The results of these runs are in the store: tell their workers to forget them."""
        for worker, tokens_of_worker in self._handed_over.mark_stored(tokens, boot_time()).items():
            self._send(worker, ResultsStored(self._node, tokens_of_worker))

    def cancel(self, tokens: Sequence[int] = ()) -> None:
        """End these runs, or all if none is named. Each gets its result: `cancelled`, unless it had ended before."""
        wanted = [
            self._handed_over.open[t] for t in tokens or list(self._handed_over.open) if t in self._handed_over.open
        ]
        by_worker: dict[str, list[int]] = {}
        for item in wanted:
            if item.lease.worker:
                by_worker.setdefault(item.lease.worker, []).append(item.token)
            item.is_cancelled = True
            if not item.lease.worker and not item.lease.adopted:
                self._end(item, Outcome.CANCELLED, "not started")
        for worker, tokens_of_worker in by_worker.items():
            self._send(worker, CancelRuns(self._node, tokens_of_worker))

    async def read_output(self, token: int, position: int) -> OutputFrame | None:
        """What a run has written from a position on; None if no worker has it, or does not answer in time."""
        item = self._handed_over.open.get(token)
        if item is None or not item.lease.worker:
            return None
        reader = self._readers.get(token)
        if reader is None:
            reader = self._readers[token] = asyncio.get_running_loop().create_future()
            self._send(item.lease.worker, ReadRunOutput(self._node, token, position))
        await asyncio.wait((reader,), timeout=OUTPUT_ANSWER_TIMEOUT)
        if self._readers.get(token) is reader:
            del self._readers[token]  # a lost message must not keep the next question from being sent
        return reader.result() if reader.done() else None

    def _take_output(self, answer: RunOutput) -> None:
        reader = self._readers.pop(answer.token, None)
        if reader is not None and not reader.done():
            reader.set_result(OutputFrame(answer.token, answer.asked, answer.start, answer.data[:OUTPUT_LIMIT]))

    def set_clock(self, offset: int, by: int = 0) -> None:
        """Nothing to do: workers get the time with every answer."""

    async def stop(self, grace: float) -> None:
        """Wait at most `grace` seconds for open runs. What has not ended goes on, and the next owner adopts it."""
        self._none_pending = asyncio.Event()
        if self.pending:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._none_pending.wait(), grace)
        await end_tasks(self._tasks)
        await self._connection.stop()

    # Messages between nodes

    def tell_nodes(self, data: bytes) -> bool:
        """Send it to all nodes that can be reached now, without a guarantee; False if none can."""
        return self._connection.send(self._address.feed, data)

    def _on_feed(self, message: Msg) -> None:
        if self.on_node_message is not None:
            self.on_node_message(message.data)

    # Messages of workers

    def _on_message(self, message: Msg) -> None:
        try:
            content = node_message_decoder.decode(message.data)
        except msgspec.DecodeError:
            self._counts.unreadable += 1
            return
        now = boot_time()
        if isinstance(content, WorkerStatus):
            self._registry.record_status(content, now)
            self.worker_deaths.worker_is_alive(content.worker)
        if isinstance(content, RunOutput):
            self._take_output(content)
            return
        if isinstance(content, OutputPiece):
            if content.token in self._handed_over.open:
                self._pieces.add(content)
            return
        if not self._may_answer():
            return
        if isinstance(content, StartRequest):
            self._grant(content, now, is_for_all=message.subject == self._address.nodes)
        elif isinstance(content, RunReport):
            self._take_report(content)
        else:
            self._renew_leases(content, now)

    def _grant(self, request: StartRequest, now: int, *, is_for_all: bool) -> None:
        granted, refused = self._handed_over.grant(request, now)
        for item in granted:
            self._publisher.remove(item)
        if granted or refused or not is_for_all:
            tokens = [item.token for item in granted]
            self._send(request.worker, StartReply(self._node, request.asked, tokens, refused, takes_plain=True))

    def _renew_leases(self, status: WorkerStatus, now: int) -> None:
        effect = self._handed_over.apply_status(status, now)
        for item in effect.reopened:
            self._counts.reopened += 1
            if item.is_cancelled:
                self._end(item, Outcome.CANCELLED, "not started")
            else:
                self._publisher.reopen(item)
        self._send(
            status.worker, WorkerStatusReply(self._node, status.sent, self._clock(), effect.renewed, effect.not_ours)
        )
        if effect.to_cancel:
            self._send(status.worker, CancelRuns(self._node, effect.to_cancel))

    def _take_report(self, report: RunReport) -> None:
        try:
            reported = self._handed_over.apply_report(report)
        except ValueError:
            self._counts.unreadable += 1
            return
        self._record_deaths(report, reported)
        if reported.safe:
            self._send(report.worker, ResultsStored(self._node, reported.safe))
        if reported.starts:
            self._on_started(reported.starts)
        if reported.late:
            self._counts.late_results += len(reported.late)
            self._on_late(report.worker, reported.late)
        if reported.results:
            self._pieces.complete(reported.results)
            self._on_results(reported.results)
        if reported.plain.tokens:
            self._on_results(reported.plain)
        if reported.results or reported.plain.tokens:
            self._notice_none_pending()

    def _record_deaths(self, report: RunReport, reported: RunReportEffect) -> None:
        taken = {result.token for result in reported.results}
        if self.worker_deaths or any(result.outcome == Outcome.LOST for result in reported.results):
            for task, result in report.results:
                if result.token in taken:
                    self.worker_deaths.record_end(task, result.outcome, result.output)
        if self.worker_deaths and reported.plain.tokens:
            taken = set(reported.plain.tokens)
            for task, token in zip(report.plain_tasks, decode_records(report.plain).tokens, strict=True):
                if token in taken:
                    self.worker_deaths.record_end(task, Outcome.SUCCEEDED, b"")

    def _send(self, worker: str, message: MessageToWorker) -> None:
        self._connection.send(self._address.worker(worker), encode_message(message))

    # Regular checks

    def _on_reconnect(self) -> None:
        self._registry.begin_anew(boot_time())
        self._publisher.on_reconnect()

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(_POLL_INTERVAL)
            try:
                await self._check_open_runs()
            except Exception:
                _log.exception("open runs could not be checked", extra={"action": "queue_failed"})

    async def _check_open_runs(self) -> None:
        now = boot_time()
        for item in self._handed_over.take_lost(now):
            self._counts.lost += 1
            if item.lease.worker:
                self.worker_deaths.record_silent_loss(item.task, item.lease.worker)
            who = (
                f"its worker {self._registry.name_of(item.lease.worker)}"
                if item.lease.worker
                else "the worker that had it"
            )
            self._end(item, Outcome.LOST, f"{who} is gone or was cut off")
        self._registry.forget_old(now, {message.pool for message in self._publisher.messages})
        self.worker_deaths.settle_silent_workers(self._registry.is_dead)
        if self._connection.is_up:
            self._end_runs_without_worker(now)
        for item in await self._publisher.check_stream():
            if self._handed_over.open.get(item.token) is item and not item.lease.worker:
                self._counts.set_aside += 1
                reason = f"set aside: handed over {run_lease.MAX_DISPATCH_ATTEMPTS} times, and no worker took it"
                self._end(item, Outcome.BROKEN, reason)

    def _end_runs_without_worker(self, now: int) -> None:
        for message in list(self._publisher.messages):
            if self._registry.without_worker_for(message.pool, now) < run_lease.NO_WORKER_TIMEOUT:
                continue
            for item in [item for item in message.waiting.values() if now - item.since >= run_lease.NO_WORKER_TIMEOUT]:
                self._counts.without_worker += 1
                seconds = run_lease.NO_WORKER_TIMEOUT // SECOND
                self._end(item, Outcome.BROKEN, f"no worker of pool {message.pool!r} for {seconds} s")

    def _end(self, item: HandedOverRun, outcome: Outcome, reason: str) -> None:
        """End a run with a result that no worker has reported."""
        self._handed_over.remove(item)
        self._publisher.remove(item)
        now = self._clock()
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._report_ended)
        self._ended.append(RunResult(item.token, outcome, None, item.started or now, now, reason.encode()))

    def _report_ended(self) -> None:
        ended, self._ended = self._ended, []
        if ended:
            self._on_results(ended)
        self._notice_none_pending()

    def _notice_none_pending(self) -> None:
        if self._none_pending is not None and not self.pending:
            self._none_pending.set()
