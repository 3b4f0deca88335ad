"""A node takes up where the last one stopped, however it stopped, and whatever the clock says by then."""

import numpy as np
import pytest
from hand_driven_node import T0, Hand

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Outcome, Period, RunKind, State
from evenbeat.node.loop.restart import GENERATION_KEY, LAST_SEEN_KEY
from evenbeat.wire.worker_frames import RunResult


class TestWhatWasRunning:
    def test_it_is_lost_and_made_up_for_once(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="1m")
        hand.turn(MINUTE)
        hand.restart(after=5 * MINUTE)
        (record,) = hand.store.runs()
        assert (record.outcome, record.output) == (Outcome.LOST, "the node stopped while it ran")
        assert (record.started, record.ended) == (T0 + MINUTE, T0 + 6 * MINUTE)
        assert hand.store.runs(notable=True) == [record]
        (again,) = hand.turn(SECOND)
        assert (again.kind, again.name) == (RunKind.CATCH_UP, "a")
        hand.end("a")
        assert not hand.turn(30 * MINUTE)

    def test_it_is_not_made_up_for_if_what_is_missed_is_to_be_skipped(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="1m", missed="skip")
        hand.turn(MINUTE)
        hand.restart(after=5 * MINUTE)
        assert hand.condition("a").outcome == Outcome.LOST
        assert not hand.turn(30 * MINUTE)

    def test_whatever_else_was_missed_is_made_up_for_with_it(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.turn(MINUTE)
        hand.restart(after=10 * MINUTE)
        assert [run.kind for run in hand.advance(30 * SECOND)] == [RunKind.CATCH_UP]
        assert [(skip.times, skip.reason) for skip in hand.store.skips()] == [(10, "missed while stopped")]

    def test_its_check_stays_as_it_was(self) -> None:
        hand = Hand()
        hand.add("a", check=True, retry="0s")
        hand.turn(MINUTE)
        hand.end("a", Outcome.FAILED, 2)
        hand.turn(MINUTE)
        hand.restart(after=SECOND)
        found = hand.condition("a")
        assert (found.state, found.hard, found.attempt) == (State.CRITICAL, False, 1)
        assert hand.columns.state[hand.row("a")] == State.CRITICAL

    def test_the_guard_knows_when_it_was_started(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="1m")
        (run,) = hand.turn(MINUTE)
        hand.beat.add_starts([(run.token, hand.now + 3 * SECOND)])
        hand.turn()
        hand.restart(after=10 * SECOND)
        assert hand.columns.last_start[hand.row("a")] == T0 + MINUTE + 3 * SECOND
        assert hand.store.runs()[0].started == T0 + MINUTE + 3 * SECOND

    def test_after_a_second_crash_before_anything_ran_it_is_still_made_up_for_once(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="1m")
        hand.turn(MINUTE)
        hand.restart(after=SECOND)
        hand.restart(after=SECOND)
        assert len(hand.store.runs()) == 1
        assert [run.kind for run in hand.advance(10 * MINUTE)] == [RunKind.CATCH_UP]

    def test_what_was_done_at_a_stop_is_not_made_up_for_at_the_start(self) -> None:
        hand = Hand()
        hand.add("bye", cron="@shutdown")
        hand.force("bye")
        hand.turn()
        hand.restart(after=SECOND)
        assert hand.condition("bye").outcome == Outcome.LOST
        assert not hand.turn(MINUTE)

    def test_a_task_that_was_removed_while_it_ran_is_nobodys_business(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.turn(MINUTE)
        hand.remove("a")
        hand.restart(after=MINUTE)
        assert hand.columns.in_use == 0
        assert not hand.turn(HOUR)


class TestWhatPassed:
    def test_once_by_default_and_the_rest_is_recorded(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.advance(MINUTE)
        hand.restart(after=2 * HOUR + 30 * SECOND)
        assert [run.kind for run in hand.advance(40 * SECOND)] == [RunKind.CATCH_UP, RunKind.GRID]
        assert [(skip.first - T0, skip.times) for skip in hand.store.skips()] == [(2 * MINUTE, 120)]

    def test_not_at_all_if_so_wished(self) -> None:
        hand = Hand()
        hand.add("a", missed="skip")
        hand.restart(after=10 * MINUTE + 30 * SECOND)
        assert [run.kind for run in hand.advance(40 * SECOND)] == [RunKind.GRID]
        assert [skip.times for skip in hand.store.skips()] == [10]

    def test_all_of_it_as_far_back_as_it_goes(self) -> None:
        hand = Hand()
        hand.add("a", every="10m", phase="0s", missed="all", catch_up="25m")
        hand.restart(after=65 * MINUTE)
        made = hand.advance(MINUTE)
        assert [(run.nominal - T0) // MINUTE for run in made] == [40, 50, 60]
        assert [(skip.times, skip.reason) for skip in hand.store.skips()] == [(3, "missed while stopped")]

    def test_nothing_if_nothing_was_due(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="30m")
        hand.restart(after=10 * MINUTE)
        assert hand.condition("a").next_run == T0 + 30 * MINUTE
        assert not hand.turn()

    def test_what_is_decided_at_the_start_is_known_to_the_next_node(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.restart(after=10 * MINUTE + 30 * SECOND)
        found = hand.progress("a")
        assert (found.accounted, found.extra_kind) == (T0 + 10 * MINUTE + 30 * SECOND, RunKind.CATCH_UP)
        hand.restart()
        assert [skip.times for skip in hand.store.skips()] == [10]
        assert [run.kind for run in hand.advance(20 * SECOND)] == [RunKind.CATCH_UP]

    def test_a_crowd_that_missed_something_is_paced_not_a_burst(self) -> None:
        hand = Hand()
        for i in range(200):
            hand.add(f"t{i}", every="1h", phase=f"{i + 1}s")
        hand.restart(after=30 * MINUTE)
        per_second = [len(hand.advance(SECOND)) for _ in range(25)]
        first, *others = per_second
        assert first <= 12  # with what is due just after it, and claimed already
        assert max(others) <= 10
        assert sum(per_second) == 200

    def test_planned_runs_off_the_grid_whose_time_has_passed_are_paced_too(self) -> None:
        hand = Hand()
        for i in range(100):
            hand.add(f"c{i}", check=True, every="1d", phase="23h", retry="10m")
        hand.advance(MINUTE)
        assert len(hand.store.runs(most=1_000)) == 100
        for i in range(100):
            hand.force(f"c{i}")
        hand.turn()
        for i in range(100):
            hand.end(f"c{i}", Outcome.FAILED, 2)
        hand.turn()
        assert hand.condition("c0").extra == hand.now + 10 * MINUTE
        hand.restart(after=HOUR)
        per_second = [len(hand.advance(SECOND)) for _ in range(15)]
        first, *others = per_second
        assert first <= 12  # with what is due just after it, and claimed already
        assert max(others) <= 10
        assert sum(per_second) == 100

    def test_a_one_off_whose_time_has_passed_is_made_up_for(self) -> None:
        hand = Hand()
        hand.add("a", at="2024-10-04T01:00")
        hand.restart(after=2 * HOUR)
        assert [run.kind for run in hand.advance(2 * SECOND)] == [RunKind.CATCH_UP]
        assert hand.condition("a").next_run is None
        assert not hand.advance(HOUR, step=MINUTE)

    def test_a_start_that_was_asked_for_and_passed_is_made_up_for(self) -> None:
        hand = Hand()
        hand.add("a", every="1d", phase="0s", start_at="2024-10-04T01:00")
        hand.restart(after=2 * HOUR)
        assert [run.kind for run in hand.advance(2 * SECOND)] == [RunKind.START_AT]


class TestWhoIsNew:
    def test_a_new_check_gets_a_first_run_soon_a_new_task_does_not(self) -> None:
        hand = Hand()
        hand.desk.on_changed = lambda _: None  # as if no node had been there
        hand.add("check", check=True, every="1d", phase="12h")
        hand.add("task", every="1d", phase="12h")
        hand.restart()
        assert [(run.name, run.kind) for run in hand.advance(MINUTE)] == [("check", RunKind.FIRST)]

    def test_a_check_that_is_known_has_had_its_first_run(self) -> None:
        hand = Hand()
        hand.add("check", check=True, every="1d", phase="12h")
        hand.advance(MINUTE)
        hand.restart(after=MINUTE)
        assert not hand.advance(MINUTE)

    def test_one_that_still_waited_for_its_first_run_gets_it(self) -> None:
        hand = Hand()
        hand.add("check", check=True, every="1d", phase="12h")
        hand.restart(after=MINUTE)
        assert [run.kind for run in hand.advance(MINUTE)] == [RunKind.FIRST]

    def test_where_a_new_task_stands_is_known_to_the_store_at_once(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="5m")
        assert hand.progress("a").accounted == T0
        assert hand.condition("a").extra is None

    def test_a_start_in_the_future_is_waited_for(self) -> None:
        hand = Hand()
        hand.desk.on_changed = lambda _: None
        hand.add("a", every="1h", phase="0s", start_at="2024-10-04T01:30")
        hand.restart()
        assert [run.nominal - T0 for run in hand.advance(2 * HOUR, step=MINUTE)] == [90 * MINUTE, 2 * HOUR]


class TestOccasions:
    def test_at_every_start_once(self) -> None:
        hand = Hand()
        hand.add("hello", cron="@reboot")
        assert not hand.turn(MINUTE)
        for _ in range(3):
            hand.restart(after=MINUTE)
            (run,) = hand.turn()
            assert (run.kind, run.nominal) == (RunKind.OCCASION, hand.now)
            hand.end("hello")
            assert not hand.turn(MINUTE)

    def test_once_also_if_the_last_one_was_lost(self) -> None:
        hand = Hand()
        hand.add("hello", cron="@reboot")
        hand.restart()
        hand.turn()
        hand.restart(after=MINUTE)
        assert len(hand.advance(MINUTE)) == 1

    def test_not_while_it_is_paused(self) -> None:
        hand = Hand()
        hand.add("hello", cron="@reboot")
        hand.pause("hello")
        hand.restart()
        assert not hand.turn(MINUTE)
        assert [(s.kind, s.reason) for s in hand.store.skips()] == [(RunKind.OCCASION, "disabled")]


class TestForced:
    def test_a_forced_run_that_waited_waits_again(self) -> None:
        hand = Hand(slots=1)
        hand.add("a", every="1d", phase="12h", missed="skip")
        hand.add("b", every="1d", phase="12h", missed="skip")
        hand.pause("b")
        hand.force("a")
        hand.turn()
        hand.force("b")
        hand.turn()
        hand.restart(after=MINUTE)
        (run,) = hand.turn()
        assert (run.name, run.kind) == ("b", RunKind.FORCED)
        hand.end("b")
        assert not hand.turn(MINUTE)

    def test_also_if_a_first_run_was_planned(self) -> None:
        hand = Hand(slots=1)
        hand.add("busy", every="1d", phase="12h", missed="skip")
        hand.force("busy")
        hand.turn()
        hand.add("a", check=True, every="1d", phase="12h")
        hand.pause("a")
        hand.force("a")
        hand.restart(after=MINUTE)
        assert [(run.name, run.kind) for run in hand.turn()] == [("a", RunKind.FORCED)]

    def test_one_that_waited_for_the_end_of_a_run_makes_up_for_it_as_well(self) -> None:
        hand = Hand()
        hand.add("a", every="1d", phase="1m")
        hand.turn(MINUTE)
        hand.force("a")
        hand.turn()
        hand.restart(after=MINUTE)
        assert [run.kind for run in hand.advance(5 * MINUTE)] == [RunKind.FORCED]


class TestClock:
    def test_a_clock_that_is_earlier_than_a_node_has_seen_it_starts_a_new_generation(self) -> None:
        hand = Hand()
        hand.add("a", every="10m", phase="0s")
        hand.advance(25 * MINUTE, step=MINUTE)
        hand.store.set_settings({LAST_SEEN_KEY: str(hand.now)})
        hand.restart(after=-2 * HOUR)
        assert hand.life.generation == 1
        assert hand.store.setting(GENERATION_KEY) == "1"
        made = hand.advance(20 * MINUTE, step=MINUTE)
        assert len(made) in (2, 3)
        assert {claim.generation for claim in hand.store.claims[-len(made) :]} == {1}

    def test_the_next_node_does_not_take_it_for_set_back_again(self) -> None:
        hand = Hand()
        hand.add("a", every="10m", phase="0s")
        hand.store.set_settings({LAST_SEEN_KEY: str(hand.now)})
        hand.restart(after=-2 * HOUR)
        hand.restart(after=SECOND)
        assert hand.life.generation == 1

    def test_a_little_earlier_is_no_matter(self) -> None:
        hand = Hand()
        hand.store.set_settings({LAST_SEEN_KEY: str(hand.now)})
        hand.restart(after=-SECOND)
        assert hand.life.generation == 0

    def test_a_run_that_was_under_way_does_not_hold_up_its_task(self) -> None:
        hand = Hand()
        hand.add("a", every="10m", phase="0s")
        hand.turn(10 * MINUTE)
        hand.store.set_settings({LAST_SEEN_KEY: str(hand.now)})
        hand.restart(after=-DAY)
        assert hand.columns.last_start[hand.row("a")] <= hand.now
        made = hand.advance(HOUR, step=MINUTE)
        assert len([run for run in made if run.kind == RunKind.GRID]) >= 5

    def test_where_every_task_stands_by_the_new_clock_outlives_the_node(self) -> None:
        hand = Hand()
        hand.add("a", check=True, every="1h", phase="30m")
        hand.advance(31 * MINUTE, step=MINUTE)
        assert hand.progress("a").result_at > T0
        hand.store.set_settings({LAST_SEEN_KEY: str(hand.now)})
        hand.restart(after=-DAY)
        hand.restart(after=SECOND)
        assert hand.progress("a").result_at <= hand.now
        assert hand.progress("a").last_start <= hand.now
        hand.advance(2 * HOUR, step=MINUTE)
        assert hand.progress("a").result_at > T0 - DAY + HOUR

    def test_a_clock_that_is_set_back_while_the_node_lives_does_not_stop_it(self) -> None:
        hand = Hand()
        hand.add("a", every="10m", phase="0s")
        hand.advance(25 * MINUTE, step=MINUTE)
        hand.clock_is_set(-DAY)
        assert hand.told_offset == -DAY
        assert hand.store.setting(GENERATION_KEY) == "1"
        assert len(hand.advance(30 * MINUTE, step=MINUTE)) >= 3

    @pytest.mark.parametrize("by", [-300_000, -5_000, 5_000, 300_000])
    def test_a_clock_that_is_corrected_a_little_is_the_workers_clock_too(self, by: int) -> None:
        hand = Hand()
        hand.clock_is_set(by)
        hand.clock_is_set(0)
        assert hand.told_offset == hand.clock.offset != 0

    def test_a_step_forward_counts_as_a_stop(self) -> None:
        hand = Hand()
        hand.add("a", every="10m", phase="5m")
        hand.clock_is_set(DAY)
        assert [(s.times, s.reason) for s in hand.store.skips()] == [(144, "missed while stopped")]
        assert [run.kind for run in hand.advance(MINUTE)] == [RunKind.CATCH_UP]


def test_a_cursor_outlives_the_node() -> None:
    hand = Hand()
    hand.add("a")
    hand.turn(MINUTE)
    hand.end("a", cursor=b"\x05")
    hand.turn()
    hand.restart(after=30 * SECOND)
    assert hand.turn(MINUTE)[0].cursor == b"\x05"


def test_the_second_node_counts_like_the_first() -> None:
    hand = Hand()
    for name in "abc":
        hand.add(name)
    hand.turn(MINUTE)
    hand.restart(after=SECOND)
    assert (hand.life.idle, hand.life.pending) == (3, 0)


def test_phases_periods_and_limits_are_as_they_were() -> None:
    hand = Hand()
    hand.periods(early=Period(ranges=("00:00-12:00",)))
    hand.limits(db=3)
    for name in "abcdef":
        hand.add(name, every="7m", period="early", limit="db")
    before = [hand.progress(name)[:3] for name in "abcdef"]
    hand.restart(after=SECOND)
    assert [hand.progress(name)[:3] for name in "abcdef"] == before
    rows = np.array([hand.row(name) for name in "abcdef"])
    assert hand.life.limits[hand.columns.limit[rows]].tolist() == [3] * 6


@pytest.mark.parametrize("after", [0, SECOND, HOUR])
def test_results_for_the_last_node_are_nothing_to_the_new_one(after: int) -> None:
    hand = Hand()
    hand.add("a", every="1h", phase="1m")
    (run,) = hand.turn(MINUTE)
    hand.restart(after=after)
    hand.beat.add_results([RunResult(run.token, Outcome.SUCCEEDED, 0, hand.now, hand.now, b"")])
    hand.turn()
    assert hand.store.runs()[-1].outcome == Outcome.LOST


class TestIcinga:
    def test_a_grid_that_moves_goes_on_where_it_was_after_a_restart(self) -> None:
        hand = Hand()
        hand.add("a", check=True, every="5m", spread="icinga", phase="2m")
        hand.advance(HOUR + 17 * SECOND)
        row = hand.row("a")
        before = hand.columns.nominal[row]
        assert (before - T0) % (5 * MINUTE) not in (0, 2 * MINUTE)
        hand.restart(after=SECOND)
        assert hand.columns.nominal[hand.row("a")] == before
        (run,) = hand.advance(5 * MINUTE, SECOND // 10)
        assert run.nominal == before
        assert hand.columns.nominal[hand.row("a")] == before + 5 * MINUTE - SECOND // 2
