"""`spread = "icinga"`: each execution sets the next nominal time by Icinga's rule, and that outlives a restart."""

import numpy as np
import pytest
from virtual_node import START, Node

from evenbeat.core.columns import Ints
from evenbeat.core.missed_times import resume
from evenbeat.core.next_time import ScheduleProgress, next_run
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, RunKind, Schedule, Spread, Task
from evenbeat.when.icinga import icinga_after
from evenbeat.when.windows import FOREVER

EVERY, PHASE = 5 * MINUTE, 2 * MINUTE


def rule(executed: int) -> int:
    return int(icinga_after(np.array([executed]), np.array([EVERY]), np.array([PHASE]))[0])


def moving(node: Node) -> Ints:
    node.times.any_moves = True
    row = node.columns.allocate(1)
    node.columns.every[row], node.columns.phase[row], node.columns.has_moving_grid[row] = EVERY, PHASE, True
    node.lifecycle.add_new(row, node.now)
    return row


def test_a_new_check_is_moved_by_its_first_run_and_creeps_to_its_grid() -> None:
    node = Node(ahead=SECOND // 10)
    row = moving(node)
    assert node.columns.nominal[row] == START + PHASE
    node.lifecycle.plan_first_runs(row, node.now)
    node.advance(60 * HOUR)
    at = [run.at for run in node.runs]
    assert [run.kind for run in node.runs[:2]] == [RunKind.FIRST, RunKind.GRID]
    assert at[1:] == [rule(t) for t in at[:-1]]
    assert at[1] == START + EVERY - SECOND // 2
    assert (at[-1] - PHASE) % EVERY == 0
    assert not node.skips


def test_one_without_a_first_run_begins_on_its_grid_and_stays_there() -> None:
    node = Node()
    moving(node)
    node.advance(HOUR)
    assert {run.at % EVERY for run in node.runs} == {PHASE}


@pytest.mark.parametrize("late", [0, SECOND // 3, 10 * SECOND])
def test_a_run_that_had_to_wait_moves_the_grid(late: int) -> None:
    node = Node(slots=0)
    row = moving(node)
    node.advance(PHASE + late)
    node.set_slots(1)
    (run,) = node.runs
    assert run.nominal == START + PHASE
    assert node.columns.nominal[row] == (rule(run.at) if late > SECOND // 2 else START + PHASE + EVERY)


def test_a_forced_run_moves_it_too() -> None:
    node = Node()
    row = moving(node)
    node.advance(MINUTE)
    node.lifecycle.force(row)
    node.release()
    assert node.columns.nominal[row] == rule(START + MINUTE)


def test_the_next_time_is_the_same_after_a_restart_and_without_a_node() -> None:
    node = Node()
    row = moving(node)
    node.lifecycle.plan_first_runs(row, node.now)
    task = Task(name="a", check=True, schedule=Schedule(every=EVERY, phase=PHASE, spread=Spread.ICINGA))
    for hours in range(1, 4):
        node.advance(hours * HOUR)
        before, accounted = int(node.columns.nominal[row][0]), int(node.columns.accounted[row][0])
        node.columns.nominal[row] = 0
        node.lifecycle.add_restored(row, node.now)
        assert node.columns.nominal[row] == before
        found = next_run(task, ScheduleProgress(accounted, FOREVER, RunKind.FIRST), {}, node.now)
        assert found is not None
        assert (found.at, found.kind) == (before, RunKind.GRID)


def test_after_a_stop_the_catch_up_moves_it_and_what_was_missed_is_recorded() -> None:
    node = Node()
    row = moving(node)
    node.advance(HOUR)
    node.now = Instant(node.now + 33 * MINUTE)
    node.record(resume(node.lifecycle, row, node.now))
    node.advance(node.now - START + SECOND)
    assert node.runs[-1].kind is RunKind.CATCH_UP
    assert node.columns.nominal[row] == rule(node.runs[-1].at)
    assert [skip.times for skip in node.skips] == [7]


def test_it_stays_inside_its_period() -> None:
    node = Node()
    row = moving(node)
    node.period(row, "01:00-02:00")
    node.advance(HOUR + 2 * MINUTE)
    node.lifecycle.force(row)
    node.advance(3 * HOUR)
    assert all(START + HOUR <= run.at < START + 2 * HOUR for run in node.runs)
    assert len(node.runs) > 10
