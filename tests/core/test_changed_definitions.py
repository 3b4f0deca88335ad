"""Changes of definitions and pauses: the past is settled by the old definition, and what is owed stays owed."""

from itertools import pairwise

import numpy as np
import pytest
from virtual_node import START, Node, Skip

from evenbeat.core.changed_definitions import pause, settle_past, unpause
from evenbeat.core.columns import Ints
from evenbeat.core.gate import Reason
from evenbeat.core.lost_runs import repeat_lost_runs
from evenbeat.core.missed_times import resume
from evenbeat.core.task import Flag
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, RunKind, State
from evenbeat.when.cron import compile_cron

ALL = Flag.MISSED_ALL


def disable(node: Node, rows: Ints) -> None:
    node.lifecycle.set_flag(rows, Flag.ENABLED, on=False)
    node.record(pause(node.lifecycle, rows, node.now))


def enable(node: Node, rows: Ints) -> None:
    node.lifecycle.set_flag(rows, Flag.ENABLED, on=True)
    node.record(unpause(node.lifecycle, rows, node.now))


def stop(node: Node, rows: Ints, until: int) -> None:
    node.now = Instant(START + until)
    node.record(resume(node.lifecycle, rows, node.now))


def skipped(node: Node) -> list[tuple[int, int, Reason]]:
    """First minute, how many, and why."""
    return [((s.first - START) // MINUTE, s.times, s.reason) for s in node.skips]


def restart(node: Node, row: Ints) -> None:
    """What comes next is computed anew from what is accounted for."""
    life, c = node.lifecycle, node.columns
    before = int(c.nominal[row[0]])
    life.idle -= len(row)
    life.add_restored(row, node.now)
    assert c.nominal[row[0]] == before


class TestPause:
    def test_what_is_owed_stays_owed_and_the_times_of_the_pause_are_skipped(self) -> None:
        node = Node()
        row = node.add(flags=ALL)
        node.lasts = lambda r: 10 * SECOND
        stop(node, row, 10 * MINUTE + SECOND)
        node.advance(10 * MINUTE + 2 * SECOND)
        assert [(run.nominal - START) // MINUTE for run in node.runs] == [1]
        disable(node, row)
        node.advance(12 * MINUTE + 30 * SECOND)
        assert len(node.runs) == 1, "the pause suspends it"
        restart(node, row)
        enable(node, row)
        restart(node, row)
        node.advance(20 * MINUTE)
        made = [(run.nominal - START) // MINUTE for run in node.runs]
        assert made == [*range(1, 11), *range(13, 21)]
        assert skipped(node) == [(11, 2, Reason.DISABLED)]
        assert not node.lifecycle.pauses

    def test_a_second_pause_leaves_one_run_for_what_is_left(self) -> None:
        node = Node()
        row = node.add(flags=ALL)
        node.lasts = lambda r: 10 * SECOND
        stop(node, row, 10 * MINUTE + SECOND)
        for seconds in (2, 15):
            node.advance(10 * MINUTE + seconds * SECOND)
            disable(node, row)
            node.advance(10 * MINUTE + (seconds + 1) * SECOND)
            enable(node, row)
        node.advance(12 * MINUTE)
        ran = {(run.nominal - START) // MINUTE for run in node.runs if run.settles}
        coalesced = [range(first, first + n) for first, n, reason in skipped(node) if reason is Reason.COALESCED]
        assert sorted([*ran, *(t for times in coalesced for t in times)]) == list(range(1, 13))
        assert node.kinds().count(RunKind.CATCH_UP) == len(ran) - 2 + 1

    @pytest.mark.parametrize("kind", [RunKind.FIRST, RunKind.CATCH_UP, RunKind.RETRY])
    def test_an_off_grid_run_that_is_owed_waits_for_the_end_of_the_pause(self, kind: RunKind) -> None:
        node = Node()
        row = node.add(every=HOUR)
        node.columns.off_grid_due[row], node.columns.off_grid_kind[row] = START + MINUTE, kind
        node.lifecycle.reset_due(row)
        disable(node, row)
        node.advance(2 * HOUR + MINUTE)
        assert not node.runs
        enable(node, row)
        node.advance(2 * HOUR + 2 * MINUTE)
        assert [(run.at - START, run.kind) for run in node.runs] == [(2 * HOUR + MINUTE, kind)]
        assert (skipped(node), node.refused) == ([(60, 1, Reason.DISABLED), (120, 1, Reason.DISABLED)], [])

    @pytest.mark.parametrize("kind", [RunKind.START_AT, RunKind.OCCASION])
    def test_a_start_that_was_asked_for_in_a_pause_is_refused(self, kind: RunKind) -> None:
        node = Node()
        row = node.add(every=HOUR)
        disable(node, row)
        if kind is RunKind.START_AT:
            node.record(node.lifecycle.postpone_until(0, Instant(START + MINUTE), node.now))
        else:
            node.lifecycle.trigger_node_event(row, Instant(START + MINUTE))
        node.advance(HOUR - 1)
        assert [(refusal.kind, refusal.reason) for refusal in node.refused] == [(kind, Reason.DISABLED)]
        assert node.columns.off_grid_due[0] > START + DAY

    def test_a_run_that_waits_for_a_slot_is_owed(self) -> None:
        node = Node(slots=0)
        row = node.add()
        node.advance(MINUTE + SECOND)
        disable(node, row)
        node.set_slots(1)
        node.advance(2 * MINUTE + SECOND)
        assert not node.runs
        enable(node, row)
        node.advance(2 * MINUTE + 2 * SECOND)
        assert node.kinds() == [RunKind.CATCH_UP]
        assert skipped(node) == [(1, 1, Reason.COALESCED), (2, 1, Reason.DISABLED)]

    def test_a_backlog_stays_queued(self) -> None:
        node = Node(slots=0)
        row = node.add(flags=Flag.EACH)
        node.columns.tolerance[row] = MINUTE
        node.advance(3 * MINUTE)
        disable(node, row)
        node.set_slots(1)
        node.advance(5 * MINUTE)
        enable(node, row)
        node.advance(6 * MINUTE)
        assert [(run.nominal - START) // MINUTE for run in node.runs] == [1, 2, 3, 6]
        assert skipped(node) == [(4, 2, Reason.DISABLED)]

    def test_a_running_instance_stands_for_what_came_while_it_ran(self) -> None:
        node = Node()
        row = node.add()
        node.lasts = lambda r: 90 * SECOND
        node.advance(MINUTE)
        node.now = Instant(START + 2 * MINUTE)  # it has come, and nothing was released yet
        disable(node, row)
        enable(node, row)
        node.advance(2 * MINUTE + 50 * SECOND)
        assert node.kinds() == [RunKind.GRID]
        assert skipped(node) == [(2, 1, Reason.COALESCED)]

    def test_a_lost_run_of_a_paused_task_is_made_up_for_afterwards(self) -> None:
        node = Node()
        row = node.add(every=HOUR)
        node.advance(HOUR)
        disable(node, row)
        repeat_lost_runs(node.lifecycle, row, node.now)
        node.advance(HOUR + MINUTE)
        assert not node.refused
        enable(node, row)
        node.advance(HOUR + 2 * MINUTE)
        assert node.kinds() == [RunKind.GRID, RunKind.CATCH_UP]

    def test_what_passed_during_a_stop_of_a_paused_task_is_disabled_and_not_made_up_for(self) -> None:
        node = Node()
        row = node.add()
        disable(node, row)
        stop(node, row, 5 * MINUTE + SECOND)
        enable(node, row)
        node.advance(6 * MINUTE)
        assert skipped(node) == [(1, 5, Reason.DISABLED)]
        assert node.kinds() == [RunKind.GRID]

    def test_a_soft_problem_is_retried_after_a_pause(self) -> None:
        node = Node()
        row = node.add(every=HOUR, flags=Flag.CHECK)
        node.columns.retry[row] = MINUTE
        node.state = lambda r: State.CRITICAL
        node.advance(HOUR)
        disable(node, row)
        node.advance(HOUR + 5 * MINUTE)
        enable(node, row)
        node.advance(HOUR + 5 * MINUTE + SECOND)
        assert node.kinds() == [RunKind.GRID, RunKind.RETRY]


class TestPeriod:
    def test_a_retry_that_finds_its_period_closed_is_made_when_it_opens(self) -> None:
        node = Node()
        row = node.add(every=10 * HOUR, phase=30 * MINUTE, flags=Flag.CHECK)
        node.period(row, "00:00-00:31", "02:00-20:00")
        node.columns.retry[row] = MINUTE
        node.state = lambda r: State.CRITICAL
        node.advance(2 * HOUR + 2 * MINUTE)
        opens = 2 * HOUR + round(0.05 * MINUTE)
        assert [(run.at - START, run.kind) for run in node.runs] == [
            (30 * MINUTE, RunKind.GRID),
            (opens, RunKind.RETRY),
            (opens + MINUTE, RunKind.RETRY),
        ]
        assert not node.refused
        assert not node.skips

    def test_a_grid_run_that_is_dropped_does_not_end_the_retries(self) -> None:
        node = Node()
        row = node.add(every=5 * MINUTE, phase=2 * SECOND, flags=Flag.CHECK)
        node.columns.retry[row], node.columns.attempts[row] = 2 * SECOND, 99
        node.state = lambda r: State.CRITICAL
        node.advance(5 * SECOND)
        node.period(row, "00:00:20-00:00:40", "00:01:30-23:00")
        node.advance(2 * MINUTE)
        assert Reason.TOO_SOON in {skip.reason for skip in node.skips}
        starts = node.started()
        inside = [t for t in starts if 20 * SECOND <= t < 40 * SECOND or t >= 90 * SECOND]
        assert len(inside) == len(starts) - 2
        assert max(b - a for a, b in pairwise(inside) if not a < 40 * SECOND <= b) <= 3 * SECOND
        assert inside[-1] >= 118 * SECOND

    def test_a_new_check_outside_its_period_has_no_first_run(self) -> None:
        node = Node()
        row = node.add(every=HOUR, phase=MINUTE)
        node.period(row, "12:00-13:00")
        node.lifecycle.plan_first_runs(row, node.now)
        assert node.columns.due[0] == START + 12 * HOUR + MINUTE


class TestSettle:
    def test_several_owed_runs_become_one_when_the_schedule_changes(self) -> None:
        node = Node()
        row = node.add(flags=ALL)
        node.lasts = lambda r: 10 * SECOND
        stop(node, row, 10 * MINUTE + SECOND)
        node.advance(10 * MINUTE + 2 * SECOND)
        node.record(settle_past(node.lifecycle, row, node.now))
        node.columns.every[row] = HOUR
        node.lifecycle.reschedule(row, node.now)
        node.advance(HOUR)
        assert [(run.kind, (run.nominal - START) // MINUTE) for run in node.runs if run.settles] == [
            (RunKind.CATCH_UP, 1),
            (RunKind.GRID, 60),
        ]
        assert node.kinds() == [RunKind.CATCH_UP, RunKind.CATCH_UP, RunKind.GRID]
        assert skipped(node) == [(2, 9, Reason.COALESCED)]

    def test_an_edit_in_a_pause_settles_the_pause(self) -> None:
        node = Node()
        row = node.add(flags=ALL)
        node.lasts = lambda r: 10 * SECOND
        stop(node, row, 10 * MINUTE + SECOND)
        node.advance(10 * MINUTE + 2 * SECOND)
        disable(node, row)
        node.advance(12 * MINUTE + SECOND)
        node.record(settle_past(node.lifecycle, row, node.now))
        node.lifecycle.reschedule(row, node.now)
        assert sorted(skipped(node)) == [(2, 9, Reason.COALESCED), (11, 2, Reason.DISABLED)]
        node.advance(14 * MINUTE)
        enable(node, row)
        node.advance(15 * MINUTE)
        assert node.kinds() == [RunKind.CATCH_UP, RunKind.CATCH_UP, RunKind.GRID]
        assert skipped(node)[-2:] == [(13, 1, Reason.DISABLED), (14, 1, Reason.DISABLED)]

    def test_a_start_that_is_cancelled_leaves_the_times_to_come(self) -> None:
        node = Node()
        row = node.add()
        node.record(node.lifecycle.postpone_until(0, Instant(START + 10 * MINUTE), node.now))
        node.advance(2 * MINUTE + SECOND)
        assert not node.skips, "whether they are skipped is seen when they come"
        node.record(settle_past(node.lifecycle, row, node.now))
        node.lifecycle.set_flag(row, Flag.POSTPONED, on=False)
        node.columns.off_grid_due[row] = 1 << 62
        node.lifecycle.reschedule(row, node.now)
        node.advance(4 * MINUTE)
        assert node.started() == [3 * MINUTE, 4 * MINUTE]
        assert skipped(node) == [(1, 2, Reason.POSTPONED)]

    def test_a_forced_run_leaves_the_times_before_the_start_to_come(self) -> None:
        node = Node()
        row = node.add()
        node.record(node.lifecycle.postpone_until(0, Instant(START + 10 * MINUTE), node.now))
        node.lifecycle.force(row)
        node.advance(2 * MINUTE + SECOND)
        assert (node.kinds(), node.skips) == ([RunKind.FORCED], [])
        node.advance(10 * MINUTE + SECOND)
        assert node.kinds() == [RunKind.FORCED, RunKind.START_AT]
        assert skipped(node) == [(1, 10, Reason.POSTPONED)]

    def test_a_start_that_was_missed_runs_once_and_keeps_its_kind(self) -> None:
        node = Node()
        row = node.add()
        node.record(node.lifecycle.postpone_until(0, Instant(START + 3 * MINUTE + SECOND), node.now))
        stop(node, row, 6 * MINUTE + SECOND)
        node.advance(7 * MINUTE)
        assert node.kinds() == [RunKind.START_AT, RunKind.GRID]
        assert skipped(node) == [(1, 3, Reason.POSTPONED), (4, 3, Reason.MISSED)]

    def test_a_lost_run_does_not_take_the_place_of_a_start_that_was_asked_for(self) -> None:
        node = Node()
        row = node.add()
        node.record(node.lifecycle.postpone_until(0, Instant(START + 3 * MINUTE + SECOND), node.now))
        repeat_lost_runs(node.lifecycle, row, node.now)
        node.advance(4 * MINUTE)
        assert node.started() == [3 * MINUTE + SECOND, 4 * MINUTE]


def test_what_comes_next_is_computed_from_what_is_accounted_for() -> None:
    node = Node()
    rows = np.concatenate([node.add(every=7 * MINUTE, phase=3), node.add_calendar(compile_cron("*/5 * * * *"))])
    node.advance(31 * MINUTE)
    nominal = node.columns.nominal[rows].tolist()
    node.lifecycle.add_restored(rows, node.now)
    assert node.columns.nominal[rows].tolist() == nominal
    assert [s for s in node.skips if isinstance(s, Skip)] == []
