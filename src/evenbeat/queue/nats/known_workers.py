"""The workers of a cluster, as they have reported to a node, and the pools that they serve."""

from collections.abc import Iterable
from typing import Final

from evenbeat.core import run_lease
from evenbeat.model import SECOND
from evenbeat.wire.cluster_messages import WorkerStatus
from evenbeat.wire.cluster_view import PoolView, WorkerView

_WORKER_REMEMBERED_FOR: Final = 300 * SECOND
"""A silent worker is shown for so long, so that people notice that it is missing."""
_LEFT_REMEMBERED_FOR: Final = 10 * SECOND
"""A worker that has left in order is shown for so long."""
_MAX_WORKERS: Final = 10_000
_POOL_WANTED_FOR: Final = 3_600 * SECOND
"""A pool that runs were sent to is watched for so long, so that we know since when it has no worker."""


class WorkerRegistry:
    """Which workers have reported, and when; all times by boot_time of this node."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[WorkerStatus, int]] = {}
        self._first_heard: dict[str, int] = {}
        """When each of them reported for the first time."""
        self._dead: dict[str, int] = {}
        """Workers that are known to have died, and when we learned it."""
        self._without_worker_since: dict[str, int] = {}
        """Since when each pool without a worker is known to have none."""
        self._last_wanted: dict[str, int] = {}
        """When runs were last waiting in each pool."""

    def record_status(self, status: WorkerStatus, now: int) -> None:
        """A worker has reported."""
        if status.worker in self._heard or len(self._heard) < _MAX_WORKERS:
            self._heard[status.worker] = (status, now)
            self._first_heard.setdefault(status.worker, now)

    def is_dead(self, worker: str) -> bool:
        """Is it known that this worker has died?"""
        return worker in self._dead

    def begin_anew(self, now: int) -> None:
        """We were disconnected until now: pools without a worker count from now on."""
        self._without_worker_since = dict.fromkeys(self._without_worker_since, now)

    def forget_old(self, now: int, pools: Iterable[str]) -> None:
        """Forget workers that have been silent for long, and find out which pools have no worker; `pools` have waiting
        runs.
        """
        for worker, (status, heard) in list(self._heard.items()):
            is_over = now - heard > (_LEFT_REMEMBERED_FOR if status.is_leaving else _WORKER_REMEMBERED_FOR)
            is_dead = now - heard >= run_lease.WORKER_SILENT_AFTER and self._is_replaced(status, heard)
            if is_dead and not status.is_leaving:
                self._dead[worker] = now
            if is_over or is_dead:
                del self._heard[worker]
        self._dead = {worker: at for worker, at in self._dead.items() if now - at < _WORKER_REMEMBERED_FOR}
        self._first_heard = {worker: first for worker, first in self._first_heard.items() if worker in self._heard}
        serving = self._serving(now)
        self._last_wanted.update(dict.fromkeys(pools, now))
        self._last_wanted = {pool: at for pool, at in self._last_wanted.items() if now - at < _POOL_WANTED_FOR}
        known = set(self._last_wanted).union(*(status.pools for status, _ in self._heard.values()))
        self._without_worker_since = {
            pool: self._without_worker_since.get(pool, now) for pool in known if pool not in serving
        }

    def _is_replaced(self, silent: WorkerStatus, heard: int) -> bool:
        """Has another worker with its name and pools started since its last report? Then it counts as dead: the person
        or service manager that started the new one has made sure of that.
        """
        return any(
            (other.name, sorted(other.pools)) == (silent.name, sorted(silent.pools)) and self._first_heard[id_] > heard
            for id_, (other, _) in self._heard.items()
            if id_ != silent.worker
        )

    def _serving(self, now: int) -> dict[str, list[WorkerStatus]]:
        serving: dict[str, list[WorkerStatus]] = {}
        for status, heard in self._heard.values():
            if not status.is_leaving and now - heard < run_lease.WORKER_SILENT_AFTER:
                for pool in status.pools:
                    serving.setdefault(pool, []).append(status)
        return serving

    def serving(self, pool: str, now: int) -> int:
        """The number of workers that serve a pool now."""
        return len(self._serving(now).get(pool, ()))

    def without_worker_for(self, pool: str, now: int) -> int:
        """How long a pool has been known to have no worker; 0 if it has one."""
        since = self._without_worker_since.get(pool)
        return 0 if since is None else now - since

    def name_of(self, worker: str) -> str:
        """The name of a worker, as people know it; its id if it has not reported."""
        return self._heard[worker][0].name if worker in self._heard else worker

    def workers(self, now: int) -> list[WorkerView]:
        return [
            WorkerView(
                id=t.worker,
                name=t.name,
                pid=t.pid,
                pools=t.pools,
                slots=t.slots,
                held=len(t.held),
                is_leaving=t.is_leaving,
                silent_for=max(0, now - heard) / SECOND,
                started=t.started,
                version=t.version,
                processes=t.processes,
                restarts=t.restarts,
                problem=t.problem,
            )
            for t, heard in self._heard.values()
        ]

    def pools(self, now: int, waiting: dict[str, int]) -> dict[str, PoolView]:
        """All pools that have workers, had some lately, or have waiting runs."""
        serving = self._serving(now)
        names = {*self._without_worker_since, *waiting}.union(*(status.pools for status, _ in self._heard.values()))
        return {
            pool: PoolView(
                workers=len(serving.get(pool, ())),
                slots=sum(t.slots for t in serving.get(pool, ())),
                waiting=waiting.get(pool, 0),
                without_worker_for=None if pool in serving else self.without_worker_for(pool, now) / SECOND,
            )
            for pool in sorted(names)
        }
