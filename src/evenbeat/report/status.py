"""The status of nodes, counted and added up, whatever node it comes from."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.model import MINUTE, SECOND

UNCHECKED: Final = "unchecked"
"""Beside the states: checks that have no result yet."""
NO_WORKERS_TEXT: Final = "no worker executes anything on this node: it was started with --workers 0"
_LATENESS_CLASSES: Final = {"1-10 s": SECOND, "10-60 s": 10 * SECOND, "1-10 min": MINUTE, "> 10 min": 10 * MINUTE}
"""From what delay on a late task falls into each class."""


def count_by_lateness(delays: NDArray[np.int64]) -> dict[str, int]:
    """How many of these delays, all longer than a second, fall into each class."""
    places = np.searchsorted(list(_LATENESS_CLASSES.values())[1:], delays, side="right")
    found = np.bincount(places, minlength=len(_LATENESS_CLASSES))
    return dict(zip(_LATENESS_CLASSES, map(int, found), strict=True))
