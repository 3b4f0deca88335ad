"""The spread strategies with a fixed phase, one small function each. (Icinga's moves: see `icinga`.)

Randomness comes in as an argument.
"""

from typing import TYPE_CHECKING, Final

from evenbeat.model import SECOND, Instant, Spread
from evenbeat.when.hashing import PHASE_NUMBER, stable_number

if TYPE_CHECKING:
    from evenbeat.when.wheel import LoadWheel

RAND_MAX: Final = 2**31 - 1
"""Icinga's offsets are whole numbers from 0 to this."""
EPOCH: Final = Instant(0)


def even_phase(wheel: "LoadWheel", every: int, weight: float = 1.0) -> int:
    """The least-loaded slot of the wheel; stable because it is kept with the task. `LoadWheel.place_all` for many."""
    return wheel.place(every, weight)


def hash_phase(name: str, every: int) -> int:
    """A fraction of the interval given by the name alone: no state at all."""
    return stable_number(name, PHASE_NUMBER) * every >> 64


def bergamot_phase(every: int, first_scheduled: Instant, uniform: float) -> int:
    """A random delay within the first interval, then every interval. `uniform` is in [0, 1)."""
    return (first_scheduled + int(uniform * every)) % every


def icinga_phase(offset: int, every: int) -> int:
    """Where Icinga's moving grid leads to: the phase at which its rule adjusts nothing any more.

    The rule goes by no more of the offset than this tells, so that keeping the phase with a task keeps the offset.
    """
    return -offset * (SECOND // 100) % every


def drawn_phase(strategy: Spread, every: int, uniform: float, first_scheduled: Instant = EPOCH) -> int:
    """The phase under a strategy that draws a lot, `uniform` in [0, 1): Bergamot's delay, or Icinga's offset."""
    if strategy is Spread.ICINGA:
        return icinga_phase(int(uniform * (RAND_MAX + 1)), every)
    return bergamot_phase(every, first_scheduled, uniform)


def aligned_phase() -> int:
    """On the minute, on the hour: everybody at once."""
    return 0
