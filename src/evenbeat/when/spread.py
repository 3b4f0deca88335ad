"""The spread strategies with a fixed phase, one small function each. (Icinga's moves: see `icinga`.)

Randomness comes in as an argument.
"""

from typing import TYPE_CHECKING

from evenbeat.model import Instant
from evenbeat.when.hashing import PHASE_WORD, word

if TYPE_CHECKING:
    from evenbeat.when.wheel import LoadWheel


def even_phase(wheel: "LoadWheel", every: int, weight: float = 1.0) -> int:
    """The least-loaded slot of the wheel; stable because it is kept with the task. `LoadWheel.place_all` for many."""
    return wheel.place(every, weight)


def hash_phase(name: str, every: int) -> int:
    """A fraction of the interval given by the name alone: no state at all."""
    return word(name, PHASE_WORD) * every >> 64


def bergamot_phase(every: int, first_scheduled: Instant, uniform: float) -> int:
    """A random delay within the first interval, then every interval. `uniform` is in [0, 1)."""
    return (first_scheduled + int(uniform * every)) % every


def aligned_phase() -> int:
    """On the minute, on the hour: everybody at once."""
    return 0
