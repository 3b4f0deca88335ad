"""A task that fails tries again: when, how often, for which nominal time, and what a restart makes of that."""

from itertools import pairwise
from typing import Any

import pytest
from hand_driven_node import T0, HandDrivenNode
from msgspec.structs import replace

from evenbeat.model import HOUR, MINUTE, SECOND, Cause, Instant, Outcome, Period, RunKind
from evenbeat.node.loop.restart import LAST_SEEN_KEY
from evenbeat.store.contract import ProblemFilter
from evenbeat.wire.worker_frames import RunResult, RunSpec

NOON = T0 + 12 * HOUR


AT_NOON: dict[str, Any] = {"cron": "0 12 * * *", "second": 0, "command": ["true"]}


def node_with(**keys: Any) -> HandDrivenNode:
    """A node with the task "a", which runs at noon unless the keys say otherwise, and tries again three times."""
    driven = HandDrivenNode(now=Instant(NOON - SECOND))
    driven.periods(lunch=Period(ranges=("12:00-12:02",)))
    if not keys.keys() & {"every", "at"}:
        keys |= {"cron": "0 12 * * *", "second": 0}
    usual: dict[str, Any] = {"retries": 3, "backoff": "1m"}
    driven.add("a", **usual | keys)
    return driven


def fail(
    driven: HandDrivenNode, status: int = 1, outcome: Outcome = Outcome.FAILED, raised: tuple[str, ...] = ()
) -> None:
    """The run that is under way fails, and the node learns it."""
    run = driven.under_way.pop("a")
    driven.turns.add_results([RunResult(run.token, outcome, status, driven.now, driven.now, b"", raised=raised)])
    driven.turn()


def attempts(driven: HandDrivenNode, until: int, step: int = SECOND) -> list[RunSpec]:
    """Time passes, and every run fails."""
    made = []
    while driven.now < until:
        for run in driven.turn(min(step, until - driven.now)):
            made.append(run)
            fail(driven)
    return made


def open_causes(driven: HandDrivenNode) -> list[str]:
    return [problem.cause for problem in driven.store.problems(ProblemFilter(is_open=True))]


def planned(driven: HandDrivenNode) -> tuple[int, RunKind]:
    """What the store knows of the next run off the grid."""
    progress = driven.progress("a")
    return progress.extra, RunKind(progress.extra_kind)


class TestHowOftenAndWhen:
    def test_a_failed_run_tries_again_as_often_as_its_task_says(self) -> None:
        driven = node_with()
        made = attempts(driven, NOON + HOUR)
        assert [(run.kind, run.attempt) for run in made] == [
            (RunKind.GRID, 1),
            (RunKind.RETRY, 2),
            (RunKind.RETRY, 3),
            (RunKind.RETRY, 4),
        ]

    def test_all_attempts_have_the_nominal_time_of_the_first(self) -> None:
        driven = node_with()
        assert {run.nominal for run in attempts(driven, NOON + HOUR)} == {NOON}
        assert [(run.nominal, run.attempt) for run in reversed(driven.store.runs())] == [
            (NOON, n) for n in (1, 2, 3, 4)
        ]

    def test_each_waits_twice_as_long_as_the_one_before_or_up_to_a_fourth_less(self) -> None:
        driven = node_with(backoff="1m")
        attempts(driven, NOON + HOUR)
        starts = [run.started or 0 for run in reversed(driven.store.runs())]
        gaps = [after - before for before, after in pairwise(starts)]
        for gap, longest in zip(gaps, (1, 2, 4), strict=True):
            assert longest * 45 * SECOND < gap <= longest * MINUTE + SECOND

    def test_not_after_a_success(self) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        (again,) = driven.turn(MINUTE)
        assert again.attempt == 2
        driven.end("a")
        assert not driven.turn(HOUR)
        assert planned(driven)[0] > NOON + HOUR
        assert driven.store.runs()[0].attempt == 2

    def test_the_next_run_on_the_grid_is_a_first_attempt(self) -> None:
        driven = node_with(every="10m", phase="0s")
        attempts(driven, NOON + 9 * MINUTE)
        (run,) = driven.turn(MINUTE)
        assert (run.kind, run.attempt) == (RunKind.GRID, 1)

    def test_none_without_retries(self) -> None:
        driven = HandDrivenNode(now=Instant(NOON - SECOND))
        driven.add("a", **AT_NOON)
        assert len(attempts(driven, NOON + HOUR)) == 1
        assert open_causes(driven) == [Cause.FAILED]

    def test_one_without_a_next_time_is_bounded_by_its_retries_alone(self) -> None:
        driven = node_with(at="2024-10-04T12:00", retries=2)
        assert len(attempts(driven, NOON + 24 * HOUR, MINUTE)) == 3

    @pytest.mark.parametrize("outcome", [Outcome.KILLED, Outcome.TIMEBOXED, Outcome.BROKEN])
    def test_after_any_failure(self, outcome: Outcome) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven, outcome=outcome)
        assert [run.kind for run in driven.turn(MINUTE)] == [RunKind.RETRY]

    def test_a_forced_run_tries_again_too(self) -> None:
        driven = node_with(every="1h", phase="30m")
        driven.force("a")
        (forced,) = driven.turn()
        fail(driven)
        assert [(run.nominal, run.attempt) for run in attempts(driven, NOON + 20 * MINUTE)] == [
            (forced.nominal, n) for n in (2, 3, 4)
        ]


