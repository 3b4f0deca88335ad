"""The four tables of the Nuntium document, replayed row by row: one task, a queue with delay, the guard, the timebox.

Two things of the document are read with care: the delay between enqueue and execution is a slot that somebody else
holds until the moment the table names; and the last rows of three tables show the last run as it was *before* the
run that begins there (the third table's own last row, and every other one, show it as set by the start).
"""

import re
from typing import NamedTuple

import numpy as np
import pytest

from evenbeat.core.columns import Ints
from evenbeat.core.drop_guard import is_too_soon
from evenbeat.core.gate import REASONS, Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Flag, ReleaseResult, TaskColumns
from evenbeat.core.task_columns import timebox_setting
from evenbeat.core.timebox import Timebox
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import Timetable
from evenbeat.model import MINUTE, SECOND, Instant, RunKind, Schedule, Task
from evenbeat.when.schedule import NodeEventSchedule
from evenbeat.when.windows import NEVER

HALF_A_MINUTE = Task("a", Schedule(every=MINUTE, phase=30 * SECOND), timebox=-50)

LITTLE_CONGESTION = """
00:00 | Initial state       | 00:30 | -
00:30 | Cron enqueues A1    | 01:30 | -
00:35 | A1 begins execution | 01:30 | 00:35
00:45 | A1 ends execution   | 01:30 | 00:35
01:00 | Cron executes       | 01:30 | 00:35
01:30 | Cron enqueues A2    | 02:30 | 00:35
01:32 | A2 begins execution | 02:30 | 00:35
"""

FULL_QUEUE = """
00:00 | Initial state       | 00:30 | -
00:30 | Cron enqueues A1    | 01:30 | -
01:00 | Cron executes       | 01:30 | -
01:30 | Cron enqueues A2    | 02:30 | -
01:35 | A1 begins execution | 02:30 | 01:35
01:38 | A1 ends execution   | 02:30 | 01:35
02:00 | Cron executes       | 02:30 | 01:35
02:30 | Cron enqueues A3    | 03:30 | 01:35
02:37 | A2 begins execution | 03:30 | 01:35
"""

ONE_DROPPED = """
00:00 | Initial state       | 00:30 | -
00:30 | Cron enqueues A1    | 01:30 | -
01:00 | Cron executes       | 01:30 | -
01:30 | Cron enqueues A2    | 02:30 | -
01:35 | A1 begins execution | 02:30 | 01:35
01:38 | A1 ends execution   | 02:30 | 01:35
02:00 | Cron executes       | 02:30 | 01:35
02:03 | A2 is dropped       | 02:30 | 01:35
02:30 | Cron enqueues A3    | 03:30 | 01:35
02:56 | A3 executes         | 03:30 | 02:56
"""

FORCED_END = """
00:00 | Initial state       | 00:30 | -
00:30 | Cron enqueues A1    | 01:30 | -
00:35 | A1 begins execution | 01:30 | 00:35
01:00 | Cron executes       | 01:30 | 00:35
01:05 | A1 forced to end    | 01:30 | 00:35
01:30 | Cron enqueues A2    | 02:30 | 00:35
01:32 | A2 begins execution | 02:30 | 00:35
"""


class Row(NamedTuple):
    at: Instant
    event: str
    next_run: Instant
    last_run: Instant


def mm_ss(text: str) -> Instant:
    minutes, seconds = text.split(":")
    return Instant(int(minutes) * MINUTE + int(seconds) * SECOND)


def rows_of(table: str) -> list[Row]:
    cells = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    return [Row(mm_ss(at), event, mm_ss(n), NEVER if last == "-" else mm_ss(last)) for at, event, n, last in cells]


