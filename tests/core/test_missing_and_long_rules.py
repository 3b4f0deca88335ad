"""Problems that time brings: a missing result, an unusually long run."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from virtual_node import START, Node

from evenbeat.core.missing_and_long import TimedProblems, TimedUpdate, rows_without_result
from evenbeat.core.task import Flag
from evenbeat.model import HOUR, MINUTE, SECOND, Cause, Instant, State

NUMBERS = st.sets(st.integers(1, 5))


@given(st.lists(st.tuples(st.sampled_from([Cause.STALE, Cause.LONG]), NUMBERS, NUMBERS), max_size=12))
def test_each_opens_once_and_closes_once_and_what_is_not_here_stays(
    looks: list[tuple[Cause, set[int], set[int]]],
) -> None:
    problems = TimedProblems()
    is_open: dict[tuple[int, Cause], int] = {}
    for now, (cause, found, away) in enumerate(looks, 100):
        updates = problems.compare(cause, found - away, (set(range(1, 6)) - away).__contains__, Instant(now))
        for update in updates:
            key = update.number, update.cause
            assert (key in is_open) is not update.is_open, "opens what is closed, closes what is open"
            if update.is_open:
                is_open[key] = update.opened
            else:
                assert is_open.pop(key) == update.opened, "the one that is open"
        for number in range(1, 6):
            if number not in away:
                assert ((number, cause) in is_open) is (number in found)
        assert sorted(problems.numbers(cause)) == sorted(number for number, of in is_open if of is cause)
    counts = problems.count_by_state()
    assert counts.get(State.UNKNOWN, 0) + counts.get(State.WARNING, 0) == len(is_open)


def test_one_that_was_open_before_a_restart_closes_as_the_same_and_one_handed_over_is_not_ours() -> None:
    problems = TimedProblems()
    problems.restore(7, Cause.LONG, 50)
    problems.restore(8, Cause.LONG, 60)
    problems.forget([8])
    assert problems.compare(Cause.LONG, (), lambda _: True, Instant(40)) == [
        TimedUpdate(7, Cause.LONG, 50, 50, is_open=False)
    ], "not closed before it opened, though the clock was set back"


class TestMissingResults:
    def missing(self, node: Node, now: int, *, timebox: int = MINUTE, since: int = 0) -> list[int]:
        boxes = np.full(len(node.columns.flags), timebox, dtype=np.int64)
        found = rows_without_result(node.columns, node.times, boxes, Instant(START + now), Instant(START + since))
        rows: list[int] = found.tolist()
        return rows

    def test_a_result_is_missing_when_the_timebox_of_what_is_due_has_passed(self) -> None:
        node = Node()
        (row,) = node.add(every=10 * MINUTE).tolist()
        due = int(node.columns.nominal[row]) - START
        assert self.missing(node, due + MINUTE) == []
        assert self.missing(node, due + MINUTE + 1) == [row]

    def test_of_a_task_that_runs_often_too_a_minute_is_not_worth_a_problem(self) -> None:
        node = Node()
        (row,) = node.add(every=5 * SECOND).tolist()
        due = int(node.columns.nominal[row]) - START
        assert self.missing(node, due + MINUTE, timebox=SECOND) == []
        assert self.missing(node, due + MINUTE + 1, timebox=SECOND) == [row]

    def test_what_was_due_while_the_node_was_stopped_has_as_long_from_its_start(self) -> None:
        node = Node()
        (row,) = node.add(every=10 * MINUTE).tolist()
        due = int(node.columns.nominal[row]) - START
        assert self.missing(node, due + HOUR, since=due + HOUR - MINUTE) == []
        assert self.missing(node, due + HOUR + 1, since=due + HOUR - MINUTE) == [row]

    def test_nothing_is_expected_of_what_is_off_unreachable_passive_or_leaving(self) -> None:
        for flag, on in (
            (Flag.ENABLED, False),
            (Flag.REACHABLE, False),
            (Flag.PERMITTED, False),
            (Flag.PASSIVE, True),
            (Flag.LEAVING, True),
            (Flag.REMOVED, True),
        ):
            node = Node()
            rows = node.add(every=10 * MINUTE)
            node.columns.flags[rows] ^= int(flag)
            assert bool(node.columns.flags[rows][0] & int(flag)) is on
            assert self.missing(node, 2 * HOUR) == []