class TestRetryOn:
    @pytest.mark.parametrize(
        ("retry_on", "status", "raised", "again"),
        [
            ([75], 75, (), True),
            ([75], 1, (), False),
            (["OSError"], 1, ("ConnectionError", "OSError"), True),
            (["ValueError"], 1, ("ConnectionError", "OSError"), False),
            ([75, "ValueError"], 75, (), True),
        ],
    )
    def test_only_after_the_failures_that_it_names(
        self, retry_on: list[Any], status: int, raised: tuple[str, ...], again: bool
    ) -> None:
        driven = node_with(function="m:f", retry_on=retry_on)
        driven.turn(SECOND)
        fail(driven, status, raised=raised)
        assert bool(driven.turn(MINUTE)) is again
        assert open_causes(driven) == ([] if again else [Cause.FAILED])

    def test_not_after_its_timebox(self) -> None:
        driven = node_with(retry_on=[75])
        driven.turn(SECOND)
        fail(driven, 75, Outcome.TIMEBOXED)
        assert not driven.turn(MINUTE)


class TestWhatLeavesNoTime:
    def test_a_retry_is_made_before_the_next_nominal_time_or_not_at_all(self) -> None:
        driven = node_with(every="1m", phase="0s", backoff="40s")
        made = attempts(driven, NOON + 59 * SECOND)
        assert [(run.nominal, run.attempt) for run in made] == [(NOON, 1), (NOON, 2)]
        assert open_causes(driven) == [Cause.FAILED]

    def test_nor_after_its_period_closes(self) -> None:
        driven = node_with(period="lunch")
        assert [run.attempt for run in attempts(driven, NOON + HOUR)] == [1, 2]
        assert open_causes(driven) == [Cause.FAILED]

    def test_one_that_waits_for_a_slot_until_the_next_nominal_time_is_given_up(self) -> None:
        driven = HandDrivenNode(slots=1, now=Instant(NOON - SECOND))
        driven.add("a", every="1m", phase="0s", retries=3, backoff="20s")
        driven.turn(SECOND)
        fail(driven)
        driven.add("long", at="2099-01-01")
        driven.force("long")
        driven.turn(SECOND)
        assert not driven.turn(40 * SECOND)
        assert not open_causes(driven)
        driven.turn(20 * SECOND)
        driven.end("long")
        (run,) = driven.turn()
        assert (run.kind, run.nominal, run.attempt) == (RunKind.GRID, NOON + MINUTE, 1)
        assert open_causes(driven) == [Cause.FAILED]


class TestTheProblem:
    def test_opens_when_no_retry_is_left(self) -> None:
        driven = node_with(retries=1)
        driven.turn(SECOND)
        fail(driven)
        assert not open_causes(driven)
        driven.turn(MINUTE)
        fail(driven)
        assert open_causes(driven) == [Cause.FAILED]

    def test_stays_away_if_a_retry_succeeds(self) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        driven.turn(MINUTE)
        driven.end("a")
        driven.turn()
        assert not driven.store.problems(ProblemFilter(is_open=None))

    def test_closes_when_a_later_attempt_succeeds(self) -> None:
        driven = node_with(every="10m", phase="0s", retries=1)
        attempts(driven, NOON + 5 * MINUTE)
        driven.turn(5 * MINUTE)
        fail(driven)
        assert open_causes(driven) == [Cause.FAILED]
        driven.turn(MINUTE)
        driven.end("a")
        driven.turn()
        assert not open_causes(driven)


class TestWhatElseHappens:
    def test_a_forced_run_takes_the_place_of_a_retry_that_waits(self) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        driven.force("a")
        (forced,) = driven.turn(SECOND)
        assert (forced.kind, forced.attempt) == (RunKind.FORCED, 1)
        assert not open_causes(driven)
        driven.end("a")
        assert not driven.turn(HOUR)
        assert not driven.store.problems(ProblemFilter(is_open=None))

    def test_a_retry_waits_while_its_task_is_paused(self) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        driven.pause("a")
        assert not driven.turn(HOUR)
        driven.pause("a", paused=False)
        (again,) = driven.turn(MINUTE)
        assert (again.kind, again.nominal, again.attempt) == (RunKind.RETRY, NOON, 2)

    def test_but_not_past_the_next_nominal_time(self) -> None:
        driven = node_with(every="10m", phase="0s")
        driven.turn(SECOND)
        fail(driven)
        driven.pause("a")
        driven.turn(15 * MINUTE)
        assert open_causes(driven) == [Cause.FAILED]
        driven.pause("a", paused=False)
        assert not driven.turn(2 * MINUTE)

    def test_a_removed_task_does_not_try_again(self) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        driven.remove("a")
        assert not driven.turn(HOUR)
        assert not driven.store.problems(ProblemFilter(is_open=None))

    def test_a_dropped_retry_is_a_failure(self) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        driven.turn(MINUTE)
        fail(driven, outcome=Outcome.DROPPED)
        assert open_causes(driven) == [Cause.FAILED]

    def test_a_start_in_the_future_leaves_no_room_for_a_retry(self) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        driven.set("a", **AT_NOON, retries=3, start_at="2099-01-01")
        assert open_causes(driven) == [Cause.FAILED]
        assert not driven.turn(HOUR)


