"""Sets of time as sorted, disjoint windows [open, close): union, difference, and the part within a stretch."""

from evenbeat.model import FOREVER as FOREVER  # noqa: PLC0414 - the bounds of windows
from evenbeat.model import NEVER as NEVER  # noqa: PLC0414
from evenbeat.model import Instant

Window = tuple[Instant, Instant]


def union(*sets: list[Window]) -> list[Window]:
    """Everything that is in any of them; windows that touch become one."""
    merged: list[Window] = []
    for open_, close in sorted(window for windows in sets for window in windows):
        if merged and open_ <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], close))
        else:
            merged.append((open_, close))
    return merged


def difference(windows: list[Window], holes: list[Window]) -> list[Window]:
    """The parts of `windows` that are outside `holes`."""
    left: list[Window] = []
    at = 0
    for open_, close in windows:
        start = open_
        while at < len(holes) and holes[at][1] <= start:
            at += 1
        i = at
        while i < len(holes) and holes[i][0] < close:
            if holes[i][0] > start:
                left.append((start, holes[i][0]))
            start = max(start, holes[i][1])
            i += 1
        if start < close:
            left.append((start, close))
    return left


def clip(windows: list[Window], start: Instant, end: Instant) -> list[Window]:
    """The part of them within [start, end)."""
    return [(o, c) for o, c in ((max(o, start), min(c, end)) for o, c in windows) if o < c]
