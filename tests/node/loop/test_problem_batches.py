"""Problems of a live node: recorded with the result that caused them; after restarts, edits and removals."""

from collections.abc import Iterator
from typing import Any

import pytest
from hand_driven_node import T0, HandDrivenNode
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from evenbeat.load.task_tables import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Cause, Instant, Outcome, State
from evenbeat.store.contract import Batch, Filter, ProblemFilter
from evenbeat.store.problem_records import ProblemChange, ProblemRecord


@pytest.fixture
def driven() -> HandDrivenNode:
    return HandDrivenNode()


def add_check(driven: HandDrivenNode, name: str = "a", **keys: Any) -> None:
    driven.add(name, check=True, **{"attempts": 1, **keys})


def add_passive(driven: HandDrivenNode, name: str = "a", **keys: Any) -> None:
    driven.add(name, passive=True, **{"timebox": "10s", "grace": "5s", **keys})


def run(driven: HandDrivenNode, name: str, status: int | None = 0, outcome: Outcome | None = None) -> None:
    """A run of a task, forced and ended at once."""
    begin(driven, name)
    driven.end(name, outcome or (Outcome.FAILED if status else Outcome.SUCCEEDED), status)
    driven.turn()


def begin(driven: HandDrivenNode, name: str) -> None:
    driven.force(name)
    driven.turn(SECOND)
    assert name in driven.under_way


def become(driven: HandDrivenNode, name: str, *, check: bool) -> None:
    keys = {"every": "1m", "phase": "0s", "command": ["true"], **({"attempts": 1} if check else {})}
    driven.admin.set(name, task_from_table(name, keys, check=check), "ana")
    driven.node.apply_changes()


def problems(driven: HandDrivenNode, name: str = "a", *, is_open: bool | None = None) -> list[ProblemRecord]:
    """Of a task, oldest first."""
    return driven.store.problems(ProblemFilter(tasks=Filter(names=(name,)), is_open=is_open))[::-1]


def words(driven: HandDrivenNode, name: str = "a") -> list[str]:
    """The problems of a task, oldest first: cause, state, worst state, and why it closed."""
    return [
        f"{p.cause} {p.state.name}, {p.worst.name}" + ("" if p.closed is None else f", closed {p.reason}".rstrip())
        for p in problems(driven, name)
    ]


def recorded(driven: HandDrivenNode) -> Iterator[tuple[Batch, ProblemChange]]:
    return ((batch, change) for batch in driven.store.batches for change in batch.problems)


class TestTheSameBatch:
    def test_a_problem_is_recorded_with_the_end_that_opened_it(self, driven: HandDrivenNode) -> None:
        add_check(driven)
        run(driven, "a", 2)
        ((batch, change),) = recorded(driven)
        assert (change.cause, change.state, change.is_open) == (Cause.STATE, State.CRITICAL, True)
        assert [finish.task for finish in batch.finishes] == [change.task]

    def test_and_with_the_end_that_closed_it(self, driven: HandDrivenNode) -> None:
        driven.add("a")
        run(driven, "a", 1)
        run(driven, "a")
        (opening, opened), (closing, closed) = recorded(driven)
        assert [len(batch.finishes) for batch in (opening, closing)] == [1, 1]
        assert closed == opened._replace(at=closed.at, is_open=False)
        assert closing.finishes[0].outcome == Outcome.SUCCEEDED

    def test_a_submitted_result_takes_its_problem_along(self, driven: HandDrivenNode) -> None:
        add_passive(driven, attempts=1)
        for status in (2, 1, 0):
            driven.now += SECOND
            driven.turns.passive.submit(driven.row("a"), status, "", Instant(driven.now), Instant(driven.now))
        found = list(recorded(driven))
        assert [len(batch.told) for batch, _ in found] == [1, 1, 1]
        assert [(change.state, change.is_open) for _, change in found] == [(2, True), (1, True), (2, False)]

    def test_so_does_a_result_that_is_missing(self, driven: HandDrivenNode) -> None:
        add_passive(driven)
        driven.advance(2 * MINUTE + 20 * SECOND)
        ((batch, change),) = recorded(driven)
        assert [result.task for result in batch.told] == [change.task]
        assert words(driven) == ["state CRITICAL, CRITICAL"]

    def test_an_end_that_changes_nothing_records_no_problem(self, driven: HandDrivenNode) -> None:
        add_check(driven)
        driven.add("b")
        for name, status in (("a", 2), ("a", 2), ("b", 1), ("b", 1)):
            run(driven, name, status)
        assert len(list(recorded(driven))) == 2

    def test_it_is_recorded_too_if_the_rest_of_the_turn_fails(self, driven: HandDrivenNode) -> None:
        add_check(driven)
        begin(driven, "a")
        driven.end("a", Outcome.FAILED, 2)
        driven.lifecycle.release = None  # type: ignore[assignment, method-assign]
        with pytest.raises(TypeError):
            driven.turn()
        assert words(driven) == ["state CRITICAL, CRITICAL"]


