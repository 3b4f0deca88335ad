"""Slices: work on the loop of the node is done a little at a time, and turns happen in between."""

import asyncio
import time
from typing import Final

SLICE: Final = 0.002
"""Seconds: no turn waits for longer than about this."""


class Slices:
    """Counts the time that was taken since the loop had its turn."""

    def __init__(self) -> None:
        self._begun = 0.0

    def begin(self) -> None:
        """The work begins now, or goes on after the loop had its turn."""
        self._begun = time.monotonic()

    async def yield_to_turns(self) -> None:
        """Let turns happen if a slice has passed."""
        if time.monotonic() - self._begun > SLICE:
            await asyncio.sleep(0)
            self._begun = time.monotonic()
