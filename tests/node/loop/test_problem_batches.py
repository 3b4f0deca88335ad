"""Problems of a live node: recorded with the result that caused them; after restarts, edits and removals."""

from collections.abc import Iterator
from typing import Any

import pytest
from hand_driven_node import T0, Hand
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.task_keys import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Cause, Instant, Outcome, State
from evenbeat.store.contract import Batch, Filter, ProblemFilter
from evenbeat.store.problem_records import ProblemChange, ProblemRecord


@pytest.fixture
def hand() -> Hand:
    return Hand()


def add_check(hand: Hand, name: str = "a", **keys: Any) -> None:
    hand.add(name, check=True, **{"attempts": 1, **keys})


def add_passive(hand: Hand, name: str = "a", **keys: Any) -> None:
    hand.add(name, passive=True, **{"timebox": "10s", "grace": "5s", **keys})


def run(hand: Hand, name: str, status: int | None = 0, outcome: Outcome | None = None) -> None:
    """A run of a task, forced and ended at once."""
    begin(hand, name)
    hand.end(name, outcome or (Outcome.FAILED if status else Outcome.SUCCEEDED), status)
    hand.turn()


def begin(hand: Hand, name: str) -> None:
    hand.force(name)
    hand.turn(SECOND)
    assert name in hand.under_way


def become(hand: Hand, name: str, *, check: bool) -> None:
    keys = {"every": "1m", "phase": "0s", "command": ["true"], **({"attempts": 1} if check else {})}
    hand.desk.set(name, task_from_table(name, keys, check=check), "ana")
    hand.node.apply_changes()


def problems(hand: Hand, name: str = "a", *, is_open: bool | None = None) -> list[ProblemRecord]:
    """Of a task, oldest first."""
    return hand.store.problems(ProblemFilter(tasks=Filter(names=(name,)), is_open=is_open))[::-1]


def words(hand: Hand, name: str = "a") -> list[str]:
    """The problems of a task, oldest first: cause, state, worst state, and why it closed."""
    return [
        f"{p.cause} {p.state.name}, {p.worst.name}" + ("" if p.closed is None else f", closed {p.reason}".rstrip())
        for p in problems(hand, name)
    ]


def recorded(hand: Hand) -> Iterator[tuple[Batch, ProblemChange]]:
    return ((batch, change) for batch in hand.store.batches for change in batch.problems)


class TestTheSameBatch:
    def test_a_problem_is_recorded_with_the_end_that_opened_it(self, hand: Hand) -> None:
        add_check(hand)
        run(hand, "a", 2)
        ((batch, change),) = recorded(hand)
        assert (change.cause, change.state, change.is_open) == (Cause.STATE, State.CRITICAL, True)
        assert [finish.task for finish in batch.finishes] == [change.task]

    def test_and_with_the_end_that_closed_it(self, hand: Hand) -> None:
        hand.add("a")
        run(hand, "a", 1)
        run(hand, "a")
        (opening, opened), (closing, closed) = recorded(hand)
        assert [len(batch.finishes) for batch in (opening, closing)] == [1, 1]
        assert closed == opened._replace(at=closed.at, is_open=False)
        assert closing.finishes[0].outcome == Outcome.SUCCEEDED

    def test_a_submitted_result_takes_its_problem_along(self, hand: Hand) -> None:
        add_passive(hand, attempts=1)
        for status in (2, 1, 0):
            hand.now += SECOND
            hand.beat.passive.submit(hand.row("a"), status, "", Instant(hand.now), Instant(hand.now))
        found = list(recorded(hand))
        assert [len(batch.told) for batch, _ in found] == [1, 1, 1]
        assert [(change.state, change.is_open) for _, change in found] == [(2, True), (1, True), (2, False)]

    def test_so_does_a_result_that_is_missing(self, hand: Hand) -> None:
        add_passive(hand)
        hand.advance(2 * MINUTE + 20 * SECOND)
        ((batch, change),) = recorded(hand)
        assert [result.task for result in batch.told] == [change.task]
        assert words(hand) == ["state CRITICAL, CRITICAL"]

    def test_an_end_that_changes_nothing_records_no_problem(self, hand: Hand) -> None:
        add_check(hand)
        hand.add("b")
        for name, status in (("a", 2), ("a", 2), ("b", 1), ("b", 1)):
            run(hand, name, status)
        assert len(list(recorded(hand))) == 2

    def test_it_is_recorded_too_if_the_rest_of_the_turn_fails(self, hand: Hand) -> None:
        add_check(hand)
        begin(hand, "a")
        hand.end("a", Outcome.FAILED, 2)
        hand.life.release = None  # type: ignore[assignment, method-assign]
        with pytest.raises(TypeError):
            hand.turn()
        assert words(hand) == ["state CRITICAL, CRITICAL"]


