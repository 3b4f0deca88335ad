"""Chains in the turn loop: what runs that ended make due, and what the store must know of it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenbeat.core.chains import NO_END, EndedParent, LatestEnds, ParentEnd, used_from_bytes
from evenbeat.core.columns import Ints
from evenbeat.core.run_plan import ends_for_followers
from evenbeat.core.task import Bools, Flag, Flags, Small
from evenbeat.model import Entry, Instant
from evenbeat.node.loop.records import skip_records_of
from evenbeat.store.chain_records import ChainEnd, ChainParent, ChainUse
from evenbeat.store.contract import Batch, Skip, Store

if TYPE_CHECKING:
    from evenbeat.node.loop.pending_run import PendingRun
    from evenbeat.node.loop.task_table import TaskTable

_CHECK_OR_REMOVED = int(Flag.CHECK | Flag.REMOVED)


class ChainRecorder:
    """Gives ended runs to the chains, and collects what belongs in the batch of the turn that learned them."""

    def __init__(self, tasks: "TaskTable") -> None:
        self._tasks = tasks
        self.may_be_followed_elsewhere = False
        """In a cluster, tasks of other nodes may follow those of this one."""
        self._ends: list[ChainEnd] = []
        self._skips: list[Skip] = []

    def learn_runs(
        self,
        ended: Sequence["PendingRun"],
        flags: Flags,
        meaning: Small,
        for_good: Bools,
        retried: Bools,
        now: Instant,
    ) -> None:
        """Runs have ended: as for `Problems.learn_runs`."""
        chains = self._tasks.chains
        if not (chains or self.may_be_followed_elsewhere):
            return
        succeeded, failed = ends_for_followers(meaning, flags, for_good, retried)
        some = np.flatnonzero(succeeded | failed)
        if not chains:
            generation, at, went_well = self._tasks.lifecycle.generation, int(now), succeeded[some].tolist()
            runs = zip(map(ended.__getitem__, some.tolist()), went_well, strict=True)
            self._ends += [ChainEnd(run.number, succeeded, run.nominal, generation, at) for run, succeeded in runs]
            return
        parents = []
        for i in some.tolist():
            run = ended[i]
            name = self._tasks.name_of(run.number, run.name)
            if self.may_be_followed_elsewhere or chains.is_parent(name):
                end = ParentEnd(run.nominal, self._tasks.lifecycle.generation, int(now))
                parents.append(EndedParent(name, run.number, bool(succeeded[i]), end))
        self._learn(parents, now)

    def _learn(self, parents: Sequence[EndedParent], now: Instant) -> None:
        self._ends += [ChainEnd(parent.number, parent.succeeded, *parent.end) for parent in parents]
        for skips in self._tasks.chains.learn(parents, now):
            self._skips += skip_records_of(self._tasks.columns, skips, now)

    def learn_failures(self, runs: Iterable[tuple[int, int]], now: Instant) -> None:
        """Runs, by task number and nominal time, were lost with the last node, or failed, and are not made again."""
        chains, tasks = self._tasks.chains, self._tasks
        for number, nominal in runs:
            row = tasks.row(number)
            if row is None or int(tasks.columns.flags[row]) & _CHECK_OR_REMOVED:
                continue
            name = tasks.names.name(row)
            if self.may_be_followed_elsewhere or chains.is_parent(name):
                end = ParentEnd(nominal, tasks.lifecycle.generation, int(now))
                self._learn([EndedParent(name, number, succeeded=False, end=end)], now)

    def learn_from_store(self, parents: Iterable[ChainParent], now: Instant) -> bool:
        """Look at what other nodes have recorded of parents that are not here; is anything due or to record by that?"""
        tasks = self._tasks
        next_due = tasks.lifecycle.timetable.next_due()
        foreign = [parent for parent in parents if tasks.names.find(parent.name) is None]
        for skips in tasks.chains.learn_from_store(latest_ends(foreign), now):
            self._skips += skip_records_of(tasks.columns, skips, now)
        is_due = tasks.lifecycle.timetable.next_due() < next_due
        return is_due or bool(self._skips) or tasks.chains.has_changes

    def add_records(self, batch: Batch) -> None:
        """Add to a batch what has been learned and used since the last one."""
        given_up, self._tasks.given_up_runs = self._tasks.given_up_runs, []
        for number, nominal, at in given_up:
            self.learn_failures([(number, nominal)], at)
        batch.chain_ends += self._ends
        batch.skips += self._skips
        self._ends, self._skips = [], []
        if self._tasks.chains.has_changes:
            changes, numbers = self._tasks.chains.take_changes(), self._tasks.columns.number
            batch.chain_uses += [ChainUse(int(numbers[row]), used) for row, used in changes]


def latest_ends(parents: Iterable[ChainParent]) -> dict[str, LatestEnds]:
    """What a store knows of parents, as the chains need it."""

    def end(of: ChainEnd | None) -> ParentEnd:
        return NO_END if of is None else ParentEnd(of.nominal, of.generation, of.at)

    return {parent.name: LatestEnds(parent.number, end(parent.success), end(parent.failure)) for parent in parents}


class StoredChains(NamedTuple):
    """What a store says of chained tasks: what they have used, by their numbers, and the ends of their parents."""

    uses: Mapping[int, bytes]
    parents: Sequence[ChainParent]


def read_chains(store: Store, chained: Sequence[int], parents: Sequence[str]) -> StoredChains:
    """What a store says of these chained tasks and of these parents."""
    return StoredChains(store.chain_uses(chained), store.chain_parents(parents)) if chained else StoredChains({}, [])


def read_chains_of(store: Store, entries: Iterable[Entry]) -> StoredChains:
    """What a store says of the chained ones among these tasks."""
    chained = [entry for entry in entries if entry.task.schedule.parents]
    names = sorted({name for entry in chained for name in entry.task.schedule.parents})
    return read_chains(store, [entry.number for entry in chained], names)


def restore_chains(tasks: "TaskTable", rows: Ints, stored: StoredChains, now: Instant) -> None:
    """Tasks are here again: what they have used and what their parents have done, by the store. What follows from both
    is due.
    """
    chained = rows[tasks.columns.flags[rows] & int(Flag.CHAINED) != 0].tolist() if tasks.chains else []
    if not chained:
        return
    for row in chained:
        used = stored.uses.get(int(tasks.columns.number[row]))
        if used is not None:
            tasks.chains.restore_used(row, used_from_bytes(used))
    tasks.chains.restore_parents(latest_ends(stored.parents))
    tasks.know_parents()
    tasks.chains.make_due(chained, now)
