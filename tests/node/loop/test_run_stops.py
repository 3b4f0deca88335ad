"""People stop runs: how they end, what becomes of their tasks, and that nothing of it is forgotten when a node dies."""

from collections.abc import Callable
from typing import Any

import pytest
from hand_driven_node import HandDrivenNode

from evenbeat.model import MINUTE, OUTPUT_LIMIT, SECOND, Instant, Outcome, RunKind
from evenbeat.node.loop.restart import StoredTasks, restore_partitions
from evenbeat.store.contract import ProblemFilter, RunRecord
from evenbeat.wire.replies import StopFound


@pytest.fixture
def driven() -> HandDrivenNode:
    return HandDrivenNode()


def running(driven: HandDrivenNode, name: str = "t", **keys: Any) -> None:
    """A task whose run is under way."""
    driven.add(name, **keys)
    assert driven.turn(MINUTE)


def on_its_loop(driven: HandDrivenNode, do: Callable[[], object]) -> None:
    """Runs that are claimed ahead are held by a timer of the loop."""
    driven.loop.call_soon(do)
    driven.loop.wait(0)


def latest(driven: HandDrivenNode, name: str = "t") -> RunRecord:
    (run, *_) = driven.store.runs(driven.admin.find_or_raise(name).number)
    return run


class TestARunUnderWay:
    def test_ends_as_cancelled_and_its_output_says_who_has_stopped_it_and_why(self, driven: HandDrivenNode) -> None:
        running(driven)
        assert driven.stop_runs("t", reason="wrong database") == {"t": StopFound.RUN}
        assert driven.cancelled == [driven.under_way["t"].token]
        driven.end("t", Outcome.CANCELLED, -15, output=b"copied 12 of 30\n")
        driven.turn()
        run = latest(driven)
        assert (run.outcome, run.status) == (Outcome.CANCELLED, -15)
        assert run.output == "stopped by ana: wrong database\ncopied 12 of 30\n"

    def test_is_told_to_end_only_when_it_is_committed_that_it_is_to(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.store.is_slow = True
        driven.stop_runs("t")
        assert driven.cancelled == []
        driven.store.commit()
        driven.loop.wait(0.1)
        assert driven.cancelled == [driven.under_way["t"].token]

    def test_is_told_to_end_once(self, driven: HandDrivenNode) -> None:
        running(driven)
        for _ in range(2):
            assert driven.stop_runs("t") == {"t": StopFound.RUN}
        assert len(driven.cancelled) == 1

    def test_is_not_made_up_for_and_the_schedule_goes_on(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.stop_runs("t")
        driven.end("t", Outcome.CANCELLED, -15)
        assert driven.turn(30 * SECOND) == []
        (run,) = driven.turn(30 * SECOND)
        assert run.kind == RunKind.GRID

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.DROPPED, Outcome.TIMEBOXED, Outcome.LOST])
    def test_is_cancelled_however_it_ended_meanwhile(self, driven: HandDrivenNode, outcome: Outcome) -> None:
        running(driven)
        driven.stop_runs("t")
        driven.end("t", outcome, 1, output=b"oh")
        assert driven.turn(1) == []
        run = latest(driven)
        assert (run.outcome, run.output) == (Outcome.CANCELLED, f"stopped by ana ({outcome})\noh")
        assert driven.store.problems(ProblemFilter(is_open=None)) == []

    def test_that_succeeds_before_it_could_be_stopped_has_succeeded(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.stop_runs("t")
        driven.end("t", output=b"fine")
        driven.turn()
        assert (latest(driven).outcome, latest(driven).output) == (Outcome.SUCCEEDED, "fine")

    def test_opens_and_closes_no_problem(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.end("t", Outcome.FAILED, 1)
        (run,) = driven.turn(MINUTE)
        driven.stop_runs("t")
        driven.end("t", Outcome.CANCELLED, None)
        driven.turn()
        (problem,) = driven.store.problems()
        assert problem.task == run.name

    def test_of_a_check_gives_no_result(self, driven: HandDrivenNode) -> None:
        running(driven, check=True)
        driven.end("t")
        driven.turn(MINUTE)
        before = driven.condition("t")
        driven.stop_runs("t")
        driven.end("t", Outcome.CANCELLED, 2)
        driven.turn()
        after = driven.condition("t")
        assert (after.state, after.hard, after.attempt) == (before.state, before.hard, before.attempt)
        assert driven.progress("t").result_at == before.last_start

    def test_that_no_worker_had_begun_does_not_make_the_next_one_too_soon(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.now += 50 * SECOND
        driven.stop_runs("t")
        driven.end("t", Outcome.CANCELLED, None, output=b"not started")
        driven.turn()
        assert driven.names(driven.turn(10 * SECOND)) == ["t"]

    def test_starts_nothing_that_comes_after_it(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.add("next", after=["t"])
        driven.add("if it fails", after_failure=["t"])
        driven.stop_runs("t")
        driven.end("t", Outcome.CANCELLED, -15)
        assert driven.turn(SECOND) == []
        driven.restart()
        assert driven.turn(SECOND) == []

    def test_that_came_after_another_is_not_made_again(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.add("next", after=["t"])
        driven.end("t")
        assert driven.names(driven.turn(SECOND)) == ["next"]
        assert driven.stop_runs("next") == {"next": StopFound.RUN}
        driven.restart()
        assert latest(driven, "next").outcome == Outcome.CANCELLED
        assert driven.turn(SECOND) == []

    def test_of_a_removed_task_can_be_stopped_by_its_name(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.remove("t")
        assert driven.stop_runs("t") == {"t": StopFound.RUN}
        driven.end("t", Outcome.CANCELLED, -15)
        driven.turn()
        (run,) = driven.store.runs()
        assert run.outcome == Outcome.CANCELLED

    def test_keeps_its_output_within_the_limit(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.stop_runs("t")
        driven.end("t", Outcome.CANCELLED, -15, output=b"x" * OUTPUT_LIMIT)
        driven.turn()
        assert len(latest(driven).output) == OUTPUT_LIMIT

    def test_others_go_on(self, driven: HandDrivenNode) -> None:
        driven.add("other")
        running(driven)
        driven.stop_runs("t")
        assert driven.cancelled == [driven.under_way["t"].token]


class TestARunThatHasNotBegun:
    def test_that_is_held_until_it_is_due_is_never_dispatched(self, driven: HandDrivenNode) -> None:
        driven.early_delivery = 0
        driven.add("t")
        on_its_loop(driven, lambda: driven.turn(MINUTE - 50_000))
        assert driven.turns.starter.held()
        assert driven.stop_runs("t") == {"t": StopFound.RUN}
        driven.now += SECOND
        driven.loop.wait(1)
        driven.turn()
        assert latest(driven).output == "stopped by ana\nnot started"
        assert driven.dispatched == []

    def test_whose_claim_is_not_committed_yet_is_never_dispatched(self, driven: HandDrivenNode) -> None:
        driven.early_delivery = 0
        driven.add("t")
        driven.store.is_slow = True
        driven.turn(MINUTE - 50_000)
        driven.stop_runs("t")
        driven.store.commit()
        driven.loop.wait(0.02)
        driven.now += SECOND
        driven.loop.wait(1)
        driven.turn()
        assert (latest(driven).outcome, driven.dispatched) == (Outcome.CANCELLED, [])

    def test_a_forced_one_that_waits_for_a_slot_is_withdrawn(self) -> None:
        driven = HandDrivenNode(slots=1)
        running(driven, "long")
        driven.add("t")
        driven.force("t")
        driven.turn()
        assert driven.stop_runs("t", reason="not now") == {"t": StopFound.FORCED}
        driven.end("long")
        assert driven.turn() == []
        (refused, *_) = driven.store.skips(driven.admin.find_or_raise("t").number)
        assert (refused.kind, refused.reason) == (RunKind.FORCED, "stopped by ana: not now")

    def test_a_forced_one_that_waits_for_the_run_under_way_is_withdrawn_with_it(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.force("t")
        driven.turn()
        assert driven.stop_runs("t") == {"t": StopFound.RUN}
        driven.end("t", Outcome.CANCELLED, -15)
        assert driven.turn(SECOND) == []

    def test_a_forced_one_that_was_withdrawn_does_not_come_back_after_a_restart(self) -> None:
        driven = HandDrivenNode(slots=1)
        running(driven, "long")
        driven.add("t")
        driven.force("t")
        driven.turn()
        driven.stop_runs("t")
        driven.restart()
        assert "t" not in driven.names(driven.turn(SECOND))

    def test_a_retry_that_waits_is_withdrawn_and_opens_no_problem(self, driven: HandDrivenNode) -> None:
        running(driven, every="1h", phase="1m", retries=3, backoff="10m")
        driven.end("t", Outcome.FAILED, 1)
        driven.turn()
        assert driven.stop_runs("t") == {"t": StopFound.RETRY}
        (refused, *_) = driven.store.skips(driven.admin.find_or_raise("t").number)
        assert (refused.kind, refused.reason) == (RunKind.RETRY, "stopped by ana")
        driven.restart()
        assert driven.turn(30 * MINUTE) == []
        assert driven.store.problems(ProblemFilter(is_open=None)) == []

    def test_a_stopped_retry_is_the_last_attempt_and_opens_no_problem(self, driven: HandDrivenNode) -> None:
        running(driven, every="1h", phase="1m", retries=3, backoff="1m")
        driven.end("t", Outcome.FAILED, 1)
        driven.turn()
        (retry,) = driven.turn(2 * MINUTE)
        assert retry.kind == RunKind.RETRY
        driven.stop_runs("t")
        driven.end("t", Outcome.FAILED, 1)
        assert driven.turn(30 * MINUTE) == []
        assert driven.store.problems(ProblemFilter(is_open=None)) == []

    def test_one_that_the_schedule_asks_for_is_not_touched(self) -> None:
        driven = HandDrivenNode(slots=1)
        driven.add("a", priority=1)
        running(driven)
        assert driven.stop_runs("t") == {"t": StopFound.NOTHING}
        driven.end("a")
        assert driven.names(driven.turn()) == ["t"]

    def test_nothing_is_found_of_a_task_that_is_idle(self, driven: HandDrivenNode) -> None:
        driven.add("t")
        assert driven.stop_runs("t") == {"t": StopFound.NOTHING}
        assert driven.stop_runs("*") == {}


class TestAfterTheNodeWasKilled:
    def test_a_run_that_was_to_be_stopped_is_cancelled_and_not_made_up_for(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.stop_runs("t", reason="wrong database")
        driven.restart()
        assert driven.turn(SECOND) == []
        run = latest(driven)
        assert (run.outcome, run.output) == (Outcome.CANCELLED, "stopped by ana: wrong database")
        assert driven.names(driven.turn(MINUTE)) == ["t"]

    def test_also_if_its_task_was_removed(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.remove("t")
        driven.stop_runs("t")
        driven.restart()
        (run,) = driven.store.runs()
        assert run.outcome == Outcome.CANCELLED

    def test_others_are_lost_and_made_up_for(self, driven: HandDrivenNode) -> None:
        driven.add("other")
        running(driven)
        driven.stop_runs("t")
        driven.restart()
        made = driven.turn(SECOND) + driven.turn(SECOND)
        assert driven.names(made) == ["other"]

    def test_a_stop_that_was_not_committed_has_not_happened(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.store.is_slow = True
        driven.stop_runs("t")
        driven.store.is_slow = False
        driven.restart()
        assert latest(driven).outcome == Outcome.LOST

    def test_the_next_run_is_not_taken_for_the_stopped_one(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.stop_runs("t")
        driven.end("t", Outcome.CANCELLED, -15)
        driven.turn(MINUTE)
        assert driven.progress("t").claimed_stop == ""
        driven.restart()
        assert latest(driven).outcome == Outcome.LOST


class TestAnEndThatNobodyAskedFor:
    def test_is_an_interruption_and_made_up_for(self, driven: HandDrivenNode) -> None:
        """So it is when a node or a worker is stopped: both report what they ended as cancelled."""
        running(driven)
        driven.end("t", Outcome.CANCELLED, -15, output=b"half")
        (again,) = driven.turn()
        _, run = driven.store.runs()
        assert (run.outcome, run.output, again.kind) == (Outcome.INTERRUPTED, "half", RunKind.CATCH_UP)

    def test_is_not_made_up_for_if_what_is_missed_is_skipped(self, driven: HandDrivenNode) -> None:
        running(driven, missed="skip")
        driven.end("t", Outcome.CANCELLED, -15)
        driven.turn()
        assert driven.turn(2 * SECOND) == []
        assert driven.store.problems() == []


class TestAnotherNodeTakesOver:
    def hand_over(self, driven: HandDrivenNode, *, untaken: bool = False) -> None:
        """The tasks leave the node, and come in again as those of another one."""
        driven.turns.release_tasks(driven.tasks.all_rows())
        claimed = {run.name: run.token for run in driven.dispatched}
        progress = [
            p._replace(claimed_token=claimed[entry.task.name], claimed_untaken=untaken)
            for entry, p in zip(driven.store.entries(), driven.store.progress(), strict=True)
        ]
        stored = StoredTasks(list(driven.store.entries()), progress, {}, [], [])
        restored, under_way = restore_partitions(driven.tasks, driven.turns, stored, Instant(driven.now))
        driven.cancelled.clear()
        driven.turns.take_over(restored, under_way, Instant(driven.now))

    def test_and_ends_what_was_to_be_stopped(self, driven: HandDrivenNode) -> None:
        driven.add("other")
        running(driven)
        driven.stop_runs("t")
        self.hand_over(driven)
        assert driven.cancelled == [driven.under_way["t"].token]
        driven.end("t", Outcome.LOST, None, output=b"its worker is gone")
        driven.turn()
        assert latest(driven).output == "stopped by ana (lost)\nits worker is gone"
        assert driven.turn(SECOND) == []

    def test_and_starts_none_of_it(self, driven: HandDrivenNode) -> None:
        running(driven)
        driven.stop_runs("t")
        on_its_loop(driven, lambda: self.hand_over(driven, untaken=True))
        driven.turn()
        assert (latest(driven).outcome, len(driven.dispatched)) == (Outcome.CANCELLED, 1)
