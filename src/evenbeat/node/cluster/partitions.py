"""The partitions that a node of a cluster holds: takes them over with their runs, and hands them over."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np

from evenbeat.admin.passive_settings import load_passive_times
from evenbeat.core import partition_ownership
from evenbeat.model import FOREVER, PARTITION_COUNT, Entry, RunKind, partition_of
from evenbeat.node.cluster.lease import HeldLease
from evenbeat.node.cluster.limit_sharing import LimitSharing, running_by_key
from evenbeat.node.loop.chains import read_chains_of
from evenbeat.node.loop.jobs_with_arguments import read_own_jobs
from evenbeat.node.loop.restart import StoredTasks, missing_results, restore_partitions, retried_nominal
from evenbeat.node.scheduler import Scheduler
from evenbeat.queue.nats.nats_queue import NatsQueue
from evenbeat.report.cluster_view import decode_node_info
from evenbeat.store.cluster_contract import ClusterSnapshot, ClusterStore, CommitsForgotten, TakenPartitions

_PARTITIONS_AT_ONCE: Final = 8
"""Partitions that are restored at once: in between the loop has its turns."""
_TOKEN_BITS: Final = 28
"""Of a token: below the fence, which needs 35 bits until the year 2088."""
_HALF_OF_TOKENS: Final = 1 << (_TOKEN_BITS - 1)
"""Half of the tokens of a fence are used: it is time for another one."""
_log: Final = logging.getLogger("evenbeat.cluster")


class HeldPartitions:
    """The partitions whose tasks are live here."""

    def __init__(
        self,
        node: Scheduler,
        queue: NatsQueue,
        store: ClusterStore,
        lease: HeldLease,
        sharing: LimitSharing,
        lock: asyncio.Lock,
    ) -> None:
        """With the `lock` partitions come and go one after the other, and news is applied in between."""
        self._node = node
        self._queue = queue
        self._store = store
        self._lease = lease
        self._sharing = sharing
        self._lock = lock
        self.held: set[int] = set()
        self._quiet_until = 0
        """By the clock of the database: partitions were taken after it had forgotten something."""
        self.takeovers = 0
        """Expired leases of other nodes that this node has revoked."""
        self.on_restored: Callable[[int], None] = lambda _: None
        """Called with the stamp of the store before tasks were read: what was changed after it is news."""

    def may_claim(self) -> bool:
        """Claims need a valid lease, and wait a while after the database has forgotten something."""
        return self._lease.may_act() and self._node.clock.now() >= self._quiet_until

    async def act_on(self, snapshot: ClusterSnapshot) -> None:
        """Revoke expired leases, and take and release the partitions that this node should."""
        unwell = [lease.node for lease in snapshot.leases if decode_node_info(lease).is_unwell]
        expires = {lease.node: lease.expires for lease in snapshot.leases}
        steps = partition_ownership.partition_steps(self._lease.id, expires, snapshot.holders, snapshot.now, unwell)
        epochs = {lease.node: lease.epoch for lease in snapshot.leases}
        for node in steps.bury:
            if await asyncio.to_thread(self._store.revoke_expired_lease, node, epochs[node]):
                self.takeovers += 1
                _log.warning("node %s is gone", node, extra={"action": "node_gone", "node": node})
        if not self._lease.may_act():
            return
        async with self._lock:
            ours = {p for p, holder in enumerate(snapshot.holders) if holder == self._lease.id}
            # Before the tasks are here: their first runs are released at this rate.
            self._share_start_rate(len(ours.union(steps.take)))
            if self.held - ours:
                raise CommitsForgotten("the database has forgotten partitions that it had given to this node")
            if stuck := ours - self.held - set(steps.release):
                # Taking or releasing them failed half-way: the store says that they are ours.
                await self._restore(TakenPartitions(sorted(stuck), [], 0, {}))
            if steps.take or self._node.turns.token & _HALF_OF_TOKENS:
                taken = await asyncio.to_thread(self._store.take, sorted(steps.take))
                self._node.turns.token = max(self._node.turns.token, taken.fence << _TOKEN_BITS)
                self._sharing.shares.carry(taken.shares)
                self._quiet_until = max(self._quiet_until, taken.quiet_until)
                await self._restore(taken)
            if steps.release:
                await self._release(steps.release)
        if steps.bury or steps.take or steps.release:
            self._sharing.is_wanted.set()  # a dead node's share is free, or there is one more node to share with

    async def release_all(self) -> None:
        """Hand everything over."""
        async with self._lock:
            await self._release(self.held.copy())

    def forget_all(self) -> None:
        """Other nodes have our partitions: nothing of them is recorded or released any more."""
        self.held.clear()
        self._node.alerts.engine.begin_anew()
        self._queue.forget(self._node.turns.release_tasks(np.flatnonzero(self._node.tasks.columns.used)))
        self._sharing.forget()

    async def _restore(self, taken: TakenPartitions) -> None:
        if taken.partitions:
            count, new = len(taken.partitions), len(taken.new)
            _log.info("took %d partitions", count, extra={"action": "taken", "partitions": count, "new": new})
        is_quiet = self._node.clock.now() < taken.quiet_until
        silent = {} if is_quiet else taken.silent  # it may have changed in what the database has forgotten
        for at in range(0, len(taken.partitions), _PARTITIONS_AT_ONCE):
            await self._restore_some(taken.partitions[at : at + _PARTITIONS_AT_ONCE], set(taken.new), silent)

    async def _restore_some(self, partitions: Sequence[int], new: Collection[int], silent: Mapping[int, int]) -> None:
        node, store = self._node, self._store
        tasks, turns = node.tasks, node.turns
        stamp = await asyncio.to_thread(store.stamp)
        stored, removed = await asyncio.to_thread(self._read, partitions)
        passive_times = await asyncio.to_thread(load_passive_times, store)
        is_quiet = node.clock.now() < self._quiet_until
        untaken = [p.claimed_token for p in stored.progress if p.claimed_untaken]
        if untaken:
            await asyncio.to_thread(store.retake, untaken)
        if is_quiet:  # that it is untaken may have changed in what the database has forgotten
            stored = stored._replace(progress=[p._replace(claimed_untaken=False) for p in stored.progress])
        # From here on nothing is awaited: either all of it is here, or nothing.
        now = node.clock.now()
        # Removed tasks that still run come too, and are removed again below: their runs end here, or the tasks return.
        removed = [entry for entry in removed if tasks.names.find(entry.task.name) is None]
        stored = stored._replace(entries=[*stored.entries, *removed])
        batch, running = restore_partitions(tasks, turns, stored, now, begins=new)
        turns.passive.restore(passive_times, stored.entries)
        self._queue.adopt([(p.claimed_token, p.task) for p in running if not p.claimed_untaken], silent)
        self.held.update(partitions)
        turns.take_over(batch, running, now)
        tasks.remove_again([entry.number for entry in removed], now)
        self.on_restored(stamp)
        if unsure := turns.passive.unsure(tasks.reachability.parent_rows()):
            turns.passive.restore_missing(await asyncio.to_thread(missing_results, store, unsure))

    def _read(self, partitions: Sequence[int]) -> tuple[StoredTasks, list[Entry]]:
        """What the store says of the tasks of these partitions, and of removed ones that still run."""
        store = self._store
        entries = list(store.entries_in(partitions))
        removed = [entry for entry in store.removed_running() if partition_of(entry.number) in partitions]
        progress = list(store.progress_in(partitions))
        cursors = store.cursors([entry.number for entry in entries])
        past = list(store.past_definitions_in(partitions))
        tasks = {entry.number for entry in entries if not entry.task.check}
        waiting = [p.task for p in progress if p.extra_kind == RunKind.RETRY and p.extra < FOREVER and p.task in tasks]
        generation = self._node.tasks.lifecycle.generation
        retried = {number: retried_nominal(store, number, generation) for number in waiting}
        problems = list(store.open_problems_in(partitions))
        own_jobs, chains = list(read_own_jobs(store)), read_chains_of(store, entries)
        return StoredTasks(entries, progress, cursors, past, problems, retried, own_jobs, chains), removed

    async def _release(self, partitions: Collection[int]) -> None:
        """Stop releasing runs of these partitions, commit what we know of them, and only then give them up."""
        node, tasks = self._node, self._node.tasks
        rows = tasks.rows_in(partitions)
        tasks.lifecycle.prepare_hand_over(rows)
        await node.outbox.wait_committed()
        going = set(partitions)
        await node.alerts.engine.finish(lambda contact: partition_ownership.partition_of_contact(contact) in going)
        self.held.difference_update(partitions)
        self._share_start_rate(len(self.held))
        rows = tasks.rows_in(partitions)
        self._sharing.shares.put_down(running_by_key(tasks.lifecycle, rows, tasks.limit_numbers))
        tokens = node.turns.release_tasks(rows)
        self._sharing.apply()
        untaken = [*self._queue.never_granted(tokens), *node.turns.starter.held().intersection(tokens)]
        silent: dict[int, dict[int, int]] = {}
        for token, (number, age) in self._queue.silent_for(tokens).items():
            silent.setdefault(partition_of(number), {})[token] = age
        self._queue.forget(tokens)
        await node.outbox.wait_committed()
        await asyncio.to_thread(self._store.release, sorted(partitions), untaken, silent)
        count = len(partitions)
        _log.info("handed over %d partitions", count, extra={"action": "released", "partitions": count})

    def _share_start_rate(self, partitions: int) -> None:
        """The start rate of first and catch-up runs is that of all nodes: each has a part by its partitions."""
        self._node.tasks.lifecycle.pace.share = max(partitions, 1) / PARTITION_COUNT