def nominal_of(event: str) -> Instant:
    """A1 is the run due at 00:30, and every further one a minute later."""
    number = re.search(r"A(\d)", event)
    assert number
    return Instant(int(number[1]) * MINUTE - MINUTE // 2)


class Nuntium:
    """Task A and one slot, which somebody else holds whenever the table says that A does not have it yet."""

    def __init__(self) -> None:
        self.columns = TaskColumns()
        self.times = ScheduleTimes(self.columns)
        self.lifecycle = Lifecycle(self.columns, Timetable(self.columns), self.times, slots=1)
        self.a, self.other = np.split(self.columns.allocate(2), 2)
        self.columns.every[self.a] = MINUTE
        self.columns.phase[self.a] = 30 * SECOND
        self.columns.tolerance[self.a] = 5 * SECOND
        self.lifecycle.set_flag(self.a, Flag.EACH, on=True)
        self.columns.calendar[self.other] = self.times.calendar_number(NodeEventSchedule("@reboot"))
        self.columns.priority[self.other] = 100
        self.timebox: Timebox | None = None
        self.now = Instant(0)
        self.lifecycle.add_new(np.concatenate((self.a, self.other)), self.now)
        self.take_slot()

    def take_slot(self) -> None:
        self.lifecycle.force(self.other)
        claims, skips, *_ = self.lifecycle.release(self.now)
        assert claims.rows.tolist() == self.other.tolist()
        assert not skips

    def give_slot(self) -> ReleaseResult:
        self.lifecycle.complete(self.other)
        return self.lifecycle.release(self.now)

    def pass_time(self, until: Instant) -> None:
        """Second by second; nothing becomes of A between the rows of a table."""
        while self.now < until:
            self.now = Instant(self.now + SECOND)
            claims, skips, *_ = self.lifecycle.release(self.now)
            assert not len(claims.rows)
            assert not skips
            if self.timebox:
                assert self.timebox.is_expired(self.now) <= (self.now == until)

    def queued(self) -> list[int]:
        """Nominal times that have come and are neither run nor dropped."""
        return list(range(int(self.columns.nominal[self.a][0]), self.now + 1, MINUTE))

    def next_run(self) -> Instant:
        return Instant(int(self.times.next_after(self.a, self.now)[0]))

    def last_run(self) -> Instant:
        return Instant(int(self.columns.last_start[self.a][0]))

    def begin(self, nominal: Instant) -> None:
        claims, skips, *_ = self.give_slot()
        assert claims.rows.tolist() == self.a.tolist()
        assert claims.nominal.tolist() == [nominal]
        assert claims.kind.tolist() == [RunKind.GRID]
        assert not skips
        # The worker asks once more before it starts.
        last = None if self.last_run() == NEVER else self.last_run()
        assert not is_too_soon(self.now, last, MINUTE, 5 * SECOND)
        self.lifecycle.record_starts(self.a, at(self.now))
        self.timebox = Timebox(self.now, timebox_setting(HALF_A_MINUTE))

    def end(self) -> None:
        self.timebox = None
        self.lifecycle.complete(self.a)
        self.take_slot()

    def drop(self, nominal: Instant) -> None:
        before = self.last_run()
        claims, skips, *_ = self.give_slot()
        assert not len(claims.rows)
        (dropped,) = skips
        assert dropped.rows.tolist() == self.a.tolist()
        assert dropped.first.tolist() == dropped.last.tolist() == [nominal]
        assert dropped.times.tolist() == [1]
        assert REASONS[dropped.reason[0]] is Reason.TOO_SOON
        assert is_too_soon(self.now, before, MINUTE, 5 * SECOND)
        assert self.last_run() == before
        self.take_slot()

    def replay(self, row: Row) -> None:
        self.pass_time(row.at)
        match row.event.split()[1:]:
            case ["enqueues", _]:
                assert self.queued()[-1] == self.now == nominal_of(row.event)
            case ["begins", _] | ["executes"] if row.event[0] == "A":
                self.begin(nominal_of(row.event))
            case ["ends", _]:
                self.end()
            case ["forced", "to", "end"]:
                assert self.timebox
                assert self.timebox.ends == self.now
                assert self.timebox.remaining(self.now) == 0
                self.end()
            case ["is", "dropped"]:
                self.drop(nominal_of(row.event))
            case ["state"] | ["executes"]:
                assert self.now not in self.queued()
            case unknown:
                raise AssertionError(unknown)


def at(t: Instant) -> Ints:
    return np.array([t], dtype=np.int64)


TABLES = {
    "little congestion": LITTLE_CONGESTION,
    "full queue": FULL_QUEUE,
    "one dropped": ONE_DROPPED,
    "forced end": FORCED_END,
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_the_nuntium_document_happens_row_by_row(name: str) -> None:
    nuntium = Nuntium()
    rows = rows_of(TABLES[name])
    for row in rows:
        before = nuntium.last_run()
        nuntium.replay(row)
        assert nuntium.next_run() == row.next_run, row
        if row == rows[-1] and row.last_run != row.at:
            # The slip of the document: the last run before this start, which then sets it.
            assert (before, nuntium.last_run()) == (row.last_run, row.at), row
        else:
            assert nuntium.last_run() == row.last_run, row


def test_what_is_queued_behind_a_full_queue_runs_in_turn_and_nothing_is_lost() -> None:
    nuntium = Nuntium()
    for row in rows_of(FULL_QUEUE):
        nuntium.replay(row)
    assert nuntium.queued() == [mm_ss("02:30")]


def test_57_seconds_are_within_the_tolerance_and_a_microsecond_under_55_are_not() -> None:
    nuntium = Nuntium()
    for row in rows_of(LITTLE_CONGESTION)[:-1]:
        nuntium.replay(row)
    nuntium.now = Instant(mm_ss("01:30") - 1)
    assert is_too_soon(nuntium.now, mm_ss("00:35"), MINUTE, 5 * SECOND)
    nuntium.now = mm_ss("01:30")
    nuntium.begin(mm_ss("01:30"))


def test_a_run_ends_with_its_timebox_and_the_next_one_is_not_later_for_it() -> None:
    nuntium = Nuntium()
    for row in rows_of(FORCED_END)[:3]:
        nuntium.replay(row)
    assert nuntium.timebox
    assert nuntium.timebox.ends == mm_ss("01:05")
    assert nuntium.next_run() == mm_ss("01:30")
