"""Turns: what ended is learned, what is due is claimed, and nothing starts before its claim is safe."""

import asyncio
from typing import Any

import msgspec
import pytest
from hand_driven_node import T0, Hand
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Outcome, Period, RunKind, State
from evenbeat.store.contract import Batch
from evenbeat.when.windows import FOREVER, NEVER
from evenbeat.wire.worker_frames import RunResult, RunSpec
from evenbeat.work.admission import refusal_reason

PROBLEMS = [
    (Outcome.SUCCEEDED, 0, State.OK),
    (Outcome.FAILED, 1, State.WARNING),
    (Outcome.FAILED, 2, State.CRITICAL),
    (Outcome.FAILED, 3, State.UNKNOWN),
    (Outcome.FAILED, 77, State.UNKNOWN),
    (Outcome.KILLED, -9, State.UNKNOWN),
    (Outcome.TIMEBOXED, None, State.UNKNOWN),
    (Outcome.TIMEBOXED, 0, State.UNKNOWN),
    (Outcome.BROKEN, None, State.UNKNOWN),
]


class Busy(Hand):
    """All slots are taken, more tasks wait, and a turn takes a millisecond of the loop's time."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots=slots)
        for i in range(3 * slots):
            self.add(f"t{i}")
        self.turns = 0
        self._made = self.beat.turn
        self.beat.turn = self._slow  # type: ignore[method-assign]
        self.now += MINUTE

    def _slow(self, now: Instant) -> None:
        self.loop.pass_by(0.001)
        self.turns += 1
        self._made(now)

    async def end_first(self, runs: int, then_wait: float) -> None:
        for run in self.dispatched[:runs]:
            self.under_way[run.name] = run
            self.end(run.name)
        del self.dispatched[:runs]
        await asyncio.sleep(then_wait)


class TestPace:
    def test_while_all_slots_are_taken_a_turn_waits_until_a_good_part_of_them_is_free_again(self) -> None:
        hand = Busy(slots=9)

        async def busy() -> None:
            hand.beat._turn()
            await hand.end_first(1, then_wait=0.01)
            assert hand.turns == 1
            await hand.end_first(3, then_wait=0.001)
            assert hand.turns == 2
            hand.beat.stop()

        hand.loop.run_until_complete(busy())

    def test_it_does_not_wait_for_that_for_long(self) -> None:
        hand = Busy(slots=9)

        async def busy() -> None:
            hand.beat._turn()
            await hand.end_first(1, then_wait=0.05)
            assert hand.turns > 1
            hand.beat.stop()

        hand.loop.run_until_complete(busy())

    def test_what_lasts_is_not_waited_for(self) -> None:
        hand = Busy(slots=9)

        async def busy() -> None:
            hand.beat._turn()
            lasting = hand.dispatched[3:]
            hand.beat.add_starts([(run.token, hand.now) for run in lasting])
            hand.beat._turn()
            await hand.end_first(1, then_wait=0.005)
            assert hand.turns == 3, "a third of those that may end soon"
            hand.beat.stop()

        hand.loop.run_until_complete(busy())

    def test_while_workers_have_more_than_they_can_begin_it_waits_but_not_for_long(self) -> None:
        hand = Busy(slots=9)

        async def busy() -> None:
            hand.beat._turn()
            hand.is_busy = True
            await hand.end_first(9, then_wait=0.14)
            assert hand.turns == 1
            await asyncio.sleep(0.02)
            assert hand.turns == 2
            await hand.end_first(8, then_wait=0.05)
            assert hand.turns == 2
            hand.is_busy = False
            await hand.end_first(1, then_wait=0.01)
            assert hand.turns == 3, "the worker said so with its results"
            hand.beat.stop()

        hand.loop.run_until_complete(busy())

    def test_it_waits_too_if_they_have_more_only_since_the_turn_was_planned(self) -> None:
        hand = Busy(slots=9)

        async def busy() -> None:
            hand.beat._turn()
            await hand.end_first(1, then_wait=0)
            hand.is_busy = True
            await asyncio.sleep(0.1)
            assert hand.turns == 1
            hand.is_busy = False
            await hand.end_first(1, then_wait=0.001)
            assert hand.turns == 2
            hand.beat.stop()

        hand.loop.run_until_complete(busy())

    def test_it_does_not_wait_for_them_while_a_slot_is_free(self) -> None:
        hand = Busy(slots=100)
        hand.is_busy = True

        async def busy() -> None:
            hand.roster.lifecycle.slots = 400
            hand.beat._turn()
            await hand.end_first(1, then_wait=0.05)
            assert hand.turns > 1
            hand.beat.stop()

        hand.loop.run_until_complete(busy())

    def test_one_slot_is_a_good_part_of_few(self) -> None:
        hand = Busy(slots=3)

        async def busy() -> None:
            hand.beat._turn()
            await hand.end_first(1, then_wait=0.005)
            assert hand.turns == 2
            hand.beat.stop()

        hand.loop.run_until_complete(busy())


class TestAhead:
    """What is due in a moment is claimed now: it starts in time, however long the store takes for that."""

    def claimed(self) -> Hand:
        hand = Hand()
        hand.early_delivery = 0
        hand.add("t")
        hand.now = T0 + MINUTE - 30_000

        async def turn() -> None:
            hand.turn()

        hand.loop.run_until_complete(turn())
        return hand

    def test_it_is_in_the_store_before_it_is_due_and_goes_when_it_is(self) -> None:
        hand = self.claimed()
        ((claim),) = hand.store.claims
        assert (claim.nominal, claim.at) == (T0 + MINUTE, T0 + MINUTE - 30_000)
        hand.now += 29_999
        hand.loop.wait(1)
        assert hand.dispatched == []
        hand.now += 1
        hand.loop.wait(1)
        assert [run.nominal for run in hand.dispatched] == [T0 + MINUTE]
        assert hand.beat.counts.runs == 1

    def test_it_is_not_claimed_again(self) -> None:
        hand = self.claimed()
        hand.now += 30_000
        hand.loop.wait(1)
        assert hand.turn() == []
        assert len(hand.store.claims) == 1

    def test_a_stop_that_cannot_wait_cancels_it(self) -> None:
        hand = self.claimed()
        hand.beat.is_claiming = False
        hand.beat.cancel_undispatched()
        hand.turn()
        (run,) = hand.store.runs()
        assert (run.outcome, run.output) == (Outcome.CANCELLED, "not started")
        hand.now += 30_000
        hand.loop.wait(1)
        assert hand.dispatched == []

    def test_a_node_that_dies_meanwhile_has_lost_it(self) -> None:
        hand = self.claimed()
        hand.restart(after=2 * SECOND)
        (run,) = hand.store.runs()
        assert (run.outcome, run.nominal, run.started) == (Outcome.LOST, T0 + MINUTE, T0 + MINUTE)


class TestDeaths:
    """What is lost is made up for, unless it takes the workers along."""

    @pytest.mark.parametrize(("deaths", "is_made_up_for"), [(0, True), (2, True), (3, False)])
    def test_a_task_with_which_workers_died_in_a_row_is_set_aside(self, deaths: int, is_made_up_for: bool) -> None:
        hand = Hand()
        hand.add("t", every="1h", phase="0s")
        entry = hand.desk.find_or_raise("t")
        hand.beat.worker_deaths.restore(entry.number, deaths)
        hand.turn(HOUR)
        hand.loop.wait(1)
        hand.end("t", Outcome.LOST, None)
        hand.turn(MINUTE)
        hand.turn(MINUTE)
        kinds = [run.kind for run in hand.store.runs()]
        assert (RunKind.CATCH_UP in kinds) is is_made_up_for
        reasons = [skip.reason for skip in hand.store.skips() if skip.kind is RunKind.CATCH_UP]
        assert reasons == ([] if is_made_up_for else [f"set aside: {deaths} workers in a row died with it"])


class TestLateness:
    """From when a run is due until it really starts, whenever that is told, and once."""

    def handed_over(self) -> tuple[Hand, int]:
        hand = Hand()
        hand.add("t")
        (run,) = hand.turn(MINUTE)
        return hand, run.token

    def test_of_a_quick_run_with_its_end(self) -> None:
        hand, token = self.handed_over()
        assert hand.beat.counts.lateness == []
        started = T0 + MINUTE + 3_000
        hand.beat.add_results([RunResult(token, Outcome.SUCCEEDED, 0, started, started + 1, b"")])
        hand.turn(SECOND)
        assert hand.beat.counts.lateness == [0.003]

    def test_of_one_that_lasts_when_it_is_known_to_have_started(self) -> None:
        hand, token = self.handed_over()
        started = T0 + MINUTE + 3_000
        hand.beat.add_starts([(token, started)])
        hand.turn(SECOND)
        assert hand.beat.counts.lateness == [0.003]
        hand.beat.add_starts([(token, started)])
        hand.beat.add_results([RunResult(token, Outcome.SUCCEEDED, 0, started, started + SECOND, b"")])
        hand.turn(SECOND)
        assert hand.beat.counts.lateness == [0.003]

    @pytest.mark.parametrize("outcome", [Outcome.DROPPED, Outcome.BROKEN, Outcome.CANCELLED, Outcome.LOST])
    def test_of_one_that_never_started_nothing_is_known(self, outcome: Outcome) -> None:
        hand, token = self.handed_over()
        hand.beat.add_results([RunResult(token, outcome, None, T0 + 2 * MINUTE, T0 + 2 * MINUTE, b"")])
        hand.turn(SECOND)
        assert hand.beat.counts.lateness == []
        assert hand.beat.counts.outcomes == {outcome: 1}

    def test_a_worker_whose_clock_is_behind_is_not_early(self) -> None:
        hand, token = self.handed_over()
        hand.beat.add_results([RunResult(token, Outcome.SUCCEEDED, 0, T0 + MINUTE - 2_000, T0 + MINUTE, b"")])
        hand.turn(SECOND)
        assert hand.beat.counts.lateness == [0.0]


class TestOrder:
    def test_claims_are_recorded_before_they_are_dispatched(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.add("b")
        hand.turn(MINUTE)
        *_, claimed, dispatched = hand.store.diary
        assert isinstance(claimed, Batch)
        assert isinstance(dispatched, list)
        assert len(claimed.claims) == len(dispatched) == 2

    def test_nothing_is_dispatched_while_its_claim_is_not_safe(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.store.is_failing = True
        assert hand.turn(MINUTE) == []
        hand.loop.wait(5)
        assert not hand.dispatched
        hand.store.is_failing = False
        hand.loop.wait(2)
        assert hand.names(hand.dispatched) == ["a"]

    def test_what_a_store_missed_while_it_failed_reaches_it_in_order_when_it_heals(self) -> None:
        hand = Hand(slots=2)
        for name in "abc":
            hand.add(name)
        hand.turn(MINUTE)
        hand.store.is_failing = True
        hand.end("a", Outcome.FAILED, 1)
        hand.turn(SECOND)
        hand.end("b")
        hand.turn(SECOND)
        assert hand.names(hand.dispatched) == ["a", "b"]
        hand.store.is_failing = False
        hand.loop.wait(2)
        assert hand.names(hand.dispatched) == ["a", "b", "c"]
        assert [hand.condition(name).outcome for name in "abc"] == [Outcome.FAILED, Outcome.SUCCEEDED, None]
        assert hand.outbox.waiting == 0

    def test_a_run_ends_in_the_store_before_the_next_of_its_task_is_claimed(self) -> None:
        hand = Hand()
        hand.add("a", backlog="each", tolerance="1m")
        hand.turn(MINUTE)
        hand.now += MINUTE
        hand.end("a")
        assert hand.names(hand.turn()) == ["a"]
        both = hand.store.batches[-1]
        assert [len(both.finishes), len(both.claims)] == [1, 1]
        assert [run.ended is None for run in hand.store.runs()] == [True, False]

    @pytest.mark.parametrize(("tolerance", "expected"), [(None, MINUTE), ("5s", 5 * SECOND)])
    def test_the_worker_guards_a_backlog_as_the_gate_does(self, tolerance: str | None, expected: int) -> None:
        hand = Hand()
        keys: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
        hand.add("a", backlog="each", **keys)
        hand.turn(MINUTE)
        made, lasted = [], 3 * MINUTE + 30 * SECOND
        for _ in range(4):
            hand.end("a", lasted=lasted)
            lasted = 0
            made += hand.turn(SECOND)
            if not hand.under_way:
                break
            (run,) = hand.under_way.values()
            assert run.tolerance == expected
            assert refusal_reason(run, hand.now) is None
        assert len(made) == (3 if expected == MINUTE else 1)
        dropped = [skip for skip in hand.store.skips() if "too soon" in skip.reason]
        assert bool(dropped) == (expected < MINUTE)

    def test_what_has_ended_is_kept_even_if_nothing_can_be_released(self, monkeypatch: pytest.MonkeyPatch) -> None:
        hand = Hand()
        hand.add("a")
        hand.turn(MINUTE)
        hand.end("a")
        monkeypatch.setattr(hand.beat, "_claim", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            hand.turn(MINUTE)
        assert hand.condition("a").outcome is Outcome.SUCCEEDED
        assert len(hand.store.claims) == 1

    @given(
        st.lists(
            st.tuples(st.sampled_from(["turn", "end", "fail", "heal", "force", "wait"]), st.integers(0, 5)), max_size=40
        )
    )
    def test_whatever_happens_every_run_was_claimed_before_and_no_task_runs_twice(
        self, events: list[tuple[str, int]]
    ) -> None:
        hand = Hand(slots=3)
        for i in range(6):
            hand.add(f"t{i}", every=f"{10 + i}s", phase="0s", backlog="each" if i % 2 else "merge")
        for event, i in events:
            match event:
                case "turn":
                    hand.turn(i * 3 * SECOND)
                case "end":
                    for name in sorted(hand.under_way)[: i + 1]:
                        hand.end(name, *[(Outcome.SUCCEEDED, 0), (Outcome.LOST, None)][i % 2])
                case "fail" | "heal":
                    hand.store.is_failing = event == "fail"
                case "force":
                    hand.force(f"t{i}")
                case "wait":
                    hand.loop.wait(1.1)
                    hand.under_way |= {run.name: run for run in hand.dispatched if run.token in hand.beat.pending_runs}
        hand.store.is_failing = False
        hand.loop.wait(5)
        claimed: set[tuple[int, int]] = set()
        for page in hand.store.diary:
            if isinstance(page, Batch):
                claimed |= {(claim.task, claim.nominal) for claim in page.claims}
            else:
                for run in page:
                    assert (hand.desk.find_or_raise(run.name).number, run.nominal) in claimed
        # The store itself refuses a second claim, and an end without one.
        assert hand.outbox.waiting == 0
        assert len(hand.dispatched) == len(hand.store.claims)


class TestResults:
    def test_results_of_runs_that_nobody_knows_change_nothing(self) -> None:
        hand = Hand()
        hand.add("a")
        before, pages = hand.progress("a"), len(hand.store.diary)
        hand.beat.add_results([RunResult(777, Outcome.FAILED, 1, T0, T0, b"")])
        hand.beat.add_starts([(778, T0)])
        hand.turn()
        assert hand.progress("a") == before
        assert len(hand.store.diary) == pages
        assert hand.beat.counts.outcomes == {}

    def test_a_result_that_comes_twice_counts_once(self) -> None:
        hand = Hand()
        hand.add("a")
        (run,) = hand.turn(MINUTE)
        hand.end("a")
        hand.beat.add_results([RunResult(run.token, Outcome.FAILED, 1, hand.now, hand.now, b"")])
        hand.turn()
        hand.beat.add_results([RunResult(run.token, Outcome.FAILED, 1, hand.now, hand.now, b"")])
        hand.turn()
        assert hand.beat.counts.outcomes == {"succeeded": 1}
        assert hand.life.pending == 0

    def test_a_worker_whose_clock_is_a_little_ahead_leaves_its_state_in_the_history(self) -> None:
        hand = Hand()
        hand.add("a", check=True)
        (run,) = hand.turn(MINUTE)
        ahead = hand.now + 3_000
        hand.under_way.pop("a")
        hand.beat.add_results([RunResult(run.token, Outcome.FAILED, 2, ahead, ahead, b"down")])
        hand.turn()
        (record,) = hand.store.runs()
        assert (record.state, record.started) == (State.CRITICAL, hand.now)

    @pytest.mark.parametrize(("outcome", "status", "state"), PROBLEMS)
    def test_how_a_run_ended_is_the_state_of_its_check(
        self, outcome: Outcome, status: int | None, state: State
    ) -> None:
        hand = Hand()
        hand.add("a", check=True)
        hand.turn(MINUTE)
        hand.end("a", outcome, status, output=b"words")
        hand.turn()
        found = hand.condition("a")
        assert (found.state, found.hard, found.outcome, found.output) == (state, state == State.OK, outcome, "words")
        (record,) = hand.store.runs()
        assert (record.state, record.status) == (state, status)
        assert [run.outcome for run in hand.store.runs(notable=True)] == ([] if state == State.OK else [outcome])

    @pytest.mark.parametrize("outcome", [Outcome.DROPPED, Outcome.LOST, Outcome.CANCELLED])
    def test_a_run_that_says_nothing_leaves_its_check_as_it_is(self, outcome: Outcome) -> None:
        hand = Hand()
        hand.add("a", check=True, retry="0s")
        hand.turn(MINUTE)
        hand.end("a", Outcome.FAILED, 2)
        hand.turn(MINUTE)
        hand.end("a", outcome, None)
        hand.turn()
        found = hand.condition("a")
        assert (found.state, found.attempt, found.outcome) == (State.CRITICAL, 1, outcome)

    def test_a_check_that_has_had_no_result_has_no_state(self) -> None:
        hand = Hand()
        hand.add("a", check=True)
        assert hand.condition("a").state is None
        hand.turn(MINUTE)
        hand.end("a", Outcome.LOST, None)
        hand.turn()
        assert hand.condition("a").state is None

    def test_a_task_that_is_no_check_has_no_state_and_no_retry(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.turn(MINUTE)
        hand.end("a", Outcome.FAILED, 2)
        hand.turn()
        found = hand.condition("a")
        assert (found.state, found.extra, found.outcome) == (None, None, Outcome.FAILED)

    def test_a_soft_problem_is_looked_at_again_soon_and_the_store_knows(self) -> None:
        hand = Hand()
        hand.add("a", check=True, every="5m", phase="1m", retry="30s")
        assert hand.names(hand.turn(MINUTE)) == ["a"]
        hand.end("a", Outcome.FAILED, 2, lasted=SECOND)
        hand.turn()
        assert hand.condition("a").extra == T0 + 90 * SECOND
        (again,) = hand.turn(30 * SECOND)
        assert (again.kind, again.attempt) == (RunKind.RETRY, 2)
        hand.end("a", Outcome.FAILED, 2)
        hand.turn()
        (third,) = hand.turn(30 * SECOND)
        assert (third.kind, third.attempt) == (RunKind.RETRY, 3)
        hand.end("a", Outcome.FAILED, 2)
        hand.turn()
        found = hand.condition("a")
        assert (found.hard, found.attempt, found.extra) == (True, 3, None)
        assert not hand.turn(MINUTE)

    def test_a_recovery_is_worth_keeping(self) -> None:
        hand = Hand()
        hand.add("a", check=True, retry="0s")
        for status in (2, 0, 0):
            hand.turn(MINUTE)
            hand.end("a", Outcome.FAILED if status else Outcome.SUCCEEDED, status)
        hand.turn()
        assert [run.status for run in hand.store.runs(notable=True)] == [0, 2]

    def test_output_that_is_no_text_is_kept_as_well_as_it_can_be(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.turn(MINUTE)
        hand.end("a", output=b"caf\xc3\xa9 \xff")
        hand.turn()
        assert hand.condition("a").output == "café �"

    def test_a_lost_run_is_made_up_for(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="1m")
        hand.turn(MINUTE)
        hand.end("a", Outcome.LOST, None)
        (again,) = hand.turn()
        assert again.kind == RunKind.CATCH_UP

    def test_or_by_the_next_run_on_the_grid_which_is_not_too_soon_after_a_start_that_was_never_reported(self) -> None:
        hand = Hand()
        hand.add("a", every="18s", phase="4s")
        (run,) = hand.turn(4 * SECOND)
        lost = Instant(hand.now + 9_500_000)
        hand.now = lost
        hand.under_way.pop("a")
        hand.beat.add_results(
            [RunResult(run.token, Outcome.LOST, None, lost, lost, b"its worker is gone or was cut off")]
        )
        assert not hand.turn()
        (again,) = hand.turn(8_500_000)
        assert (again.kind, again.nominal) == (RunKind.GRID, run.nominal + 18 * SECOND)
        assert [run.started for run in hand.store.runs() if run.outcome is Outcome.LOST] == [run.nominal]

    def test_but_not_if_what_is_missed_is_to_be_skipped(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="1m", missed="skip")
        hand.turn(MINUTE)
        hand.end("a", Outcome.LOST, None)
        assert not hand.turn()

    @pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.LOST])
    def test_what_was_to_be_done_at_a_stop_is_not_made_up_for(self, outcome: Outcome) -> None:
        hand = Hand()
        hand.add("bye", cron="@shutdown")
        hand.force("bye")
        hand.turn()
        hand.end("bye", outcome, None)
        assert not hand.turn(MINUTE)
        assert hand.condition("bye").extra is None

    @pytest.mark.parametrize("outcome", [Outcome.DROPPED, Outcome.BROKEN])
    def test_what_never_started_leaves_the_last_start_as_it_was(self, outcome: Outcome) -> None:
        hand = Hand()
        hand.add("a")
        hand.turn(MINUTE)
        hand.end("a", outcome, None)
        hand.turn()
        assert hand.progress("a").last_start == NEVER

    def test_only_runs_on_the_grid_count_as_last_start(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.turn(MINUTE)
        hand.end("a", lasted=SECOND)
        hand.force("a")
        hand.turn(20 * SECOND)
        hand.end("a")
        hand.turn()
        assert hand.progress("a").last_start == T0 + MINUTE

    def test_a_run_from_before_the_clock_was_set_back_does_not_hold_up_its_task(self) -> None:
        hand = Hand()
        hand.add("a", tolerance="0s")
        (run,) = hand.turn(10 * MINUTE)
        hand.clock_is_set(-HOUR)
        hand.beat.add_results([RunResult(run.token, Outcome.SUCCEEDED, 0, run.nominal, run.nominal + SECOND, b"")])
        hand.turn()
        assert hand.progress("a").last_start == hand.now

    def test_that_a_run_lasts_is_known_while_it_does(self) -> None:
        hand = Hand()
        hand.add("a")
        (run,) = hand.turn(MINUTE)
        hand.beat.add_starts([(run.token, hand.now + 7)])
        hand.turn()
        assert hand.condition("a").running_since == hand.now + 7

    def test_a_cursor_comes_back_with_the_next_run(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.add("b")
        assert [run.cursor for run in hand.turn(MINUTE)] == [None, None]
        hand.end("a", cursor=b"\x2a")
        hand.end("b")
        assert {run.name: run.cursor for run in hand.turn(MINUTE)} == {"a": b"\x2a", "b": None}
        hand.end("a")
        hand.end("b")
        assert {run.name: run.cursor for run in hand.turn(MINUTE)} == {"a": b"\x2a", "b": None}

    def test_what_is_done_is_counted(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.advance(3 * MINUTE)
        hand.pause("a")
        hand.advance(2 * MINUTE)
        assert hand.beat.counts.runs == 3
        assert hand.beat.counts.outcomes == {"succeeded": 3}
        assert hand.beat.counts.skipped == {"disabled": 2}
        assert hand.beat.counts.lateness == [0.0, 0.0, 0.0]


class TestFrames:
    """What a worker is told."""

    def run(self, hand: Hand, after: int) -> RunSpec:
        (run,) = hand.turn(after)
        return run

    def test_a_run_knows_its_nominal_time_even_if_it_is_late(self) -> None:
        hand = Hand()
        hand.add("a")
        run = self.run(hand, MINUTE + 5 * SECOND)
        assert (run.nominal, run.kind) == (T0 + MINUTE, RunKind.GRID)

    @pytest.mark.parametrize("check", [True, False])
    def test_a_worker_knows_whether_it_is_a_check(self, check: bool) -> None:
        hand = Hand()
        hand.add("a", check=check, function="m:f")
        assert self.run(hand, MINUTE).check is check
        assert hand.functions == ["m:f"]

    def test_commands_and_functions_go_side_by_side(self) -> None:
        hand = Hand()
        hand.add("a", function="m:f")
        hand.add("b")
        assert hand.names(hand.turn(MINUTE)) == ["a", "b"]
        assert hand.functions == ["m:f", None]

    def test_the_guard_goes_by_the_last_start_on_the_grid(self) -> None:
        hand = Hand()
        hand.add("a", tolerance="10s")
        first = self.run(hand, MINUTE)
        assert (first.last_start, first.interval, first.tolerance) == (NEVER, MINUTE, 10 * SECOND)
        hand.end("a")
        assert self.run(hand, MINUTE).last_start == T0 + MINUTE

    def test_off_the_grid_there_is_no_guard(self) -> None:
        hand = Hand()
        hand.add("a")
        self.run(hand, MINUTE)
        hand.end("a")
        hand.force("a")
        run = self.run(hand, SECOND)
        assert (run.kind, run.last_start, run.interval) == (RunKind.FORCED, NEVER, 0)

    def test_no_run_starts_after_its_period_has_closed(self) -> None:
        hand = Hand()
        hand.periods(early=Period(ranges=("00:00-00:30",)))
        hand.add("a", every="10m", phase="0s", period="early")
        hand.add("b", every="10m", phase="0s")
        runs = {run.name: run.latest_start for run in hand.turn(10 * MINUTE)}
        assert runs == {"a": T0 + 30 * MINUTE, "b": FOREVER}

    def test_unless_it_is_forced(self) -> None:
        hand = Hand()
        hand.periods(early=Period(ranges=("00:00-00:30",)))
        hand.add("a", every="10m", phase="0s", period="early")
        hand.force("a")
        assert self.run(hand, 5 * MINUTE).latest_start == FOREVER
        hand.end("a")
        hand.turn(HOUR)
        hand.force("a")
        assert self.run(hand, SECOND).latest_start == FOREVER

    def test_an_interval_task_has_half_of_it(self) -> None:
        hand = Hand()
        hand.add("a")
        assert self.run(hand, MINUTE).timebox == MINUTE // 2

    def test_a_cron_task_has_until_its_next_nominal_time(self) -> None:
        hand = Hand()
        hand.add("a", cron="0 1,4 * * *", second=0)
        assert self.run(hand, HOUR).timebox == 3 * HOUR

    def test_a_timebox_that_is_said_counts(self) -> None:
        hand = Hand()
        hand.add("a", cron="0 1,4 * * *", second=0, timebox="5s")
        assert self.run(hand, HOUR).timebox == 5 * SECOND

    def test_a_forced_run_just_before_the_next_is_not_cut_short(self) -> None:
        hand = Hand()
        hand.add("a", cron="0 1,4 * * *", second=0)
        hand.turn(HOUR)
        hand.end("a")
        hand.turn(2 * HOUR + 59 * MINUTE + 58 * SECOND)
        hand.force("a")
        assert self.run(hand, SECOND).timebox == 3 * HOUR

    def test_a_forced_run_of_a_backlog_has_time_too(self) -> None:
        hand = Hand()
        hand.add("a", cron="*/10 * * * *", second=0, backlog="each")
        hand.turn(10 * MINUTE)
        hand.force("a")
        hand.now += 25 * MINUTE
        hand.end("a")
        assert self.run(hand, 0).timebox == 10 * MINUTE

    def test_the_last_run_of_all_has_an_hour(self) -> None:
        hand = Hand()
        hand.add("a", calendar="2024-10-04 01:00:00")
        assert self.run(hand, HOUR).timebox == HOUR

    def test_the_job_is_the_one_of_the_latest_definition(self) -> None:
        hand = Hand()
        hand.add("a", command=["old"])
        hand.set("a", every="1m", phase="0s", command=["new"])
        assert msgspec.msgpack.decode(self.run(hand, MINUTE).job)["command"] == ["new"]


class TestForce:
    def test_it_runs_now_whatever_the_schedule_says(self) -> None:
        hand = Hand()
        hand.add("a", every="1d", phase="12h")
        hand.pause("a")
        hand.force("a")
        (run,) = hand.turn()
        assert (run.kind, run.nominal) == (RunKind.FORCED, T0)

    def test_while_it_waits_for_a_slot_the_store_knows_that_it_is_forced(self) -> None:
        hand = Hand(slots=1)
        hand.add("a", every="1d", phase="12h")
        hand.add("b", every="1d", phase="12h", check=True)
        hand.force("a")
        hand.turn()
        hand.force("b")
        hand.turn(SECOND)
        found = hand.progress("b")
        assert found.extra_kind == RunKind.FORCED
        assert found.extra <= hand.now

    def test_so_it_does_when_the_run_before_it_ends_and_it_still_waits(self) -> None:
        hand = Hand(slots=1)
        hand.add("a")
        hand.add("b", every="1d", phase="12h", priority=10)
        hand.turn(MINUTE)
        hand.force("a", "b")
        hand.end("a")
        assert hand.names(hand.turn(SECOND)) == ["b"]
        assert hand.progress("a").extra_kind == RunKind.FORCED
        assert hand.progress("a").extra < FOREVER

    def test_a_start_that_was_asked_for_is_not_forgotten_for_it(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="0s", start_at="2024-10-04T00:30")
        hand.force("a")
        assert (hand.progress("a").extra, hand.progress("a").extra_kind) == (
            T0 + 30 * MINUTE,
            RunKind.FORCED_BEFORE_START,
        )

    def test_twice_is_once(self) -> None:
        hand = Hand()
        hand.add("a", every="1d", phase="12h")
        hand.force("a")
        hand.force("a", "a")
        assert len(hand.turn()) == 1
        hand.end("a")
        assert not hand.turn(SECOND)


def test_a_turn_without_news_records_nothing() -> None:
    hand = Hand()
    hand.add("a")
    pages = len(hand.store.diary)
    hand.turn(SECOND)
    assert len(hand.store.diary) == pages
