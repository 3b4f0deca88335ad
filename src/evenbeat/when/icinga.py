"""Icinga 2's scheduling rule, for fidelity and comparison: a grid that moves, each time following from the last.

In floating seconds, as published, for columns of checks.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

START_WINDOW: Final = 60.0
"""Seconds after a start within which Icinga 2 makes every first check."""


def icinga_next(now: Floats, interval: Floats, offset: Floats) -> Floats:
    """Icinga 2's next check time by its published rule, in seconds, for columns of checks."""
    return now - icinga_adjustment(now, interval, offset) + interval


def icinga_adjustment(now: Floats, interval: Floats, offset: Floats) -> Floats:
    """How long before `now + interval` that is: the way to a fixed grid, capped per step, nothing once on it."""
    adjustment = np.where(interval > 1, np.fmod(now * 100 + offset, interval * 100) / 100, 0.0)
    capped = np.minimum(0.5 + np.fmod(offset, interval * 5) / 100, adjustment)
    return np.where(adjustment != 0.0, capped, adjustment)


def icinga_first(started: float, interval: Floats, uniform: Floats) -> Floats:
    """Icinga 2's first check after a start: at random within the interval, at most a minute."""
    return started + np.minimum(interval, START_WINDOW) * uniform
