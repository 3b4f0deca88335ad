"""A node takes up where the last one stopped, however it stopped, and whatever the clock says by then."""

import numpy as np
import pytest
from hand_driven_node import T0, HandDrivenNode

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Outcome, Period, RunKind, State
from evenbeat.node.loop.restart import GENERATION_KEY, LAST_SEEN_KEY
from evenbeat.wire.worker_frames import RunResult


class TestWhatWasRunning:
    def test_it_is_lost_and_made_up_for_once(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="1m")
        driven.turn(MINUTE)
        driven.restart(after=5 * MINUTE)
        (record,) = driven.store.runs()
        assert (record.outcome, record.output) == (Outcome.LOST, "the node stopped while it ran")
        assert (record.started, record.ended) == (T0 + MINUTE, T0 + 6 * MINUTE)
        assert driven.store.runs(notable=True) == [record]
        (again,) = driven.turn(SECOND)
        assert (again.kind, again.name) == (RunKind.CATCH_UP, "a")
        driven.end("a")
        assert not driven.turn(30 * MINUTE)

    def test_it_is_not_made_up_for_if_what_is_missed_is_to_be_skipped(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="1m", missed="skip")
        driven.turn(MINUTE)
        driven.restart(after=5 * MINUTE)
        assert driven.condition("a").outcome == Outcome.LOST
        assert not driven.turn(30 * MINUTE)

    def test_whatever_else_was_missed_is_made_up_for_with_it(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.turn(MINUTE)
        driven.restart(after=10 * MINUTE)
        assert [run.kind for run in driven.advance(30 * SECOND)] == [RunKind.CATCH_UP]
        assert [(skip.times, skip.reason) for skip in driven.store.skips()] == [(10, "missed while stopped")]

    def test_its_check_stays_as_it_was(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", check=True, retry="0s")
        driven.turn(MINUTE)
        driven.end("a", Outcome.FAILED, 2)
        driven.turn(MINUTE)
        driven.restart(after=SECOND)
        found = driven.condition("a")
        assert (found.state, found.hard, found.attempt) == (State.CRITICAL, False, 1)
        assert driven.columns.state[driven.row("a")] == State.CRITICAL

    def test_the_guard_knows_when_it_was_started(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="1m")
        (run,) = driven.turn(MINUTE)
        driven.turns.add_starts([(run.token, driven.now + 3 * SECOND)])
        driven.turn()
        driven.restart(after=10 * SECOND)
        assert driven.columns.last_start[driven.row("a")] == T0 + MINUTE + 3 * SECOND
        assert driven.store.runs()[0].started == T0 + MINUTE + 3 * SECOND

    def test_after_a_second_crash_before_anything_ran_it_is_still_made_up_for_once(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="1m")
        driven.turn(MINUTE)
        driven.restart(after=SECOND)
        driven.restart(after=SECOND)
        assert len(driven.store.runs()) == 1
        assert [run.kind for run in driven.advance(10 * MINUTE)] == [RunKind.CATCH_UP]

    def test_what_was_done_at_a_stop_is_not_made_up_for_at_the_start(self) -> None:
        driven = HandDrivenNode()
        driven.add("bye", cron="@shutdown")
        driven.force("bye")
        driven.turn()
        driven.restart(after=SECOND)
        assert driven.condition("bye").outcome == Outcome.LOST
        assert not driven.turn(MINUTE)

    def test_a_task_that_was_removed_while_it_ran_is_nobodys_business(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.turn(MINUTE)
        driven.remove("a")
        driven.restart(after=MINUTE)
        assert driven.columns.in_use == 0
        assert not driven.turn(HOUR)


class TestWhatPassed:
    def test_once_by_default_and_the_rest_is_recorded(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.advance(MINUTE)
        driven.restart(after=2 * HOUR + 30 * SECOND)
        assert [run.kind for run in driven.advance(40 * SECOND)] == [RunKind.CATCH_UP, RunKind.GRID]
        assert [(skip.first - T0, skip.times) for skip in driven.store.skips()] == [(2 * MINUTE, 120)]

    def test_not_at_all_if_so_wished(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", missed="skip")
        driven.restart(after=10 * MINUTE + 30 * SECOND)
        assert [run.kind for run in driven.advance(40 * SECOND)] == [RunKind.GRID]
        assert [skip.times for skip in driven.store.skips()] == [10]

    def test_all_of_it_as_far_back_as_it_goes(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10m", phase="0s", missed="all", catch_up="25m")
        driven.restart(after=65 * MINUTE)
        made = driven.advance(MINUTE)
        assert [(run.nominal - T0) // MINUTE for run in made] == [40, 50, 60]
        assert [(skip.times, skip.reason) for skip in driven.store.skips()] == [(3, "missed while stopped")]

    def test_nothing_if_nothing_was_due(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="30m")
        driven.restart(after=10 * MINUTE)
        assert driven.condition("a").next_run == T0 + 30 * MINUTE
        assert not driven.turn()

    def test_what_is_decided_at_the_start_is_known_to_the_next_node(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.restart(after=10 * MINUTE + 30 * SECOND)
        found = driven.progress("a")
        assert (found.accounted, found.extra_kind) == (T0 + 10 * MINUTE + 30 * SECOND, RunKind.CATCH_UP)
        driven.restart()
        assert [skip.times for skip in driven.store.skips()] == [10]
        assert [run.kind for run in driven.advance(20 * SECOND)] == [RunKind.CATCH_UP]

    def test_a_crowd_that_missed_something_is_paced_not_a_burst(self) -> None:
        driven = HandDrivenNode()
        for i in range(200):
            driven.add(f"t{i}", every="1h", phase=f"{i + 1}s")
        driven.restart(after=30 * MINUTE)
        per_second = [len(driven.advance(SECOND)) for _ in range(25)]
        first, *others = per_second
        assert first <= 12  # with what is due just after it, and claimed already
        assert max(others) <= 10
        assert sum(per_second) == 200

    def test_planned_runs_off_the_grid_whose_time_has_passed_are_paced_too(self) -> None:
        driven = HandDrivenNode()
        for i in range(100):
            driven.add(f"c{i}", check=True, every="1d", phase="23h", retry="10m")
        driven.advance(MINUTE)
        assert len(driven.store.runs(most=1_000)) == 100
        for i in range(100):
            driven.force(f"c{i}")
        driven.turn()
        for i in range(100):
            driven.end(f"c{i}", Outcome.FAILED, 2)
        driven.turn()
        assert driven.condition("c0").extra == driven.now + 10 * MINUTE
        driven.restart(after=HOUR)
        per_second = [len(driven.advance(SECOND)) for _ in range(15)]
        first, *others = per_second
        assert first <= 12  # with what is due just after it, and claimed already
        assert max(others) <= 10
        assert sum(per_second) == 100

    def test_a_one_off_whose_time_has_passed_is_made_up_for(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", at="2024-10-04T01:00")
        driven.restart(after=2 * HOUR)
        assert [run.kind for run in driven.advance(2 * SECOND)] == [RunKind.CATCH_UP]
        assert driven.condition("a").next_run is None
        assert not driven.advance(HOUR, step=MINUTE)

    def test_a_start_that_was_asked_for_and_passed_is_made_up_for(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1d", phase="0s", start_at="2024-10-04T01:00")
        driven.restart(after=2 * HOUR)
        assert [run.kind for run in driven.advance(2 * SECOND)] == [RunKind.START_AT]


class TestWhoIsNew:
    def test_a_new_check_gets_a_first_run_soon_a_new_task_does_not(self) -> None:
        driven = HandDrivenNode()
        driven.admin.on_changed = lambda _: None  # as if no node had been there
        driven.add("check", check=True, every="1d", phase="12h")
        driven.add("task", every="1d", phase="12h")
        driven.restart()
        assert [(run.name, run.kind) for run in driven.advance(MINUTE)] == [("check", RunKind.FIRST)]

    def test_a_check_that_is_known_has_had_its_first_run(self) -> None:
        driven = HandDrivenNode()
        driven.add("check", check=True, every="1d", phase="12h")
        driven.advance(MINUTE)
        driven.restart(after=MINUTE)
        assert not driven.advance(MINUTE)

    def test_one_that_still_waited_for_its_first_run_gets_it(self) -> None:
        driven = HandDrivenNode()
        driven.add("check", check=True, every="1d", phase="12h")
        driven.restart(after=MINUTE)
        assert [run.kind for run in driven.advance(MINUTE)] == [RunKind.FIRST]

    def test_where_a_new_task_stands_is_known_to_the_store_at_once(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="5m")
        assert driven.progress("a").accounted == T0
        assert driven.condition("a").extra is None

    def test_a_start_in_the_future_is_waited_for(self) -> None:
        driven = HandDrivenNode()
        driven.admin.on_changed = lambda _: None
        driven.add("a", every="1h", phase="0s", start_at="2024-10-04T01:30")
        driven.restart()
        assert [run.nominal - T0 for run in driven.advance(2 * HOUR, step=MINUTE)] == [90 * MINUTE, 2 * HOUR]


class TestOccasions:
    def test_at_every_start_once(self) -> None:
        driven = HandDrivenNode()
        driven.add("hello", cron="@reboot")
        assert not driven.turn(MINUTE)
        for _ in range(3):
            driven.restart(after=MINUTE)
            (run,) = driven.turn()
            assert (run.kind, run.nominal) == (RunKind.OCCASION, driven.now)
            driven.end("hello")
            assert not driven.turn(MINUTE)

    def test_once_also_if_the_last_one_was_lost(self) -> None:
        driven = HandDrivenNode()
        driven.add("hello", cron="@reboot")
        driven.restart()
        driven.turn()
        driven.restart(after=MINUTE)
        assert len(driven.advance(MINUTE)) == 1

    def test_not_while_it_is_paused(self) -> None:
        driven = HandDrivenNode()
        driven.add("hello", cron="@reboot")
        driven.pause("hello")
        driven.restart()
        assert not driven.turn(MINUTE)
        assert [(s.kind, s.reason) for s in driven.store.skips()] == [(RunKind.OCCASION, "disabled")]


class TestForced:
    def test_a_forced_run_that_waited_waits_again(self) -> None:
        driven = HandDrivenNode(slots=1)
        driven.add("a", every="1d", phase="12h", missed="skip")
        driven.add("b", every="1d", phase="12h", missed="skip")
        driven.pause("b")
        driven.force("a")
        driven.turn()
        driven.force("b")
        driven.turn()
        driven.restart(after=MINUTE)
        (run,) = driven.turn()
        assert (run.name, run.kind) == ("b", RunKind.FORCED)
        driven.end("b")
        assert not driven.turn(MINUTE)

    def test_also_if_a_first_run_was_planned(self) -> None:
        driven = HandDrivenNode(slots=1)
        driven.add("busy", every="1d", phase="12h", missed="skip")
        driven.force("busy")
        driven.turn()
        driven.add("a", check=True, every="1d", phase="12h")
        driven.pause("a")
        driven.force("a")
        driven.restart(after=MINUTE)
        assert [(run.name, run.kind) for run in driven.turn()] == [("a", RunKind.FORCED)]

    def test_one_that_waited_for_the_end_of_a_run_makes_up_for_it_as_well(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1d", phase="1m")
        driven.turn(MINUTE)
        driven.force("a")
        driven.turn()
        driven.restart(after=MINUTE)
        assert [run.kind for run in driven.advance(5 * MINUTE)] == [RunKind.FORCED]


class TestClock:
    def test_a_clock_that_is_earlier_than_a_node_has_seen_it_starts_a_new_generation(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10m", phase="0s")
        driven.advance(25 * MINUTE, step=MINUTE)
        driven.store.set_settings({LAST_SEEN_KEY: str(driven.now)})
        driven.restart(after=-2 * HOUR)
        assert driven.lifecycle.generation == 1
        assert driven.store.setting(GENERATION_KEY) == "1"
        made = driven.advance(20 * MINUTE, step=MINUTE)
        assert len(made) in (2, 3)
        assert {claim.generation for claim in driven.store.claims[-len(made) :]} == {1}

    def test_the_next_node_does_not_take_it_for_set_back_again(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10m", phase="0s")
        driven.store.set_settings({LAST_SEEN_KEY: str(driven.now)})
        driven.restart(after=-2 * HOUR)
        driven.restart(after=SECOND)
        assert driven.lifecycle.generation == 1

    def test_a_little_earlier_is_no_matter(self) -> None:
        driven = HandDrivenNode()
        driven.store.set_settings({LAST_SEEN_KEY: str(driven.now)})
        driven.restart(after=-SECOND)
        assert driven.lifecycle.generation == 0

    def test_a_run_that_was_under_way_does_not_hold_up_its_task(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10m", phase="0s")
        driven.turn(10 * MINUTE)
        driven.store.set_settings({LAST_SEEN_KEY: str(driven.now)})
        driven.restart(after=-DAY)
        assert driven.columns.last_start[driven.row("a")] <= driven.now
        made = driven.advance(HOUR, step=MINUTE)
        assert len([run for run in made if run.kind == RunKind.GRID]) >= 5

    def test_where_every_task_stands_by_the_new_clock_outlives_the_node(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", check=True, every="1h", phase="30m")
        driven.advance(31 * MINUTE, step=MINUTE)
        assert driven.progress("a").result_at > T0
        driven.store.set_settings({LAST_SEEN_KEY: str(driven.now)})
        driven.restart(after=-DAY)
        driven.restart(after=SECOND)
        assert driven.progress("a").result_at <= driven.now
        assert driven.progress("a").last_start <= driven.now
        driven.advance(2 * HOUR, step=MINUTE)
        assert driven.progress("a").result_at > T0 - DAY + HOUR

    def test_a_clock_that_is_set_back_while_the_node_lives_does_not_stop_it(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10m", phase="0s")
        driven.advance(25 * MINUTE, step=MINUTE)
        driven.clock_is_set(-DAY)
        assert driven.clock_offset == -DAY
        assert driven.store.setting(GENERATION_KEY) == "1"
        assert len(driven.advance(30 * MINUTE, step=MINUTE)) >= 3

    @pytest.mark.parametrize("by", [-300_000, -5_000, 5_000, 300_000])
    def test_a_clock_that_is_corrected_a_little_is_the_workers_clock_too(self, by: int) -> None:
        driven = HandDrivenNode()
        driven.clock_is_set(by)
        driven.clock_is_set(0)
        assert driven.clock_offset == driven.clock.offset != 0

    def test_a_step_forward_counts_as_a_stop(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10m", phase="5m")
        driven.clock_is_set(DAY)
        assert [(s.times, s.reason) for s in driven.store.skips()] == [(144, "missed while stopped")]
        assert [run.kind for run in driven.advance(MINUTE)] == [RunKind.CATCH_UP]


def test_a_cursor_outlives_the_node() -> None:
    driven = HandDrivenNode()
    driven.add("a")
    driven.turn(MINUTE)
    driven.end("a", cursor=b"\x05")
    driven.turn()
    driven.restart(after=30 * SECOND)
    assert driven.turn(MINUTE)[0].cursor == b"\x05"


def test_the_second_node_counts_like_the_first() -> None:
    driven = HandDrivenNode()
    for name in "abc":
        driven.add(name)
    driven.turn(MINUTE)
    driven.restart(after=SECOND)
    assert (driven.lifecycle.idle, driven.lifecycle.pending) == (3, 0)


def test_phases_periods_and_limits_are_as_they_were() -> None:
    driven = HandDrivenNode()
    driven.periods(early=Period(ranges=("00:00-12:00",)))
    driven.limits(db=3)
    for name in "abcdef":
        driven.add(name, every="7m", period="early", limit="db")
    before = [driven.progress(name)[:3] for name in "abcdef"]
    driven.restart(after=SECOND)
    assert [driven.progress(name)[:3] for name in "abcdef"] == before
    rows = np.array([driven.row(name) for name in "abcdef"])
    assert driven.lifecycle.limits[driven.columns.limit[rows]].tolist() == [3] * 6


@pytest.mark.parametrize("after", [0, SECOND, HOUR])
def test_results_for_the_last_node_are_nothing_to_the_new_one(after: int) -> None:
    driven = HandDrivenNode()
    driven.add("a", every="1h", phase="1m")
    (run,) = driven.turn(MINUTE)
    driven.restart(after=after)
    driven.turns.add_results([RunResult(run.token, Outcome.SUCCEEDED, 0, driven.now, driven.now, b"")])
    driven.turn()
    assert driven.store.runs()[-1].outcome == Outcome.LOST


class TestIcinga:
    def test_a_grid_that_moves_goes_on_where_it_was_after_a_restart(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", check=True, every="5m", spread="icinga", phase="2m")
        driven.advance(HOUR + 17 * SECOND)
        row = driven.row("a")
        before = driven.columns.nominal[row]
        assert (before - T0) % (5 * MINUTE) not in (0, 2 * MINUTE)
        driven.restart(after=SECOND)
        assert driven.columns.nominal[driven.row("a")] == before
        (run,) = driven.advance(5 * MINUTE, SECOND // 10)
        assert run.nominal == before
        assert driven.columns.nominal[driven.row("a")] == before + 5 * MINUTE - SECOND // 2