class TestEdits:
    def waiting(self) -> HandDrivenNode:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        driven.turn(MINUTE)
        fail(driven)  # two attempts are made, the third waits
        return driven

    def test_a_retry_that_waits_stays_if_the_new_definition_allows_it(self) -> None:
        driven = self.waiting()
        before = planned(driven)
        driven.set("a", **AT_NOON, retries=2, backoff="5s")
        assert planned(driven) == before
        assert [run.attempt for run in attempts(driven, NOON + HOUR)] == [3]

    @pytest.mark.parametrize("retries", [{}, {"retries": 0}, {"retries": 1}])
    def test_fewer_retries_give_it_up(self, retries: dict[str, Any]) -> None:
        driven = self.waiting()
        driven.set("a", **AT_NOON, **retries)
        assert open_causes(driven) == [Cause.FAILED]
        assert not driven.turn(HOUR)

    def test_a_schedule_whose_next_time_comes_first_gives_it_up(self) -> None:
        driven = self.waiting()
        driven.set("a", every="10s", phase="0s", command=["true"], retries=3)
        assert open_causes(driven) == [Cause.FAILED]
        assert [run.kind for run in driven.turn(10 * SECOND)] == [RunKind.GRID]

    def test_another_name_keeps_it(self) -> None:
        driven = self.waiting()
        driven.set("a", new_name="b", **AT_NOON, retries=3)
        (run,) = driven.turn(2 * MINUTE)
        assert (run.name, run.nominal, run.attempt) == ("b", NOON, 3)


class TestRestarts:
    @pytest.mark.parametrize("after", [0, SECOND, 10 * MINUTE])
    def test_a_retry_that_waits_outlives_the_node(self, after: int) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        driven.restart(after=after)
        made = attempts(driven, NOON + HOUR)
        assert [(run.kind, run.nominal, run.attempt) for run in made] == [(RunKind.RETRY, NOON, n) for n in (2, 3, 4)]
        assert open_causes(driven) == [Cause.FAILED]

    def test_how_many_are_left_does_too(self) -> None:
        driven = node_with(retries=2)
        driven.turn(SECOND)
        for _ in range(2):
            fail(driven)
            driven.restart(after=SECOND)
            driven.restart(after=SECOND)
            driven.turn(2 * MINUTE)
        fail(driven)
        assert open_causes(driven) == [Cause.FAILED]
        assert not driven.turn(HOUR)
        assert [run.attempt for run in driven.store.runs()] == [3, 2, 1]

    def test_one_that_was_due_after_the_next_nominal_time_is_over(self) -> None:
        driven = node_with(every="10m", phase="0s")
        driven.turn(SECOND)
        fail(driven)
        driven.restart(after=11 * MINUTE)
        assert open_causes(driven) == [Cause.FAILED]
        (run,) = driven.turn(SECOND)
        assert (run.kind, run.attempt) == (RunKind.CATCH_UP, 1)

    def test_a_lost_retry_is_made_up_for_as_any_lost_run(self) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        driven.turn(MINUTE)
        driven.restart(after=SECOND)
        latest = driven.store.runs()[0]
        assert (latest.outcome, latest.attempt) == (Outcome.LOST, 2)
        (run,) = driven.turn(SECOND)
        assert (run.kind, run.attempt) == (RunKind.CATCH_UP, 1)
        assert not open_causes(driven)

    def test_a_lost_retry_that_is_not_made_up_for_is_a_failure(self) -> None:
        driven = node_with(missed="skip")
        driven.turn(SECOND)
        fail(driven)
        driven.turn(MINUTE)
        driven.restart(after=SECOND)
        assert open_causes(driven) == [Cause.FAILED]
        assert not driven.turn(HOUR)

    def test_an_edit_meanwhile_counts(self) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        entry = driven.admin.find_or_raise("a")
        driven.store.update([(entry.number, replace(entry.task, retries=None, backoff=None))], Instant(driven.now))
        driven.restart(after=SECOND)
        assert open_causes(driven) == [Cause.FAILED]
        assert not driven.turn(HOUR)

    def test_a_clock_that_was_set_back_meanwhile_gives_the_retry_a_nominal_time_in_the_past(self) -> None:
        driven = node_with()
        driven.turn(SECOND)
        fail(driven)
        driven.store.set_settings({LAST_SEEN_KEY: str(driven.now)})
        driven.restart(after=-HOUR)
        (again,) = driven.turn(MINUTE)
        assert (again.kind, again.nominal, again.attempt) == (RunKind.RETRY, NOON - HOUR, 2)
