"""Work that would hold up the event loop goes to threads: a few at once for each caller, so that others get theirs.

The loop answers everybody. Whatever can take more than some milliseconds (reading the store, decoding a large body,
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
"""Of one caller; a third of the threads, so that three callers are needed to take all of them."""
MAX_WAITING_PER_CALLER: Final = 100
"""Of one caller: what comes on top is refused."""
T = TypeVar("T")

_current_caller: Final[ContextVar[str]] = ContextVar("caller", default="")


def set_current_caller(caller: str) -> None:
    """From here on this request works on behalf of this caller: the name of a token, or an address."""
    _current_caller.set(caller)


class _CallerQueue:
    """What one caller has in work."""

    def __init__(self) -> None:
        self.threads = asyncio.Semaphore(MAX_RUNNING_PER_CALLER)
        self.requests = 0


class FairThreadPool:
    """The threads of an api process."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "work")
        self._lanes: dict[str, _CallerQueue] = {}

    async def run(self, work: Callable[[], T]) -> T:
        """Its result, as soon as it is this caller's turn; raise 429 if too much of theirs is waiting."""
        caller = _current_caller.get()
        if not caller:
            # Who it is has not been found out yet: to read the tokens must not wait for those who have one.
            return await asyncio.to_thread(work)
        lane = self._lanes.setdefault(caller, _CallerQueue())
        if lane.requests >= MAX_RUNNING_PER_CALLER + MAX_WAITING_PER_CALLER:
            running, waiting = MAX_RUNNING_PER_CALLER, MAX_WAITING_PER_CALLER
            detail = f"{running} requests of {caller} are being worked on and {waiting} wait; accepted: so many"
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
        """What is under way ends by itself; nobody waits for it."""
        self._threads.shutdown(wait=False, cancel_futures=True)
