"""What a node reports of itself: its own problems to `[node] notify`, and that it works to `ping`."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from alerting_node import AlertingNode

from evenbeat.model import NotifyContact, Period
from evenbeat.node.process.node_reports import NodeReports, full_disk_words


@pytest.fixture
def node() -> AlertingNode:
    node = AlertingNode()
    node.contact("ops")
    node.notify()
    return node


def look(node: AlertingNode, reports: NodeReports, seconds: int = 10) -> None:
    """The node looks every ten seconds; what it sends arrives."""
    for _ in range(0, seconds, 10):
        node.now += 10_000_000
        node.loop.run_until_complete(reports.look())
        node.loop.wait(10)
        node.sender.end_all()
        node.loop.wait(0.1)


def make_turn(node: AlertingNode) -> None:
    """As the timer of the loop makes it."""
    node.loop.call_soon(node.turn_by_timer)
    node.loop.wait(0.01)
    node.turns.stop()


def test_contacts_of_the_node_hear_of_its_problems_and_of_their_end(node: AlertingNode) -> None:
    node.node.live.notify = (NotifyContact("ops"), NotifyContact("nobody"))
    reports = NodeReports(node.node)
    look(node, reports, 60)
    assert node.messages == []
    node.problem = "no worker can be started"
    look(node, reports, 60)
    node.problem = ""
    look(node, reports, 60)
    first, last = node.items()
    assert (first.kind, first.cause, first.output) == ("problem", "node", "no worker can be started")
    assert first.task.endswith(": workers")
    assert (last.kind, last.task) == ("recovery", first.task)
    assert node.store.messages() == []


def _kinds(node: AlertingNode) -> list[str]:
    return [f"{item.kind} {item.task.split(': ', 1)[1]}" for item in node.items() if item.cause == "node"]


class TestKinds:
    """Each kind is told when it has lasted, and when it is over."""

    @pytest.fixture
    def reports(self, node: AlertingNode) -> NodeReports:
        node.node.live.notify = (NotifyContact("ops"),)
        return NodeReports(node.node)

    def test_notifications_that_do_not_work(self, node: AlertingNode, reports: NodeReports) -> None:
        node.engine.problem = "notifications failed: KeyError()"
        look(node, reports, 60)
        node.engine.problem = ""
        node.sender.problem = "the sender process ends again and again"
        look(node, reports, 60)
        node.sender.problem = ""
        look(node, reports, 60)
        assert _kinds(node) == ["problem notifications", "recovery notifications"]

    def test_tasks_that_are_late(self, node: AlertingNode, reports: NodeReports) -> None:
        node.add("a", every="10s")
        look(node, reports, 50)
        assert _kinds(node) == []
        look(node, reports, 60)
        (item,) = node.items()
        assert item.output == "1 of 1 tasks have been due for more than a minute and have not started"
        node.turn()
        look(node, reports, 20)
        assert _kinds(node) == ["problem late", "recovery late"]

    def test_workers_that_die_again_and_again(self, node: AlertingNode, reports: NodeReports) -> None:
        for deaths in range(1, 9):
            node.restarts_by_worker = {"": deaths}
            look(node, reports, 10)
        assert _kinds(node) == ["problem worker deaths"]
        assert next(node.items()).output == "worker processes die again and again: 7 within 5 min"
        look(node, reports, 290)
        assert len(node.messages) == 1
        look(node, reports, 20)
        assert _kinds(node) == ["problem worker deaths", "recovery worker deaths"]

    def test_of_a_cluster_the_node_that_tells_the_contact_of_tasks_tells_of_workers(
        self, node: AlertingNode, reports: NodeReports, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(node.engine, "tells", lambda _: False)
        node.restarts_by_worker = {"w": 0}
        look(node, reports)
        node.restarts_by_worker = {"w": 50}
        node.problem = "no worker can be started"
        look(node, reports, 60)
        assert _kinds(node) == ["problem workers"]

    def test_a_disk_that_is_nearly_full(
        self, node: AlertingNode, reports: NodeReports, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        database = tmp_path / "a.db"
        database.touch()
        node.node.database = str(database)
        monkeypatch.setattr("shutil.disk_usage", lambda _: _Usage(1 << 36, 0, 1 << 29))
        look(node, reports, 60)
        assert next(node.items()).output == "the disk of the database is nearly full: 512 MiB are free of 65536 MiB"
        monkeypatch.undo()
        look(node, reports, 60)
        assert _kinds(node) == ["problem disk", "recovery disk"]

    def test_a_cluster_that_is_lost_and_a_node_that_is_gone(
        self, node: AlertingNode, reports: NodeReports, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        others = _Others()
        monkeypatch.setattr(type(node.node), "others", others)
        others.problem = "the lease of this node has ended: the database does not answer"
        look(node, reports, 60)
        others.problem = ""
        look(node, reports, 30)
        assert _kinds(node) == ["problem cluster", "recovery cluster"]
        others.nodes, others.takeovers = 2, 1
        look(node, reports, 60)
        assert list(node.items())[-1].output == "a node of the cluster is gone: 2 of 3 are left"
        others.nodes = 3
        look(node, reports, 30)
        assert _kinds(node)[2:] == ["problem cluster node", "recovery cluster node"]


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


class _Others:
    """What a node knows of its cluster."""

    problem = ""
    nodes = 3
    takeovers = 0

    def metrics(self) -> "_Others":
        return self


class TestWishesOfTheContact:
    """The contact is told of the node as of tasks: in its period, of its states, at its rate."""

    def _reports(self, node: AlertingNode, **keys: Any) -> NodeReports:
        node.contact("night", **keys)
        node.notify()
        node.node.live.notify = (NotifyContact("night"),)
        return NodeReports(node.node)

    def test_what_is_wrong_waits_for_the_period_of_the_contact_and_so_does_its_end(self, node: AlertingNode) -> None:
        node.periods(late=Period(ranges=("00:10-00:20", "00:30-00:40"), zone="UTC"))
        reports = self._reports(node, period="late")
        node.problem = "no worker can be started"
        look(node, reports, 580)
        assert node.messages == []
        look(node, reports, 30)
        assert [(item.kind, item.output) for item in node.items()] == [("problem", "no worker can be started")]
        look(node, reports, 600)
        node.problem = ""
        look(node, reports, 540)
        assert len(node.messages) == 1
        look(node, reports, 60)
        assert [item.kind for item in node.items()] == ["problem", "recovery"]

    def test_what_is_over_before_the_period_opens_is_not_told(self, node: AlertingNode) -> None:
        node.periods(never=Period(ranges=("2030-01-01",), zone="UTC"))
        reports = self._reports(node, period="never")
        node.problem = "no worker can be started"
        look(node, reports, 300)
        node.problem = ""
        look(node, reports, 300)
        assert node.messages == []

    @pytest.mark.parametrize(("states", "count"), [(["unknown", "warning"], 0), (["unknown", "critical"], 1), ([], 1)])
    def test_only_a_contact_that_takes_critical_is_told(
        self, node: AlertingNode, states: list[str], count: int
    ) -> None:
        reports = self._reports(node, states=states)
        node.problem = "no worker can be started"
        look(node, reports, 60)
        assert len(node.messages) == count

    def test_messages_about_tasks_and_about_the_node_share_one_rate(self, node: AlertingNode) -> None:
        reports = self._reports(node, per_hour=2)
        node.check("web", "night")
        node.result("web", 2)
        node.notify(30)
        node.deliver()
        node.problem = "no worker can be started"
        look(node, reports, 60)
        assert len(node.messages) == 2
        node.result("web", 0)
        node.problem = ""
        look(node, reports, 60)
        node.notify(60)
        assert len(node.messages) == 2
        node.notify(3_600)
        node.deliver()
        assert [item.kind for item in node.items()][2:] == ["recovery"]
        look(node, reports, 20)
        assert [item.cause for item in node.items()] == ["state", "node", "state", "node"]


def test_a_store_that_fails_is_told_although_nothing_can_be_committed(node: AlertingNode) -> None:
    node.node.live.notify = (NotifyContact("ops"),)
    reports = NodeReports(node.node)
    node.store.is_failing = True
    node.add("a", notify=["ops"])
    node.turn(1)
    look(node, reports, 40)
    (item,) = node.items()
    assert item.output == "the store fails: the disk is full"


def test_the_ping_is_called_while_the_node_works_and_not_more_often_than_asked(node: AlertingNode) -> None:
    node.node.live.ping = "env:PING_URL"
    reports = NodeReports(node.node)
    look(node, reports)
    assert node.sender.orders == [], "it has made no turn"
    for _ in range(6):
        make_turn(node)
        look(node, reports)
    assert [(order.kind, order.place) for order in node.sender.orders] == [("webhook", "env:PING_URL")] * 2
    node.store.is_failing = True
    for _ in range(6):
        make_turn(node)
        look(node, reports)
    assert len(node.sender.orders) == 2


def test_a_disk_with_room_is_no_problem(tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    database.touch()
    assert full_disk_words(str(database)) is None
    assert full_disk_words("postgresql://somewhere/db") is None
