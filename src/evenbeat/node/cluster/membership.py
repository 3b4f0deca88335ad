"""A node of a cluster: joins, keeps its lease, runs what belongs to membership, and leaves."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from evenbeat.clock.database_clock import DatabaseClock
from evenbeat.clock.node_clock import Clock
from evenbeat.clock.system_clock import boot_time
from evenbeat.core import partition_ownership
from evenbeat.model import PARTITION_COUNT, SECOND, partition_of
from evenbeat.node.alerts.sender_process import SenderProcess
from evenbeat.node.cluster.changed_problems import ChangedProblemsPoll
from evenbeat.node.cluster.changes_by_others import POLL_INTERVAL, StoreNews
from evenbeat.node.cluster.forwarded_requests import ForwardedRequests
from evenbeat.node.cluster.lease import HeldLease
from evenbeat.node.cluster.limit_sharing import LimitSharing
from evenbeat.node.cluster.node_info import encode_node_info
from evenbeat.node.cluster.partitions import HeldPartitions
from evenbeat.node.cluster.peers import ClusterPeers
from evenbeat.node.loop.restart import GENERATION_KEY
from evenbeat.node.orderly_stop import end_all_runs
from evenbeat.node.scheduler import Scheduler
from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.nats_queue import NatsQueue
from evenbeat.store.cluster_contract import ClusterStore, CommitsForgotten, LeaseLost
from evenbeat.store.contract import Change, ContradictoryBatch, StoreError
from evenbeat.wire.live_runs import RunningRuns
from evenbeat.wire.replies import ChangeResult
from evenbeat.wire.sender_documents import DeliveryEnd
from evenbeat.wire.status import Status
from evenbeat.wire.worker_frames import RunResult

_MIN_INTERVAL: Final = 0.02
"""Seconds between two renewals of the lease, at least."""
_RETRY_DELAY: Final = 0.5
"""Seconds until a database that did not answer is asked again."""
_LEASE_END_MARGIN: Final = 0.05
_LAST_NODE_WAIT: Final = 2 * partition_ownership.LEASE_DURATION / SECOND
"""Seconds that the last node waits for what others had."""
_FAST_STOP_TIMEOUT: Final = 3.0
"""Seconds that are left to hand over in order when the stop is to be fast."""
_MISSED_SOMETHING_AFTER: Final = 10 * SECOND
"""A node that could not act for longer than this has missed something."""
_MAX_LATE_RESULTS_NOTED: Final = 100
_log: Final = logging.getLogger("evenbeat.cluster")


class ClusterMembership:
    """Of one of several nodes that share a store. Only the tasks of its partitions are live in its scheduler."""

    has_workers = True
    """Workers come and go independently of nodes: see the pools."""

    def __init__(self, store: ClusterStore, where: QueueAddress) -> None:
        """Reads the clock of the database, which blocks."""
        self._store = store
        self._where = where
        self._database_clock = DatabaseClock()
        self.lease = HeldLease(store, self._database_clock)
        self.lease.read_clock()
        self.clock = Clock(wall=self._database_clock.now)
        """The clock that all nodes share."""
        self.requests = ForwardedRequests(store)
        self._partitions_may_change = asyncio.Event()
        self._lock = asyncio.Lock()
        """With it partitions come and go one after the other; news and shares are applied in between."""
        self._generation = 0
        self._is_leaving = False
        self._unwell_since = 0
        self._unfinished: set[asyncio.Task[None]] = set()

    def attach(self, node: Scheduler) -> None:
        self._node = node

    def create_queue(self) -> NatsQueue:
        node = self._node
        self.queue = NatsQueue(
            self._where,
            node.start_id,
            on_results=node.turns.add_results,
            on_started=node.turns.add_starts,
            on_late=self._record_late_results,
            now=node.clock.now,
            owns=self._owns,
            may_answer=self.lease.may_act,
        )
        self.sharing = LimitSharing(node, self._store, self.lease, self._lock)
        self.partitions = HeldPartitions(node, self.queue, self._store, self.lease, self.sharing, self._lock)
        self.news = StoreNews(node, self._store, self.partitions, self.requests, self._lock)
        self.partitions.on_restored = self.news.look_back_to
        self.others = ClusterPeers(node, self.queue, self.lease, self.partitions, self.requests)
        return self.queue

    def create_sender(self, on_end: Callable[[DeliveryEnd], None]) -> SenderProcess:
        return SenderProcess(on_end, pass_env=self._node.admin.settings().pass_env or (), in_cluster=True)

    def held_partitions(self) -> frozenset[int]:
        return frozenset(self.partitions.held)

    def _owns(self, number: int) -> bool:
        return partition_of(number) in self.partitions.held

    # Start

    async def start(self) -> None:
        node = self._node
        node.turns.may_claim = self.partitions.may_claim
        node.turns.chains.may_be_followed_elsewhere = True
        node.turns.on_turn = self.sharing.look_at_demand
        node.turns.worker_deaths = self.queue.worker_deaths
        self._generation = node.tasks.lifecycle.generation
        self._stop_listening = self._store.listen(self._take_store_hint)
        await self.queue.start()
        node.live.read_settings(node.clock.now())
        self.news.stamp = await asyncio.to_thread(self._store.stamp)
        await asyncio.to_thread(self.lease.join, self._info())
        node.is_up = True
        await self._renew_lease()
        await self._keep_partitions()
        node.tasks_are_live()
        for job in (
            self._keep_lease,
            self.sharing.keep_settled,
            self._keep_partitions,
            self.news.wait_and_apply,
            self._perform_for_others,
            ChangedProblemsPoll(node, self._store).wait_and_look,
        ):
            node.start_job(self._repeat_forever(job))

    def _info(self) -> bytes:
        return encode_node_info(self._node, self.queue, self.sharing.shares, is_unwell=self._is_unwell())

    def _is_unwell(self) -> bool:
        """Has the queue been out of reach for so long that other nodes should take our partitions?"""
        now = boot_time()
        self._unwell_since = (self._unwell_since or now) if self.queue.problem else 0
        since = self._unwell_since
        return bool(since) and partition_ownership.is_unwell(now - since, is_cut_off=self.queue.is_cut_off)

    async def _repeat_forever(self, job: Callable[[], Awaitable[None]]) -> None:
        """Repeat a job; a database that does not answer is asked again."""
        logged = ""
        while True:
            try:
                await job()
                logged = ""
            except LeaseLost as e:
                await self._rejoin(e)
                await asyncio.sleep(_RETRY_DELAY / 10)  # another job may be rejoining
            except StoreError as e:
                if str(e) != logged:
                    _log.warning("%s", e, extra={"action": "store_failing"})
                logged = str(e)
                await asyncio.sleep(_RETRY_DELAY)
            except Exception as e:
                self._node.fail(e)
                return

    def _take_store_hint(self, what: str) -> None:
        """Another node has changed something. Called on a thread of the store."""
        hints = {
            "tasks": self.news.is_there,
            "settings": self.news.is_there,
            "orders": self.requests.are_there,
            "answers": self.requests.answered,
            "shares": self.sharing.is_wanted,
        }
        with suppress(RuntimeError):  # the loop is closed
            self._node.loop.call_soon_threadsafe(hints.get(what, self._partitions_may_change).set)

    # Jobs

    async def _keep_lease(self) -> None:
        await self._renew_lease()
        await asyncio.sleep(_MIN_INTERVAL)
        with suppress(TimeoutError):
            longest = partition_ownership.LEASE_RENEWAL_INTERVAL / SECOND - _MIN_INTERVAL
            await asyncio.wait_for(self.sharing.needs_changed.wait(), longest)

    async def _renew_lease(self) -> None:
        before = self.lease.until
        is_hint = self.sharing.needs_changed.is_set()
        self.sharing.needs_changed.clear()
        snapshot = await asyncio.to_thread(self.lease.renew, self._info(), is_hint=is_hint)
        if before and (length := boot_time() - before) > _MISSED_SOMETHING_AFTER:
            self._log_standstill(length)
            self._node.live.account_for_gap(0, length)
        self.others.snapshot = snapshot
        self._partitions_may_change.set()

    async def _keep_partitions(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._partitions_may_change.wait(), self._until_next_end())
        self._partitions_may_change.clear()
        if not self._is_leaving:
            await self.partitions.act_on(await asyncio.to_thread(self._store.view))

    def _until_next_end(self) -> float:
        """Seconds until the next lease of another node ends unless renewed: the moment to take over."""
        expires = [lease.expires for lease in self.others.leases()]
        ends = min(expires, default=0) - self._node.clock.now()
        return max(ends / SECOND, 0) + _LEASE_END_MARGIN if expires else POLL_INTERVAL

    async def _perform_for_others(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.requests.are_there.wait(), POLL_INTERVAL)
        self.requests.are_there.clear()
        if self.lease.may_act():
            await self.requests.perform_for_others(self.partitions.held, self.news.apply)

    # What the scheduler reports

    def set_limits(self, slots: int, limits: dict[str, int]) -> None:
        self.sharing.set_limits(slots, limits)

    def take_change(self, changed: ChangeResult) -> None:  # noqa: ARG002 - the store has it, with those of other nodes
        if self._node.is_up:
            with suppress(RuntimeError):  # the loop is closed
                self._node.loop.call_soon_threadsafe(self.news.is_there.set)

    def handle_failure(self, error: BaseException) -> None:
        if isinstance(error, LeaseLost | ContradictoryBatch):
            self._start_task(self._rejoin(error))
        else:
            self._node.fail(error)

    def handle_standstill(self, length: int) -> None:
        """A node that took our lease meanwhile has made up for it; if none did, the renewal of the lease shows it."""
        self._log_standstill(length)

    def _log_standstill(self, length: int) -> None:
        _log.warning("nothing was done for %.0f s", length / SECOND, extra={"action": "stood_still", "length": length})

    def store_clock(self) -> None:
        """The time is the database's; only the clock generation is to be stored, when it changes."""
        generation = self._node.tasks.lifecycle.generation
        if generation != self._generation:
            self._generation = generation
            with suppress(StoreError):
                self._store.set_settings({GENERATION_KEY: str(generation)})

    def _record_late_results(self, worker: str, results: list[tuple[int, RunResult]]) -> None:
        """Results of runs that are accounted for already change nothing; the audit lists them."""
        now = self._node.clock.now()
        changes = [
            Change(now, f"worker:{worker}", "late result", f"task {number}", f"{result.outcome}, token {result.token}")
            for number, result in results[:_MAX_LATE_RESULTS_NOTED]
        ]
        self._start_task(self._note(changes))

    async def _note(self, changes: list[Change]) -> None:
        with suppress(StoreError):
            await asyncio.to_thread(self._store.note, changes)

    def _start_task(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work, loop=self._node.loop)
        self._unfinished.add(task)  # the loop itself would not keep it
        task.add_done_callback(self._unfinished.discard)

    # A lost lease

    async def _rejoin(self, why: BaseException) -> None:
        """The lease is lost, or the database has forgotten what we know: forget it too, and join anew."""
        if not self.lease.until:
            return  # another job is at it
        self.lease.until = 0
        self.others.fenced += 1
        forgot = not isinstance(why, LeaseLost) or isinstance(why, CommitsForgotten)
        if forgot:
            _log.warning(
                "the database contradicts what it had confirmed, as after the promotion of a standby that was behind; "
                "joining anew, and nothing new starts for %d s (%s)",
                partition_ownership.QUIET_AFTER_FORGETTING // SECOND,
                why,
                extra={"action": "forgotten", "node": self.lease.id},
            )
        else:
            _log.warning("the lease is lost: joining anew", extra={"action": "fenced", "node": self.lease.id})
        lost = LeaseLost("the lease is lost")
        outbox = self._node.outbox
        outbox.discard_all(lost)  # also for jobs that wait for a commit while they hold the lock
        async with self._lock:
            outbox.discard_all(lost)
            self.partitions.forget_all()
        while not self._node.is_stopping:
            try:
                self.news.stamp = await asyncio.to_thread(self._store.stamp)
                await asyncio.to_thread(self.lease.join, self._info(), forgot=forgot)
            except StoreError:
                await asyncio.sleep(_RETRY_DELAY)
            else:
                return

    # Stop

    async def stop(self) -> None:
        """Hand over in order; if the stop is to be fast, our partitions are free when our lease has ended."""
        leaving = asyncio.create_task(self._leave())
        hurry = asyncio.create_task(self._node.stop_now.wait())
        await asyncio.wait({leaving, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        await asyncio.wait({leaving}, timeout=_FAST_STOP_TIMEOUT)
        leaving.cancel()
        await asyncio.gather(leaving, hurry, return_exceptions=True)
        self._stop_listening()

    async def _leave(self) -> None:
        """Hand over to other nodes; the last one ends what runs, as a single node does."""
        try:
            if not await self._another_node_remains():
                self._is_leaving = True
                await end_all_runs(self._node)
            self._is_leaving = True
            await self.partitions.release_all()
            await asyncio.to_thread(self._store.leave)
        except StoreError as e:
            _log.error("not everything was handed over: %s", e, extra={"action": "store_failing"})

    async def _another_node_remains(self) -> bool:
        """The last node waits for the partitions of those that left before it, until it has all of them."""
        loop = self._node.loop
        deadline = loop.time() + _LAST_NODE_WAIT
        while not await asyncio.to_thread(self._store.may_leave):
            if len(self.partitions.held) == PARTITION_COUNT or loop.time() > deadline:
                return False
            await asyncio.sleep(_LEASE_END_MARGIN)
        return True

    # Answers

    def status(self) -> Status:
        return self.others.status()

    async def running(self, most: int) -> RunningRuns:
        return await self.others.running(most)
