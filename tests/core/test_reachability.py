"""Reachability: what depends on a check that is not fine, by any way that the graph came to be."""

from collections.abc import Mapping

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from evenbeat.core.columns import Ints
from evenbeat.core.reachability import Links, Reachability, is_failing, spread_unreachable, unreachable_names
from evenbeat.core.task import Bools, Flag, TaskColumns
from evenbeat.core.task_columns import enrol
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import MINUTE, Entry, Instant, Schedule, State, Task

NAMES = [f"check{i}" for i in range(8)]
T0 = Instant(0)
EVERY_MINUTE = Schedule(every=MINUTE, phase=0)


def task(name: str, *depends: str, any_of: tuple[str, ...] = (), paused: bool = False) -> Task:
    """A check."""
    return Task(name, EVERY_MINUTE, check=True, depends=depends, depends_any=any_of, paused=paused)


def entry(one: Task, version: int = 1) -> Entry:
    """As a store has it."""
    return Entry(NAMES.index(one.name) if one.name in NAMES else 99, one.name, version, "test", T0, T0, one)


def naive(tasks: Mapping[str, Task], failing: set[str]) -> set[str]:
    """The same, one task after the other, by the sentences of the design."""

    def is_unreachable(name: str) -> bool:
        one = tasks.get(name)
        if one is None:
            return False
        bad = [is_bad(parent) for parent in one.depends_any]
        return any(is_bad(parent) for parent in one.depends) or (len(bad) > 0 and all(bad))

    def is_bad(name: str) -> bool:
        return name in failing or is_unreachable(name)

    return {name for name in tasks if is_unreachable(name)}


class Table:
    """Rows of tasks by name, as a node has them."""

    def __init__(self) -> None:
        self.columns = TaskColumns()
        self.times = ScheduleTimes(self.columns)
        self.row_of: dict[str, int] = {}
        self.reachability = Reachability(self.columns, self.row_of.get)

    def rows(self, *names: str) -> Ints:
        return np.array([self.row_of[name] for name in names], dtype=np.int64)

    def add(self, *tasks: Task) -> None:
        rows = self.columns.allocate(len(tasks))
        self.row_of.update(zip((one.name for one in tasks), rows.tolist(), strict=True))
        self.define(*tasks)

    def define(self, *tasks: Task) -> None:
        rows = self.rows(*(one.name for one in tasks))
        enrol(self.columns, self.times, rows, tasks, {}, {})
        self.reachability.define(rows, tasks)

    def rename(self, old: str, new: Task) -> None:
        self.row_of[new.name] = self.row_of.pop(old)
        self.define(new)

    def remove(self, *names: str) -> None:
        rows = self.rows(*names)
        for name in names:
            del self.row_of[name]
        self.reachability.forget(rows)
        self.columns.free(rows)

    def hand_over(self, *names: str) -> None:
        rows = self.rows(*names)
        for name in names:
            del self.row_of[name]
        self.reachability.hand_over(rows)
        self.columns.free(rows)

    def result(self, name: str, state: State, *, hard: bool = True) -> None:
        rows = self.rows(name)
        self.columns.state[rows], self.columns.hard[rows] = state, hard
        self.reachability.learn_results(rows)

    def settle(self) -> list[str]:
        """Returns which tasks are reachable again."""
        again = set(self.reachability.settle().tolist())
        return [name for name, row in self.row_of.items() if row in again]

    def unreachable(self) -> set[str]:
        """By the flags."""
        off = self.columns.flags & int(Flag.REACHABLE) == 0
        return {name for name, row in self.row_of.items() if off[row]}


def table(*tasks: Task) -> Table:
    made = Table()
    made.add(*tasks)
    made.settle()
    return made


# The rule


