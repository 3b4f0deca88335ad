"""The lock for changes of tasks among all processes that share a store."""

from contextlib import AbstractContextManager
from threading import RLock

from evenbeat.core.placement import PhasePlacement
from evenbeat.store.cluster_contract import ClusterStore


class ClusterLock(AbstractContextManager[object]):
    """Held by one thread of one process at a time. If others have changed tasks since, `places` is filled anew."""

    def __init__(self, store: ClusterStore, places: PhasePlacement) -> None:
        self._store = store
        self._places = places
        self._here = RLock()
        self._depth = 0
        self._stamp = -1

    def __enter__(self) -> None:
        self._here.acquire()
        try:
            if self._depth == 0:
                self._there = self._store.exclusive_change()
                self._there.__enter__()
                if self._store.stamp() != self._stamp:
                    self._places.invalidate()
            self._depth += 1
        except BaseException:
            self._here.release()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            self._depth -= 1
            if self._depth == 0:
                try:
                    self._stamp = self._store.stamp()
                finally:
                    self._there.__exit__(None, None, None)
        finally:
            self._here.release()
