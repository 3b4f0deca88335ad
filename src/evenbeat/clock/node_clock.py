"""The node's clock: the wall clock as read once, carried on by the boot-time clock, which cannot be set.

Small differences are followed smoothly. A larger one is a step: the clock was set, and the node must know.
"""

from collections.abc import Callable
from typing import Final

from evenbeat.clock.system_clock import boot_time, wall_time
from evenbeat.model import SECOND, Instant

MIN_CLOCK_STEP: Final = SECOND
"""A clock that differs by more than this was set; by less, NTP adjusts it."""
_MAX_SLEW: Final = SECOND // 100
"""A node's clock that is ahead is slowed down by at most this at each comparison."""


class Clock:
    """Reads the time. It goes back only in `compare`, when the wall clock was set back."""

    def __init__(self, wall: Callable[[], int] = wall_time, boot: Callable[[], int] = boot_time) -> None:
        self._wall = wall
        self._boot = boot
        self.offset = wall() - boot()
        """The node's time less the boot-time clock. Workers get it too."""
        self._latest = boot() + self.offset

    def now(self) -> Instant:
        self._latest = max(self._latest, self._boot() + self.offset)
        return Instant(self._latest)

    def elapsed(self) -> int:
        """Microseconds on the boot-time clock, for measuring how long something takes."""
        return self._boot()

    def compare(self) -> int:
        """Compare with the wall clock, about once a second. Returns by how much that was set; 0 if it was not.

        After a step the node's clock is the wall clock again; what that means for tasks is for the node to settle.
        """
        difference = self._wall() - self._boot() - self.offset
        if abs(difference) > MIN_CLOCK_STEP:
            self.offset += difference
            self._latest = self._boot() + self.offset
            return difference
        self.offset += max(difference, -_MAX_SLEW)
        return 0
