"""A thread pool for work that would block the event loop, shared fairly: each caller has a few threads at a time.

All requests share one loop. Work that can take more than some milliseconds (reading the store, decoding a large body,
checking definitions, computing plans) runs here.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Final, TypeVar

from evenbeat.api.http.errors import HttpError

THREADS: Final = 12
MAX_RUNNING_PER_CALLER: Final = 4
"""Running at once for one caller: a third of the threads, so that it takes three callers to occupy all."""
MAX_WAITING_PER_CALLER: Final = 100
"""Waiting for one caller; further requests are refused."""
T = TypeVar("T")

_current_caller: Final[ContextVar[str]] = ContextVar("caller", default="")


def set_current_caller(caller: str) -> None:
    """Set on whose behalf this request works from here on: the name of a token, or an address."""
    _current_caller.set(caller)


class _CallerQueue:
    """The requests of one caller that run or wait."""

    def __init__(self) -> None:
        self.threads = asyncio.Semaphore(MAX_RUNNING_PER_CALLER)
        self.requests = 0


class FairThreadPool:
    """The threads of an api process."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "work")
        self._lanes: dict[str, _CallerQueue] = {}

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` when it is this caller's turn; raise 429 if too many of the caller's requests wait."""
        caller = _current_caller.get()
        if not caller:
            # The caller is not identified yet: reading the tokens must not wait for authenticated callers.
            return await asyncio.to_thread(work)
        lane = self._lanes.setdefault(caller, _CallerQueue())
        if lane.requests >= MAX_RUNNING_PER_CALLER + MAX_WAITING_PER_CALLER:
            running, waiting = MAX_RUNNING_PER_CALLER, MAX_WAITING_PER_CALLER
            detail = f"{running} requests of {caller} are running and {waiting} are waiting; accepted: no more"
            raise HttpError(429, detail, headers={"retry-after": "1"})
        lane.requests += 1
        try:
            async with lane.threads:
                loop, context = asyncio.get_running_loop(), copy_context()
                return await loop.run_in_executor(self._threads, lambda: context.run(work))
        finally:
            lane.requests -= 1
            if not lane.requests and self._lanes.get(caller) is lane:
                del self._lanes[caller]

    def close(self) -> None:
        """Refuse further work. Work under way is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
