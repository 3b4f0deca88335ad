"""A node among several: holds a lease and some partitions, takes them up from others and hands them over."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np

from evenbeat.admin.passive_settings import load_passive_times
from evenbeat.core import authority
from evenbeat.core.columns import Ints
from evenbeat.core.limit_shares import ALL_SLOTS_KEY, SMALL_LIMIT_PAUSE, LimitShares
from evenbeat.core.task import SkipColumns
from evenbeat.model import PARTITION_COUNT, SECOND, Entry, Instant, partition_of
from evenbeat.node.cluster.membership import DatabaseClock, HeldLease
from evenbeat.node.cluster.node_info import node_info_of
from evenbeat.node.cluster.orders import ForwardedRequests
from evenbeat.node.cluster.relay import EventRelay
from evenbeat.node.cluster.shares import ask_for_shares, limit_demands_of, running_by_key, shares_view_of
from evenbeat.node.loop.clock import Clock, boot_time
from evenbeat.node.loop.restart import GENERATION_KEY, restore_partitions
from evenbeat.node.scheduler import NodeOptions, Scheduler
from evenbeat.queue.nats.address import QueueAddress
from evenbeat.queue.nats.nats_queue import NatsQueue
from evenbeat.report.cluster_view import cluster_view_of, decode_node_info, merge_statuses
from evenbeat.report.metrics import cluster_metrics_of
from evenbeat.report.status import status_of
from evenbeat.report.task_now import running_runs_of
from evenbeat.store.cluster_contract import (
    ClusterSnapshot,
    ClusterStore,
    CommitsForgotten,
    LeaseLost,
    StoreChanges,
    TakenPartitions,
)
from evenbeat.store.contract import Change, ContradictoryBatch, PastDefinition, StoreError
from evenbeat.wire.cluster_view import ClusterView
from evenbeat.wire.live_runs import RunningRuns
from evenbeat.wire.metrics import ClusterMetrics
from evenbeat.wire.replies import ChangeResult, HeldByOtherNode, Reply, raise_if_refused
from evenbeat.wire.requests import RELAY_TIMEOUT, ForceTasks, Request
from evenbeat.wire.status import Status
from evenbeat.wire.worker_frames import RunResult

_PARTITIONS_AT_ONCE: Final = 8
"""Partitions that are taken up at once: others have their turn in between."""
_POLL_INTERVAL: Final = 1.0
"""Seconds between two looks for news and orders, should the hint have been lost."""
_MIN_INTERVAL: Final = 0.02
"""Seconds between two renewals of the lease, or two looks at limits, at least."""
_RETRY_DELAY: Final = 0.5
"""Seconds until the database is asked again that did not answer."""
_LEASE_END_MARGIN: Final = 0.05
_LAST_NODE_WAIT: Final = 2 * authority.LEASE_DURATION / SECOND
"""Seconds that the last one waits for what others had."""
_FAST_STOP_TIMEOUT: Final = 3.0
"""Seconds that are left to leave in order when somebody is in a hurry."""
_MISSED_SOMETHING_AFTER: Final = 10 * SECOND
"""Who could not act for longer than this has missed something."""
_TOKEN_BITS: Final = 28
"""Of a token: below the fence, which needs 35 bits until the year 2088."""
_HALF_OF_TOKENS: Final = 1 << (_TOKEN_BITS - 1)
"""Half of the tokens of a fence are used: it is time for another one."""
_log: Final = logging.getLogger("evenbeat.cluster")


class ClusterScheduler(Scheduler):
    """One scheduler of several on one store. It knows only the tasks of its partitions."""

    queue: NatsQueue

    def __init__(self, store: ClusterStore, options: NodeOptions, where: QueueAddress, database: str) -> None:
        self._cluster_store = store
        self._where = where
        self._database_clock = DatabaseClock()
        self.lease = HeldLease(store, self._database_clock)
        self.lease.read_clock()
        super().__init__(store, options, Clock(wall=self._database_clock.now), database)
        self.shares = LimitShares()
        self.view: ClusterSnapshot | None = None
        """As it was when the lease was last renewed."""
        self.orders = ForwardedRequests(store)
        self._held_partitions: set[int] = set()
        """Partitions whose tasks are here."""
        self._stamp = 0
        self._generation = 0
        self._news_event, self._orders_event, self._partitions_event, self._shares_event = (
            asyncio.Event() for _ in range(4)
        )
        self._needs_changed = asyncio.Event()
        """What we need of limits has changed: others should hear of it before the lease is renewed anyhow."""
        self._looked_at_limits = 0.0
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._partitions_lock = asyncio.Lock()
        """Partitions come and go one after the other, and news in between."""
        self._is_leaving = False
        self._unwell_since = 0
        self._quiet_until = 0
        """By the clock of the database: what we took was taken after it had forgotten something."""
        self.takeovers = 0
        self.fenced = 0

    # What it has

    def owns(self, number: int) -> bool:
        """Is this task ours to answer for?"""
        return partition_of(number) in self._held_partitions

    def raise_if_elsewhere(self, number: int) -> None:
        raise HeldByOtherNode(number)

    @property
    def has_workers(self) -> bool:
        """Workers come and go by themselves: see the pools."""
        return True

    def problems(self) -> list[str]:
        lost = [] if self.may_act() else ["the lease of this node has ended: the database does not answer"]
        return super().problems() + lost

    def status(self) -> Status:
        mine = status_of(self)
        view = self.view
        if view is None:
            return mine
        others = [lease for lease in view.leases if lease.node != self.lease.id and lease.expires > view.now]
        return merge_statuses([mine, *(decode_node_info(lease).status for lease in others)]) or mine

    def cluster(self) -> ClusterView | None:
        return None if self.view is None else cluster_view_of(self.view, self.clock.now())

    def membership(self) -> ClusterMetrics:
        return cluster_metrics_of(self)

    async def running(self, most: int) -> RunningRuns:
        assert self.relay is not None
        living = [] if self.view is None else [le for le in self.view.leases if le.expires > self.view.now]
        return await self.relay.all_running(most, sum(lease.node != self.lease.id for lease in living))

    def force(self, entries: Sequence[Entry], named: int = 0) -> dict[str, str]:
        """Those that are here; of the others see `force_elsewhere`."""
        return super().force([entry for entry in entries if self.tasks.row(entry.number) is not None], named)

    async def forward_force(self, entries: Sequence[Entry], request: ForceTasks) -> list[Reply]:
        passed = [
            self.forward(
                entry.number,
                ForceTasks((entry.id,), request.who, request.wait, is_passed_on=True),
                None if request.wait else RELAY_TIMEOUT,
            )
            for entry in entries
            if self.tasks.row(entry.number) is None
        ]
        replies = await asyncio.gather(*passed)
        for reply in replies:
            raise_if_refused(reply)
        return replies

    def is_unwell(self) -> bool:
        """Are we cut off from the queue, for long enough to let others do our work?"""
        now = boot_time()
        self._unwell_since = (self._unwell_since or now) if self.queue.problem else 0
        since = self._unwell_since
        return bool(since) and authority.is_unwell(now - since, is_cut_off=self.queue.is_cut_off)

    def may_act(self) -> bool:
        return self.lease.may_act()

    def _may_claim(self) -> bool:
        return self.may_act() and self.clock.now() >= self._quiet_until

    # Coming up

    def _new_queue(self) -> NatsQueue:
        queue = NatsQueue(
            self._where,
            self.start_id,
            on_results=self._results,
            on_started=self._started,
            on_late=self._record_late_results,
            now=self.clock.now,
            owns=self.owns,
            may_answer=self.may_act,
        )
        self.relay = EventRelay(
            self.start_id, queue.tell_nodes, lambda most: running_runs_of(self, most), self.loop.time
        )
        queue.on_node_message = self.relay.hear
        return queue

    async def _start(self) -> None:
        self.turns.may_claim = self._may_claim
        self.turns.on_turn = self._look_at_limits
        self.turns.worker_deaths = self.queue.worker_deaths
        self._generation = self.tasks.lifecycle.generation
        self._stop_listening = self._cluster_store.listen(self._on_store_hint)
        await self.queue.start()
        self._read_settings(self.clock.now())
        self._stamp = await asyncio.to_thread(self._cluster_store.stamp)
        await asyncio.to_thread(self.lease.join, msgspec.json.encode(node_info_of(self)))
        self._is_up = True
        self.view = await asyncio.to_thread(self.lease.renew, msgspec.json.encode(node_info_of(self)))
        await self._act_on_view(self.view)
        self._tune_garbage_collector()

    def _background_jobs(self) -> list[Coroutine[None, None, None]]:
        kept_up = (
            self._keep_lease,
            self._keep_shares,
            self._keep_partitions,
            self._look_for_news,
            self._look_for_orders,
        )
        return [*super()._background_jobs(), *(self._repeat_forever(some) for some in kept_up)]

    async def _repeat_forever(self, some: Callable[[], Awaitable[None]]) -> None:
        """Go on with it for ever; a database that does not answer is asked again."""
        said = ""
        while True:
            try:
                await some()
                said = ""
            except LeaseLost as e:
                await self._rejoin(e)
                await asyncio.sleep(_RETRY_DELAY / 10)  # somebody else may be at it
            except StoreError as e:
                if str(e) != said:
                    _log.warning("%s", e, extra={"action": "store_failing"})
                said = str(e)
                await asyncio.sleep(_RETRY_DELAY)
            except Exception as e:
                self._fail(e)
                return

    def _on_store_hint(self, what: str) -> None:
        """On a thread of the store's."""
        hints = {
            "tasks": self._news_event,
            "settings": self._news_event,
            "orders": self._orders_event,
            "answers": self.orders.answered,
            "shares": self._shares_event,
        }
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(hints.get(what, self._partitions_event).set)

    # The lease

    async def _keep_lease(self) -> None:
        about = msgspec.json.encode(node_info_of(self))
        before = self.lease.until
        is_hint = self._needs_changed.is_set()
        self._needs_changed.clear()
        view = await asyncio.to_thread(self.lease.renew, about, is_hint=is_hint)
        if before and boot_time() - before > _MISSED_SOMETHING_AFTER:
            super()._handle_standstill(boot_time() - before)
        self.view = view
        self._partitions_event.set()
        await asyncio.sleep(_MIN_INTERVAL)
        with suppress(TimeoutError):
            await asyncio.wait_for(
                self._needs_changed.wait(), authority.LEASE_RENEWAL_INTERVAL / SECOND - _MIN_INTERVAL
            )

    async def _keep_shares(self) -> None:
        """Apart from the lease: what is decided among all nodes may have to wait for another."""
        longest = SMALL_LIMIT_PAUSE if self.shares.is_soon_again else authority.LEASE_RENEWAL_INTERVAL
        with suppress(TimeoutError):
            await asyncio.wait_for(self._shares_event.wait(), longest / SECOND)
        self._shares_event.clear()
        if self.may_act():
            await self._settle_shares(await asyncio.to_thread(self._cluster_store.view))

    def _look_at_limits(self) -> None:
        """After a turn: have runs begun to wait for a limit, or may others have what they wait for?"""
        now = self.loop.time()
        if now - self._looked_at_limits < _MIN_INTERVAL:
            return
        self._looked_at_limits = now
        life = self.tasks.lifecycle
        if not self.shares.wanted_by_others and not len(life.waiting):
            return
        demands = limit_demands_of(self.tasks.lifecycle, self._slots, self._limits, self.tasks.limit_numbers)
        if self.shares.is_to_be_settled(demands):
            self._shares_event.set()

    async def _settle_shares(self, view: ClusterSnapshot) -> None:
        limits = self._limits
        slots = self._slots
        needed: dict[str, dict[str, int]] = {}
        for lease in view.leases:
            about = decode_node_info(lease)
            for key in about.needs if lease.node != self.lease.id else ():
                needed.setdefault(key, {})[lease.node] = about.waits_since.get(key, view.now)
        async with self._partitions_lock:  # with partitions runs and shares come and go
            demands = limit_demands_of(self.tasks.lifecycle, slots, limits, self.tasks.limit_numbers)
            before = self.shares.waits_since.copy()
            wishes = self.shares.wish(self.lease.id, shares_view_of(view), needed, demands, boot_time())
            unused = [key for key in self.shares.ours if key not in demands]
            self._apply_shares()
            if wishes or unused:
                decided = await asyncio.to_thread(ask_for_shares, self._cluster_store, wishes, unused)
                self.shares.learn(decided, boot_time())
                for key in unused:
                    self.shares.ours.pop(key, None)
                self._apply_shares()
        if self.shares.waits_since != before:
            self._needs_changed.set()

    def _apply_shares(self) -> None:
        life = self.tasks.lifecycle
        before = life.slots, life.limits.tolist()
        life.slots = self.shares.room(ALL_SLOTS_KEY)
        self.tasks.set_limits({name: self.shares.room(name) for name in self._limits})
        if (life.slots, life.limits.tolist()) != before:
            self.turns.plan_turn_soon()

    def _read_settings(self, now: Instant) -> tuple[Ints, list[SkipColumns]]:
        self._limits = self.admin.limits()
        changed = super()._read_settings(now)
        self._slots = self.slots.most
        self._apply_shares()
        return changed

    def _handle_standstill(self, length: int) -> None:
        """Whoever took our lease meanwhile has made up for it; if nobody did, that is seen when it is renewed."""
        _log.warning("nothing was done for %.0f s", length / SECOND, extra={"action": "stood_still", "length": length})

    async def _rejoin(self, why: StoreError) -> None:
        """Our lease is gone, or the database has forgotten what we know: we forget it too, and join anew."""
        if not self.lease.until:
            return  # another task of this node has seen to it already
        self.lease.until = 0
        self.fenced += 1
        forgot = not isinstance(why, LeaseLost) or isinstance(why, CommitsForgotten)
        if forgot:
            _log.warning(
                "the database contradicts what it had confirmed, as after the promotion of a standby that was behind; "
                "joining anew, and nothing new starts for %d s (%s)",
                authority.QUIET_AFTER_FORGETTING // SECOND,
                why,
                extra={"action": "forgotten", "node": self.lease.id},
            )
        else:
            _log.warning("the lease is lost: joining anew", extra={"action": "fenced", "node": self.lease.id})
        lost = LeaseLost("the lease is lost")
        self.outbox.discard_all(lost)  # also for who waits for it, and keeps others waiting
        async with self._partitions_lock:
            self.outbox.discard_all(lost)
            self._held_partitions.clear()
            self.queue.forget(self.turns.release_tasks(np.flatnonzero(self.tasks.columns.used)))
            self.shares.forget()
            self._apply_shares()
        while not self._stopping.is_set():
            try:
                self._stamp = await asyncio.to_thread(self._cluster_store.stamp)
                await asyncio.to_thread(self.lease.join, msgspec.json.encode(node_info_of(self)), forgot=forgot)
            except StoreError:
                await asyncio.sleep(_RETRY_DELAY)
            else:
                return

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, LeaseLost | ContradictoryBatch):
            task = self.loop.create_task(self._rejoin(error))
            self._background_tasks.add(task)
            task.add_done_callback(self._background_tasks.discard)
            return
        super()._fail(error)

    # Partitions

    async def _keep_partitions(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._partitions_event.wait(), self._until_next_end())
        self._partitions_event.clear()
        if self._is_leaving:
            return
        await self._act_on_view(await asyncio.to_thread(self._cluster_store.view))

    def _until_next_end(self) -> float:
        """Seconds until the next lease of another ends, if it is not renewed: that is the moment to take over."""
        others = [] if self.view is None else [le.expires for le in self.view.leases if le.node != self.lease.id]
        ends = min(others, default=0) - self.clock.now()
        return max(ends / SECOND, 0) + _LEASE_END_MARGIN if others else _POLL_INTERVAL

    async def _act_on_view(self, view: ClusterSnapshot) -> None:
        """Do what the view asks of us."""
        unwell = [lease.node for lease in view.leases if decode_node_info(lease).is_unwell]
        expires = {lease.node: lease.expires for lease in view.leases}
        steps = authority.partition_steps(self.lease.id, expires, view.holders, view.now, unwell)
        epochs = {lease.node: lease.epoch for lease in view.leases}
        for node in steps.bury:
            if await asyncio.to_thread(self._cluster_store.revoke_expired_lease, node, epochs[node]):
                self.takeovers += 1
                _log.warning("node %s is gone", node, extra={"action": "node_gone", "node": node})
        if not self.lease.may_act():
            return
        async with self._partitions_lock:
            ours = {p for p, holder in enumerate(view.holders) if holder == self.lease.id}
            self._set_start_rate_share(
                len(ours.union(steps.take))
            )  # before their tasks are here: they are released by it
            if self._held_partitions - ours:
                raise CommitsForgotten("partitions that the database had given us are not ours any more")
            if stuck := ours - self._held_partitions - set(steps.release):
                # Something went wrong when we took them, or when we let them go: the store says that they are ours.
                await self._restore_partitions(TakenPartitions(sorted(stuck), [], 0, {}))
            if steps.take or self.turns.token & _HALF_OF_TOKENS:
                taken = await asyncio.to_thread(self.lease.take, steps.take)
                self.turns.token = max(self.turns.token, taken.fence << _TOKEN_BITS)
                self.shares.carry(taken.shares)
                self._quiet_until = max(self._quiet_until, taken.quiet_until)
                await self._restore_partitions(taken)
            if steps.release:
                await self._release_partitions(steps.release)
        if steps.bury or steps.take or steps.release:
            self._shares_event.set()  # somebody's part is free, or there is one more to share with

    async def _restore_partitions(self, taken: TakenPartitions) -> None:
        if taken.partitions:
            count, new = len(taken.partitions), len(taken.new)
            _log.info("%d partitions are ours", count, extra={"action": "taken", "partitions": count, "new": new})
        is_quiet = self.clock.now() < taken.quiet_until
        silent = {} if is_quiet else taken.silent  # what was true before the database forgot may not be so any more
        for at in range(0, len(taken.partitions), _PARTITIONS_AT_ONCE):
            await self._restore_some_partitions(taken.partitions[at : at + _PARTITIONS_AT_ONCE], set(taken.new), silent)

    async def _restore_some_partitions(
        self, partitions: Sequence[int], new: Collection[int], silent: Mapping[int, int]
    ) -> None:
        store = self._cluster_store
        stamp = await asyncio.to_thread(store.stamp)
        entries, removed, progress, past = await asyncio.to_thread(
            lambda: (
                list(store.entries_in(partitions)),
                [entry for entry in store.removed_running() if partition_of(entry.number) in partitions],
                list(store.progress_in(partitions)),
                list(store.past_definitions_in(partitions)),
            )
        )
        cursors = await asyncio.to_thread(store.cursors, [entry.number for entry in entries])
        passive_times = await asyncio.to_thread(load_passive_times, store)
        is_quiet = self.clock.now() < self._quiet_until
        untaken = [p.claimed_token for p in progress if p.claimed_untaken]
        if untaken:
            await asyncio.to_thread(store.retake, untaken)
        if is_quiet:  # that it is untaken may have changed in what the database has forgotten
            progress = [p._replace(claimed_untaken=False) for p in progress]
        # From here on nothing waits: either all of it is here, or nothing.
        now = self.clock.now()
        # Removed tasks that still run come as well, and go again at once: their runs end here, or the tasks come back.
        removed = [entry for entry in removed if self.tasks.names.find(entry.task.name) is None]
        entries += removed
        batch, running = restore_partitions(
            self.tasks, self.turns, entries, progress, cursors, now, begins=new, past=past
        )
        self.turns.passive.restore(passive_times, entries)
        self.turns.adopt(running)
        self.queue.adopt([(p.claimed_token, p.task) for p in running if not p.claimed_untaken], silent)
        self._held_partitions.update(partitions)
        self.turns.record(batch)
        if untaken:
            self.turns.dispatch_again([p for p in running if p.claimed_untaken], now)
        self.tasks.remove_again([entry.number for entry in removed], now)
        self._stamp = min(self._stamp, stamp)  # what was changed meanwhile is news
        self._news_event.set()
        self.turns.plan_turn_soon()

    async def _release_partitions(self, partitions: Collection[int]) -> None:
        """Let go in order: nothing of them is released any more, all that we know is safe, and then they are free."""
        rows = self.tasks.rows_in(partitions)
        self.tasks.lifecycle.prepare_hand_over(rows)
        await self.outbox.wait_committed()
        self._held_partitions.difference_update(partitions)
        self._set_start_rate_share(len(self._held_partitions))
        rows = self.tasks.rows_in(partitions)
        self.shares.put_down(running_by_key(self.tasks.lifecycle, rows, self.tasks.limit_numbers))
        tokens = self.turns.release_tasks(rows)
        self._apply_shares()
        untaken = [*self.queue.never_granted(tokens), *self.turns.starter.held().intersection(tokens)]
        silent: dict[int, dict[int, int]] = {}
        for token, (number, age) in self.queue.silent_for(tokens).items():
            silent.setdefault(partition_of(number), {})[token] = age
        self.queue.forget(tokens)
        await self.outbox.wait_committed()
        await asyncio.to_thread(self.lease.release, partitions, untaken, silent)
        count = len(partitions)
        _log.info("%d partitions were handed over", count, extra={"action": "released", "partitions": count})

    def _set_start_rate_share(self, partitions: int) -> None:
        """All nodes together release first and catch-up runs at the start rate: each by the partitions it has."""
        self.tasks.lifecycle.pace.share = max(partitions, 1) / PARTITION_COUNT

    # What others change

    def apply_changes(self) -> None:
        """Changes come as news, whoever made them."""

    def _queue_change(self, _: ChangeResult) -> None:
        with suppress(RuntimeError, AttributeError):  # the loop is closed, or not there yet
            self.loop.call_soon_threadsafe(self._news_event.set)

    async def _look_for_news(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news_event.wait(), _POLL_INTERVAL)
        self._news_event.clear()
        await self.look_for_news()

    async def look_for_news(self) -> None:
        """What has been changed is true of our tasks when this returns."""
        async with self._partitions_lock:
            news = await asyncio.to_thread(
                self._cluster_store.changes_since, self._stamp, sorted(self._held_partitions)
            )
            if news.stamp < self._stamp:
                raise CommitsForgotten("changes of tasks that the database had confirmed are gone")
            past = await asyncio.to_thread(self._past_definitions) if news.settings else []
            self._take_news(news, Instant(max((some.until for some in past if some.periods is not None), default=0)))
            self._stamp = max(self._stamp, news.stamp)

    def _past_definitions(self) -> list[PastDefinition]:
        return list(self._cluster_store.past_definitions_in(sorted(self._held_partitions)))

    def _take_news(self, news: StoreChanges, settings_at: Instant) -> None:
        here = {entry.number: self.tasks.row(entry.number) is not None for entry in news.entries}
        changed = ChangeResult(
            created=[entry for entry in news.entries if not here[entry.number]],
            changed=[entry for entry in news.entries if here[entry.number]],
            removed=[entry for entry in news.removed if self.tasks.row(entry.number) is not None],
            settings=news.settings,
            settings_at=settings_at,
        )
        if changed.created or changed.changed or changed.removed or changed.settings:
            self._apply_change(changed)

    # What others ask

    async def _look_for_orders(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._orders_event.wait(), _POLL_INTERVAL)
        self._orders_event.clear()
        if self.may_act():
            await self.orders.do(self._held_partitions, self.look_for_news)

    async def forward(self, number: int, request: Request, patience: float | None = RELAY_TIMEOUT) -> Reply:
        return await self.orders.give(number, request, patience)

    # Runs

    def _record_late_results(self, worker: str, results: list[tuple[int, RunResult]]) -> None:
        """Results that come after somebody else has accounted for the run change nothing; the audit knows of them."""
        now = self.clock.now()
        changes = [
            Change(now, f"worker:{worker}", "late result", f"task {number}", f"{result.outcome}, token {result.token}")
            for number, result in results[:100]
        ]
        task = self.loop.create_task(self._note(changes))
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def _note(self, changes: list[Change]) -> None:
        with suppress(StoreError):
            await asyncio.to_thread(self._cluster_store.note, changes)

    # Ending

    def _store_clock(self) -> None:
        """The clock is the database's; only that it was set back is worth remembering."""
        generation = self.tasks.lifecycle.generation
        if generation != self._generation:
            self._generation = generation
            with suppress(StoreError):
                self.store.set_settings({GENERATION_KEY: str(generation)})

    async def _stop_in_order(self) -> None:
        """In order; if somebody is in a hurry, what we have is free when our lease has ended."""
        leaving = asyncio.create_task(self._leave())
        hurry = asyncio.create_task(self._stop_now.wait())
        await asyncio.wait({leaving, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        await asyncio.wait({leaving}, timeout=_FAST_STOP_TIMEOUT)
        leaving.cancel()
        await asyncio.gather(leaving, hurry, return_exceptions=True)
        self._stop_listening()

    async def _another_node_remains(self) -> bool:
        """Who goes last has waited for what those before it had, and has all of it."""
        patience = self.loop.time() + _LAST_NODE_WAIT
        while not await asyncio.to_thread(self._cluster_store.may_leave):
            if len(self._held_partitions) == PARTITION_COUNT or self.loop.time() > patience:
                return False
            await asyncio.sleep(_LEASE_END_MARGIN)
        return True

    async def _leave(self) -> None:
        """What others can go on with goes to them; the last one ends what runs, as a single node does."""
        try:
            if not await self._another_node_remains():
                self._is_leaving = True
                await super()._stop_in_order()
            self._is_leaving = True
            async with self._partitions_lock:
                await self._release_partitions(self._held_partitions.copy())
            await asyncio.to_thread(self._cluster_store.leave)
        except StoreError as e:
            _log.error("not all was handed over: %s", e, extra={"action": "store_failing"})
