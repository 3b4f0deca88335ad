"""A row of little bars that shows in a terminal how even a load is, one for each part of the time."""

import sys
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

BLOCKS: Final = "▁▂▃▄▅▆▇█"
_PLAIN: Final = str.maketrans(BLOCKS, "_.,-=+*#")
_COLUMNS: Final = 60


def peaks(curve: NDArray[np.float64]) -> list[float]:
    """The peak of each part of a curve, for one bar each."""
    return [float(part.max()) for part in np.array_split(curve, min(_COLUMNS, len(curve)))]


def load_bars(heights: Sequence[int]) -> str:
    """Bars of these heights, of which 0 is the lowest; too large ones are as high as can be."""
    return as_shown("".join(BLOCKS[min(max(height, 0), len(BLOCKS) - 1)] for height in heights))


def as_shown(text: str) -> str:
    """A text with bars as this terminal can show it."""
    return text if _can_show_blocks() else text.translate(_PLAIN)


def _can_show_blocks() -> bool:
    return (sys.stdout.encoding or "utf8").lower().replace("-", "").startswith("utf")
