"""The outbox: batches on their way into the store, in order. A batch that the store cannot take is offered again."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, NamedTuple

from evenbeat.node.loop.counters import COMMIT_BOUNDS, HistogramCounter
from evenbeat.store.cluster_contract import LeaseLost
from evenbeat.store.contract import Batch, ContradictoryBatch, DatabaseDamaged, Store, StoreError, WithdrawnTasks

_RETRY_DELAY: Final = 1.0
"""Seconds until the store is asked again after it failed: its disk may have space again, or be back."""
_log: Final = logging.getLogger("evenbeat.node")

OnCommit = Callable[[], None]


class _WaitingBatch(NamedTuple):
    batch: Batch
    then: OnCommit
    put: float
    """When, on the loop's clock."""


class Outbox:
    """Offers batches to the store and says when they are committed. While the store fails, all batches wait.

    All waiting batches are offered in one commit, and later ones wait for its end: if a batch were offered while an
    earlier one fails, the store could have the later without the earlier.
    """

    def __init__(
        self, store: Store, loop: asyncio.AbstractEventLoop, on_failure: Callable[[BaseException], None]
    ) -> None:
        """`on_failure` is called if a batch cannot be committed, however often it is offered; no later one is then."""
        self._store = store
        self._loop = loop
        self._on_failure = on_failure
        self._parcels: deque[_WaitingBatch] = deque()
        self._offered = 0
        """How many of them are offered to the store now."""
        self._offered_at = 0.0
        self.commit_seconds = HistogramCounter(COMMIT_BOUNDS)
        """How long commits took, in seconds."""
        self.on_withdrawn: Callable[[WithdrawnTasks], None] = lambda _: None
        """Called with tasks whose claims the store refused as they were removed, before anything else that follows."""
        self._is_busy = False
        """Are batches offered now, or is it too soon to offer them again?"""
        self._round = 0
        """Answers of earlier rounds are about batches that were discarded."""
        self._waiting: list[asyncio.Future[None]] = []
        self.store_error: str = ""
        """The latest error of the store; empty while it works."""
        self.is_store_damaged = False
        """Is the database itself gone or damaged, so that waiting for it is of no use?"""

    @property
    def waiting(self) -> int:
        """Batches that are not committed yet."""
        return len(self._parcels)

    def oldest_age(self) -> float:
        """Age of the oldest batch in seconds; 0 if there is none."""
        return self._loop.time() - self._parcels[0].put if self._parcels else 0.0

    def unsafe_claims(self) -> set[int]:
        """The tasks whose runs are claimed in batches that are not committed yet."""
        return {claim.task for parcel in self._parcels for claim in parcel.batch.claims}

    def put(self, batch: Batch, then: OnCommit) -> None:
        """Add a batch; `then` is called on the loop when it is committed."""
        self._parcels.append(_WaitingBatch(batch, then, self._loop.time()))
        self._proceed()

    async def wait_committed(self) -> None:
        """Wait until all batches that were put so far are committed."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        try:
            self.put(Batch(), lambda: None if future.done() else future.set_result(None))
            await future
        finally:
            self._waiting.remove(future)

    async def empty(self) -> None:
        """Wait until all batches are committed, also those that are put meanwhile."""
        while self._parcels:
            await self.wait_committed()

    def discard_all(self, why: StoreError) -> None:
        """Drop all waiting batches, as another node has their tasks now. `why` is raised in those who wait for them."""
        self._parcels.clear()
        self._offered = 0
        self._is_busy = False
        self._round += 1
        for future in self._waiting:
            if not future.done():
                future.set_exception(why)

    def close(self) -> None:
        """Offer nothing more: the store is about to be closed."""
        self._round += 1
        self._is_busy = True

    def _proceed(self) -> None:
        while self._parcels and not self._is_busy:
            future = self._offer()
            if not future.done():
                self._wait_for(future, self._round)
                return
            self._settle(future)

    def _offer(self) -> Future[WithdrawnTasks]:
        self._is_busy = True
        self._offered = len(self._parcels)
        self._offered_at = self._loop.time()
        return self._store.record(*[parcel.batch for parcel in self._parcels])

    def _wait_for(self, future: Future[WithdrawnTasks], asked: int) -> None:
        future.add_done_callback(lambda f: self._loop.call_soon_threadsafe(self._answered, asked, f))

    def _answered(self, asked: int, future: Future[WithdrawnTasks]) -> None:
        if asked == self._round:
            self._settle(future)
            self._proceed()

    def _settle(self, future: Future[WithdrawnTasks]) -> None:
        error = future.exception()
        if isinstance(error, StoreError) and not isinstance(error, ContradictoryBatch | LeaseLost):
            if str(error) != self.store_error:
                _log.error("the store cannot take anything: %s", error, extra={"action": "store_failing"})
            self.store_error = str(error)
            self.is_store_damaged = isinstance(error, DatabaseDamaged)
            self._loop.call_later(_RETRY_DELAY, self._again, self._round)
            return
        if error is not None:
            self._on_failure(error)
            return
        if self.store_error:
            _log.warning("the store works again", extra={"action": "store_works"})
        self.store_error, self.is_store_damaged = "", False
        self._is_busy = False
        self.commit_seconds.add_one(self._loop.time() - self._offered_at)
        kept = [self._parcels.popleft() for _ in range(self._offered)]
        if withdrawn := future.result():
            self.on_withdrawn(withdrawn)
        if self._parcels:  # the store works on these meanwhile
            self._wait_for(self._offer(), self._round)
        for parcel in kept:
            try:
                parcel.then()
            except Exception as e:  # the other batches are committed too, so call theirs
                self._on_failure(e)

    def _again(self, asked: int) -> None:
        if asked == self._round:
            self._is_busy = False
            self._proceed()
