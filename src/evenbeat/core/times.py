"""Answers for rows of any schedule: which nominal time comes next, and is the period open?"""

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Column, Ints
from evenbeat.core.timetable import DueColumns
from evenbeat.model import HOUR, SECOND, Instant
from evenbeat.when.expected_load import expected_per_hour
from evenbeat.when.icinga import icinga_after
from evenbeat.when.inside_period import (
    CalendarWithinPeriod,
    nominal_after_within_period,
    nominal_after_within_period_each,
)
from evenbeat.when.interval import nominal_after
from evenbeat.when.nominal_times import ForwardSchedule, SharedTimes
from evenbeat.when.period import CompiledPeriod
from evenbeat.when.windows import FOREVER

Bools = NDArray[np.bool_]


class ScheduleColumns(DueColumns):
    """The schedule of a task: an interval grid, or the number of shared calendar times and an own second."""

    every = Column(np.int64, 1)
    phase = Column(np.int64, 0)
    calendar = Column(np.int32, -1)
    second = Column(np.uint8, 0)
    period = Column(np.int32, -1)
    has_moving_grid = Column(np.bool_, default=False)
    """Its grid moves by Icinga's rule: each execution sets the next nominal time."""


class Times(Protocol):
    """What the lifecycle asks about time; the only place where schedules and periods come in."""

    def next_after(self, rows: Ints, t: Instant) -> Ints:
        """The first nominal time of each row strictly after `t`; FOREVER where there is none."""

    def next_after_each(self, rows: Ints, t: Ints) -> Ints:
        """`next_after`, with an instant for each row."""

    def count_between(self, rows: Ints, first: Ints, t: Instant) -> tuple[Ints, Ints]:
        """How many nominal times of each row lie in [first, t], and the last of them; `first` is one, or FOREVER."""

    def following(self, rows: Ints, nominal: Ints, now: Instant) -> Ints:
        """The nominal time after the given one of each row; FOREVER where there is none."""

    def interval(self, rows: Ints, nominal: Ints) -> Ints:
        """How long before its nominal time each row had one: what the guard goes by; 0 where it had none."""

    def is_open(self, rows: Ints, now: Instant) -> Bools:
        """Is the period of each row open? Each distinct period is asked once."""

    def opens_at(self, rows: Ints, now: Instant) -> Ints:
        """When the period of each row opens, for rows whose period is closed; FOREVER if it does not."""

    def repeats_after(self, rows: Ints) -> Ints:
        """How far the clock can be set back without the nominal times of each row happening again."""

    any_moves: bool
    """Does the grid of any row move?"""

    def after_execution(self, rows: Ints, executed: Ints) -> Ints:
        """The nominal time of each row that follows an execution at this time, for rows whose grid moves."""


