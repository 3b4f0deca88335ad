"""The interval grid: nominal times are `phase + k * every` on the Unix epoch, for one task or a million at once.

Plain integer arithmetic: nothing drifts, whatever the latency or duration, and DST never matters.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from evenbeat.model import Instant, Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Interval:
    """The grid of one task."""

    __slots__ = ("every", "phase")

    repeats_after: Final = 0
    """A grid is a matter of elapsed time: it goes on by the new clock at once."""

    def __init__(self, every: int, phase: int) -> None:
        if not 0 <= phase < every:
            raise Invalid(f"a phase of {phase} us is outside its interval, accepted: 0 to less than {every} us")
        self.every = every
        self.phase = phase

    def next_after(self, t: Instant) -> Instant:
        """The first nominal time strictly after `t`."""
        return Instant(t + self.every - (t - self.phase) % self.every)

    def previous_before(self, t: Instant) -> Instant:
        """The last nominal time strictly before `t`."""
        return Instant(t - 1 - (t - 1 - self.phase) % self.every)

    def between(self, start: Instant, end: Instant) -> Iterator[Instant]:
        """Every nominal time t with start <= t < end, in order."""
        return (Instant(t) for t in range(self.next_after(Instant(start - 1)), end, self.every))


def nominal_after(
    phase: "NDArray[np.int64]", every: "NDArray[np.int64]", t: "Instant | NDArray[np.int64]"
) -> "NDArray[np.int64]":
    """`Interval.next_after` for columns of phases and intervals; after one instant, or after one for each."""
    # (t - phase) % every, in place: on a million rows the temporaries cost as much as the division.
    rest = t - phase
    rest %= every
    rest -= every
    rest -= t
    rest *= -1
    return rest


def nominal_before(phase: "NDArray[np.int64]", every: "NDArray[np.int64]", t: Instant) -> "NDArray[np.int64]":
    """`Interval.previous_before` for columns of phases and intervals."""
    rest = (t - 1) - phase
    rest %= every
    rest -= t - 1
    rest *= -1
    return rest