class TestEnds:
    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED, Outcome.BROKEN])
    def test_a_task_has_a_problem_from_its_failure_to_its_success(
        self, driven: HandDrivenNode, outcome: Outcome
    ) -> None:
        driven.add("a")
        run(driven, "a", 1, outcome)
        run(driven, "a", None, Outcome.CANCELLED)
        assert words(driven) == ["failed CRITICAL, CRITICAL"]
        run(driven, "a")
        assert words(driven) == ["failed CRITICAL, CRITICAL, closed"]

    def test_a_lost_run_that_is_repeated_says_nothing(self, driven: HandDrivenNode) -> None:
        driven.add("a")
        run(driven, "a", None, Outcome.LOST)
        assert words(driven) == []

    def test_a_lost_run_that_is_not_repeated_is_a_failure(self, driven: HandDrivenNode) -> None:
        driven.add("a", missed="skip")
        run(driven, "a", None, Outcome.LOST)
        assert words(driven) == ["failed CRITICAL, CRITICAL"]

    def test_neither_is_one_that_was_interrupted_and_is_not_repeated(self, driven: HandDrivenNode) -> None:
        driven.add("a", missed="skip")
        run(driven, "a", None, Outcome.CANCELLED)
        assert words(driven) == []

    def test_a_lost_run_of_a_check_says_nothing(self, driven: HandDrivenNode) -> None:
        add_check(driven, missed="skip")
        run(driven, "a", None, Outcome.LOST)
        assert words(driven) == []

    def test_a_paused_task_keeps_its_problem(self, driven: HandDrivenNode) -> None:
        add_check(driven)
        run(driven, "a", 2)
        driven.pause("a")
        driven.advance(HOUR, MINUTE)
        assert words(driven) == ["state CRITICAL, CRITICAL"]


class TestRestarts:
    def test_a_problem_goes_on(self, driven: HandDrivenNode) -> None:
        add_check(driven)
        driven.add("b")
        run(driven, "a", 1)
        run(driven, "b", 1)
        before = problems(driven), problems(driven, "b")
        driven.restart(HOUR)
        assert (problems(driven), problems(driven, "b")) == before
        run(driven, "a", 2)
        run(driven, "b", 0)
        assert words(driven) == ["state CRITICAL, CRITICAL"]
        assert words(driven, "b") == ["failed CRITICAL, CRITICAL, closed"]

    def test_a_run_that_was_lost_with_the_node_and_is_not_repeated_is_a_failure(self, driven: HandDrivenNode) -> None:
        driven.add("a", missed="skip")
        driven.add("b")
        begin(driven, "a")
        begin(driven, "b")
        driven.restart(SECOND)
        assert words(driven) == ["failed CRITICAL, CRITICAL"]
        assert words(driven, "b") == []
        batch, change = next(recorded(driven))
        assert change.task in [finish.task for finish in batch.finishes]

    def test_problems_that_nobody_recorded_are_opened_and_closed(self, driven: HandDrivenNode) -> None:
        """By a node of an older version, for example."""
        add_check(driven)
        add_check(driven, "b")
        run(driven, "b", 1)
        driven.tasks.problems.learn_results = lambda rows, now: []  # type: ignore[method-assign]
        run(driven, "a", 2)
        run(driven, "b", 0)
        found = driven.now
        assert (words(driven), words(driven, "b")) == ([], ["state WARNING, WARNING"])
        driven.restart(HOUR)
        assert (words(driven), words(driven, "b")) == (["state CRITICAL, CRITICAL"], ["state WARNING, WARNING, closed"])
        assert found - 2 * SECOND < problems(driven)[0].opened <= found


