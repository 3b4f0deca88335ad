"""What handlers of the api process share: the store to read, the node to ask, and the live feed of the node."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from evenbeat.api.http.refusals import RefusalCounter
from evenbeat.api.http.threads import FairThreadPool
from evenbeat.api.live.contact_uses import ContactUseCache
from evenbeat.api.live.event_feed import LiveFeed
from evenbeat.api.live.outlook_cache import OutlookCache
from evenbeat.api.live.task_counts import TaskCountCache
from evenbeat.client.socket import NodeSocket
from evenbeat.clock.database_clock import DatabaseClock
from evenbeat.clock.node_clock import Clock
from evenbeat.clock.system_clock import boot_time
from evenbeat.core.partition_ownership import is_over
from evenbeat.model import Instant
from evenbeat.store.addresses import is_shared_database
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import Store, StoreError
from evenbeat.store.opening import open_store
from evenbeat.store.sqlite.ownership import is_node_running, socket_path
from evenbeat.store.sqlite.sqlite_store import SqliteStore

T = TypeVar("T")
_CLOCK_CHECK_SECONDS: Final = 10.0
"""Seconds between two readings of the clock of a database that several nodes share."""


class ApiContext:
    """One database, and the node that runs on it."""

    def __init__(self, database: Path | str, control: Path | None = None) -> None:
        """`control` is the node's control socket, if it cannot be derived from the database."""
        self.database: Final = database
        self.node: Final = NodeSocket(control or socket_path(Path(database)))
        self.store: Store = self._open()
        self.live_feed: Final = LiveFeed(self.node)
        """Events and status of the node; the server starts and stops it."""
        self.outlook_cache: Final = OutlookCache(self.read_store)
        self.task_counts: Final = TaskCountCache()
        self.contact_uses: Final = ContactUseCache()
        self.refusals: Final = RefusalCounter()
        self._threads = FairThreadPool()
        self._clock = _ClusterClock(self.store) if isinstance(self.store, ClusterStore) else Clock()

    def _open(self) -> Store:
        try:
            return open_store(self.database, read_only=True)
        except StoreError:
            if is_shared_database(self.database) or not is_node_running(Path(self.database)):
                raise
            # A node runs on a file that has become unreadable: /readyz and the node's answers say so.
            return SqliteStore(Path(self.database), read_only=True, is_checked=False)

    def now(self) -> Instant:
        return self._clock.now()

    async def read_store(self, question: Callable[[Store], T]) -> T:
        """Read the store in a thread, so that the event loop goes on."""
        return await self._threads.run(lambda: self._read(question))

    async def run_in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """Run a function in a thread that would block the event loop for too long."""
        return await self._threads.run(lambda: work(*arguments))

    def _read(self, question: Callable[[Store], T]) -> T:
        if isinstance(self._clock, _ClusterClock):
            self._clock.synchronize()
        return question(self.store)

    def has_node(self) -> bool:
        """Is a node running on the database, even if it does not answer?"""
        if isinstance(self.store, ClusterStore):
            view = self.store.view()
            return any(not is_over(lease.expires, view.now) for lease in view.leases)
        return is_node_running(self.database)

    def close(self) -> None:
        self._threads.close()
        self.store.close()


class _ClusterClock:
    """The clock of a database that several nodes share; this machine's clock may differ."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._clock = DatabaseClock()
        self._looked = -_CLOCK_CHECK_SECONDS
        self.synchronize()

    def now(self) -> Instant:
        return Instant(self._clock.now())

    def synchronize(self) -> None:
        """Compare it with the database's clock if the last time is long ago. Blocks."""
        if time.monotonic() - self._looked >= _CLOCK_CHECK_SECONDS:
            self._looked = time.monotonic()
            asked = boot_time()
            self._clock.learn(asked, self._store.clock(), boot_time())