class TestEnds:
    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED, Outcome.BROKEN])
    def test_a_task_has_a_problem_from_its_failure_to_its_success(self, hand: Hand, outcome: Outcome) -> None:
        hand.add("a")
        run(hand, "a", 1, outcome)
        run(hand, "a", None, Outcome.CANCELLED)
        assert words(hand) == ["failed CRITICAL, CRITICAL"]
        run(hand, "a")
        assert words(hand) == ["failed CRITICAL, CRITICAL, closed"]

    def test_a_lost_run_that_is_repeated_says_nothing(self, hand: Hand) -> None:
        hand.add("a")
        run(hand, "a", None, Outcome.LOST)
        assert words(hand) == []

    def test_a_lost_run_that_is_not_repeated_is_a_failure(self, hand: Hand) -> None:
        hand.add("a", missed="skip")
        run(hand, "a", None, Outcome.LOST)
        assert words(hand) == ["failed CRITICAL, CRITICAL"]

    def test_neither_is_one_that_was_cancelled_and_is_not_repeated(self, hand: Hand) -> None:
        hand.add("a", missed="skip")
        run(hand, "a", None, Outcome.CANCELLED)
        assert words(hand) == []

    def test_a_lost_run_of_a_check_says_nothing(self, hand: Hand) -> None:
        add_check(hand, missed="skip")
        run(hand, "a", None, Outcome.LOST)
        assert words(hand) == []

    def test_a_paused_task_keeps_its_problem(self, hand: Hand) -> None:
        add_check(hand)
        run(hand, "a", 2)
        hand.pause("a")
        hand.advance(HOUR, MINUTE)
        assert words(hand) == ["state CRITICAL, CRITICAL"]


class TestRestarts:
    def test_a_problem_goes_on(self, hand: Hand) -> None:
        add_check(hand)
        hand.add("b")
        run(hand, "a", 1)
        run(hand, "b", 1)
        before = problems(hand), problems(hand, "b")
        hand.restart(HOUR)
        assert (problems(hand), problems(hand, "b")) == before
        run(hand, "a", 2)
        run(hand, "b", 0)
        assert words(hand) == ["state CRITICAL, CRITICAL"]
        assert words(hand, "b") == ["failed CRITICAL, CRITICAL, closed"]

    def test_a_run_that_was_lost_with_the_node_and_is_not_repeated_is_a_failure(self, hand: Hand) -> None:
        hand.add("a", missed="skip")
        hand.add("b")
        begin(hand, "a")
        begin(hand, "b")
        hand.restart(SECOND)
        assert words(hand) == ["failed CRITICAL, CRITICAL"]
        assert words(hand, "b") == []
        batch, change = next(recorded(hand))
        assert change.task in [finish.task for finish in batch.finishes]

    def test_problems_that_nobody_recorded_are_opened_and_closed(self, hand: Hand) -> None:
        """By a node of an older version, for example."""
        add_check(hand)
        add_check(hand, "b")
        run(hand, "b", 1)
        hand.roster.problems.learn_results = lambda rows, now: []  # type: ignore[method-assign]
        run(hand, "a", 2)
        run(hand, "b", 0)
        found = hand.now
        assert (words(hand), words(hand, "b")) == ([], ["state WARNING, WARNING"])
        hand.restart(HOUR)
        assert (words(hand), words(hand, "b")) == (["state CRITICAL, CRITICAL"], ["state WARNING, WARNING, closed"])
        assert found - 2 * SECOND < problems(hand)[0].opened <= found


