"""The timebox: how long may a run last, and when is it killed? For the core and for workers.

A worker imports this without numpy; plain integers in microseconds throughout.
"""

from typing import Final, NamedTuple

from evenbeat.model import DAY, HOUR, SECOND, Instant

CHECK_TIMEBOX: Final = 60 * SECOND
"""A check that has not answered within a minute has a result: UNKNOWN."""
NO_TIMEBOX: Final = 36_525 * DAY
"""A hundred years: the timebox of a run that nothing ends."""
LEAST_USUAL_LENGTH: Final = HOUR
"""Shorter runs are not unusually long, unless their task says so."""
LONGEST_KILL_AFTER: Final = 5 * SECOND


def default_timebox(interval: int | None, *, check: bool) -> int:
    """A check has a minute, and is gone before the next one is due. A task has no timebox unless it says so: a job that
    ran as long as it needed elsewhere is not killed by a default that nobody chose.
    """
    if not check:
        return NO_TIMEBOX
    return CHECK_TIMEBOX if interval is None else min(CHECK_TIMEBOX, gone_within(interval))


def gone_within(interval: int) -> int:
    """The longest timebox after which a run has ended, killed if it must be, when the interval is over."""
    return interval - LONGEST_KILL_AFTER if interval >= 3 * LONGEST_KILL_AFTER else interval * 2 // 3


def usual_length(longer_than: int | None, interval: int | None) -> int:
    """A run that lasts longer is unusually long: as its task says, by default twice its interval, at least an hour."""
    return longer_than or max(2 * (interval or 0), LEAST_USUAL_LENGTH)


def kill_after(timebox: int) -> int:
    """How long after SIGTERM the SIGKILL follows."""
    return min(LONGEST_KILL_AFTER, timebox // 2)


class Timebox(NamedTuple):
    """How long one run may last, from the moment it started."""

    started: Instant
    length: int
    """NO_TIMEBOX if nothing ends it."""

    @property
    def ends(self) -> Instant:
        return Instant(self.started + self.length)

    @property
    def kills(self) -> Instant:
        """When what still runs is killed."""
        return Instant(self.ends + kill_after(self.length))

    def remaining(self, now: Instant) -> int:
        """Time left, never negative."""
        return max(self.ends - now, 0)

    def is_expired(self, now: Instant) -> bool:
        return now >= self.ends
