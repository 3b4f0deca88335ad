"""Problems open, change and close with results: for one task, for many at once, over restarts and edits."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.problems import CHANGED, KnownProblem, Problems, ProblemUpdate
from evenbeat.core.run_plan import outcome_meanings
from evenbeat.core.task import Flag, TaskColumns
from evenbeat.model import SEVERITY, Cause, Instant, Outcome, State

O, W, C, U = State.OK, State.WARNING, State.CRITICAL, State.UNKNOWN  # noqa: E741
STATE, FAILED = Cause.STATE, Cause.FAILED


class Result(NamedTuple):
    """What a check is after a result."""

    state: State
    hard: bool = True
    flapping: bool = False


class OpenOne(NamedTuple):
    opened: int
    state: State
    worst: State


class Records:
    """Problems as a store keeps them, which refuses what makes no sense."""

    def __init__(self) -> None:
        self.open: dict[tuple[int, Cause], OpenOne] = {}
        self.closed: list[tuple[int, Cause, int, int, State, str]] = []

    def take(self, updates: Sequence[ProblemUpdate]) -> None:
        for u in updates:
            key, known = (u.row, u.cause), self.open.get((u.row, u.cause))
            assert u.at >= u.opened
            if not u.is_open:
                assert known is not None
                assert (known.opened, known.worst) == (u.opened, u.state)
                del self.open[key]
                self.closed.append((u.row, u.cause, u.opened, u.at, u.state, u.reason))
            elif known is None:
                assert all(u.opened != opened for row, cause, opened, *_ in self.closed if (row, cause) == key)
                self.open[key] = OpenOne(u.opened, u.state, u.state)
            else:
                assert known.opened == u.opened
                assert known.state != u.state
                self.open[key] = OpenOne(u.opened, u.state, max(known.worst, u.state, key=SEVERITY.__getitem__))


class Tasks:
    """Some tasks, and the records of their problems. Every event is a microsecond later than the one before."""

    def __init__(self, count: int = 1, *, checks: bool = True) -> None:
        self.now = 1_000
        self.columns = TaskColumns()
        self.problems = Problems(self.columns)
        self.rows = self.columns.allocate(count)
        self.columns.flags[self.rows] |= int(Flag.CHECK) if checks else 0
        self.records = Records()

    def learn(self, *results: Result, rows: Sequence[int] | None = None) -> list[ProblemUpdate]:
        """Results of some checks, of all by default, in one turn."""
        some = self.rows if rows is None else np.array(rows, dtype=np.int64)
        self.set_states(some, results)
        return self._taken(self.problems.learn_results(some, self._later()))

    def set_states(self, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]", results: Sequence[Result]) -> None:
        c = self.columns
        for row, result in zip(rows.tolist(), results, strict=True):
            c.state[row], c.hard[row], c.flapping[row] = result
            c.result_at[row] = self.now

    def end(self, *outcomes: Outcome, rows: Sequence[int] | None = None) -> list[ProblemUpdate]:
        """Runs of some tasks end, of all by default, in one turn."""
        some = self.rows if rows is None else np.array(rows, dtype=np.int64)
        meaning = outcome_meanings(outcomes)
        repeated = np.zeros(len(some), dtype=bool)
        flags = self.columns.flags[some]
        return self._taken(self.problems.learn_runs(some, flags, meaning, repeated, self._later()))

    def become(self, row: int, *, check: bool) -> list[ProblemUpdate]:
        bit = int(Flag.CHECK)
        self.columns.flags[row] = self.columns.flags[row] & ~np.uint32(bit) | (bit if check else 0)
        return self._taken(self.problems.reconcile(self.rows[row : row + 1], self._later()))

    def restart(self) -> list[ProblemUpdate]:
        """Another process reads progress and open problems."""
        kept = self.columns
        self.columns = TaskColumns()
        self.columns.allocate(len(self.rows))
        for name in ("flags", "state", "hard", "flapping", "result_at"):
            getattr(self.columns, name)[self.rows] = getattr(kept, name)[self.rows]
        self.problems = Problems(self.columns)
        self.problems.restore(KnownProblem(row, cause, *one) for (row, cause), one in self.records.open.items())
        return self._taken(self.problems.reconcile(self.rows, self._later(), are_new=True))

    def _later(self) -> Instant:
        self.now += 1
        return Instant(self.now)

    def _taken(self, updates: list[ProblemUpdate]) -> list[ProblemUpdate]:
        self.records.take(updates)
        return updates


def history(*results: Result) -> list[tuple[str, State]]:
    """What happens to the problem of a check, result by result."""
    task, found = Tasks(), []
    for result in results:
        was_open = bool(task.records.open)
        words = ("changed" if was_open else "opened", "closed")
        found += [(words[not u.is_open], u.state) for u in task.learn(result)]
    return found


# Checks


def test_a_hard_problem_opens_one() -> None:
    (update,) = Tasks().learn(Result(C))
    assert update == ProblemUpdate(0, STATE, opened=1_001, at=1_001, state=C, is_open=True)


def test_a_soft_problem_opens_none() -> None:
    assert history(Result(C, hard=False), Result(W, hard=False), Result(O)) == []


def test_a_good_result_closes_it_with_the_worst_state_that_it_had() -> None:
    assert history(Result(W), Result(C), Result(U), Result(O)) == [
        ("opened", W), ("changed", C), ("changed", U), ("closed", C),
    ]  # fmt: skip


def test_the_same_state_again_changes_nothing() -> None:
    assert history(Result(C), Result(C), Result(C)) == [("opened", C)]


def test_warning_is_less_than_unknown_and_that_less_than_critical() -> None:
    assert history(Result(W), Result(U), Result(W), Result(O))[-1] == ("closed", U)
    assert history(Result(U), Result(C), Result(U), Result(O))[-1] == ("closed", C)


def test_it_stays_open_while_the_check_flaps_and_closes_with_the_first_good_result_after() -> None:
    flapping = [Result(C, flapping=True), Result(O, flapping=True), Result(W, hard=False, flapping=True)]
    assert history(Result(C), *flapping, Result(O, flapping=True), Result(O)) == [
        ("opened", C), ("changed", O), ("changed", W), ("changed", O), ("closed", C),
    ]  # fmt: skip


def test_flapping_that_ends_in_a_soft_problem_leaves_it_open_until_the_check_is_good() -> None:
    after = [Result(C, hard=False), Result(O)]
    assert history(Result(C), Result(O, flapping=True), *after) == [
        ("opened", C), ("changed", O), ("changed", C), ("closed", C),
    ]  # fmt: skip


def test_flapping_alone_opens_none() -> None:
    assert history(Result(O, flapping=True), Result(W, hard=False, flapping=True)) == []


def test_each_problem_has_an_opening_of_its_own_also_within_a_microsecond() -> None:
    task = Tasks()
    task.learn(Result(C))
    task.now -= 1
    task.learn(Result(O))
    task.now -= 1
    (again,) = task.learn(Result(C))
    assert again.opened == 1_002


def test_a_clock_that_was_set_back_closes_no_problem_before_it_opened() -> None:
    task = Tasks()
    task.learn(Result(C))
    task.now -= 500
    (closed,) = task.learn(Result(O))
    assert closed.at == closed.opened


# Tasks that are no checks


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED, Outcome.BROKEN])
def test_a_failure_opens_one_and_a_success_closes_it(outcome: Outcome) -> None:
    task = Tasks(checks=False)
    assert task.end(outcome) == [ProblemUpdate(0, FAILED, 1_001, 1_001, C, is_open=True)]
    assert task.end(outcome) == []
    assert task.end(Outcome.SUCCEEDED) == [ProblemUpdate(0, FAILED, 1_001, 1_003, C, is_open=False)]
    assert task.end(Outcome.SUCCEEDED) == []


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.INTERRUPTED, Outcome.DROPPED, Outcome.LOST])
def test_other_ends_say_nothing(outcome: Outcome) -> None:
    task = Tasks(checks=False)
    assert task.end(outcome) == []
    task.end(Outcome.FAILED)
    assert task.end(outcome) == []


def test_a_failed_run_of_a_check_says_nothing_by_itself() -> None:
    task = Tasks()
    assert task.end(Outcome.FAILED) == []
    task.learn(Result(C))
    assert task.end(Outcome.SUCCEEDED) == []


def test_a_removed_task_has_no_more_problems() -> None:
    task = Tasks(2, checks=False)
    task.columns.flags[0] |= int(Flag.REMOVED)
    assert [u.row for u in task.end(Outcome.FAILED, Outcome.FAILED)] == [1]


# Edits, restarts


def test_a_check_that_becomes_a_task_leaves_its_problem_behind() -> None:
    task = Tasks()
    task.learn(Result(W))
    assert task.become(0, check=False) == [ProblemUpdate(0, STATE, 1_001, 1_002, W, is_open=False, reason=CHANGED)]
    assert task.become(0, check=False) == []


def test_a_failed_task_that_becomes_a_check_leaves_its_problem_behind() -> None:
    task = Tasks(checks=False)
    task.end(Outcome.TIMEBOXED)
    assert task.become(0, check=True) == [ProblemUpdate(0, FAILED, 1_001, 1_002, C, is_open=False, reason=CHANGED)]


def test_a_problem_that_nobody_recorded_is_as_old_as_the_latest_result() -> None:
    task = Tasks()
    task.set_states(task.rows, [Result(C)])
    task.now += 100
    assert task.restart() == [ProblemUpdate(0, STATE, opened=1_000, at=1_000, state=C, is_open=True)]


def test_a_problem_that_was_over_before_the_restart_closes() -> None:
    task = Tasks()
    task.learn(Result(C))
    task.set_states(task.rows, [Result(O)])
    (closed,) = task.restart()
    assert not closed.is_open
    assert closed.reason == ""


def test_a_removed_task_is_not_reconciled() -> None:
    task = Tasks()
    task.columns.flags[0] |= int(Flag.REMOVED)
    task.set_states(task.rows, [Result(C)])
    assert task.problems.reconcile(task.rows, Instant(2_000)) == []


def test_of_a_restored_task_the_latest_problem_is_reported_anew() -> None:
    task = Tasks(3)
    task.learn(Result(C), Result(W), Result(O))
    task.learn(Result(O), Result(W), Result(O))
    found = task.problems.reconcile_restored(task.rows, Instant(2_000))
    assert [(u.row, u.opened, u.is_open, u.state) for u in found] == [(0, 1_001, False, C), (1, 1_001, True, W)]


def test_open_problems_are_counted_by_state() -> None:
    tasks = Tasks(5)
    tasks.learn(Result(C), Result(C), Result(W), Result(O), Result(U, hard=False))
    tasks.learn(Result(O, flapping=True), rows=[1])
    tasks.become(4, check=False)
    tasks.end(Outcome.FAILED, rows=[4])
    assert tasks.problems.count_by_state() == {O: 1, W: 1, C: 2, U: 0}


def test_a_row_that_is_freed_has_no_problem() -> None:
    tasks = Tasks()
    tasks.learn(Result(C))
    tasks.columns.free(tasks.rows)
    assert sum(tasks.problems.count_by_state().values()) == 0


# Many at once, and restarts in between

COUNT = 4
_results = st.builds(Result, st.sampled_from(State), st.booleans(), st.booleans())
_ends = st.sampled_from(Outcome)
_events = st.one_of(
    st.tuples(st.just("results"), st.dictionaries(st.integers(0, COUNT - 1), _results, min_size=1)),
    st.tuples(st.just("ends"), st.dictionaries(st.integers(0, COUNT - 1), _ends, min_size=1)),
    st.tuples(st.just("becomes"), st.integers(0, COUNT - 1)),
)


def happen(tasks: Tasks, event: tuple[str, object], *, at_once: bool) -> None:
    match event:
        case "results", dict(results):
            # Only checks have results, as `give_results` says.
            results = {row: r for row, r in results.items() if tasks.columns.flags[row] & int(Flag.CHECK)}
            now = tasks.now
            for rows in [list(results)] if at_once else [[row] for row in results]:
                tasks.now = now
                tasks.learn(*[results[row] for row in rows], rows=rows)
            tasks.now = now + 1
        case "ends", dict(ends):
            now = tasks.now
            for rows in [list(ends)] if at_once else [[row] for row in ends]:
                tasks.now = now
                tasks.end(*[ends[row] for row in rows], rows=rows)
            tasks.now = now + 1
        case "becomes", int(row):
            tasks.become(row, check=not tasks.columns.flags[row] & int(Flag.CHECK))


@given(st.lists(_events, max_size=30))
def test_many_at_once_are_as_one_after_the_other(events: list[tuple[str, object]]) -> None:
    together, apart = Tasks(COUNT), Tasks(COUNT)
    for event in events:
        happen(together, event, at_once=True)
        happen(apart, event, at_once=False)
        assert together.records.open == apart.records.open
        assert sorted(together.records.closed) == sorted(apart.records.closed)


@given(st.lists(_events, max_size=30), st.sets(st.integers(0, 29)))
def test_a_restart_in_between_changes_nothing(events: list[tuple[str, object]], restarts: set[int]) -> None:
    going_on, restarted = Tasks(COUNT), Tasks(COUNT)
    for i, event in enumerate(events):
        if i in restarts:
            assert restarted.restart() == []
            going_on.now = restarted.now
        happen(going_on, event, at_once=True)
        happen(restarted, event, at_once=True)
        assert restarted.records.open == going_on.records.open
    assert restarted.records.closed == going_on.records.closed


@given(st.lists(_events, max_size=30))
def test_columns_agree_with_what_was_recorded(events: list[tuple[str, object]]) -> None:
    tasks = Tasks(COUNT)
    for event in events:
        happen(tasks, event, at_once=True)
        counted = {s: n for s, n in tasks.problems.count_by_state().items() if n}
        states = [one.state for one in tasks.records.open.values()]
        assert counted == {s: states.count(s) for s in set(states)}
