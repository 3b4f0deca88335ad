"""The workers of a cluster as a node hears of them, and the pools they serve."""

from collections.abc import Iterable
from typing import Final

from evenbeat.core import run_lease
from evenbeat.model import SECOND
from evenbeat.wire.cluster_messages import WorkerStatus
from evenbeat.wire.cluster_view import PoolView, WorkerView

_WORKER_REMEMBERED_FOR: Final = 300 * SECOND
"""A worker that is silent is shown so long, so that it is missed."""
_LEFT_REMEMBERED_FOR: Final = 10 * SECOND
"""One that took its leave is not missed."""
_MOST_WORKERS: Final = 10_000
_POOL_WANTED_FOR: Final = 3_600 * SECOND
"""A pool to which runs were handed over is looked after so long: that it has no worker is not forgotten in between."""


class WorkerRegistry:
    """Who was heard of, and when; all times on the node's own clock."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[WorkerStatus, int]] = {}
        self._first: dict[str, int] = {}
        """When each of them was heard for the first time."""
        self._dead: dict[str, int] = {}
        """Workers that are known to have died, and since when we know it."""
        self._without: dict[str, int] = {}
        """Since when pools are known to be without a worker."""
        self._wanted: dict[str, int] = {}
        """When runs were last seen to wait in which pool."""

    def record_status(self, tidings: WorkerStatus, now: int) -> None:
        """A worker tells of itself."""
        if tidings.worker in self._heard or len(self._heard) < _MOST_WORKERS:
            self._heard[tidings.worker] = (tidings, now)
            self._first.setdefault(tidings.worker, now)

    def is_dead(self, worker: str) -> bool:
        """Is it known that it has died?"""
        return worker in self._dead

    def begin_anew(self, now: int) -> None:
        """Nobody could be heard until now: pools are not to be blamed for it."""
        self._without = dict.fromkeys(self._without, now)

    def forget_old(self, now: int, pools: Iterable[str]) -> None:
        """Forget who is gone for long, and see which of these pools have nobody."""
        for worker, (tidings, heard) in list(self._heard.items()):
            is_over = now - heard > (_LEFT_REMEMBERED_FOR if tidings.is_leaving else _WORKER_REMEMBERED_FOR)
            is_dead = now - heard >= run_lease.WORKER_SILENT_AFTER and self._is_replaced(tidings, heard)
            if is_dead and not tidings.is_leaving:
                self._dead[worker] = now
            if is_over or is_dead:
                del self._heard[worker]
        self._dead = {worker: at for worker, at in self._dead.items() if now - at < _WORKER_REMEMBERED_FOR}
        self._first = {worker: first for worker, first in self._first.items() if worker in self._heard}
        serving = self._serving(now)
        self._wanted.update(dict.fromkeys(pools, now))
        self._wanted = {pool: at for pool, at in self._wanted.items() if now - at < _POOL_WANTED_FOR}
        known = set(self._wanted).union(*(tidings.pools for tidings, _ in self._heard.values()))
        self._without = {pool: self._without.get(pool, now) for pool in known if pool not in serving}

    def _is_replaced(self, gone: WorkerStatus, heard: int) -> bool:
        """Has another worker of this name, for the same pools, come up since it was last heard? Then it is known dead:
        who starts a worker of that name anew has seen to it.
        """
        return any(
            (other.name, sorted(other.pools)) == (gone.name, sorted(gone.pools)) and self._first[id_] > heard
            for id_, (other, _) in self._heard.items()
            if id_ != gone.worker
        )

    def _serving(self, now: int) -> dict[str, list[WorkerStatus]]:
        serving: dict[str, list[WorkerStatus]] = {}
        for tidings, heard in self._heard.values():
            if not tidings.is_leaving and now - heard < run_lease.WORKER_SILENT_AFTER:
                for pool in tidings.pools:
                    serving.setdefault(pool, []).append(tidings)
        return serving

    def serving(self, pool: str, now: int) -> int:
        """How many workers serve a pool now."""
        return len(self._serving(now).get(pool, ()))

    def without_worker_for(self, pool: str, now: int) -> int:
        """How long a pool is known to be without a worker; 0 if it has one."""
        since = self._without.get(pool)
        return 0 if since is None else now - since

    def name_of(self, worker: str) -> str:
        """What people call it."""
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
        """All that have workers, had some lately, or have runs waiting for one."""
        serving = self._serving(now)
        names = {*self._without, *waiting}.union(*(tidings.pools for tidings, _ in self._heard.values()))
        return {
            pool: PoolView(
                workers=len(serving.get(pool, ())),
                slots=sum(t.slots for t in serving.get(pool, ())),
                waiting=waiting.get(pool, 0),
                without_worker_for=None if pool in serving else self.without_worker_for(pool, now) / SECOND,
            )
            for pool in sorted(names)
        }
