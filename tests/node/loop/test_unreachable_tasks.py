"""Tasks that depend on checks: unreachable while these are not fine, by results, edits, restarts and removals."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from budget import examples
from hand_driven_node import HandDrivenNode
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.core.task import Flag
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Outcome, RunKind
from evenbeat.node.answers.status import status_of
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.contract import ALL_TASKS


@pytest.fixture
def node() -> HandDrivenNode:
    return HandDrivenNode()


def add_check(node: HandDrivenNode, name: str, **keys: Any) -> None:
    node.add(name, check=True, **{"every": "1h", "phase": "30m", "attempts": 1, **keys})


def result(node: HandDrivenNode, name: str, status: int) -> None:
    """Submitted by someone: it needs no run."""
    node.now += SECOND
    node.turns.passive.submit(node.row(name), status, "", Instant(node.now), Instant(node.now))
    node.turn()


def run(node: HandDrivenNode, name: str, status: int) -> None:
    """A run of a check, forced and ended at once."""
    node.force(name)
    node.turn(SECOND)
    node.end(name, Outcome.FAILED if status else Outcome.SUCCEEDED, status)
    node.turn()


def unreachable(node: HandDrivenNode) -> set[str]:
    """By the flags of the live node."""
    rows = node.tasks.all_rows()
    return set(node.tasks.names.names(rows[node.columns.flags[rows] & int(Flag.REACHABLE) == 0]))


def unreachable_by_store(node: HandDrivenNode) -> set[str]:
    """As a report without a node derives it."""
    found = ConditionReader(node.store, node.node.clock.now()).conditions(ALL_TASKS)
    return {condition.entry.task.name for condition in found if condition.unreachable_through}


def skips(node: HandDrivenNode, name: str) -> Iterator[tuple[str, int]]:
    number = node.admin.find_or_raise(name).number
    return ((skip.reason, skip.times) for skip in node.store.skips(number))


class TestRuns:
    def test_a_task_that_says_so_does_not_run_while_it_is_unreachable(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway")
        node.add("skips", depends=["gateway"], when_unreachable="skip")
        node.add("runs", depends=["gateway"])
        run(node, "gateway", 2)
        assert unreachable(node) == {"skips", "runs"}
        made = node.advance(3 * MINUTE)
        assert {r.name for r in made} == {"runs"}
        assert list(skips(node, "skips")) == [("unreachable", 3)]
        run(node, "gateway", 0)
        assert unreachable(node) == set()
        assert "skips" in {r.name for r in node.advance(MINUTE)}

    def test_the_result_counts_for_what_is_released_in_the_same_turn(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway")
        node.add("a", depends=["gateway"], when_unreachable="skip")
        node.force("gateway")
        node.turn(SECOND)
        node.end("gateway", Outcome.FAILED, 2)
        assert node.turn(MINUTE) == []
        assert list(skips(node, "a")) == [("unreachable", 1)]

    def test_a_soft_problem_and_a_warning_keep_nothing_from_running(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway", attempts=3, retry="10s")
        node.add("a", depends=["gateway"], when_unreachable="skip")
        run(node, "gateway", 2)
        assert unreachable(node) == set()
        for status in (2, 2):
            run(node, "gateway", status)
        assert unreachable(node) == {"a"}
        run(node, "gateway", 1)
        assert unreachable(node) == set()

    def test_a_forced_run_is_made_all_the_same(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway")
        node.add("a", depends=["gateway"], when_unreachable="skip")
        run(node, "gateway", 2)
        node.force("a")
        (made,) = node.turn(SECOND)
        assert (made.name, made.kind) == ("a", RunKind.FORCED)


class TestEveryWayLeadsToTheSameFlags:
    def test_after_a_restart_they_are_as_before_it(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway")
        add_check(node, "switch", depends=["gateway"])
        node.add("a", depends=["switch"], when_unreachable="skip")
        run(node, "gateway", 2)
        node.restart(after=SECOND)
        node.turn()
        assert unreachable(node) == unreachable_by_store(node) == {"switch", "a"}

    def test_a_pause_of_the_check_that_fails_ends_it(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway")
        node.add("a", depends=["gateway"])
        run(node, "gateway", 2)
        node.pause("gateway")
        node.turn()
        assert unreachable(node) == unreachable_by_store(node) == set()
        node.pause("gateway", paused=False)
        node.turn()
        assert unreachable(node) == unreachable_by_store(node) == {"a"}

    def test_a_task_that_depends_on_something_else_is_reachable_again(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway")
        add_check(node, "other")
        node.add("a", depends=["gateway"])
        run(node, "gateway", 2)
        node.set("a", every="1m", phase="0s", command=["true"], depends=["other"])
        node.turn()
        assert unreachable(node) == set()
        node.set("a", every="2m", phase="0s", command=["true"], depends_any=["other", "gateway"])
        run(node, "other", 3)
        assert unreachable(node) == unreachable_by_store(node) == {"a"}

    def test_a_removed_task_takes_its_dependencies_along(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway")
        node.add("a", depends=["gateway"])
        run(node, "gateway", 2)
        node.remove("a")
        node.remove("gateway")
        node.add("b")
        node.turn()
        assert unreachable(node) == set()
        assert (node.columns.point == -1).all()

    @settings(max_examples=examples(40), deadline=None)
    @given(
        events=st.lists(
            st.tuples(
                st.sampled_from(("ok", "critical", "soft", "pause", "depends", "any", "restart", "remove")),
                st.integers(0, 4),
                st.integers(0, 4),
            ),
            max_size=16,
        )
    )
    def test_live_or_restarted_they_are_as_the_store_says(self, events: list[tuple[str, int, int]]) -> None:
        node = HandDrivenNode()
        names = [f"c{i}" for i in range(5)]
        keys: dict[str, dict[str, Any]] = {name: {} for name in names}
        for name in names:
            add_check(node, name, attempts=2)
        for what, i, j in events:
            name, low, high = names[i], min(i, j), max(i, j)
            match what:
                case "ok":
                    result(node, name, 0)
                case "critical":
                    result(node, name, 2)
                    result(node, name, 2)
                case "soft":
                    result(node, name, 2)
                case "pause":
                    paused = node.admin.find_or_raise(name).task.paused
                    node.pause(name, paused=not paused)
                case "depends" | "any" if low != high:
                    key = "depends" if what == "depends" else "depends_any"
                    keys[names[high]] = {**keys[names[high]], key: [names[low]]}
                    node.set(names[high], every="1h", phase="30m", command=["true"], attempts=2, **keys[names[high]])
                case "restart":
                    node.restart(after=SECOND)
                case "remove" if not any(name in one for k in keys.values() for one in k.values()):
                    node.remove(name)
                    keys[name] = {}
                    add_check(node, name, attempts=2)
            node.turn()
            assert unreachable(node) == unreachable_by_store(node)


class TestStaleChecks:
    """Of a check whose result is overdue nobody knows how it is: it counts as fine."""

    def test_a_check_that_waits_for_long_ends_it(self) -> None:
        node = HandDrivenNode(slots=1)
        add_check(node, "gateway", every="1m", phase="0s", timebox="10s")
        node.add("a", every="1h", phase="30m", depends=["gateway"])
        run(node, "gateway", 2)
        assert unreachable(node) == unreachable_by_store(node) == {"a"}
        node.add("long", every="1h", phase="30m", timebox="50m", priority=100)
        node.force("long")
        node.turn(SECOND)
        node.turn(MINUTE)
        assert unreachable(node) == unreachable_by_store(node) == {"a"}, "late, and not stale yet"
        node.turn(11 * SECOND)
        assert unreachable(node) == unreachable_by_store(node) == set()
        node.end("long")
        node.turn(SECOND)
        node.end("gateway", Outcome.FAILED, 2)
        node.turn()
        assert unreachable(node) == unreachable_by_store(node) == {"a"}

    @pytest.mark.parametrize("restarted", [False, True])
    def test_a_heartbeat_that_is_missing_is_not_known_to_fail(self, node: HandDrivenNode, restarted: bool) -> None:
        node.add("host", passive=True, timebox="10s", grace="5s")
        node.add("a", every="1h", phase="30m", depends=["host"])
        result(node, "host", 2)
        assert unreachable(node) == unreachable_by_store(node) == {"a"}
        node.advance(3 * MINUTE)
        assert node.condition("host").state == 2
        assert node.condition("host").stale
        assert unreachable(node) == unreachable_by_store(node) == set()
        if restarted:
            node.restart(after=SECOND)
            node.turn()
            assert unreachable(node) == unreachable_by_store(node) == set()
        result(node, "host", 2)
        assert unreachable(node) == unreachable_by_store(node) == {"a"}
        result(node, "host", 0)
        assert unreachable(node) == set()


class TestMissingResults:
    """Nothing is expected of an unreachable check, and its sender has time to come once it is reachable again."""

    def add_passive(self, node: HandDrivenNode, name: str, **keys: Any) -> None:
        node.add(name, passive=True, **{"timebox": "10s", "grace": "5s", **keys})

    def stale(self, node: HandDrivenNode) -> int:
        return status_of(node.node).stale

    def test_an_unreachable_passive_check_is_not_stale_and_its_times_are_skipped(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway")
        self.add_passive(node, "a", depends=["gateway"])
        result(node, "a", 0)
        run(node, "gateway", 2)
        node.advance(HOUR)
        assert node.condition("a").state == 0
        assert {reason for reason, _ in skips(node, "a")} == {"unreachable"}
        assert self.stale(node) == 0
        run(node, "gateway", 0)
        node.advance(50 * SECOND)
        assert node.condition("a").state == 0, "its sender has an interval to come"
        node.advance(2 * MINUTE)
        assert node.condition("a").state == 2
        assert self.stale(node) == 1
        run(node, "gateway", 2)
        assert self.stale(node) == 0

    def test_a_ttl_that_ends_meanwhile_is_looked_at_when_the_sender_had_time(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway")
        self.add_passive(node, "a", depends=["gateway"], every="1h", phase="30m")
        now = Instant(node.now)
        node.turns.passive.submit(node.row("a"), 0, "", now, now, 30 * SECOND)
        run(node, "gateway", 2)
        node.advance(2 * MINUTE)
        assert node.condition("a").state == 0
        run(node, "gateway", 0)
        node.advance(SECOND)
        assert node.condition("a").state == 0
        node.advance(HOUR + MINUTE)
        assert node.condition("a").state == 2

    def test_a_result_that_comes_meanwhile_counts(self, node: HandDrivenNode) -> None:
        add_check(node, "gateway")
        self.add_passive(node, "a", depends=["gateway"])
        run(node, "gateway", 2)
        for _ in range(5):
            result(node, "a", 1)
            node.advance(MINUTE)
        assert node.condition("a").state == 1
        assert list(skips(node, "a")) == []


def test_results_of_tasks_that_nothing_depends_on_do_not_touch_the_graph() -> None:
    node = HandDrivenNode()
    add_check(node, "gateway")
    add_check(node, "a", depends=["gateway"])
    node.turn()
    settled: list[bool] = []
    for status in (2, 0, 3, 1):
        node.now += SECOND
        node.turns.passive.submit(node.row("a"), status, "", Instant(node.now), Instant(node.now))
        settled.append(node.tasks.reachability.is_settled)
    assert np.all(settled)
