"""Slices: work on the loop of the node is done a little at a time, and turns happen in between."""

import asyncio
import time
from typing import Final

SLICE: Final = 0.001
"""Seconds: no turn waits for longer than about this."""


class Slices:
    """Counts the time that was taken since the loop had its turn."""

    def __init__(self) -> None:
        self._begun = 0.0

    def begin(self) -> None:
        """The work begins now, or goes on after the loop had its turn."""
        self._begun = time.monotonic()

    async def yield_to_turns(self) -> None:
        """Let turns happen if a slice has passed, and leave them and the threads of the store as much time as it took.

        Without the rest, Python's lock would stay with this thread: each statement of a commit, for which a turn waits,
        would get it only after the 5 ms of `sys.getswitchinterval`.
        """
        if time.monotonic() - self._begun > SLICE:
            await asyncio.sleep(SLICE)
            self._begun = time.monotonic()