@pytest.mark.parametrize(
    ("state", "hard", "expected"),
    [
        (State.OK, True, False),
        (State.WARNING, True, False),
        (State.CRITICAL, True, True),
        (State.UNKNOWN, True, True),
        (State.CRITICAL, False, False),
        (None, True, False),
    ],
)
def test_a_check_fails_that_is_hard_and_critical_or_unknown(state: State | None, hard: bool, expected: bool) -> None:
    assert is_failing(task("a"), state, hard=hard) is expected
    one = table(task("a"), task("b", "a"))
    if state is not None:
        one.result("a", state, hard=hard)
    one.settle()
    assert one.unreachable() == ({"b"} if expected else set())


def test_the_state_of_a_paused_or_disabled_check_does_not_count_nor_that_of_another_task() -> None:
    for off in (task("a", paused=True), Task("a", EVERY_MINUTE, check=True, enabled=False), Task("a", EVERY_MINUTE)):
        assert not is_failing(off, State.CRITICAL, hard=True)
        one = table(task("a"), task("b", "a"))
        one.result("a", State.CRITICAL)
        one.settle()
        one.define(off)
        assert one.settle() == ["b"]
        one.define(task("a"))
        one.settle()
        assert one.unreachable() == {"b"}, "its state is as it was"


def test_what_is_behind_an_unreachable_check_is_unreachable_too_also_behind_a_paused_one() -> None:
    one = table(task("router"), task("switch", "router", paused=True), task("host", "switch"))
    one.result("router", State.CRITICAL)
    one.settle()
    assert one.unreachable() == {"switch", "host"}


def test_one_fine_check_of_depends_any_is_enough_but_not_for_depends() -> None:
    one = table(task("a"), task("b"), task("c"), task("d", "c", any_of=("a", "b")))
    one.result("a", State.CRITICAL)
    one.settle()
    assert one.unreachable() == set()
    one.result("b", State.UNKNOWN)
    one.settle()
    assert one.unreachable() == {"d"}
    one.result("a", State.OK)
    assert one.settle() == ["d"]
    one.result("c", State.CRITICAL)
    one.settle()
    assert one.unreachable() == {"d"}


# What changes


def test_a_check_may_come_after_what_depends_on_it() -> None:
    one = table(task("b", "a"))
    one.add(task("a"))
    one.result("a", State.CRITICAL)
    one.settle()
    assert one.unreachable() == {"b"}


def test_without_dependencies_there_is_nothing_left_of_the_graph() -> None:
    one = table(task("a"), task("b", "a"), task("c", "b"))
    one.result("a", State.CRITICAL)
    one.settle()
    one.define(task("b"))
    assert set(one.settle()) == {"b", "c"}
    one.define(task("c"))
    one.settle()
    assert one.unreachable() == set()
    assert (one.columns.point == -1).all()
    assert one.reachability.foreign_parents() == {}


def test_a_removed_check_fails_no_more_and_its_row_may_be_anothers() -> None:
    one = table(task("a"), task("b", "a"))
    one.result("a", State.CRITICAL)
    one.settle()
    one.remove("a")
    assert one.settle() == ["b"]
    one.add(task("x"))
    one.result("x", State.CRITICAL)
    one.settle()
    assert one.unreachable() == set()


def test_a_result_of_a_check_that_nothing_depends_on_does_not_touch_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    one = table(task("a"), task("b", "a"), task("c"))
    made: list[int] = []

    def counted(links: Links, failing: Bools) -> Bools:
        made.append(len(failing))
        return spread_unreachable(links, failing)

    monkeypatch.setattr("evenbeat.core.reachability.spread_unreachable", counted)
    for name, state in (("b", State.CRITICAL), ("c", State.CRITICAL), ("a", State.WARNING), ("a", State.OK)):
        one.result(name, state)
        one.settle()
    assert made == []
    one.result("a", State.CRITICAL)
    one.settle()
    assert len(made) == 1


# Checks of other nodes


def test_a_check_of_another_node_counts_by_what_is_known_of_it() -> None:
    one = table(task("b", "a"))
    assert one.reachability.foreign_parents() == {"a": None}
    one.reachability.learn_foreign({"a": True})
    one.settle()
    assert one.unreachable() == {"b"}
    one.reachability.define_foreign({"a": None})
    assert one.settle() == ["b"]


