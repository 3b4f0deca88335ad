"""The clock of the database, which all nodes of a cluster share."""

from collections.abc import Callable
from typing import Final

from evenbeat.clock.system_clock import boot_time

CLOCK_SAMPLES: Final = 8
"""Readings of the database's clock of which the one with the shortest round trip counts."""


class DatabaseClock:
    """The database's time, extrapolated by the boot-time clock of this machine between readings."""

    def __init__(self, boot: Callable[[], int] = boot_time) -> None:
        self._boot = boot
        self._samples: list[tuple[int, int]] = []
        """The round trip of each reading, and the offset that it gives."""
        self._offset = 0

    def learn(self, asked: int, time: int, answered: int) -> None:
        """The database was asked and answered at these boot times, and gave this time."""
        self._samples = [*self._samples[1 - CLOCK_SAMPLES :], (answered - asked, time - (asked + answered) // 2)]
        length, offset = min(self._samples)
        newest, latest = self._samples[-1]
        # A clock that was set differs by more than the round trip can explain: then only the newest reading counts.
        if abs(latest - offset) > length + newest:
            self._samples, offset = [(newest, latest)], latest
        self._offset = offset

    def now(self) -> int:
        return self._boot() + self._offset
