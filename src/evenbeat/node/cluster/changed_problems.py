"""Problems of the tasks of all nodes that have changed: each node tells some of the contacts of all problems."""

import asyncio

from evenbeat.node.cluster.changes_by_others import POLL_INTERVAL
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.cluster_contract import ClusterStore, ProblemRevision


class ChangedProblemsPoll:
    """Has the engine of notifications look again at what other nodes have recorded."""

    def __init__(self, node: Scheduler, store: ClusterStore) -> None:
        self._node = node
        self._store = store
        self._revision: ProblemRevision | None = None

    async def wait_and_look(self) -> None:
        """One round: after an interval, report what has changed since the last one. Without contacts there is nothing
        to look for.
        """
        engine = self._node.alerts.engine
        if self._revision is None and not engine.is_idle:
            # Before the engine reads: what changes from here on is seen by one or the other.
            self._revision = await asyncio.to_thread(self._store.problem_revision)
            engine.begin_anew()
        await asyncio.sleep(POLL_INTERVAL)
        if engine.is_idle or self._revision is None:
            self._revision = None
            return
        changed = await asyncio.to_thread(self._store.problems_changed_since, self._revision)
        self._revision = changed.revision
        if changed.problems:
            engine.news.problems_changed(problem.id for problem in changed.problems)