def test_the_ancestors_of_a_check_of_another_node_count_too() -> None:
    one = table(task("c", "b"), task("local"))
    one.reachability.define_foreign({"b": entry(task("b", "a", "local"))})
    assert one.reachability.foreign_parents() == {"a": None, "b": (99, 1)}
    one.reachability.learn_foreign({"a": True})
    one.settle()
    assert one.unreachable() == {"c"}
    one.reachability.define_foreign({"b": entry(task("b", "local"), 2)})
    assert one.settle() == ["c"]
    assert one.reachability.foreign_parents() == {"b": (99, 2)}
    one.result("local", State.CRITICAL)
    one.settle()
    assert one.unreachable() == {"c"}


def test_a_check_that_goes_to_another_node_is_as_it_was_until_there_is_news() -> None:
    one = table(task("a"), task("b", "a"), task("c", "b"))
    one.result("a", State.CRITICAL)
    one.settle()
    one.hand_over("a", "b")
    one.settle()
    assert one.unreachable() == {"c"}
    one.reachability.learn_foreign({"a": False})
    assert one.settle() == ["c"]
    one.add(task("a"))
    one.result("a", State.CRITICAL)
    one.settle()
    assert one.unreachable() == {"c"}, "by way of b, which another node has"


def test_news_of_a_check_that_is_here_again_does_not_count() -> None:
    one = table(task("a"), task("b", "a"))
    one.reachability.learn_foreign({"a": True, "unknown": True})
    one.reachability.define_foreign({"a": entry(task("a", "unknown")), "unknown": None})
    one.settle()
    assert one.unreachable() == set()
    assert one.reachability.foreign_parents() == {}


# Vectorised is the same as one after the other, and any way leads to the same flags

graphs = st.lists(st.tuples(st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7))), min_size=8, max_size=8)


def tasks_of(graph: list[tuple[set[int], set[int]]]) -> dict[str, Task]:
    """Task i depends only on tasks before it, so there is no cycle."""
    return {
        name: task(name, *(NAMES[p] for p in all_ if p < i), any_of=tuple(NAMES[p] for p in any_ if p < i))
        for i, (name, (all_, any_)) in enumerate(zip(NAMES, graph, strict=True))
    }


@given(graph=graphs, failing=st.sets(st.sampled_from(NAMES)))
def test_reports_and_flags_are_as_by_the_sentences(graph: list[tuple[set[int], set[int]]], failing: set[str]) -> None:
    tasks = tasks_of(graph)
    assert unreachable_names(tasks.values(), failing) == naive(tasks, failing)
    one = table(*tasks.values())
    for name in failing:
        one.result(name, State.CRITICAL)
    one.settle()
    assert one.unreachable() == naive(tasks, failing)


