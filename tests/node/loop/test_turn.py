"""Turns: what ended is learned, what is due is claimed, and nothing starts before its claim is safe."""

import asyncio
from typing import Any

import msgspec
import pytest
from hand_driven_node import T0, HandDrivenNode
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.timebox import NO_TIMEBOX
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

_INTERRUPTED = {Outcome.CANCELLED: Outcome.INTERRUPTED}
"""What a worker reports of runs that were ended on request, and what that is if no person has asked for it."""


class Busy(HandDrivenNode):
    """All slots are taken, more tasks wait, and a turn takes a millisecond of the loop's time."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots=slots)
        for i in range(3 * slots):
            self.add(f"t{i}")
        self.turn_count = 0
        self._made = self.turns.turn
        self.turns.turn = self._slow  # type: ignore[method-assign]
        self.now += MINUTE

    def _slow(self, now: Instant) -> None:
        self.loop.pass_by(0.001)
        self.turn_count += 1
        self._made(now)

    async def end_first(self, runs: int, then_wait: float) -> None:
        for run in self.dispatched[:runs]:
            self.under_way[run.name] = run
            self.end(run.name)
        del self.dispatched[:runs]
        await asyncio.sleep(then_wait)


class TestPace:
    def test_while_all_slots_are_taken_a_turn_waits_until_a_good_part_of_them_is_free_again(self) -> None:
        driven = Busy(slots=9)

        async def busy() -> None:
            driven.turn_by_timer()
            await driven.end_first(1, then_wait=0.01)
            assert driven.turn_count == 1
            await driven.end_first(3, then_wait=0.001)
            assert driven.turn_count == 2
            driven.turns.stop()

        driven.loop.run_until_complete(busy())

    def test_it_does_not_wait_for_that_for_long(self) -> None:
        driven = Busy(slots=9)

        async def busy() -> None:
            driven.turn_by_timer()
            await driven.end_first(1, then_wait=0.05)
            assert driven.turn_count > 1
            driven.turns.stop()

        driven.loop.run_until_complete(busy())

    def test_what_lasts_is_not_waited_for(self) -> None:
        driven = Busy(slots=9)

        async def busy() -> None:
            driven.turn_by_timer()
            lasting = driven.dispatched[3:]
            driven.turns.add_starts([(run.token, driven.now) for run in lasting])
            driven.turn_by_timer()
            await driven.end_first(1, then_wait=0.005)
            assert driven.turn_count == 3, "a third of those that may end soon"
            driven.turns.stop()

        driven.loop.run_until_complete(busy())

    def test_while_workers_have_more_than_they_can_begin_it_waits_but_not_for_long(self) -> None:
        driven = Busy(slots=9)

        async def busy() -> None:
            driven.turn_by_timer()
            driven.is_busy = True
            await driven.end_first(9, then_wait=0.14)
            assert driven.turn_count == 1
            await asyncio.sleep(0.02)
            assert driven.turn_count == 2
            await driven.end_first(8, then_wait=0.05)
            assert driven.turn_count == 2
            driven.is_busy = False
            await driven.end_first(1, then_wait=0.01)
            assert driven.turn_count == 3, "the worker said so with its results"
            driven.turns.stop()

        driven.loop.run_until_complete(busy())

    def test_it_waits_too_if_they_have_more_only_since_the_turn_was_planned(self) -> None:
        driven = Busy(slots=9)

        async def busy() -> None:
            driven.turn_by_timer()
            await driven.end_first(1, then_wait=0)
            driven.is_busy = True
            await asyncio.sleep(0.1)
            assert driven.turn_count == 1
            driven.is_busy = False
            await driven.end_first(1, then_wait=0.001)
            assert driven.turn_count == 2
            driven.turns.stop()

        driven.loop.run_until_complete(busy())

    def test_it_does_not_wait_for_them_while_a_slot_is_free(self) -> None:
        driven = Busy(slots=100)
        driven.is_busy = True

        async def busy() -> None:
            driven.tasks.lifecycle.slots = 400
            driven.turn_by_timer()
            await driven.end_first(1, then_wait=0.05)
            assert driven.turn_count > 1
            driven.turns.stop()

        driven.loop.run_until_complete(busy())

    def test_one_slot_is_a_good_part_of_few(self) -> None:
        driven = Busy(slots=3)

        async def busy() -> None:
            driven.turn_by_timer()
            await driven.end_first(1, then_wait=0.005)
            assert driven.turn_count == 2
            driven.turns.stop()

        driven.loop.run_until_complete(busy())


class TestAhead:
    """What is due in a moment is claimed now: it starts in time, however long the store takes for that."""

    def claimed(self) -> HandDrivenNode:
        driven = HandDrivenNode()
        driven.early_delivery = 0
        driven.add("t")
        driven.now = T0 + MINUTE - 30_000

        async def turn() -> None:
            driven.turn()

        driven.loop.run_until_complete(turn())
        return driven

    def test_it_is_in_the_store_before_it_is_due_and_goes_when_it_is(self) -> None:
        driven = self.claimed()
        ((claim),) = driven.store.claims
        assert (claim.nominal, claim.at) == (T0 + MINUTE, T0 + MINUTE - 30_000)
        driven.now += 29_999
        driven.loop.wait(1)
        assert driven.dispatched == []
        driven.now += 1
        driven.loop.wait(1)
        assert [run.nominal for run in driven.dispatched] == [T0 + MINUTE]
        assert driven.turns.counts.runs == 1

    def test_it_is_not_claimed_again(self) -> None:
        driven = self.claimed()
        driven.now += 30_000
        driven.loop.wait(1)
        assert driven.turn() == []
        assert len(driven.store.claims) == 1

    def test_a_stop_that_cannot_wait_interrupts_it(self) -> None:
        driven = self.claimed()
        driven.turns.is_claiming = False
        driven.turns.end_undispatched()
        driven.turn()
        (run,) = driven.store.runs()
        assert (run.outcome, run.output) == (Outcome.INTERRUPTED, "not started")
        driven.now += 30_000
        driven.loop.wait(1)
        assert driven.dispatched == []

    def test_a_node_that_dies_meanwhile_has_lost_it(self) -> None:
        driven = self.claimed()
        driven.restart(after=2 * SECOND)
        (run,) = driven.store.runs()
        assert (run.outcome, run.nominal, run.started) == (Outcome.LOST, T0 + MINUTE, T0 + MINUTE)


class TestDeaths:
    """What is lost is made up for, unless it takes the workers along."""

    @pytest.mark.parametrize(("deaths", "is_made_up_for"), [(0, True), (2, True), (3, False)])
    def test_a_task_with_which_workers_died_in_a_row_is_set_aside(self, deaths: int, is_made_up_for: bool) -> None:
        driven = HandDrivenNode()
        driven.add("t", every="1h", phase="0s")
        entry = driven.admin.find_or_raise("t")
        driven.turns.worker_deaths.restore(entry.number, deaths)
        driven.turn(HOUR)
        driven.loop.wait(1)
        driven.end("t", Outcome.LOST, None)
        driven.turn(MINUTE)
        driven.turn(MINUTE)
        kinds = [run.kind for run in driven.store.runs()]
        assert (RunKind.CATCH_UP in kinds) is is_made_up_for
        assert [problem.cause for problem in driven.store.problems()] == ([] if is_made_up_for else ["failed"])
        reasons = [skip.reason for skip in driven.store.skips() if skip.kind is RunKind.CATCH_UP]
        assert reasons == ([] if is_made_up_for else [f"set aside: {deaths} workers in a row died with it"])


class TestLateness:
    """From when a run is due until it really starts, whenever that is told, and once."""

    def handed_over(self) -> tuple[HandDrivenNode, int]:
        driven = HandDrivenNode()
        driven.add("t")
        (run,) = driven.turn(MINUTE)
        return driven, run.token

    def test_of_a_quick_run_with_its_end(self) -> None:
        driven, token = self.handed_over()
        assert driven.turns.counts.lateness == []
        started = T0 + MINUTE + 3_000
        driven.turns.add_results([RunResult(token, Outcome.SUCCEEDED, 0, started, started + 1, b"")])
        driven.turn(SECOND)
        assert driven.turns.counts.lateness == [0.003]

    def test_of_one_that_lasts_when_it_is_known_to_have_started(self) -> None:
        driven, token = self.handed_over()
        started = T0 + MINUTE + 3_000
        driven.turns.add_starts([(token, started)])
        driven.turn(SECOND)
        assert driven.turns.counts.lateness == [0.003]
        driven.turns.add_starts([(token, started)])
        driven.turns.add_results([RunResult(token, Outcome.SUCCEEDED, 0, started, started + SECOND, b"")])
        driven.turn(SECOND)
        assert driven.turns.counts.lateness == [0.003]

    @pytest.mark.parametrize("outcome", [Outcome.DROPPED, Outcome.BROKEN, Outcome.CANCELLED, Outcome.LOST])
    def test_of_one_that_never_started_nothing_is_known(self, outcome: Outcome) -> None:
        driven, token = self.handed_over()
        driven.turns.add_results([RunResult(token, outcome, None, T0 + 2 * MINUTE, T0 + 2 * MINUTE, b"")])
        driven.turn(SECOND)
        assert driven.turns.counts.lateness == []
        assert driven.turns.counts.outcomes == {_INTERRUPTED.get(outcome, outcome): 1}

    def test_a_worker_whose_clock_is_behind_is_not_early(self) -> None:
        driven, token = self.handed_over()
        driven.turns.add_results([RunResult(token, Outcome.SUCCEEDED, 0, T0 + MINUTE - 2_000, T0 + MINUTE, b"")])
        driven.turn(SECOND)
        assert driven.turns.counts.lateness == [0.0]


class TestOrder:
    def test_claims_are_recorded_before_they_are_dispatched(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.add("b")
        driven.turn(MINUTE)
        *_, claimed, dispatched = driven.store.recorded
        assert isinstance(claimed, Batch)
        assert isinstance(dispatched, list)
        assert len(claimed.claims) == len(dispatched) == 2

    def test_nothing_is_dispatched_while_its_claim_is_not_safe(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.store.is_failing = True
        assert driven.turn(MINUTE) == []
        driven.loop.wait(5)
        assert not driven.dispatched
        driven.store.is_failing = False
        driven.loop.wait(2)
        assert driven.names(driven.dispatched) == ["a"]

    def test_what_a_store_missed_while_it_failed_reaches_it_in_order_when_it_heals(self) -> None:
        driven = HandDrivenNode(slots=2)
        for name in "abc":
            driven.add(name)
        driven.turn(MINUTE)
        driven.store.is_failing = True
        driven.end("a", Outcome.FAILED, 1)
        driven.turn(SECOND)
        driven.end("b")
        driven.turn(SECOND)
        assert driven.names(driven.dispatched) == ["a", "b"]
        driven.store.is_failing = False
        driven.loop.wait(2)
        assert driven.names(driven.dispatched) == ["a", "b", "c"]
        assert [driven.condition(name).outcome for name in "abc"] == [Outcome.FAILED, Outcome.SUCCEEDED, None]
        assert driven.outbox.waiting == 0

    def test_a_run_ends_in_the_store_before_the_next_of_its_task_is_claimed(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", backlog="each", tolerance="1m")
        driven.turn(MINUTE)
        driven.now += MINUTE
        driven.end("a")
        assert driven.names(driven.turn()) == ["a"]
        both = driven.store.batches[-1]
        assert [len(both.finishes), len(both.claims)] == [1, 1]
        assert [run.ended is None for run in driven.store.runs()] == [True, False]

    @pytest.mark.parametrize(("tolerance", "expected"), [(None, MINUTE), ("5s", 5 * SECOND)])
    def test_the_worker_guards_a_backlog_as_the_gate_does(self, tolerance: str | None, expected: int) -> None:
        driven = HandDrivenNode()
        keys: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
        driven.add("a", backlog="each", **keys)
        driven.turn(MINUTE)
        made, lasted = [], 3 * MINUTE + 30 * SECOND
        for _ in range(4):
            driven.end("a", lasted=lasted)
            lasted = 0
            made += driven.turn(SECOND)
            if not driven.under_way:
                break
            (run,) = driven.under_way.values()
            assert run.tolerance == expected
            assert refusal_reason(run, driven.now) is None
        assert len(made) == (3 if expected == MINUTE else 1)
        dropped = [skip for skip in driven.store.skips() if "too soon" in skip.reason]
        assert bool(dropped) == (expected < MINUTE)

    def test_what_has_ended_is_kept_even_if_nothing_can_be_released(self, monkeypatch: pytest.MonkeyPatch) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.turn(MINUTE)
        driven.end("a")
        monkeypatch.setattr(driven.turns, "_claim", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            driven.turn(MINUTE)
        assert driven.condition("a").outcome is Outcome.SUCCEEDED
        assert len(driven.store.claims) == 1

    @given(
        st.lists(
            st.tuples(st.sampled_from(["turn", "end", "fail", "heal", "force", "wait"]), st.integers(0, 5)), max_size=40
        )
    )
    def test_whatever_happens_every_run_was_claimed_before_and_no_task_runs_twice(
        self, events: list[tuple[str, int]]
    ) -> None:
        driven = HandDrivenNode(slots=3)
        for i in range(6):
            driven.add(f"t{i}", every=f"{10 + i}s", phase="0s", backlog="each" if i % 2 else "merge")
        for event, i in events:
            match event:
                case "turn":
                    driven.turn(i * 3 * SECOND)
                case "end":
                    for name in sorted(driven.under_way)[: i + 1]:
                        driven.end(name, *[(Outcome.SUCCEEDED, 0), (Outcome.LOST, None)][i % 2])
                case "fail" | "heal":
                    driven.store.is_failing = event == "fail"
                case "force":
                    driven.force(f"t{i}")
                case "wait":
                    driven.loop.wait(1.1)
                    driven.under_way |= {
                        run.name: run for run in driven.dispatched if run.token in driven.turns.pending_runs
                    }
        driven.store.is_failing = False
        driven.loop.wait(5)
        claimed: set[tuple[int, int]] = set()
        for page in driven.store.recorded:
            if isinstance(page, Batch):
                claimed |= {(claim.task, claim.nominal) for claim in page.claims}
            else:
                for run in page:
                    assert (driven.admin.find_or_raise(run.name).number, run.nominal) in claimed
        # The store itself refuses a second claim, and an end without one.
        assert driven.outbox.waiting == 0
        assert len(driven.dispatched) == len(driven.store.claims)


class TestResults:
    def test_results_of_runs_that_nobody_knows_change_nothing(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        before, pages = driven.progress("a"), len(driven.store.recorded)
        driven.turns.add_results([RunResult(777, Outcome.FAILED, 1, T0, T0, b"")])
        driven.turns.add_starts([(778, T0)])
        driven.turn()
        assert driven.progress("a") == before
        assert len(driven.store.recorded) == pages
        assert driven.turns.counts.outcomes == {}

    def test_a_result_that_comes_twice_counts_once(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        (run,) = driven.turn(MINUTE)
        driven.end("a")
        driven.turns.add_results([RunResult(run.token, Outcome.FAILED, 1, driven.now, driven.now, b"")])
        driven.turn()
        driven.turns.add_results([RunResult(run.token, Outcome.FAILED, 1, driven.now, driven.now, b"")])
        driven.turn()
        assert driven.turns.counts.outcomes == {"succeeded": 1}
        assert driven.lifecycle.pending == 0

    def test_a_worker_whose_clock_is_a_little_ahead_leaves_its_state_in_the_history(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", check=True)
        (run,) = driven.turn(MINUTE)
        ahead = driven.now + 3_000
        driven.under_way.pop("a")
        driven.turns.add_results([RunResult(run.token, Outcome.FAILED, 2, ahead, ahead, b"down")])
        driven.turn()
        (record,) = driven.store.runs()
        assert (record.state, record.started) == (State.CRITICAL, driven.now)

    @pytest.mark.parametrize(("outcome", "status", "state"), PROBLEMS)
    def test_how_a_run_ended_is_the_state_of_its_check(
        self, outcome: Outcome, status: int | None, state: State
    ) -> None:
        driven = HandDrivenNode()
        driven.add("a", check=True)
        driven.turn(MINUTE)
        driven.end("a", outcome, status, output=b"words")
        driven.turn()
        found = driven.condition("a")
        assert (found.state, found.hard, found.outcome, found.output) == (state, state == State.OK, outcome, "words")
        (record,) = driven.store.runs()
        assert (record.state, record.status) == (state, status)
        assert [run.outcome for run in driven.store.runs(notable=True)] == ([] if state == State.OK else [outcome])

    @pytest.mark.parametrize("outcome", [Outcome.DROPPED, Outcome.LOST, Outcome.CANCELLED])
    def test_a_run_that_says_nothing_leaves_its_check_as_it_is(self, outcome: Outcome) -> None:
        driven = HandDrivenNode()
        driven.add("a", check=True, retry="0s")
        driven.turn(MINUTE)
        driven.end("a", Outcome.FAILED, 2)
        driven.turn(MINUTE)
        driven.end("a", outcome, None)
        driven.turn()
        found = driven.condition("a")
        said = _INTERRUPTED.get(outcome, outcome)
        assert (found.state, found.attempt, found.outcome) == (State.CRITICAL, 1, said)

    def test_a_check_that_has_had_no_result_has_no_state(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", check=True)
        assert driven.condition("a").state is None
        driven.turn(MINUTE)
        driven.end("a", Outcome.LOST, None)
        driven.turn()
        assert driven.condition("a").state is None

    def test_a_task_that_is_no_check_has_no_state_and_no_retry(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.turn(MINUTE)
        driven.end("a", Outcome.FAILED, 2)
        driven.turn()
        found = driven.condition("a")
        assert (found.state, found.extra, found.outcome) == (None, None, Outcome.FAILED)

    def test_a_soft_problem_is_looked_at_again_soon_and_the_store_knows(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", check=True, every="5m", phase="1m", retry="30s")
        assert driven.names(driven.turn(MINUTE)) == ["a"]
        driven.end("a", Outcome.FAILED, 2, lasted=SECOND)
        driven.turn()
        assert driven.condition("a").extra == T0 + 90 * SECOND
        (again,) = driven.turn(30 * SECOND)
        assert (again.kind, again.attempt) == (RunKind.RETRY, 2)
        driven.end("a", Outcome.FAILED, 2)
        driven.turn()
        (third,) = driven.turn(30 * SECOND)
        assert (third.kind, third.attempt) == (RunKind.RETRY, 3)
        driven.end("a", Outcome.FAILED, 2)
        driven.turn()
        found = driven.condition("a")
        assert (found.hard, found.attempt, found.extra) == (True, 3, None)
        assert not driven.turn(MINUTE)

    def test_a_recovery_is_worth_keeping(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", check=True, retry="0s")
        for status in (2, 0, 0):
            driven.turn(MINUTE)
            driven.end("a", Outcome.FAILED if status else Outcome.SUCCEEDED, status)
        driven.turn()
        assert [run.status for run in driven.store.runs(notable=True)] == [0, 2]

    def test_output_that_is_no_text_is_kept_as_well_as_it_can_be(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.turn(MINUTE)
        driven.end("a", output=b"caf\xc3\xa9 \xff")
        driven.turn()
        assert driven.condition("a").output == "café �"

    def test_a_lost_run_is_made_up_for(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="1m")
        driven.turn(MINUTE)
        driven.end("a", Outcome.LOST, None)
        (again,) = driven.turn()
        assert again.kind == RunKind.CATCH_UP

    def test_or_by_the_next_run_on_the_grid_which_is_not_too_soon_after_a_start_that_was_never_reported(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="18s", phase="4s")
        (run,) = driven.turn(4 * SECOND)
        lost = Instant(driven.now + 9_500_000)
        driven.now = lost
        driven.under_way.pop("a")
        driven.turns.add_results(
            [RunResult(run.token, Outcome.LOST, None, lost, lost, b"its worker is gone or was cut off")]
        )
        assert not driven.turn()
        (again,) = driven.turn(8_500_000)
        assert (again.kind, again.nominal) == (RunKind.GRID, run.nominal + 18 * SECOND)
        assert [run.started for run in driven.store.runs() if run.outcome is Outcome.LOST] == [run.nominal]

    def test_but_not_if_what_is_missed_is_to_be_skipped(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="1m", missed="skip")
        driven.turn(MINUTE)
        driven.end("a", Outcome.LOST, None)
        assert not driven.turn()

    @pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.LOST])
    def test_what_was_to_be_done_at_a_stop_is_not_made_up_for(self, outcome: Outcome) -> None:
        driven = HandDrivenNode()
        driven.add("bye", cron="@shutdown")
        driven.force("bye")
        driven.turn()
        driven.end("bye", outcome, None)
        assert not driven.turn(MINUTE)
        assert driven.condition("bye").extra is None

    @pytest.mark.parametrize("outcome", [Outcome.DROPPED, Outcome.BROKEN])
    def test_what_never_started_leaves_the_last_start_as_it_was(self, outcome: Outcome) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.turn(MINUTE)
        driven.end("a", outcome, None)
        driven.turn()
        assert driven.progress("a").last_start == NEVER

    def test_only_runs_on_the_grid_count_as_last_start(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.turn(MINUTE)
        driven.end("a", lasted=SECOND)
        driven.force("a")
        driven.turn(20 * SECOND)
        driven.end("a")
        driven.turn()
        assert driven.progress("a").last_start == T0 + MINUTE

    def test_a_run_from_before_the_clock_was_set_back_does_not_hold_up_its_task(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", tolerance="0s")
        (run,) = driven.turn(10 * MINUTE)
        driven.clock_is_set(-HOUR)
        driven.turns.add_results([RunResult(run.token, Outcome.SUCCEEDED, 0, run.nominal, run.nominal + SECOND, b"")])
        driven.turn()
        assert driven.progress("a").last_start == driven.now

    def test_that_a_run_lasts_is_known_while_it_does(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        (run,) = driven.turn(MINUTE)
        driven.turns.add_starts([(run.token, driven.now + 7)])
        driven.turn()
        assert driven.condition("a").running_since == driven.now + 7

    def test_a_cursor_comes_back_with_the_next_run(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.add("b")
        assert [run.cursor for run in driven.turn(MINUTE)] == [None, None]
        driven.end("a", cursor=b"\x2a")
        driven.end("b")
        assert {run.name: run.cursor for run in driven.turn(MINUTE)} == {"a": b"\x2a", "b": None}
        driven.end("a")
        driven.end("b")
        assert {run.name: run.cursor for run in driven.turn(MINUTE)} == {"a": b"\x2a", "b": None}

    def test_what_is_done_is_counted(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.advance(3 * MINUTE)
        driven.pause("a")
        driven.advance(2 * MINUTE)
        assert driven.turns.counts.runs == 3
        assert driven.turns.counts.outcomes == {"succeeded": 3}
        assert driven.turns.counts.skipped == {"disabled": 2}
        assert driven.turns.counts.lateness == [0.0, 0.0, 0.0]


class TestFrames:
    """What a worker is told."""

    def run(self, driven: HandDrivenNode, after: int) -> RunSpec:
        (run,) = driven.turn(after)
        return run

    def test_a_run_knows_its_nominal_time_even_if_it_is_late(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        run = self.run(driven, MINUTE + 5 * SECOND)
        assert (run.nominal, run.kind) == (T0 + MINUTE, RunKind.GRID)

    @pytest.mark.parametrize("check", [True, False])
    def test_a_worker_knows_whether_it_is_a_check(self, check: bool) -> None:
        driven = HandDrivenNode()
        driven.add("a", check=check, function="m:f")
        assert self.run(driven, MINUTE).check is check
        assert driven.functions == ["m:f"]

    def test_commands_and_functions_go_side_by_side(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", function="m:f")
        driven.add("b")
        assert driven.names(driven.turn(MINUTE)) == ["a", "b"]
        assert driven.functions == ["m:f", None]

    def test_the_guard_goes_by_the_last_start_on_the_grid(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", tolerance="10s")
        first = self.run(driven, MINUTE)
        assert (first.last_start, first.interval, first.tolerance) == (NEVER, MINUTE, 10 * SECOND)
        driven.end("a")
        assert self.run(driven, MINUTE).last_start == T0 + MINUTE

    def test_off_the_grid_there_is_no_guard(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        self.run(driven, MINUTE)
        driven.end("a")
        driven.force("a")
        run = self.run(driven, SECOND)
        assert (run.kind, run.last_start, run.interval) == (RunKind.FORCED, NEVER, 0)

    def test_no_run_starts_after_its_period_has_closed(self) -> None:
        driven = HandDrivenNode()
        driven.periods(early=Period(ranges=("00:00-00:30",)))
        driven.add("a", every="10m", phase="0s", period="early")
        driven.add("b", every="10m", phase="0s")
        runs = {run.name: run.latest_start for run in driven.turn(10 * MINUTE)}
        assert runs == {"a": T0 + 30 * MINUTE, "b": FOREVER}

    def test_unless_it_is_forced(self) -> None:
        driven = HandDrivenNode()
        driven.periods(early=Period(ranges=("00:00-00:30",)))
        driven.add("a", every="10m", phase="0s", period="early")
        driven.force("a")
        assert self.run(driven, 5 * MINUTE).latest_start == FOREVER
        driven.end("a")
        driven.turn(HOUR)
        driven.force("a")
        assert self.run(driven, SECOND).latest_start == FOREVER

    def test_a_task_has_no_timebox_unless_it_says_so(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        assert self.run(driven, MINUTE).timebox == NO_TIMEBOX

    def test_it_may_be_half_of_the_interval(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", timebox="50%")
        assert self.run(driven, MINUTE).timebox == MINUTE // 2

    def test_it_may_end_when_the_next_is_due(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", cron="0 1,4 * * *", second=0, timebox="100%")
        assert self.run(driven, HOUR).timebox == 3 * HOUR

    def test_a_timebox_that_is_said_counts(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", cron="0 1,4 * * *", second=0, timebox="5s")
        assert self.run(driven, HOUR).timebox == 5 * SECOND

    def test_a_forced_run_just_before_the_next_is_not_cut_short(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", cron="0 1,4 * * *", second=0, timebox="100%")
        driven.turn(HOUR)
        driven.end("a")
        driven.turn(2 * HOUR + 59 * MINUTE + 58 * SECOND)
        driven.force("a")
        assert self.run(driven, SECOND).timebox == 3 * HOUR

    def test_a_forced_run_of_a_backlog_has_time_too(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", cron="*/10 * * * *", second=0, backlog="each", timebox="100%")
        driven.turn(10 * MINUTE)
        driven.force("a")
        driven.now += 25 * MINUTE
        driven.end("a")
        assert self.run(driven, 0).timebox == 10 * MINUTE

    def test_the_last_run_of_all_has_nothing_to_be_a_share_of(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", calendar="2024-10-04 01:00:00", timebox="100%")
        assert self.run(driven, HOUR).timebox == NO_TIMEBOX

    def test_a_run_without_a_timebox_is_not_ended_and_the_times_that_pass_merge_into_it(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1m", phase="0s")
        driven.turn(MINUTE)
        driven.advance(5 * MINUTE + 30 * SECOND)
        assert driven.lifecycle.pending == 1, "after 5 minutes and a half it runs still"
        driven.end("a")
        driven.turn()
        driven.turn(30 * SECOND)
        (skip,) = driven.store.skips(1)
        assert (skip.first, skip.last, skip.times) == (T0 + 2 * MINUTE, T0 + 6 * MINUTE, 5)

    def test_the_job_is_the_one_of_the_latest_definition(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", command=["old"])
        driven.set("a", every="1m", phase="0s", command=["new"])
        assert msgspec.msgpack.decode(self.run(driven, MINUTE).job)["command"] == ["new"]


class TestForce:
    def test_it_runs_now_whatever_the_schedule_says(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1d", phase="12h")
        driven.pause("a")
        driven.force("a")
        (run,) = driven.turn()
        assert (run.kind, run.nominal) == (RunKind.FORCED, T0)

    def test_while_it_waits_for_a_slot_the_store_knows_that_it_is_forced(self) -> None:
        driven = HandDrivenNode(slots=1)
        driven.add("a", every="1d", phase="12h")
        driven.add("b", every="1d", phase="12h", check=True)
        driven.force("a")
        driven.turn()
        driven.force("b")
        driven.turn(SECOND)
        found = driven.progress("b")
        assert found.extra_kind == RunKind.FORCED
        assert found.extra <= driven.now

    def test_so_it_does_when_the_run_before_it_ends_and_it_still_waits(self) -> None:
        driven = HandDrivenNode(slots=1)
        driven.add("a")
        driven.add("b", every="1d", phase="12h", priority=10)
        driven.turn(MINUTE)
        driven.force("a", "b")
        driven.end("a")
        assert driven.names(driven.turn(SECOND)) == ["b"]
        assert driven.progress("a").extra_kind == RunKind.FORCED
        assert driven.progress("a").extra < FOREVER

    def test_a_start_that_was_asked_for_is_not_forgotten_for_it(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="0s", start_at="2024-10-04T00:30")
        driven.force("a")
        assert (driven.progress("a").extra, driven.progress("a").extra_kind) == (
            T0 + 30 * MINUTE,
            RunKind.FORCED_BEFORE_START,
        )

    def test_twice_is_once(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1d", phase="12h")
        driven.force("a")
        driven.force("a", "a")
        assert len(driven.turn()) == 1
        driven.end("a")
        assert not driven.turn(SECOND)


def test_a_turn_without_news_records_nothing() -> None:
    driven = HandDrivenNode()
    driven.add("a")
    pages = len(driven.store.recorded)
    driven.turn(SECOND)
    assert len(driven.store.recorded) == pages