class TestEdits:
    def test_a_check_that_becomes_a_task(self, driven: HandDrivenNode) -> None:
        add_check(driven)
        run(driven, "a", 1)
        become(driven, "a", check=False)
        assert words(driven) == ["state WARNING, WARNING, closed changed"]

    def test_a_task_that_becomes_a_check_while_no_node_runs(self, driven: HandDrivenNode) -> None:
        driven.add("a")
        run(driven, "a", 1)
        driven.admin.set("a", task_from_table("a", {"every": "1m", "command": ["true"]}, check=True), "ana")
        assert words(driven) == ["failed CRITICAL, CRITICAL"]
        driven.restart()
        assert words(driven) == ["failed CRITICAL, CRITICAL, closed changed"]

    def test_another_edit_changes_nothing(self, driven: HandDrivenNode) -> None:
        add_check(driven)
        run(driven, "a", 2)
        before = problems(driven)
        driven.set("a", command=["false"], every="2m")
        assert problems(driven) == before
        assert len(list(recorded(driven))) == 1


class TestRemovals:
    def test_the_problem_of_a_removed_task_is_closed(self, driven: HandDrivenNode) -> None:
        add_check(driven)
        run(driven, "a", 2)
        driven.remove("a")
        assert sum(driven.tasks.problems.count_by_state().values()) == 0

    def test_a_task_that_comes_back_while_it_runs_has_its_problem_again(self, driven: HandDrivenNode) -> None:
        add_check(driven)
        run(driven, "a", 2)
        begin(driven, "a")
        driven.remove("a")
        add_check(driven)
        assert words(driven) == ["state CRITICAL, CRITICAL"]
        driven.end("a")
        driven.turn()
        assert words(driven) == ["state CRITICAL, CRITICAL, closed"]

    def test_also_if_its_run_has_ended_and_the_store_does_not_know_yet(self, driven: HandDrivenNode) -> None:
        add_check(driven)
        run(driven, "a", 2)
        begin(driven, "a")
        driven.remove("a")
        driven.store.is_slow = True
        driven.end("a")
        driven.turn()
        add_check(driven)
        driven.store.commit()
        driven.loop.wait(1)
        assert words(driven) == ["state CRITICAL, CRITICAL"]
        run(driven, "a")
        assert words(driven) == ["state CRITICAL, CRITICAL, closed"]

    def test_what_the_store_ignored_after_the_removal_is_repeated(self, driven: HandDrivenNode) -> None:
        """A result comes after a removal that the node has not heard of, and then the task comes back."""
        add_passive(driven, attempts=1, command=["true"])
        driven.turns.passive.submit(driven.row("a"), 2, "", Instant(driven.now), Instant(driven.now))
        begin(driven, "a")
        row = driven.row("a")
        driven.admin.remove(Filter(names=("a",)), "ana")
        driven.turns.passive.submit(row, 0, "", Instant(driven.now), Instant(driven.now))
        assert words(driven) == ["state CRITICAL, CRITICAL, closed removed"]
        add_passive(driven, attempts=1, command=["true"])
        assert words(driven) == ["state CRITICAL, CRITICAL, closed"]

    def test_the_failure_of_a_removed_task_opens_nothing(self, driven: HandDrivenNode) -> None:
        driven.add("a")
        driven.add("b")
        begin(driven, "a")
        driven.remove("a")
        driven.end("a", Outcome.FAILED, 1)
        driven.turn()
        assert list(recorded(driven)) == []


def test_open_problems_are_counted_by_state(driven: HandDrivenNode) -> None:
    add_check(driven)
    add_check(driven, "b")
    driven.add("c")
    for name, status in (("a", 1), ("b", 2), ("c", 1)):
        run(driven, name, status)
    counted = driven.tasks.problems.count_by_state()
    assert counted == {State.OK: 0, State.WARNING: 1, State.CRITICAL: 2, State.UNKNOWN: 0}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from((0, 0, 1, 2, 3, None))), max_size=40))
def test_a_node_that_is_restarted_after_each_run_records_the_same(events: list[tuple[str, int | None]]) -> None:
    straight, restarted = HandDrivenNode(), HandDrivenNode()
    for driven in (straight, restarted):
        add_check(driven, every="1d")
        add_check(driven, "b", attempts=2, every="1d")
        driven.add("c", every="1d")
        for name, status in events:
            driven.now = max(driven.now, T0) + MINUTE
            run(driven, name, status, Outcome.TIMEBOXED if status is None else None)
            if driven is restarted:
                driven.restart()
    for name in "abc":
        assert apart_from_holds(restarted, name) == apart_from_holds(straight, name)


def apart_from_holds(driven: HandDrivenNode, name: str) -> list[ProblemRecord]:
    """The problems of a task, apart from the fresh result that is asked for after a restart, and awaited."""
    return [structs.replace(one, hold="", held_since=None, output="") for one in problems(driven, name)]
