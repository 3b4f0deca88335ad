"""The timetable: which rows are due by now, in exact order, and when the next one is.

Due times are a column. One look at all of it finds the rows due before a *horizon* some segments ahead and sorts them;
until the horizon only these are looked at. Where a crowd is due at once, looking at the column is the cheaper way.
"""

from typing import Final

import numpy as np

from evenbeat.core.columns import Column, Columns, Ints
from evenbeat.model import SECOND, Instant
from evenbeat.when.windows import FOREVER, NEVER

SEGMENT: Final = SECOND
_LONGEST: Final = 600 * SEGMENT
"""Farthest horizon: a look at the column every ten minutes costs nothing worth saving."""
_NEAR_SHARE: Final = 16
"""The horizon is moved so that one row in this many is near: sorting these costs about as much as finding them."""
_CROWD_SHARE: Final = 4
"""If more than one row in this many is near, the near rows are not worth keeping."""
_NO_ROWS: Final[Ints] = np.empty(0, dtype=np.int64)


class DueColumns(Columns):
    """What the timetable knows of a task."""

    due = Column(np.int64, FOREVER)
    """From NEVER to FOREVER. Only the timetable (and `free`) may write it: it must know which rows come nearer."""


class Timetable:
    """When is which row due? FOREVER means not at all, as for every row just allocated or freed.

    Every row due before the horizon is either *ahead*, in order, with the due it had when last looked at, or *loose*:
    set since, or arrived and not set yet. Rows in either that have moved away are dropped when they are met.
    """

    def __init__(self, columns: DueColumns) -> None:
        self._columns = columns
        self._span = 8 * SEGMENT
        self._next_ahead = 0
        self._loose: list[Ints] = []
        self._loose_count = 0
        self._keep(NEVER, _NO_ROWS, _NO_ROWS)

    def set_due(self, rows: Ints, times: Ints | Instant) -> None:
        """Set when rows are due, all at one time or each at its own; of a row given twice the last time counts."""
        self._columns.due[rows] = times
        near = times < self._horizon
        nearer = rows[near] if isinstance(near, np.ndarray) else rows if near else _NO_ROWS
        if len(nearer):
            self._loosen(nearer)

    def set_one(self, row: int, time: Instant) -> None:
        """`set_due` for a single row, without making arrays of it."""
        self._columns.due[row] = time
        if time < self._horizon:
            self._loosen(np.array([row]))

    def arrived(self, now: Instant) -> Ints:
        """The rows with due <= now, in order of due, then of row. They stay until their due is set anew."""
        now = min(now, Instant(FOREVER - 1))
        due = self._columns.due
        # Too far behind the horizon, after the clock was set back, nearly everything would count as near.
        if not self._horizon - _LONGEST <= now < self._horizon and not self._look_ahead(now):
            rows = np.flatnonzero(due <= now)
            return _in_order(rows, due[rows])[0]
        start = self._next_ahead
        end = start + int(self._ahead_due[start:].searchsorted(now, side="right"))
        ahead: Ints = self._ahead[start:end]
        ahead = ahead[due[ahead] == self._ahead_due[start:end]]
        self._next_ahead = end
        loose = self._all_loose()
        loose_due = due[loose]
        late = loose[loose_due <= now]
        self._loose = [np.concatenate([loose[loose_due < self._horizon], ahead])]
        self._loose_count = len(self._loose[0])
        if not len(late):
            return ahead
        both: Ints = np.concatenate([late, ahead])
        return _in_order(both, due[both])[0]

    def next_due(self) -> Instant:
        """When the next row is due, or has been since; FOREVER if none is."""
        due = self._columns.due
        first = min(int(due[self._all_loose()].min(initial=FOREVER)), self._first_ahead())
        if first >= self._horizon:
            first = int(due.min(initial=FOREVER))
        return Instant(first)

    def _look_ahead(self, now: Instant) -> bool:
        """Move the horizon and find the rows before it, unless they are a crowd."""
        due = self._columns.due
        horizon = Instant(min(now + self._span, FOREVER))
        soon = due < horizon
        count = int(np.count_nonzero(soon))
        self._span = min(max(self._span * len(due) // (_NEAR_SHARE * max(count, 1)), SEGMENT), _LONGEST)
        if count * _CROWD_SHARE > len(due):
            self._keep(NEVER, _NO_ROWS, _NO_ROWS)
            return False
        rows = np.flatnonzero(soon)
        self._keep(horizon, *_in_order(rows, due[rows]))
        return True

    def _keep(self, horizon: Instant, ahead: Ints, ahead_due: Ints) -> None:
        self._horizon = horizon
        self._ahead = ahead
        self._ahead_due = ahead_due
        self._next_ahead = 0
        self._loose = []
        self._loose_count = 0

    def _loosen(self, rows: Ints) -> None:
        self._loose.append(rows)
        self._loose_count += len(rows)
        # A crowd, or few rows set again and again: either way it is time for a look at the column.
        if self._loose_count * _CROWD_SHARE > len(self._columns):
            self._keep(NEVER, _NO_ROWS, _NO_ROWS)

    def _all_loose(self) -> Ints:
        if len(self._loose) > 1:
            self._loose = [np.concatenate(self._loose)]
        return self._loose[0] if self._loose else _NO_ROWS

    def _first_ahead(self) -> int:
        """The due of the first row ahead that has not moved away since."""
        while self._next_ahead < len(self._ahead):
            few = slice(self._next_ahead, self._next_ahead + 256)
            stayed = np.flatnonzero(self._columns.due[self._ahead[few]] == self._ahead_due[few])
            if len(stayed):
                self._next_ahead += int(stayed[0])
                return int(self._ahead_due[self._next_ahead])
            self._next_ahead += 256
        return FOREVER


def _in_order(rows: Ints, due: Ints) -> tuple[Ints, Ints]:
    """Sorted by due, then by row, each row once; and their dues."""
    if len(rows) < 2:
        return rows, due
    first = int(due.min())
    bits = int(rows.max()).bit_length()
    if (int(due.max()) - first).bit_length() + bits < 64:
        # Both in one number: sorting numbers is several times faster than finding the order of two columns.
        keys = ((due - first) << bits) | rows
        keys.sort()
        rows, due = keys & ((1 << bits) - 1), (keys >> bits) + first
    else:
        order = np.lexsort((rows, due))
        rows, due = rows[order], due[order]
    again = rows[1:] == rows[:-1]
    if again.any():
        once = np.append(True, ~again)
        rows, due = rows[once], due[once]
    return rows, due