class TestEdits:
    def test_a_check_that_becomes_a_task(self, hand: Hand) -> None:
        add_check(hand)
        run(hand, "a", 1)
        become(hand, "a", check=False)
        assert words(hand) == ["state WARNING, WARNING, closed changed"]

    def test_a_task_that_becomes_a_check_while_no_node_runs(self, hand: Hand) -> None:
        hand.add("a")
        run(hand, "a", 1)
        hand.desk.set("a", task_from_table("a", {"every": "1m", "command": ["true"]}, check=True), "ana")
        assert words(hand) == ["failed CRITICAL, CRITICAL"]
        hand.restart()
        assert words(hand) == ["failed CRITICAL, CRITICAL, closed changed"]

    def test_another_edit_changes_nothing(self, hand: Hand) -> None:
        add_check(hand)
        run(hand, "a", 2)
        before = problems(hand)
        hand.set("a", command=["false"], every="2m")
        assert problems(hand) == before
        assert len(list(recorded(hand))) == 1


class TestRemovals:
    def test_the_problem_of_a_removed_task_is_closed(self, hand: Hand) -> None:
        add_check(hand)
        run(hand, "a", 2)
        hand.remove("a")
        assert sum(hand.roster.problems.count_by_state().values()) == 0

    def test_a_task_that_comes_back_while_it_runs_has_its_problem_again(self, hand: Hand) -> None:
        add_check(hand)
        run(hand, "a", 2)
        begin(hand, "a")
        hand.remove("a")
        add_check(hand)
        assert words(hand) == ["state CRITICAL, CRITICAL"]
        hand.end("a")
        hand.turn()
        assert words(hand) == ["state CRITICAL, CRITICAL, closed"]

    def test_also_if_its_run_has_ended_and_the_store_does_not_know_yet(self, hand: Hand) -> None:
        add_check(hand)
        run(hand, "a", 2)
        begin(hand, "a")
        hand.remove("a")
        hand.store.is_slow = True
        hand.end("a")
        hand.turn()
        add_check(hand)
        hand.store.commit()
        hand.loop.wait(1)
        assert words(hand) == ["state CRITICAL, CRITICAL"]
        run(hand, "a")
        assert words(hand) == ["state CRITICAL, CRITICAL, closed"]

    def test_what_the_store_ignored_after_the_removal_is_repeated(self, hand: Hand) -> None:
        """A result comes after a removal that the node has not heard of, and then the task comes back."""
        add_passive(hand, attempts=1, command=["true"])
        hand.beat.passive.submit(hand.row("a"), 2, "", Instant(hand.now), Instant(hand.now))
        begin(hand, "a")
        row = hand.row("a")
        hand.desk.remove(Filter(names=("a",)), "ana")
        hand.beat.passive.submit(row, 0, "", Instant(hand.now), Instant(hand.now))
        assert words(hand) == ["state CRITICAL, CRITICAL, closed removed"]
        add_passive(hand, attempts=1, command=["true"])
        assert words(hand) == ["state CRITICAL, CRITICAL, closed"]

    def test_the_failure_of_a_removed_task_opens_nothing(self, hand: Hand) -> None:
        hand.add("a")
        hand.add("b")
        begin(hand, "a")
        hand.remove("a")
        hand.end("a", Outcome.FAILED, 1)
        hand.turn()
        assert list(recorded(hand)) == []


def test_open_problems_are_counted_by_state(hand: Hand) -> None:
    add_check(hand)
    add_check(hand, "b")
    hand.add("c")
    for name, status in (("a", 1), ("b", 2), ("c", 1)):
        run(hand, name, status)
    counted = hand.roster.problems.count_by_state()
    assert counted == {State.OK: 0, State.WARNING: 1, State.CRITICAL: 2, State.UNKNOWN: 0}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from((0, 0, 1, 2, 3, None))), max_size=40))
def test_a_node_that_is_restarted_after_each_run_records_the_same(events: list[tuple[str, int | None]]) -> None:
    straight, restarted = Hand(), Hand()
    for hand in (straight, restarted):
        add_check(hand, every="1d")
        add_check(hand, "b", attempts=2, every="1d")
        hand.add("c", every="1d")
        for name, status in events:
            hand.now = max(hand.now, T0) + MINUTE
            run(hand, name, status, Outcome.TIMEBOXED if status is None else None)
            if hand is restarted:
                hand.restart()
    for name in "abc":
        assert problems(restarted, name) == problems(straight, name)
