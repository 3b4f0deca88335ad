"""Passive checks in the core: they never run, and their nominal times are settled by what was told."""

import numpy as np
import pytest
from virtual_node import START, Node

from evenbeat.core.columns import Ints
from evenbeat.core.passive import counts_since, look, look_at, missed_one, resume, stale_since
from evenbeat.core.task import Flag
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant
from evenbeat.when.cron import compile_cron
from evenbeat.when.windows import FOREVER, NEVER

PASSIVE = Flag.PASSIVE | Flag.CHECK


def nightly(node: Node) -> Ints:
    return node.add_calendar(compile_cron("0 2 * * *", name="a", second=0), PASSIVE)


def all_at(rows: Ints, value: int) -> Ints:
    return np.full(len(rows), value, dtype=np.int64)


def test_it_never_arrives_whatever_is_asked_of_it() -> None:
    node = Node()
    rows = node.add(3, flags=PASSIVE)
    node.lifecycle.force(rows[:1])
    node.columns.extra[rows[1]] = START
    node.lifecycle.requeue(rows)
    node.advance(HOUR)
    assert node.runs == []
    assert node.skips == []
    assert (node.lifecycle.idle, node.lifecycle.pending) == (3, 0)
    assert node.lifecycle.timetable.next_due() == FOREVER


def test_it_leaves_when_it_is_removed() -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    node.lifecycle.remove(rows, node.now)
    assert (node.lifecycle.idle, node.columns.in_use) == (0, 0)


@pytest.mark.parametrize(("told", "fresh"), [(0, False), (1, True), (MINUTE, True), (NEVER - START, False)])
def test_of_an_interval_all_that_was_told_since_the_time_before_counts(told: int, *, fresh: bool) -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    node.columns.result_at[rows] = START + told
    seen = look(node.lifecycle, rows, all_at(rows, 10 * SECOND), Instant(START + MINUTE + 10 * SECOND))
    assert (len(seen.fresh), len(seen.stale), len(seen.skips)) == (fresh, not fresh, 0)
    assert node.columns.nominal[rows] == START + 2 * MINUTE


def test_before_the_time_that_is_allowed_nothing_is_settled() -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    seen = look(node.lifecycle, rows, all_at(rows, 10 * SECOND), Instant(START + MINUTE + 9 * SECOND))
    assert (len(seen.fresh), len(seen.stale)) == (0, 0)
    assert node.columns.nominal[rows] == START + MINUTE


def test_many_that_passed_are_one_look_at_the_last_of_them() -> None:
    node = Node()
    rows = node.add(2, flags=PASSIVE)
    node.columns.result_at[rows[0]] = START + 58 * MINUTE
    seen = look(node.lifecycle, rows, np.array([0, 10 * SECOND]), Instant(START + HOUR + 10 * SECOND))
    assert sorted([*seen.stale, *seen.fresh]) == rows.tolist()
    assert seen.stale.tolist() == rows.tolist()
    assert seen.nominal.tolist() == [START + HOUR] * 2
    assert node.columns.nominal[rows].tolist() == [START + HOUR + MINUTE] * 2


def test_of_a_calendar_what_is_told_half_the_time_before_counts() -> None:
    node = Node()
    rows = nightly(node)
    at_two = all_at(rows, START + DAY + 2 * HOUR)
    assert counts_since(node.lifecycle, rows, at_two) == START + 14 * HOUR
    node.columns.tolerance[rows] = MINUTE
    assert counts_since(node.lifecycle, rows, at_two) == START + DAY + 2 * HOUR - MINUTE


def test_disabled_ones_are_skipped_with_the_reason() -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    node.lifecycle.set_flag(rows, Flag.ENABLED, on=False)
    seen = look(node.lifecycle, rows, all_at(rows, 0), Instant(START + HOUR))
    assert (len(seen.fresh), len(seen.stale)) == (0, 0)
    node.record(seen.skips)
    assert [(skip.times, skip.reason) for skip in node.skips] == [(60, "disabled")]


def test_a_stale_result_is_just_newer_than_the_last_one_and_no_sign_of_life() -> None:
    node = Node()
    rows = node.add(2, flags=PASSIVE)
    node.columns.result_at[rows] = [START - 5, NEVER]
    nominal = all_at(rows, START + MINUTE)
    known = stale_since(node.lifecycle, rows, nominal)
    assert known.tolist() == [START - 4, START]
    assert (known <= counts_since(node.lifecycle, rows, nominal)).all()


def test_it_is_looked_at_when_the_result_must_be_there_or_later() -> None:
    node = Node()
    rows = node.add(2, flags=PASSIVE)
    found = look_at(node.lifecycle, rows, all_at(rows, 15 * SECOND), np.array([NEVER, START + HOUR]))
    assert found.tolist() == [START + 75 * SECOND, START + HOUR]


def test_after_a_stop_what_can_still_come_is_still_expected() -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    node.record(resume(node.lifecycle, rows, all_at(rows, 30 * SECOND), Instant(START + 10 * MINUTE + 20 * SECOND)))
    assert [(skip.times, skip.reason) for skip in node.skips] == [(9, "missed while stopped")]
    assert node.columns.nominal[rows] == START + 10 * MINUTE


@pytest.mark.parametrize(
    ("told", "stopped", "length", "missed"),
    [
        (0, 20, 10, False),  # the next comes after the stop
        (0, 50, 20, True),  # it came at 60, while nobody listened
        (0, 70, 20, True),  # it may have been 15 s late
        (0, 80, 20, False),  # it was late already, and the next comes at 120
        (0, 600, 100, True),
        (0, 605, 10, True),
    ],
)
def test_whose_sender_told_in_vain(told: int, stopped: int, length: int, *, missed: bool) -> None:
    node = Node()
    rows = node.add(flags=PASSIVE)
    node.columns.result_at[rows] = START + told * SECOND
    since, now = Instant(START + stopped * SECOND), Instant(START + (stopped + length) * SECOND)
    assert missed_one(node.lifecycle, rows, all_at(rows, 15 * SECOND), since, now).tolist() == [missed]


def test_of_a_calendar_or_without_any_result_nobody_told_in_vain() -> None:
    node = Node()
    rows = np.concatenate([nightly(node), node.add(flags=PASSIVE)])
    node.columns.result_at[rows] = [START, NEVER]
    assert not missed_one(node.lifecycle, rows, all_at(rows, 0), START, Instant(START + 3 * DAY)).any()
