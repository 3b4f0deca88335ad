"""The tasks of other nodes that tasks of this node depend on or follow: how they are defined, how they are, and how
their runs ended.
"""

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from evenbeat.core.reachability import ForeignResult, fails
from evenbeat.model import State
from evenbeat.node.cluster.runs_on_other_nodes import FreshRunsElsewhere
from evenbeat.node.scheduler import Scheduler
from evenbeat.report.parents import conditions_named
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.cluster_contract import CheckPosition, ClusterStore

if TYPE_CHECKING:
    from evenbeat.model import Entry


class ForeignParents:
    """Looks at them in the store. What a node knows of them is as old as its last look: a second or two."""

    def __init__(self, node: Scheduler, store: ClusterStore, fresh_runs: FreshRunsElsewhere) -> None:
        self._node = node
        self._store = store
        self._fresh_runs = fresh_runs
        node.tasks.reachability.has_other_nodes = True

    async def look(self) -> None:
        """Learn what has changed, of their ancestors too: one small query for each level of the graph."""
        reachability = self._node.tasks.reachability
        seen: set[str] = set()
        while new := reachability.foreign_parents().keys() - seen:
            seen |= new
            await self._look_at(sorted(new))
        self._fresh_runs.ask()
        is_due = await self._look_at_chains()
        if is_due or not (reachability.is_settled and self._node.tasks.downtimes.is_settled):
            self._node.turns.plan_turn_soon()

    async def _look_at_chains(self) -> bool:
        """Learn which runs of parents have ended; is there something to record or to run by that?"""
        tasks = self._node.tasks
        names = [name for name in tasks.chains.parent_names() if tasks.names.find(name) is None]
        if not names:
            return False
        found = await asyncio.to_thread(self._store.chain_parents, names)
        return self._node.turns.chains.learn_from_store(found, self._node.clock.now())

    async def _look_at(self, names: list[str]) -> None:
        reachability = self._node.tasks.reachability
        found = {position.name: position for position in await asyncio.to_thread(self._store.positions_of, names)}
        known = reachability.foreign_parents()
        changed = [name for name, p in found.items() if name in known and known[name] != (p.number, p.version)]
        entries = await asyncio.to_thread(self._store.entries_named, changed) if changed else []
        defined: dict[str, Entry | None] = {entry.task.name: entry for entry in entries}
        defined |= {name: None for name in names if name not in found}
        reachability.define_foreign(defined)
        self._node.tasks.downtimes.define_foreign(defined)
        failing = {
            name for name, p in found.items() if fails(is_check=p.is_check, is_off=p.is_off, state=p.state, hard=p.hard)
        }
        if failing:
            failing -= await asyncio.to_thread(self._stale, failing)
        reachability.learn_foreign({name: name in failing for name in found})
        results = {name: _result_of(position) for name, position in found.items()}
        reachability.learn_foreign_results(dict.fromkeys(names) | results)

    def _stale(self, names: Collection[str]) -> set[str]:
        """Those of these checks whose results are overdue."""
        reader = ConditionReader(self._store, self._node.clock.now())
        found = conditions_named(self._store, names)
        return {condition.entry.task.name for condition in found if reader.is_stale(condition)}


def _result_of(position: CheckPosition) -> ForeignResult:
    is_off = position.is_off or not position.is_check
    return ForeignResult(position.result_at, is_soft=not position.hard and position.state != State.OK, is_off=is_off)
