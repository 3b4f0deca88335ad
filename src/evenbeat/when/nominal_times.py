"""The interface of every kind of schedule: nominal times forwards, backwards, and over a span of time."""

from collections.abc import Iterator
from typing import Final, Protocol

from evenbeat.model import HOUR, Instant

CLOCK_CORRECTION_LIMIT: Final = 3 * HOUR
"""Debian's cron takes a step of the clock up to this for a change like DST, and a larger one for a correction."""


class ForwardSchedule(Protocol):
    """A schedule that knows its next nominal time."""

    def next_after(self, t: Instant) -> Instant | None:
        """The first nominal time strictly after `t`."""


class SharedTimes(ForwardSchedule, Protocol):
    """Times that many tasks can share."""

    @property
    def repeats_after(self) -> int:
        """Set back by more than this, the clock brings the same times again; by less, they do not happen twice."""

    def previous_before(self, t: Instant) -> Instant | None:
        """The last nominal time strictly before `t`."""


class ListedSchedule(ForwardSchedule, Protocol):
    """A schedule that also lists its nominal times."""

    def between(self, start: Instant, end: Instant) -> Iterator[Instant]:
        """Every nominal time t with start <= t < end, in order."""


class CompiledSchedule(ListedSchedule, SharedTimes, Protocol):
    """A schedule that knows the past as well."""


def nominal_times_between(schedule: ForwardSchedule, start: Instant, end: Instant) -> Iterator[Instant]:
    """Every nominal time t with start <= t < end, one `next_after` after the other."""
    t = schedule.next_after(Instant(start - 1))
    while t is not None and t < end:
        yield t
        t = schedule.next_after(t)