class AnyWay(RuleBasedStateMachine):
    """Tasks come, change, exchange names, leave for other nodes and return; results come, here and there. The flags are
    as by the sentences.
    """

    def __init__(self) -> None:
        super().__init__()
        self.one = Table()
        self.tasks: dict[str, Task] = {}
        """Of all nodes."""
        self.versions: dict[str, int] = {}
        self.failing: set[str] = set()

    def _some_task(self, i: int, all_: set[int], any_: set[int], *, paused: bool) -> Task:
        every, some = (tuple(NAMES[p] for p in which if p < i) for which in (all_, any_))
        return task(NAMES[i], *every, any_of=some, paused=paused)

    @rule(i=st.integers(0, 7), all_=st.sets(st.integers(0, 7)), any_=st.sets(st.integers(0, 7)), paused=st.booleans())
    def define(self, i: int, all_: set[int], any_: set[int], paused: bool) -> None:
        one = self._some_task(i, all_, any_, paused=paused)
        is_known, self.tasks[one.name] = one.name in self.tasks, one
        self.versions[one.name] = self.versions.get(one.name, 0) + 1
        if not is_known:
            self.one.add(one)
        elif one.name in self.one.row_of:
            self.one.define(one)

    @rule(i=st.integers(0, 7), j=st.integers(0, 7))
    def exchange_names(self, i: int, j: int) -> None:
        """Their dependencies stay with the names: the graph keeps its order."""
        a, b = NAMES[i], NAMES[j]
        if a == b or not {a, b} <= self.one.row_of.keys():
            return
        rows = self.one.row_of
        rows[a], rows[b] = rows[b], rows[a]
        self.one.define(self.tasks[a], self.tasks[b])
        swap = {a: b, b: a}
        self.failing = {swap.get(name, name) for name in self.failing}

    @rule(i=st.integers(0, 7))
    def remove(self, i: int) -> None:
        name = NAMES[i]
        if self.tasks.pop(name, None) is None:
            return
        self.failing.discard(name)
        if name in self.one.row_of:
            self.one.remove(name)

    @rule(which=st.sets(st.sampled_from(NAMES)))
    def hand_over(self, which: set[str]) -> None:
        self.one.hand_over(*(which & self.one.row_of.keys()))

    @rule(which=st.sets(st.sampled_from(NAMES)))
    def take_over(self, which: set[str]) -> None:
        coming = sorted(which & self.tasks.keys() - self.one.row_of.keys())
        self.one.add(*(self.tasks[name] for name in coming))
        for name in coming:
            rows = self.one.rows(name)
            self.one.columns.state[rows] = State.CRITICAL if name in self.failing else State.OK
        self.one.reachability.refresh()

    @rule(which=st.sets(st.sampled_from(NAMES)), state=st.sampled_from(State), hard=st.booleans())
    def result(self, which: set[str], state: State, hard: bool) -> None:
        for name in which & self.one.row_of.keys():
            self.one.result(name, state, hard=hard)
            is_bad = hard and state in (State.CRITICAL, State.UNKNOWN)
            self.failing = self.failing | {name} if is_bad else self.failing - {name}

    @rule(which=st.sets(st.sampled_from(NAMES)), bad=st.booleans())
    def result_elsewhere(self, which: set[str], bad: bool) -> None:
        away = which & self.tasks.keys() - self.one.row_of.keys()
        self.failing = self.failing | away if bad else self.failing - away

    @rule()
    def settle_and_compare(self) -> None:
        self._poll()
        again = set(self.one.settle())
        failing = {name for name in self.failing if name in self.tasks and not self.tasks[name].paused}
        expected = naive(self.tasks, failing) & self.one.row_of.keys()
        assert self.one.unreachable() == expected
        assert not again & expected

    def _poll(self) -> None:
        """As a node of a cluster looks at the store, until it knows all ancestors."""
        known: set[str] = set()
        while new := self.one.reachability.foreign_parents().keys() - known:
            known |= new
            known_versions = self.one.reachability.foreign_parents()
            there = {name: entry(self.tasks[name], self.versions[name]) for name in new if name in self.tasks}
            changed = {n: e for n, e in there.items() if known_versions[n] != (e.number, e.version)}
            self.one.reachability.define_foreign(changed)
            self.one.reachability.define_foreign({name: None for name in new if name not in there})
        bad = {n: n in self.failing and n in self.tasks and not self.tasks[n].paused for n in known}
        self.one.reachability.learn_foreign(bad)

    @invariant()
    def points_and_rows_agree(self) -> None:
        points = self.one.reachability._points
        for row, point in enumerate(self.one.columns.point.tolist()):
            assert point < 0 or points.row[point] == row


TestAnyWay = AnyWay.TestCase
TestAnyWay.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


def test_a_check_that_fails_marks_fifty_thousand_tasks_in_one_step() -> None:
    one = Table()
    one.add(task("switch"), task("other"))
    one.add(*(task(f"host{i}", "switch" if i % 2 else "other") for i in range(100_000)))
    one.settle()
    one.result("switch", State.CRITICAL)
    one.settle()
    assert len(one.unreachable()) == 50_000
    one.result("switch", State.OK)
    assert len(one.settle()) == 50_000
