"""A node among several: holds a lease and some partitions, takes them up from others and hands them over."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np

from evenbeat.admin.passive_settings import remembered, restore
from evenbeat.admin.task_admin import Changed
from evenbeat.core import authority
from evenbeat.core.columns import Ints
from evenbeat.core.task import Skips
from evenbeat.model import PARTITIONS, SECOND, Entry, Instant, partition_of
from evenbeat.node.cluster.membership import DatabaseClock, Member
from evenbeat.node.cluster.node_info import ClusterView, about_of, cluster_of, read_about, together
from evenbeat.node.cluster.orders import PATIENCE, Orders
from evenbeat.node.cluster.relay import Relay
from evenbeat.node.cluster.shares import ALL_SLOTS, Shares, demands_of, running_by_key
from evenbeat.node.loop.clock import Clock, boot_time
from evenbeat.node.loop.restart import GENERATION, take_up_part
from evenbeat.node.scheduler import Node, Options
from evenbeat.queue.nats.address import Where
from evenbeat.queue.nats.nats_queue import NatsQueue
from evenbeat.report.metrics import Membership, membership_of
from evenbeat.report.status import Status, status_of
from evenbeat.report.task_now import Running, running_of
from evenbeat.store.cluster_contract import ClusterStore, Fenced, Forgot, News, Taken, View
from evenbeat.store.contract import Change, Contradiction, PastDefinition, StoreError
from evenbeat.wire.requests import Elsewhere, Force, Reply, Request, must_be_done
from evenbeat.wire.worker_frames import Result

_PIECE: Final = 8
"""Partitions that are taken up at once: others have their turn in between."""
_LOOK: Final = 1.0
"""Seconds between two looks for news and orders, should the hint have been lost."""
_SHORTEST: Final = 0.02
"""Seconds between two renewals of the lease, or two looks at limits, at least."""
_AGAIN: Final = 0.5
"""Seconds until the database is asked again that did not answer."""
_JUST_AFTER: Final = 0.05
_PATIENCE: Final = 2 * authority.LEASE / SECOND
"""Seconds that the last one waits for what others had."""
_HURRY: Final = 3.0
"""Seconds that are left to leave in order when somebody is in a hurry."""
_LONG: Final = 10 * SECOND
"""Who could not act for longer than this has missed something."""
_TOKEN_BITS: Final = 28
"""Of a token: below the fence, which needs 35 bits until the year 2088."""
_FEW_LEFT: Final = 1 << (_TOKEN_BITS - 1)
"""Half of the tokens of a fence are used: it is time for another one."""
_log: Final = logging.getLogger("evenbeat.cluster")


class ClusterNode(Node):
    """One scheduler of several on one store. It knows only the tasks of its partitions."""

    queue: NatsQueue

    def __init__(self, store: ClusterStore, options: Options, where: Where, database: str) -> None:
        self._shared = store
        self._where = where
        self._database_clock = DatabaseClock()
        self.member = Member(store, self._database_clock)
        self.member.read_clock()
        super().__init__(store, options, Clock(wall=self._database_clock.now), database)
        self.shares = Shares()
        self.view: View | None = None
        """As it was when the lease was last renewed."""
        self.orders = Orders(store)
        self._ready: set[int] = set()
        """Partitions whose tasks are here."""
        self._stamp = 0
        self._generation = 0
        self._news, self._ordered, self._partitions, self._shares = (asyncio.Event() for _ in range(4))
        self._say_needs = asyncio.Event()
        """What we need of limits has changed: others should hear of it before the lease is renewed anyhow."""
        self._looked_at_limits = 0.0
        self._doing: set[asyncio.Task[None]] = set()
        self._changing = asyncio.Lock()
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
        return partition_of(number) in self._ready

    def not_here(self, number: int) -> None:
        raise Elsewhere(number)

    @property
    def executes(self) -> bool:
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
        others = [lease for lease in view.leases if lease.node != self.member.id and lease.expires > view.now]
        return together([mine, *(read_about(lease).status for lease in others)]) or mine

    def cluster(self) -> ClusterView | None:
        return None if self.view is None else cluster_of(self.view, self.clock.now())

    def membership(self) -> Membership:
        return membership_of(self)

    async def running(self, most: int) -> Running:
        assert self.relay is not None
        living = [] if self.view is None else [le for le in self.view.leases if le.expires > self.view.now]
        return await self.relay.all_running(most, sum(lease.node != self.member.id for lease in living))

    def force(self, entries: Sequence[Entry], named: int = 0) -> dict[str, str]:
        """Those that are here; of the others see `force_elsewhere`."""
        return super().force([entry for entry in entries if self.roster.row(entry.number) is not None], named)

    async def force_elsewhere(self, entries: Sequence[Entry], request: Force) -> list[Reply]:
        passed = [
            self.pass_on(
                entry.number,
                Force((entry.id,), request.who, request.wait, is_passed_on=True),
                None if request.wait else PATIENCE,
            )
            for entry in entries
            if self.roster.row(entry.number) is None
        ]
        replies = await asyncio.gather(*passed)
        for reply in replies:
            must_be_done(reply)
        return replies

    def is_unwell(self) -> bool:
        """Are we cut off from the queue, for long enough to let others do our work?"""
        now = boot_time()
        self._unwell_since = (self._unwell_since or now) if self.queue.problem else 0
        since = self._unwell_since
        return bool(since) and authority.is_unwell(now - since, is_cut_off=self.queue.is_cut_off)

    def may_act(self) -> bool:
        return self.member.may_act()

    def _may_claim(self) -> bool:
        return self.may_act() and self.clock.now() >= self._quiet_until

    # Coming up

    def _new_queue(self) -> NatsQueue:
        queue = NatsQueue(
            self._where,
            self.boot,
            on_results=self._results,
            on_started=self._started,
            on_late=self._late,
            now=self.clock.now,
            owns=self.owns,
            may_answer=self.may_act,
        )
        self.relay = Relay(self.boot, queue.tell_nodes, lambda most: running_of(self, most), self.loop.time)
        queue.on_told = self.relay.hear
        return queue

    async def _come_up(self) -> None:
        self.beat.may_claim = self._may_claim
        self.beat.on_turn = self._look_at_limits
        self.beat.losses = self.queue.losses
        self._generation = self.roster.lifecycle.generation
        self._stop_listening = self._shared.listen(self._heard)
        await self.queue.start()
        self._read_settings(self.clock.now())
        self._stamp = await asyncio.to_thread(self._shared.stamp)
        await asyncio.to_thread(self.member.join, msgspec.json.encode(about_of(self)))
        self._is_up = True
        self.view = await asyncio.to_thread(self.member.renew, msgspec.json.encode(about_of(self)))
        await self._follow(self.view)
        self._settle_in()

    def _care(self) -> list[Coroutine[None, None, None]]:
        kept_up = (
            self._keep_lease,
            self._keep_shares,
            self._keep_partitions,
            self._look_for_news,
            self._look_for_orders,
        )
        return [*super()._care(), *(self._keep_up(some) for some in kept_up)]

    async def _keep_up(self, some: Callable[[], Awaitable[None]]) -> None:
        """Go on with it for ever; a database that does not answer is asked again."""
        said = ""
        while True:
            try:
                await some()
                said = ""
            except Fenced as e:
                await self._start_over(e)
                await asyncio.sleep(_AGAIN / 10)  # somebody else may be at it
            except StoreError as e:
                if str(e) != said:
                    _log.warning("%s", e, extra={"action": "store_failing"})
                said = str(e)
                await asyncio.sleep(_AGAIN)
            except Exception as e:
                self._fail(e)
                return

    def _heard(self, what: str) -> None:
        """On a thread of the store's."""
        hints = {
            "tasks": self._news,
            "settings": self._news,
            "orders": self._ordered,
            "answers": self.orders.answered,
            "shares": self._shares,
        }
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(hints.get(what, self._partitions).set)

    # The lease

    async def _keep_lease(self) -> None:
        about = msgspec.json.encode(about_of(self))
        before = self.member.until
        is_hint = self._say_needs.is_set()
        self._say_needs.clear()
        view = await asyncio.to_thread(self.member.renew, about, is_hint=is_hint)
        if before and boot_time() - before > _LONG:
            super()._stood_still(boot_time() - before)
        self.view = view
        self._partitions.set()
        await asyncio.sleep(_SHORTEST)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._say_needs.wait(), authority.RENEW / SECOND - _SHORTEST)

    async def _keep_shares(self) -> None:
        """Apart from the lease: what is decided among all nodes may have to wait for another."""
        longest = authority.PAUSE if self.shares.is_soon_again else authority.RENEW
        with suppress(TimeoutError):
            await asyncio.wait_for(self._shares.wait(), longest / SECOND)
        self._shares.clear()
        if self.may_act():
            await self._settle_shares(await asyncio.to_thread(self._shared.view))

    def _look_at_limits(self) -> None:
        """After a turn: have runs begun to wait for a limit, or may others have what they wait for?"""
        now = self.loop.time()
        if now - self._looked_at_limits < _SHORTEST:
            return
        self._looked_at_limits = now
        life = self.roster.lifecycle
        if not self.shares.wanted_by_others and not len(life.waiting):
            return
        demands = demands_of(self.roster, self._slots, self._limits, self.roster.limit_numbers)
        if self.shares.is_to_be_settled(demands):
            self._shares.set()

    async def _settle_shares(self, view: View) -> None:
        limits = self._limits
        slots = self._slots
        needed: dict[str, dict[str, int]] = {}
        for lease in view.leases:
            about = read_about(lease)
            for key in about.needs if lease.node != self.member.id else ():
                needed.setdefault(key, {})[lease.node] = about.waits_since.get(key, view.now)
        async with self._changing:  # with partitions runs and shares come and go
            demands = demands_of(self.roster, slots, limits, self.roster.limit_numbers)
            before = self.shares.waits_since.copy()
            wishes = self.shares.wish(self.member.id, view, needed, demands, boot_time())
            unused = [key for key in self.shares.ours if key not in demands]
            self._apply_shares()
            if wishes or unused:
                decided = await asyncio.to_thread(self.shares.ask, self._shared, wishes, unused)
                self.shares.learn(decided, boot_time())
                for key in unused:
                    self.shares.ours.pop(key, None)
                self._apply_shares()
        if self.shares.waits_since != before:
            self._say_needs.set()

    def _apply_shares(self) -> None:
        life = self.roster.lifecycle
        before = life.slots, life.limits.tolist()
        life.slots = self.shares.room(ALL_SLOTS)
        self.roster.set_limits({name: self.shares.room(name) for name in self._limits})
        if (life.slots, life.limits.tolist()) != before:
            self.beat.soon()

    def _read_settings(self, now: Instant) -> tuple[Ints, list[Skips]]:
        self._limits = self.desk.limits()
        changed = super()._read_settings(now)
        self._slots = self.slots.most
        self._apply_shares()
        return changed

    def _stood_still(self, length: int) -> None:
        """Whoever took our lease meanwhile has made up for it; if nobody did, that is seen when it is renewed."""
        _log.warning("nothing was done for %.0f s", length / SECOND, extra={"action": "stood_still", "length": length})

    async def _start_over(self, why: StoreError) -> None:
        """Our lease is gone, or the database has forgotten what we know: we forget it too, and join anew."""
        if not self.member.until:
            return  # another task of this node has seen to it already
        self.member.until = 0
        self.fenced += 1
        forgot = not isinstance(why, Fenced) or isinstance(why, Forgot)
        if forgot:
            _log.warning(
                "the database contradicts what it had confirmed, as after the promotion of a standby that was behind; "
                "joining anew, and nothing new starts for %d s (%s)",
                authority.QUIET // SECOND,
                why,
                extra={"action": "forgotten", "node": self.member.id},
            )
        else:
            _log.warning("the lease is lost: joining anew", extra={"action": "fenced", "node": self.member.id})
        lost = Fenced("the lease is lost")
        self.outbox.drop(lost)  # also for who waits for it, and keeps others waiting
        async with self._changing:
            self.outbox.drop(lost)
            self._ready.clear()
            self.queue.forget(self.beat.leave(np.flatnonzero(self.roster.columns.used)))
            self.shares.forget()
            self._apply_shares()
        while not self._stopping.is_set():
            try:
                self._stamp = await asyncio.to_thread(self._shared.stamp)
                await asyncio.to_thread(self.member.join, msgspec.json.encode(about_of(self)), forgot=forgot)
            except StoreError:
                await asyncio.sleep(_AGAIN)
            else:
                return

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, Fenced | Contradiction):
            task = self.loop.create_task(self._start_over(error))
            self._doing.add(task)
            task.add_done_callback(self._doing.discard)
            return
        super()._fail(error)

    # Partitions

    async def _keep_partitions(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._partitions.wait(), self._until_next_end())
        self._partitions.clear()
        if self._is_leaving:
            return
        await self._follow(await asyncio.to_thread(self._shared.view))

    def _until_next_end(self) -> float:
        """Seconds until the next lease of another ends, if it is not renewed: that is the moment to take over."""
        others = [] if self.view is None else [le.expires for le in self.view.leases if le.node != self.member.id]
        ends = min(others, default=0) - self.clock.now()
        return max(ends / SECOND, 0) + _JUST_AFTER if others else _LOOK

    async def _follow(self, view: View) -> None:
        """Do what the view asks of us."""
        unwell = [lease.node for lease in view.leases if read_about(lease).is_unwell]
        expires = {lease.node: lease.expires for lease in view.leases}
        steps = authority.steps(self.member.id, expires, view.holders, view.now, unwell)
        epochs = {lease.node: lease.epoch for lease in view.leases}
        for node in steps.bury:
            if await asyncio.to_thread(self._shared.bury, node, epochs[node]):
                self.takeovers += 1
                _log.warning("node %s is gone", node, extra={"action": "node_gone", "node": node})
        if not self.member.may_act():
            return
        async with self._changing:
            ours = {p for p, holder in enumerate(view.holders) if holder == self.member.id}
            self._set_share(len(ours.union(steps.take)))  # before their tasks are here: they are released by it
            if self._ready - ours:
                raise Forgot("partitions that the database had given us are not ours any more")
            if stuck := ours - self._ready - set(steps.release):
                # Something went wrong when we took them, or when we let them go: the store says that they are ours.
                await self._take_up_partitions(Taken(sorted(stuck), [], 0, {}))
            if steps.take or self.beat.token & _FEW_LEFT:
                taken = await asyncio.to_thread(self.member.take, steps.take)
                self.beat.token = max(self.beat.token, taken.fence << _TOKEN_BITS)
                self.shares.carry(taken.shares)
                self._quiet_until = max(self._quiet_until, taken.quiet_until)
                await self._take_up_partitions(taken)
            if steps.release:
                await self._hand_over(steps.release)
        if steps.bury or steps.take or steps.release:
            self._shares.set()  # somebody's part is free, or there is one more to share with

    async def _take_up_partitions(self, taken: Taken) -> None:
        if taken.partitions:
            count, new = len(taken.partitions), len(taken.new)
            _log.info("%d partitions are ours", count, extra={"action": "taken", "partitions": count, "new": new})
        is_quiet = self.clock.now() < taken.quiet_until
        silent = {} if is_quiet else taken.silent  # what was true before the database forgot may not be so any more
        for at in range(0, len(taken.partitions), _PIECE):
            await self._take_up_piece(taken.partitions[at : at + _PIECE], set(taken.new), silent)

    async def _take_up_piece(self, partitions: Sequence[int], new: Collection[int], silent: Mapping[int, int]) -> None:
        store = self._shared
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
        told = await asyncio.to_thread(remembered, store)
        is_quiet = self.clock.now() < self._quiet_until
        untaken = [p.claimed_token for p in progress if p.claimed_untaken]
        if untaken:
            await asyncio.to_thread(store.retake, untaken)
        if is_quiet:  # that it is untaken may have changed in what the database has forgotten
            progress = [p._replace(claimed_untaken=False) for p in progress]
        # From here on nothing waits: either all of it is here, or nothing.
        now = self.clock.now()
        # Removed tasks that still run come as well, and go again at once: their runs end here, or the tasks come back.
        removed = [entry for entry in removed if self.roster.names.find(entry.task.name) is None]
        entries += removed
        batch, running = take_up_part(self.roster, self.beat, entries, progress, cursors, now, begins=new, past=past)
        restore(self.beat.passive, self.roster, told, entries)
        self.beat.adopt(running)
        self.queue.adopt([(p.claimed_token, p.task) for p in running if not p.claimed_untaken], silent)
        self._ready.update(partitions)
        self.beat.record(batch)
        if untaken:
            self.beat.hand_over_again([p for p in running if p.claimed_untaken], now)
        self.roster.remove_again([entry.number for entry in removed], now)
        self._stamp = min(self._stamp, stamp)  # what was changed meanwhile is news
        self._news.set()
        self.beat.soon()

    async def _hand_over(self, partitions: Collection[int]) -> None:
        """Let go in order: nothing of them is released any more, all that we know is safe, and then they are free."""
        rows = self.roster.rows_in(partitions)
        self.roster.lifecycle.prepare_to_leave(rows)
        await self.outbox.safe()
        self._ready.difference_update(partitions)
        self._set_share(len(self._ready))
        rows = self.roster.rows_in(partitions)
        self.shares.put_down(running_by_key(self.roster, rows, self.roster.limit_numbers))
        tokens = self.beat.leave(rows)
        self._apply_shares()
        untaken = [*self.queue.untaken(tokens), *self.beat.starter.held().intersection(tokens)]
        silent: dict[int, dict[int, int]] = {}
        for token, (number, age) in self.queue.silent_for(tokens).items():
            silent.setdefault(partition_of(number), {})[token] = age
        self.queue.forget(tokens)
        await self.outbox.safe()
        await asyncio.to_thread(self.member.release, partitions, untaken, silent)
        count = len(partitions)
        _log.info("%d partitions were handed over", count, extra={"action": "released", "partitions": count})

    def _set_share(self, partitions: int) -> None:
        """All nodes together release first and catch-up runs at the start rate: each by the partitions it has."""
        self.roster.lifecycle.pace.share = max(partitions, 1) / PARTITIONS

    # What others change

    def take_over(self) -> None:
        """Changes come as news, whoever made them."""

    def _desk_has_changed(self, _: Changed) -> None:
        with suppress(RuntimeError, AttributeError):  # the loop is closed, or not there yet
            self.loop.call_soon_threadsafe(self._news.set)

    async def _look_for_news(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), _LOOK)
        self._news.clear()
        await self.look_for_news()

    async def look_for_news(self) -> None:
        """What has been changed is true of our tasks when this returns."""
        async with self._changing:
            news = await asyncio.to_thread(self._shared.news, self._stamp, sorted(self._ready))
            if news.stamp < self._stamp:
                raise Forgot("changes of tasks that the database had confirmed are gone")
            past = await asyncio.to_thread(self._past_definitions) if news.settings else []
            self._take_news(news, Instant(max((some.until for some in past if some.periods is not None), default=0)))
            self._stamp = max(self._stamp, news.stamp)

    def _past_definitions(self) -> list[PastDefinition]:
        return list(self._shared.past_definitions_in(sorted(self._ready)))

    def _take_news(self, news: News, settings_at: Instant) -> None:
        here = {entry.number: self.roster.row(entry.number) is not None for entry in news.entries}
        changed = Changed(
            created=[entry for entry in news.entries if not here[entry.number]],
            changed=[entry for entry in news.entries if here[entry.number]],
            removed=[entry for entry in news.removed if self.roster.row(entry.number) is not None],
            settings=news.settings,
            settings_at=settings_at,
        )
        if changed.created or changed.changed or changed.removed or changed.settings:
            self._take_over(changed)

    # What others ask

    async def _look_for_orders(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ordered.wait(), _LOOK)
        self._ordered.clear()
        if self.may_act():
            await self.orders.do(self._ready, self.look_for_news)

    async def pass_on(self, number: int, request: Request, patience: float | None = PATIENCE) -> Reply:
        return await self.orders.give(number, request, patience)

    # Runs

    def _late(self, worker: str, results: list[tuple[int, Result]]) -> None:
        """Results that come after somebody else has accounted for the run change nothing; the audit knows of them."""
        now = self.clock.now()
        changes = [
            Change(now, f"worker:{worker}", "late result", f"task {number}", f"{result.outcome}, token {result.token}")
            for number, result in results[:100]
        ]
        task = self.loop.create_task(self._note(changes))
        self._doing.add(task)
        task.add_done_callback(self._doing.discard)

    async def _note(self, changes: list[Change]) -> None:
        with suppress(StoreError):
            await asyncio.to_thread(self._shared.note, changes)

    # Ending

    def _remember_clock(self) -> None:
        """The clock is the database's; only that it was set back is worth remembering."""
        generation = self.roster.lifecycle.generation
        if generation != self._generation:
            self._generation = generation
            with suppress(StoreError):
                self.store.set_settings({GENERATION: str(generation)})

    async def _wind_down(self) -> None:
        """In order; if somebody is in a hurry, what we have is free when our lease has ended."""
        leaving = asyncio.create_task(self._leave())
        hurry = asyncio.create_task(self._instantly.wait())
        await asyncio.wait({leaving, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        await asyncio.wait({leaving}, timeout=_HURRY)
        leaving.cancel()
        await asyncio.gather(leaving, hurry, return_exceptions=True)
        self._stop_listening()

    async def _somebody_stays(self) -> bool:
        """Who goes last has waited for what those before it had, and has all of it."""
        patience = self.loop.time() + _PATIENCE
        while not await asyncio.to_thread(self._shared.may_leave):
            if len(self._ready) == PARTITIONS or self.loop.time() > patience:
                return False
            await asyncio.sleep(_JUST_AFTER)
        return True

    async def _leave(self) -> None:
        """What others can go on with goes to them; the last one ends what runs, as a single node does."""
        try:
            if not await self._somebody_stays():
                self._is_leaving = True
                await super()._wind_down()
            self._is_leaving = True
            async with self._changing:
                await self._hand_over(self._ready.copy())
            await asyncio.to_thread(self._shared.leave)
        except StoreError as e:
            _log.error("not all was handed over: %s", e, extra={"action": "store_failing"})