class ScheduleTimes:
    """Times by the schedules and periods that tasks really have."""

    def __init__(self, columns: ScheduleColumns) -> None:
        self._columns = columns
        self._calendars: list[SharedTimes] = []
        self._periods: list[CompiledPeriod] = []
        self._calendar_numbers: dict[int, int] = {}
        self._period_numbers: dict[int, int] = {}
        self._inside: dict[tuple[int, int, int], CalendarWithinPeriod] = {}
        self.any_moves = False

    def calendar_number(self, times: SharedTimes) -> int:
        """The number under which rows refer to shared calendar times."""
        return _number(times, self._calendars, self._calendar_numbers)

    def period_number(self, period: CompiledPeriod) -> int:
        """The number under which rows refer to a period."""
        return _number(period, self._periods, self._period_numbers)

    def period(self, number: int) -> CompiledPeriod:
        """The period that rows refer to by this number."""
        return self._periods[number]

    def replace_period(self, number: int, period: CompiledPeriod) -> None:
        """A period was edited: its rows go by the new one, and must be rescheduled."""
        self._periods[number] = period
        self._inside = {key: inside for key, inside in self._inside.items() if key[-1] != number}

    def runs_per_hour(self, rows: Ints) -> Callable[[], NDArray[np.float64]]:
        """How many nominal times each row has in an hour, in the mean over years; periods and chains do not count.

        What takes its time is in what is returned, which any thread may call.
        """
        every, calendar, calendars = self._columns.every[rows], self._columns.calendar[rows], list(self._calendars)

        def compute() -> NDArray[np.float64]:
            found: NDArray[np.float64] = HOUR / every
            numbers, places = np.unique(calendar, return_inverse=True)
            rates = np.array([0.0 if n < 0 else expected_per_hour(calendars[n]) for n in numbers.tolist()])
            some = calendar >= 0
            found[some] = rates[places][some]
            return found

        return compute

    def next_after(self, rows: Ints, t: Instant) -> Ints:
        """The first nominal time of each row strictly after `t`; FOREVER where there is none."""
        c = self._columns
        calendar, period = c.calendar[rows], c.period[rows]
        found = nominal_after(c.phase[rows], c.every[rows], t)
        for number in np.unique(period[(calendar < 0) & (period >= 0)]).tolist():
            which = np.flatnonzero((calendar < 0) & (period == number))
            some = rows[which]
            found[which] = nominal_after_within_period(c.phase[some], c.every[some], self._periods[number], t)
        for i in np.flatnonzero(calendar >= 0).tolist():
            found[i] = self._calendar_after(int(rows[i]), t)
        return found

    def next_after_each(self, rows: Ints, t: Ints) -> Ints:
        """`next_after`, with an instant for each row."""
        c = self._columns
        calendar, period = c.calendar[rows], c.period[rows]
        found = nominal_after(c.phase[rows], c.every[rows], t)
        for number in np.unique(period[(calendar < 0) & (period >= 0)]).tolist():
            which = np.flatnonzero((calendar < 0) & (period == number))
            some = rows[which]
            found[which] = nominal_after_within_period_each(
                c.phase[some], c.every[some], self._periods[number], t[which]
            )
        for i in np.flatnonzero(calendar >= 0).tolist():
            found[i] = self._calendar_after(int(rows[i]), Instant(int(t[i])))
        if self.any_moves:
            # What is accounted for ends with an execution, or a grid point.
            which = np.flatnonzero(c.has_moving_grid[rows])
            found[which] = self.after_execution(rows[which], t[which])
        return found

    def following(self, rows: Ints, nominal: Ints, now: Instant) -> Ints:
        """The nominal time after the given one of each row; FOREVER where there is none."""
        c = self._columns
        calendar, period, every = c.calendar[rows], c.period[rows], c.every[rows]
        found: Ints = nominal + every
        found -= (found - c.phase[rows]) % every  # a substitute is not on the grid, what follows it is
        if calendar.max(initial=-1) < 0 and period.max(initial=-1) < 0:
            return found
        settled = (calendar < 0) & (period < 0)
        for number in np.unique(period[(calendar < 0) & (period >= 0)]).tolist():
            # Within the window that is open now the next grid point is the next nominal time.
            window = self._periods[number].state(now)
            here = (calendar < 0) & (period == number) & (nominal >= window.since) & (found < window.until)
            settled |= here & window.inside
        for i in np.flatnonzero(~settled).tolist():
            found[i] = self.next_after(rows[i : i + 1], Instant(int(nominal[i])))[0]
        return found

    def after_execution(self, rows: Ints, executed: Ints) -> Ints:
        """The nominal time of each row that follows an execution at this time, for rows whose grid moves.

        One that falls outside its period goes to the first inside it of the grid to which the rule leads.
        """
        c = self._columns
        every, phase, period = c.every[rows], c.phase[rows], c.period[rows]
        found = icinga_after(executed, every, phase)
        for i in np.flatnonzero(period >= 0).tolist():
            of_it, t = self._periods[period[i]], Instant(int(found[i]))
            if not of_it.contains(t):
                found[i] = nominal_after_within_period(phase[i : i + 1], every[i : i + 1], of_it, Instant(t - 1))[0]
        return found

    def interval(self, rows: Ints, nominal: Ints) -> Ints:
        """How long before its nominal time each row had one: what the guard goes by; 0 where it had none."""
        c = self._columns
        found, calendar = c.every[rows], c.calendar[rows]
        if calendar.max(initial=-1) < 0:
            return found
        for i in np.flatnonzero(calendar >= 0).tolist():
            offset = int(c.second[rows[i]]) * SECOND
            times = self._calendars[calendar[i]]
            before = times.previous_before(Instant(int(nominal[i]) - offset))
            found[i] = 0 if before is None else nominal[i] - offset - before
        return found

    def _calendar_after(self, row: int, t: Instant) -> int:
        c = self._columns
        times: ForwardSchedule = self._calendars[c.calendar[row]]
        offset, period = int(c.second[row]) * SECOND, int(c.period[row])
        if period >= 0:
            key = (int(c.calendar[row]), offset, period)
            if key not in self._inside:
                self._inside[key] = CalendarWithinPeriod(_Shifted(times, offset), self._periods[period])
            times, offset = self._inside[key], 0
        found = times.next_after(Instant(t - offset))
        return FOREVER if found is None else found + offset

    def count_between(self, rows: Ints, first: Ints, t: Instant) -> tuple[Ints, Ints]:
        """How many nominal times of each row lie in [first, t], and the last of them; `first` is one, or FOREVER."""
        c = self._columns
        some = first <= t
        plain = (c.calendar[rows] < 0) & (c.period[rows] < 0)
        count: Ints = np.where(some, (t - first) // c.every[rows] + 1, 0)
        last: Ints = first + (count - 1) * c.every[rows]
        for i in np.flatnonzero(some & ~plain).tolist():
            # Outside a plain grid they must be walked; a long absence of such a task is rare.
            row, at, n = rows[i : i + 1], int(first[i]), 1
            while (following := int(self.next_after(row, Instant(at))[0])) <= t:
                at, n = following, n + 1
            count[i], last[i] = n, at
        return count, last

    def is_open(self, rows: Ints, now: Instant) -> Bools:
        """Is the period of each row open? Each distinct period is asked once."""
        period = self._columns.period[rows]
        is_open = np.ones(len(rows), dtype=bool)
        if period.max(initial=-1) < 0:
            return is_open
        for number in np.unique(period[period >= 0]).tolist():
            is_open[period == number] = self._periods[number].contains(now)
        return is_open

    def opens_at(self, rows: Ints, now: Instant) -> Ints:
        """When the period of each row opens, for rows whose period is closed; FOREVER if it does not."""
        period = self._columns.period[rows]
        found = np.full(len(rows), FOREVER, dtype=np.int64)
        for number in np.unique(period[period >= 0]).tolist():
            opens = self._periods[number].next_open(now)
            found[period == number] = FOREVER if opens is None else opens
        return found

    def closes_at(self, rows: Ints, now: Instant) -> Ints:
        """When the period of each row closes, now if it is closed; FOREVER if it does not."""
        period = self._columns.period[rows]
        found = np.full(len(rows), FOREVER, dtype=np.int64)
        for number in np.unique(period[period >= 0]).tolist():
            state = self._periods[number].state(now)
            found[period == number] = state.until if state.inside else now
        return found

    def repeats_after(self, rows: Ints) -> Ints:
        """How far the clock can be set back without the nominal times of each row happening again; grids always do."""
        calendar = self._columns.calendar[rows]
        found = np.zeros(len(rows), dtype=np.int64)
        for number in np.unique(calendar[calendar >= 0]).tolist():
            found[calendar == number] = self._calendars[number].repeats_after
        return found


class _Shifted:
    """Shared minutes moved to a task's own second."""

    def __init__(self, times: ForwardSchedule, offset: int) -> None:
        self._times = times
        self._offset = offset

    def next_after(self, t: Instant) -> Instant | None:
        found = self._times.next_after(Instant(t - self._offset))
        return None if found is None else Instant(found + self._offset)


_Thing = TypeVar("_Thing")


def _number(thing: _Thing, known: list[_Thing], numbers: dict[int, int]) -> int:
    # By identity: what is shared is one object.
    if id(thing) not in numbers:
        numbers[id(thing)] = len(known)
        known.append(thing)
    return numbers[id(thing)]
