"""A crash loop: worker processes die again and again, and as each is replaced at once, nothing stands still."""

from collections import deque
from collections.abc import Mapping
from typing import Final

from evenbeat.model import MINUTE

WITHIN: Final = 5 * MINUTE
DEATHS: Final = 5
"""So many within that time are a loop. It is over when none died for as long."""


class CrashLoop:
    """Of the workers that one node has, or sees."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        """How many processes of each worker had died at the last look."""
        self._deaths: deque[tuple[int, int]] = deque()
        """When how many more had died."""
        self._is_open = False

    def look(self, deaths: Mapping[str, int], now: int) -> int:
        """How many died lately, if that is a loop, else 0. `deaths`: of each worker since it was started; `now` is of a
        clock that is never set. What a worker had lost when it is seen first happened some time before.
        """
        grown = sum(max(0, count - self._known.get(worker, count)) for worker, count in deaths.items())
        # Workers that are out of sight are remembered: one that comes back has lost nothing by that.
        self._known.update(deaths)
        if grown:
            self._deaths.append((now, grown))
        while self._deaths and self._deaths[0][0] <= now - WITHIN:
            self._deaths.popleft()
        total = sum(count for _, count in self._deaths)
        self._is_open = total >= DEATHS or (self._is_open and total > 0)
        return total if self._is_open else 0
