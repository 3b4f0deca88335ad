"""What a node reports of itself: its own problems to `[node] notify`, and that it works to `ping`."""

from pathlib import Path

import pytest
from alerting_node import AlertingNode

from evenbeat.model import NotifyContact
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
