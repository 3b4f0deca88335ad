"""Problems that nobody is told of just now: downtime, what they depend on, a stop; and what is told when that ends."""

import numpy as np
import pytest
from alerting_node import AlertingNode

from evenbeat.core.task import Flag
from evenbeat.model import FOREVER, MINUTE, SECOND, Outcome, RunKind


@pytest.fixture
def node() -> AlertingNode:
    node = AlertingNode()
    node.contact("ops")
    return node


def run_what_is_due(node: AlertingNode, states: dict[str, int], seconds: int) -> None:
    """Time passes; runs end at once, with these states, and messages arrive."""
    for _ in range(seconds):
        for run in node.turn(SECOND):
            state = states.get(run.name, 0)
            node.end(run.name, Outcome.FAILED if state else Outcome.SUCCEEDED, state)
        node.turn()
        node.notify()
        node.deliver()


def set_downtime(node: AlertingNode, name: str, *, on: bool) -> None:
    """As `core.downtimes` sets it, and as a turn reports its end."""
    rows = np.array([node.row(name)])
    node.lifecycle.set_flag(rows, Flag.DOWNTIME, on=on)
    if not on:
        node.turns.holds.learn_ends(rows, node.clock.now())


class TestDowntime:
    def test_a_problem_that_outlasts_it_is_told_on_a_fresh_result(self, node: AlertingNode) -> None:
        node.check("web", "ops", every="10m")
        set_downtime(node, "web", on=True)
        node.result("web", 2)
        run_what_is_due(node, {"web": 2}, 120)
        assert node.messages == []
        assert node.reasons("web") == ["suppressed downtime"]
        set_downtime(node, "web", on=False)
        run_what_is_due(node, {"web": 2}, 60)
        assert node.told() == ["problem web"]
        assert node.reasons("web") == ["suppressed downtime", "waiting awaiting a fresh result", "sent problem"]

    def test_a_problem_that_does_not_is_not_told_at_all(self, node: AlertingNode) -> None:
        node.check("web", "ops", every="10m")
        set_downtime(node, "web", on=True)
        node.result("web", 2)
        set_downtime(node, "web", on=False)
        run_what_is_due(node, {"web": 0}, 120)
        assert node.messages == []

    def test_a_recovery_is_told_in_spite_of_it(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.pass_by(60)
        set_downtime(node, "web", on=True)
        node.result("web", 0)
        node.pass_by(60)
        assert node.told() == ["problem web", "recovery web"]


class TestDependencies:
    def children(self, node: AlertingNode, number: int) -> list[str]:
        names = [f"behind-{i}" for i in range(number)]
        node.check("gw", "ops", phase="30s")
        for name in names:
            node.check(name, "ops", depends=["gw"])
        return names

    def test_behind_a_switch_that_is_down_only_the_switch_is_told(self, node: AlertingNode) -> None:
        names = self.children(node, 5)
        run_what_is_due(node, dict.fromkeys((*names, "gw"), 2), 240)
        assert node.told() == ["problem gw"]
        assert node.reasons(names[0])[-1] == "suppressed unreachable"

    def test_the_old_problems_of_what_is_behind_it_are_not_released_when_it_recovers(self, node: AlertingNode) -> None:
        names = self.children(node, 5)
        run_what_is_due(node, dict.fromkeys((*names, "gw"), 2), 240)
        run_what_is_due(node, {}, 300)
        assert node.told() == ["problem gw", "recovery gw"]

    def test_one_that_persists_is_told_after_the_recovery(self, node: AlertingNode) -> None:
        names = self.children(node, 5)
        run_what_is_due(node, dict.fromkeys((*names, "gw"), 2), 240)
        run_what_is_due(node, {names[0]: 2}, 300)
        assert node.told() == ["problem gw", "recovery gw", f"problem {names[0]}"]

    def test_before_a_problem_is_told_the_check_behind_which_it_is_is_run(self, node: AlertingNode) -> None:
        self.children(node, 1)
        node.set("gw", every="1h", command=["true"], attempts=1, notify=["ops"])
        run_what_is_due(node, {}, 20)
        node.result("behind-0", 2)
        run_what_is_due(node, {"behind-0": 2}, 60)
        kinds = [run.kind for run in node.store.runs(node.admin.find_or_raise("gw").number)]
        assert kinds == [RunKind.CATCH_UP, RunKind.FIRST]
        assert node.told() == ["problem behind-0"]
        assert node.reasons("behind-0")[0] == "waiting checking parents"


class TestManyAtOnce:
    def test_fresh_results_are_asked_for_at_the_pace_of_all_runs_off_the_grid(self) -> None:
        node = AlertingNode(slots=10_000)
        node.contact("ops")
        names = [f"check-{i}" for i in range(2_000)]
        for name in names:
            node.check(name, "ops", every="1d", phase="0s")
        node.force(*names)
        for run in node.turn(SECOND):
            node.end(run.name, Outcome.FAILED, 2)
        node.turn()
        node.restart(MINUTE)
        node.turns.settle_holds(node.clock.now())
        rows = node.tasks.problems.rows()
        assert len(rows) == len(names)
        due = node.columns.off_grid_due[rows]
        assert due.max() <= node.now + 90 * SECOND
        per_second = np.bincount((due - due.min()) // SECOND)
        assert per_second.max() <= 200


def test_nothing_runs_sooner_for_a_problem_of_which_nobody_is_told() -> None:
    node = AlertingNode()
    node.contact("ops")
    node.check("quiet", every="1d", phase="0s")
    node.check("loud", "ops", every="1d", phase="0s")
    node.force("quiet", "loud")
    for run in node.turn(SECOND):
        node.end(run.name, Outcome.FAILED, 2)
    node.turn()
    node.restart(MINUTE)
    node.turns.settle_holds(node.clock.now())
    due = {name: int(node.columns.off_grid_due[node.row(name)]) for name in ("quiet", "loud")}
    assert due["quiet"] == FOREVER
    assert due["loud"] < FOREVER


def test_a_pause_holds_and_its_end_asks_for_a_fresh_result(node: AlertingNode) -> None:
    node.check("web", "ops", every="1h", phase="59m")
    node.result("web", 1)
    node.pause("web")
    run_what_is_due(node, {"web": 1}, 60)
    assert node.messages == []
    assert node.reasons("web") == ["suppressed paused"]
    node.pause("web", paused=False)
    run_what_is_due(node, {"web": 1}, 60)
    assert node.told() == ["problem web"]
