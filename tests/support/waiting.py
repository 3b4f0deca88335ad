"""Wait for something that happens soon, in threads and on event loops; fail with words if it does not."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE: Final = 120.0
"""Seconds until a test gives up: only something broken needs them."""
_PAUSE: Final = 0.01
"""Seconds between two looks ..."""
_PAUSE_FACTOR: Final = 4
"""... or so many times what a look took, so that looking keeps no core busy that the others need."""
T = TypeVar("T")


def eventually(question: Callable[[], T], what: str = "what the test waits for", patience: float = PATIENCE) -> T:
    """The first answer that is true."""
    deadline = time.monotonic() + patience
    while True:
        began = time.monotonic()
        if answer := question():
            return answer
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(max(_PAUSE, _PAUSE_FACTOR * (time.monotonic() - began)))


async def eventually_async(
    question: Callable[[], T], what: str = "what the test waits for", patience: float = PATIENCE, pause: float = _PAUSE
) -> T:
    """The first answer that is true, while the event loop of the test goes on."""
    deadline = time.monotonic() + patience
    while not (answer := question()):
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(pause)
    return answer
