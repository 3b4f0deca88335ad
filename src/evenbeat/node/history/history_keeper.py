"""Has the history compacted beside the turns of a node: on a thread of its own, in slices, with pauses in between."""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from evenbeat.node.history.compactor import Compactor
from evenbeat.store.contract import Filter, Store, StoreError
from evenbeat.store.history_contract import PartGone

_INTERVAL: Final = 20.0
"""Seconds between two looks at what is due."""
_SLICE: Final = 0.01
"""Seconds that the thread works at once, or little more."""
_PAUSE: Final = 4
"""The pause after a slice, as a multiple of it: a fifth of one core at most."""
_RETRY: Final = 300.0
"""Seconds until the next attempt after the store has failed."""
_TASKS_AT_ONCE: Final = 1_000
_log: Final = logging.getLogger("evenbeat.node")


def tasks_of(store: Store) -> Iterator[list[int]]:
    """The numbers of the tasks that exist, some at a time: there may be millions."""
    yield [entry.number for entry in store.removed_running()]
    after = ""
    while found := list(store.entries(Filter(after=after, most=_TASKS_AT_ONCE))):
        yield [entry.number for entry in found]
        after = found[-1].task.name


class HistoryKeeper:
    """Compacts as long as this node is the one to do it."""

    def __init__(
        self, compactor: Compactor, is_ours: Callable[[], bool], begin_measuring: Callable[[], Callable[[], None]]
    ) -> None:
        """`is_ours`: exactly one node of a cluster compacts. `begin_measuring` is called on the loop after each round,
        and what it returns on the thread.
        """
        self._begin_measuring = begin_measuring
        self._compactor = compactor
        self._is_ours = is_ours
        self._thread = ThreadPoolExecutor(1, "history")
        self._steps: Generator[None, None, None] | None = None
        """Of the round that is under way; used on the thread alone."""
        self._failing = ""

    async def run(self) -> None:
        """Compact until cancelled; a failing store is logged once, and tried again later."""
        while True:
            await asyncio.sleep(_RETRY if self._failing else _INTERVAL)
            try:
                await self._make_round()
            except PartGone:
                _log.debug("another node has compacted the history meanwhile", extra={"action": "part_gone"})
            except StoreError as e:
                if str(e) != self._failing:
                    _log.error("the history is not compacted: %s", e, extra={"action": "store_failing"})
                self._failing = str(e)
            else:
                if self._failing:
                    _log.info("the history is compacted again", extra={"action": "store_works"})
                self._failing = ""

    async def stop(self) -> None:
        """Wait for the slice under way; what it has not finished is begun anew by the next node."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._give_up)
        self._thread.shutdown()

    async def _make_round(self) -> None:
        loop = asyncio.get_running_loop()
        is_over = False
        while self._is_ours() and not is_over:
            is_over, took = await loop.run_in_executor(self._thread, self._work)
            await asyncio.sleep(took * _PAUSE)
        if is_over:
            await loop.run_in_executor(self._thread, self._begin_measuring())
        else:
            await loop.run_in_executor(self._thread, self._give_up)

    def _work(self) -> tuple[bool, float]:
        """One slice. Whether the round is over, and how many seconds it took."""
        begun = time.monotonic()
        if self._steps is None:
            self._steps = self._compactor.round()
        try:
            for _ in self._steps:
                if (took := time.monotonic() - begun) >= _SLICE:
                    return False, took
        except BaseException:
            self._steps = None
            raise
        self._steps = None
        return True, time.monotonic() - begun

    def _give_up(self) -> None:
        """Close the round, and what it reads of the store."""
        if self._steps is not None:
            self._steps.close()
            self._steps = None
