"""Work that would hold up the event loop goes to threads: a few at once for each caller, so that others get theirs.

The loop answers everybody. Whatever can take more than some milliseconds (reading the store, decoding a large body,
checking definitions, computing plans) runs here.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Final, TypeVar

from evenbeat.api.http.errors import Problem

THREADS: Final = 12
AT_ONCE: Final = 4
"""Of one caller; a third of the threads, so that three callers are needed to take all of them."""
WAITING: Final = 100
"""Of one caller: what comes on top is refused."""
T = TypeVar("T")

_caller: Final[ContextVar[str]] = ContextVar("caller", default="")


def work_for(caller: str) -> None:
    """From here on this request works on behalf of this caller: the name of a token, or an address."""
    _caller.set(caller)


class _Lane:
    """What one caller has in work."""

    def __init__(self) -> None:
        self.threads = asyncio.Semaphore(AT_ONCE)
        self.requests = 0


class Workshop:
    """The threads of an api process."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "work")
        self._lanes: dict[str, _Lane] = {}

    async def do(self, work: Callable[[], T]) -> T:
        """Its result, as soon as it is this caller's turn; raise 429 if too much of theirs is waiting."""
        caller = _caller.get()
        if not caller:
            # Who it is has not been found out yet: to read the tokens must not wait for those who have one.
            return await asyncio.to_thread(work)
        lane = self._lanes.setdefault(caller, _Lane())
        if lane.requests >= AT_ONCE + WAITING:
            detail = f"{AT_ONCE} requests of {caller} are being worked on and {WAITING} wait; accepted: so many"
            raise Problem(429, detail, headers={"retry-after": "1"})
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
