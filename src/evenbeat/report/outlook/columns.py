"""The schedules of all tasks as one compact table: some forty bytes for each, and its name."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.model import Instant, Task
from evenbeat.report.outlook.calendar_walk import CalendarWalk
from evenbeat.when.cron import Cron
from evenbeat.when.instant import parse_instant
from evenbeat.when.interval import Interval
from evenbeat.when.nominal_times import SharedTimes
from evenbeat.when.period import CompiledPeriod
from evenbeat.when.schedule import UntimedSchedule, compile_schedule
from evenbeat.when.windows import FOREVER
from evenbeat.when.zone import zone

NO_NUMBER: Final = -1
"""Of a task on a grid: no calendar. Of a task that is always open: no period."""
_BY_OCCASION: Final = -2
"""Instead of a calendar: due by an event of the node, or after other tasks, never by time."""
_TASK_DTYPE: Final = np.dtype(
    [
        ("every", np.int64),
        ("phase", np.int64),
        ("calendar", np.int32),
        ("second", np.uint8),
        ("period", np.int32),
        ("since", np.int64),
        ("weight", np.float64),
    ]
)
_START_DTYPE: Final = np.dtype([("row", np.int32), ("at", np.int64)])

_Row = tuple[int, int, int, int, int, int, float]


class PackedNames:
    """Many names in one piece of memory, in order."""

    def __init__(self, text: bytes, ends: NDArray[np.int64]) -> None:
        self._text = text
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, row: int) -> str:
        start = int(self._ends[row - 1]) if row else 0
        return self._text[start : int(self._ends[row])].decode()

    def find(self, name: str) -> int | None:
        """The row of a name."""
        row = bisect_left(range(len(self)), name, key=self.__getitem__)
        return row if row < len(self) and self[row] == name else None


class OutlookColumns(NamedTuple):
    """One row per task, in the order of their names."""

    table: NDArray[Any]
    """`since`: no nominal time before it counts; FOREVER for who does not run."""
    names: PackedNames
    periods: list[CompiledPeriod]
    walk: CalendarWalk
    by_calendar: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Rows in the order of their calendars, and where those of each begin."""
    starts: NDArray[Any]
    """Rows that start at a time they were told, and that time."""


def outlook_columns(
    tasks: Iterable[tuple[Task, Instant]], periods: Mapping[str, CompiledPeriod], most: int | None = None
) -> OutlookColumns:
    """Read tasks, which have their phases, beside when each was created; none of them is kept.

    `most` bounds the times of all their calendars that are listed: more are refused.
    """
    reader = _OutlookReader(periods)
    table = np.fromiter(reader.rows(tasks), dtype=_TASK_DTYPE)
    names = PackedNames(bytes(reader.names), np.cumsum(np.array(reader.lengths, dtype=np.int64)))
    starts = np.array(reader.starts, dtype=_START_DTYPE)
    rows = np.flatnonzero(table["calendar"] >= 0)
    rows = rows[np.argsort(table["calendar"][rows], kind="stable")]
    begins = np.searchsorted(table["calendar"][rows], np.arange(len(reader.calendars) + 1))
    return OutlookColumns(
        table, names, list(periods.values()), CalendarWalk(reader.calendars, most), (rows, begins), starts
    )


class _OutlookReader:
    def __init__(self, periods: Mapping[str, CompiledPeriod]) -> None:
        self._period_numbers = {name: number for number, name in enumerate(periods)}
        self.names = bytearray()
        self.lengths: list[int] = []
        self.starts: list[tuple[int, int]] = []
        self.calendars: list[SharedTimes] = []
        self._calendar_numbers: dict[int, int] = {}

    def rows(self, tasks: Iterable[tuple[Task, Instant]]) -> Iterator[_Row]:
        for row, (task, created) in enumerate(tasks):
            name = task.name.encode()
            self.names += name
            self.lengths.append(len(name))
            yield self._row(row, task, created)

    def _row(self, row: int, task: Task, created: Instant) -> _Row:
        schedule = task.schedule
        if task.passive:  # nothing of ours runs
            return 1, 0, _BY_OCCASION, 0, NO_NUMBER, FOREVER, task.weight
        since: int = created
        if not task.enabled or task.paused:
            since = FOREVER
        elif task.start_at is not None:
            start = parse_instant(task.start_at, zone(schedule.zone))
            if start > created:
                self.starts.append((row, start))
                since = start + 1
        period = NO_NUMBER if task.period is None else self._period_numbers[task.period]
        if schedule.every is not None and schedule.phase is not None:
            return schedule.every, schedule.phase, NO_NUMBER, 0, period, since, task.weight
        times = compile_schedule(schedule, task.name)
        if isinstance(times, Interval):
            return times.every, times.phase, NO_NUMBER, 0, period, since, task.weight
        if isinstance(times, UntimedSchedule):
            return 1, 0, _BY_OCCASION, 0, period, since, task.weight
        if isinstance(times, Cron):
            return 1, 0, self._calendar(times.times), times.second, period, since, task.weight
        return 1, 0, self._calendar(times), 0, period, since, task.weight

    def _calendar(self, times: SharedTimes) -> int:
        # By identity: what is shared is one object.
        number = self._calendar_numbers.setdefault(id(times), len(self.calendars))
        if number == len(self.calendars):
            self.calendars.append(times)
        return number
