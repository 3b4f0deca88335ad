"""The sessions of the Instinct document, their outcomes: occasions, a postponed start, what was missed.

The order of catch-up runs is ours: evenly, from the moment of the start on.
"""

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.gate import REASONS, Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.missed_times import resume
from evenbeat.core.task import SkipColumns, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import Timetable
from evenbeat.model import MINUTE, SECOND, Instant, RunKind
from evenbeat.when.cron import compile_cron
from evenbeat.when.schedule import NodeEventSchedule

START = Instant(1_790_000_000 * SECOND // (2 * MINUTE) * 2 * MINUTE + 90 * SECOND)
"""In the middle of an odd minute."""
TASKS = ("reboot", "shutdown", "minute", "stop")


class Instinct:
    """Four tasks; `stop` ends the session, and every run takes no time."""

    def __init__(self) -> None:
        self.columns = c = TaskColumns()
        times = ScheduleTimes(c)
        self.lifecycle = Lifecycle(c, Timetable(c), times, slots=10)
        self.rows = c.allocate(4)
        c.calendar[self.rows[:2]] = [times.calendar_number(NodeEventSchedule(f"@{name}")) for name in TASKS[:2]]
        for row, text, second in ((2, "* * * * *", 7), (3, "*/2 * * * *", 21)):
            cron = compile_cron(text, second=second)
            c.calendar[row], c.second[row] = times.calendar_number(cron.times), cron.second
        self.now = START
        self.lifecycle.add_new(self.rows, self.now)
        self.skips: list[SkipColumns] = []

    def row(self, name: str) -> Ints:
        return self.rows[TASKS.index(name) :][:1]

    def session(self) -> list[str]:
        """From start to stop: what was run, in order."""
        self.skips += resume(self.lifecycle, self.rows, self.now)
        self.lifecycle.trigger_node_event(self.row("reboot"), self.now)
        ran: list[str] = []
        while "stop" not in ran:
            ran += self.step()
        self.lifecycle.trigger_node_event(self.row("shutdown"), self.now)
        return [name for name in ran + self.step() if name != "stop"]

    def step(self) -> list[str]:
        self.now = max(self.now, self.lifecycle.timetable.next_due())
        (rows, _, kinds), skips, *_ = self.lifecycle.release(self.now)
        self.skips += skips
        on_grid = rows[kinds == RunKind.GRID]
        self.lifecycle.record_starts(on_grid, np.full(len(on_grid), self.now))
        self.lifecycle.complete(rows)
        return [TASKS[row] for row in rows]


def test_a_session_runs_reboot_the_minutes_until_the_stop_and_shutdown() -> None:
    assert Instinct().session() == ["reboot", "minute", "shutdown"]


def test_start_at_postpones_the_first_occurrence() -> None:
    instinct = Instinct()
    assert instinct.lifecycle.postpone_until(3, Instant(START + 4 * MINUTE), START) == []
    assert instinct.session() == ["reboot", "minute", "minute", "minute", "minute", "shutdown"]
    (skips,) = instinct.skips
    assert REASONS[skips.reason[0]] is Reason.POSTPONED
    assert skips.times.tolist() == [2]
    assert instinct.now == START + 4 * MINUTE


def test_after_the_postponed_start_the_schedule_goes_on() -> None:
    instinct = Instinct()
    at = Instant(START + 4 * MINUTE)
    instinct.lifecycle.postpone_until(3, at, START)
    instinct.session()
    next_even = (at // (2 * MINUTE) + 1) * 2 * MINUTE
    assert instinct.columns.nominal[3] == next_even + 21 * SECOND


def test_what_was_missed_is_performed_once_however_often_it_was_missed() -> None:
    instinct = Instinct()
    instinct.session()
    instinct.skips.clear()
    instinct.now = stopped = Instant(instinct.now + 7 * MINUTE)
    ran = instinct.session()
    # The document's order is missed before reboot; which of them comes first is not promised there, nor here.
    assert sorted(ran[:-1]) in (["minute", "reboot"], ["reboot"])
    assert ran[-1] == "shutdown"
    assert instinct.now <= stopped + SECOND
    missed = {TASKS[r]: n for s in instinct.skips for r, n in zip(s.rows.tolist(), s.times.tolist(), strict=True)}
    assert missed == {"minute": 7, "stop": 3}
    assert {REASONS[r] for s in instinct.skips for r in s.reason.tolist()} == {Reason.MISSED}


def test_all_that_was_missed_is_made_up_for_soon_and_then_the_schedule_goes_on() -> None:
    instinct = Instinct()
    instinct.session()
    instinct.now = Instant(instinct.now + 7 * MINUTE)
    until = Instant(instinct.now + SECOND)
    resume(instinct.lifecycle, instinct.rows, instinct.now)
    ran: list[str] = []
    while instinct.lifecycle.timetable.next_due() <= until:
        ran += instinct.step()
    assert sorted(ran) == ["minute", "stop"]
    assert (instinct.columns.nominal[2:] > instinct.now).all()


def test_occasions_have_no_other_time() -> None:
    instinct = Instinct()
    instinct.lifecycle.remove(instinct.rows[2:], START)
    assert instinct.lifecycle.timetable.next_due() > START + 100 * 366 * 24 * 60 * MINUTE
