"""Problems that time brings and takes away, not a result: an expected result is missing, a run lasts unusually long.

They are looked for now and then by what is true at that moment; a task has them beside the one of `core.problems`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.alerts import Hold
from evenbeat.core.columns import Ints
from evenbeat.core.freshness import are_stale
from evenbeat.core.task import Flag, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import MINUTE, Cause, Instant, State

STATE_OF: Final = {Cause.STALE: State.UNKNOWN, Cause.LONG: State.WARNING}
"""The causes of timed problems, and how severe they are."""
LEAST_DELAY: Final = MINUTE
"""A result that is less late is not worth a problem, however often its task runs."""
_EXPECTS_RESULTS: Final = int(Flag.ENABLED | Flag.MINE | Flag.REACHABLE | Flag.PERMITTED)
_EXPECTS_NONE: Final = int(Flag.PASSIVE | Flag.REMOVED | Flag.LEAVING | Flag.NOTHING_TO_RUN | Flag.CHAINED)
"""Results of passive checks that do not come make them HARD: `passive_results` sees to that. Tasks that follow others
have no time by which they should have run.
"""


class TimedUpdate(NamedTuple):
    """A timed problem has opened or closed."""

    number: int
    """Of the task."""
    cause: Cause
    opened: int
    at: int
    is_open: bool


class TimedHold(NamedTuple):
    """An open timed problem is held for another reason than before, or not any more."""

    number: int
    cause: Cause
    opened: int
    hold: Hold
    at: int


class TimedProblems:
    """Which of them are open, by the number of the task."""

    def __init__(self) -> None:
        self._opened: dict[tuple[int, Cause], int] = {}
        self._holds: dict[tuple[int, Cause], Hold] = {}
        """What holds some of them, as recorded."""
        self.without_result: set[int] = set()
        """Tasks whose result is missing, and that have had none since."""
        self._from_before: set[int] = set()
        """Tasks whose result was missing before a stop or a standstill. Their timetable began anew then, so only a
        result says that it is not missing any more.
        """

    def restore(self, number: int, cause: Cause, opened: int, hold: Hold = Hold.NONE) -> None:
        """This one is open already."""
        self._opened[number, cause] = opened
        self._holds[number, cause] = hold
        if cause is Cause.STALE:
            self.without_result.add(number)
            self._from_before.add(number)

    def timetable_begins_anew(self) -> None:
        """The node stood still, or the clock was set: what was due is not due any more, but missing all the same."""
        self._from_before.update(self.numbers(Cause.STALE))

    def learn_results(self, numbers: Iterable[int]) -> None:
        """These tasks had results."""
        self.without_result.difference_update(numbers)

    def missing_from_before(self) -> set[int]:
        """Tasks whose result was missing before a stop or a standstill, and has not come since."""
        return self._from_before & self.without_result

    def compare(
        self, cause: Cause, found: Collection[int], is_here: Callable[[int], bool], now: Instant
    ) -> list[TimedUpdate]:
        """These tasks, and no others, have this problem now. What is open of tasks that are not here stays as it is:
        the removal of a task closes its problems, and its return opens them again.
        """
        over = [number for number, of in self._opened if of is cause and number not in found and is_here(number)]
        new = [number for number in found if (number, cause) not in self._opened]
        for number in (*over, *new):
            self._holds.pop((number, cause), None)
        if cause is Cause.STALE:
            self._from_before.difference_update(over)
            self.without_result.difference_update(over)
            self.without_result.update(new)
        closed = [
            TimedUpdate(n, cause, (began := self._opened.pop((n, cause))), max(now, began), is_open=False) for n in over
        ]
        self._opened.update(((number, cause), now) for number in new)
        return closed + [TimedUpdate(number, cause, now, now, is_open=True) for number in new]

    def forget(self, numbers: Collection[int]) -> None:
        """Another node has these tasks now."""
        for number in numbers:
            for cause in STATE_OF:
                self._opened.pop((number, cause), None)
                self._holds.pop((number, cause), None)
        self._from_before.difference_update(numbers)
        self.without_result.difference_update(numbers)

    def hold(self, holds: Mapping[int, Hold], now: Instant) -> list[TimedHold]:
        """What holds the problems of these tasks now; those that are held for another reason than before."""
        changed = []
        for (number, cause), opened in self._opened.items():
            hold = holds.get(number)
            if hold is not None and hold is not self._holds.get((number, cause), Hold.NONE):
                self._holds[number, cause] = hold
                changed.append(TimedHold(number, cause, opened, hold, now))
        return changed

    def tasks(self) -> list[int]:
        """The numbers of the tasks with such a problem."""
        return list({number for number, _ in self._opened})

    def numbers(self, cause: Cause) -> list[int]:
        """The tasks with an open problem of this cause."""
        return [number for number, of in self._opened if of is cause]

    def count_by_state(self) -> dict[State, int]:
        """How many are open, by their state."""
        return Counter(STATE_OF[cause] for _, cause in self._opened)


def expecting_results(columns: TaskColumns, rows: Ints) -> Ints:
    """Those of these tasks whose own runs should bring results now."""
    flags = columns.flags[rows]
    found: Ints = rows[(flags & _EXPECTS_RESULTS == _EXPECTS_RESULTS) & (flags & _EXPECTS_NONE == 0)]
    return found


def rows_without_result(
    columns: TaskColumns, times: ScheduleTimes, timebox: Ints, now: Instant, since: Instant
) -> Ints:
    """Tasks whose next result should have been there by now, all with their own runs. `timebox` is a column.

    Nothing that was due before `since` is expected sooner than if it had been due then: the node was stopped.
    """
    late = expecting_results(columns, np.flatnonzero(columns.nominal < now))
    nominal = columns.nominal[late]
    expected = np.maximum(nominal, since)
    stale = are_stale(expected, timebox[late], columns.longer_than[late], times.interval(late, nominal), now)
    rows: Ints = late[stale & (expected < now - LEAST_DELAY)]
    return rows
