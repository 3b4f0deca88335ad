"""Runs that are asked for, to know whether a problem persists: one of each task, off the grid, by the common pace."""

import numpy as np
from virtual_node import START, Node

from evenbeat.core.asked_runs import ask_for_runs
from evenbeat.core.task import Flag
from evenbeat.model import HOUR, SECOND, RunKind


def test_each_has_one_run_soon_and_its_grid_goes_on() -> None:
    node = Node()
    rows = node.add(3, every=HOUR, phase=0)
    node.advance(10 * SECOND)
    node.runs.clear()
    assert ask_for_runs(node.lifecycle, rows, node.now).tolist() == rows.tolist()
    node.advance(30 * SECOND)
    assert sorted(run.row for run in node.runs) == rows.tolist()
    assert {run.kind for run in node.runs} == {RunKind.CATCH_UP}
    node.runs.clear()
    node.advance(HOUR)
    assert {run.at for run in node.runs} == {START + HOUR}


def test_many_are_spread_by_the_start_rate() -> None:
    node = Node()
    rows = node.add(5_000, every=24 * HOUR, phase=12 * HOUR)
    asked = ask_for_runs(node.lifecycle, rows, node.now)
    due = node.columns.off_grid_due[asked]
    assert np.bincount((due - START) // SECOND).max() <= node.lifecycle.pace.start_rate


def test_a_run_that_comes_sooner_anyway_is_enough() -> None:
    node = Node()
    rows = node.add(1, every=HOUR, phase=HOUR // 2)
    node.columns.off_grid_due[rows] = START
    node.columns.off_grid_kind[rows] = RunKind.RETRY
    assert not len(ask_for_runs(node.lifecycle, rows, START))
    assert node.columns.off_grid_kind[rows].tolist() == [RunKind.RETRY]


def test_tasks_that_do_not_run_by_their_schedules_are_left_alone() -> None:
    for flag in (Flag.PASSIVE, Flag.FORCED, Flag.POSTPONED, Flag.REMOVED):
        node = Node()
        rows = node.add(1, every=HOUR, phase=HOUR // 2)
        node.lifecycle.set_flag(rows, flag, on=True)
        assert not len(ask_for_runs(node.lifecycle, rows, START)), flag


def test_a_paused_task_keeps_what_was_asked_for_until_it_goes_on() -> None:
    node = Node()
    rows = node.add(1, every=HOUR, phase=HOUR // 2)
    node.lifecycle.set_flag(rows, Flag.ENABLED, on=False)
    ask_for_runs(node.lifecycle, rows, START)
    node.advance(60 * SECOND)
    assert node.runs == []
