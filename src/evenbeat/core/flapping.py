"""Flapping: a check whose state changes again and again, until it has calmed down; by columns."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Changes = NDArray[np.uint32]
"""One bit per result: did it change the state? Newest in bit 0."""

FLAP_WINDOW: Final = 20
"""Results that count."""
FLAPPING_STOPS_BELOW: Final = 25.0
FLAPPING_STARTS_ABOVE: Final = 30.0
"""Percent of weighted state changes in the window; two thresholds, so that flapping itself does not flap."""
_FLAP_WEIGHTS: Final = np.linspace(1.2, 0.8, FLAP_WINDOW)
"""Newest first: recent changes count half as much again as old ones; they average to 1."""
_FLAP_MASK: Final = (1 << FLAP_WINDOW) - 1


def changes_with(before: Changes, differs: Bools) -> Changes:
    """The changes once there is one more result, which may differ from the state before."""
    return (((before << 1) | differs) & _FLAP_MASK).astype(np.uint32)


def flap_percent(changes: Changes) -> NDArray[np.float64]:
    """How much of the window is changes, the recent ones weighing more."""
    bits = (changes[:, None] >> np.arange(FLAP_WINDOW, dtype=np.uint32)) & 1
    percent: NDArray[np.float64] = bits @ _FLAP_WEIGHTS * (100.0 / FLAP_WINDOW)
    return percent


def is_flapping(changes: Changes, was: Bools) -> Bools:
    """Do these checks flap now? `was`: they did until their latest results."""
    percent = flap_percent(changes)
    return np.where(was, percent >= FLAPPING_STOPS_BELOW, percent > FLAPPING_STARTS_ABOVE)
