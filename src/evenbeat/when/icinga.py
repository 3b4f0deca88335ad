"""Icinga 2's scheduling rule, for fidelity and comparison: a grid that moves, each time following from the last.

In floating seconds, as published, for columns of checks; and in the whole microseconds in which a node counts.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.model import SECOND

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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


def icinga_after(executed: Ints, every: Ints, phase: Ints) -> Ints:
    """`icinga_next` in microseconds, by the phase that `spread.icinga_phase` made of the offset: the nominal time that
    follows an execution at this time.
    """
    offset = -phase % every
    adjustment = np.where(every > SECOND, (executed + offset) % every, 0)
    most = SECOND // 2 + offset % np.maximum(every // 20, 1)
    following: Ints = executed - np.minimum(adjustment, most) + every
    return following


def icinga_first(started: float, interval: Floats, uniform: Floats) -> Floats:
    """Icinga 2's first check after a start: at random within the interval, at most a minute."""
    return started + np.minimum(interval, START_WINDOW) * uniform
