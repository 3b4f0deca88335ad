"""The status of a node says which messages wait, since when, and which contacts they do not reach."""

import pytest
from alerting_node import AlertingNode

from evenbeat.cli.output.status_lines import status_lines
from evenbeat.model import SECOND
from evenbeat.node.answers.status import status_of
from evenbeat.report.cluster_view import merge_statuses


@pytest.fixture
def node() -> AlertingNode:
    node = AlertingNode()
    node.contact("ops")
    node.check("web", "ops")
    return node


def told(node: AlertingNode) -> tuple[int, str | None, list[str]]:
    status = status_of(node.node)
    return status.messages_waiting, status.messages_waiting_since, status.failing_contacts


def test_a_message_waits_from_when_it_leaves_until_it_has_arrived(node: AlertingNode) -> None:
    node.result("web", 2)
    assert told(node) == (0, None, [])
    node.notify(30)
    since = "2024-10-04T00:00:31+00:00"
    assert told(node) == (1, since, [])
    node.deliver(is_delivered=False, error="refused")
    assert told(node) == (1, since, ["ops"])
    assert status_lines(status_of(node.node))[-2:] == [
        f"1 message to contacts not delivered yet, the oldest since {since}",
        "[red]messages do not arrive: ops; `evenbeat contacts NAME` tells why[/red]",
    ]
    node.restart(SECOND)
    node.notify()
    assert told(node) == (1, since, ["ops"])
    node.notify(5)
    node.deliver()
    assert told(node) == (0, None, [])


def test_a_contact_fails_after_its_message_was_given_up_until_one_arrives(node: AlertingNode) -> None:
    node.result("web", 2)
    node.notify(30)
    while node.store.unfinished_messages():
        node.deliver(is_delivered=False, error="no route to host")
        node.notify(600)
    assert told(node) == (0, None, ["ops"])
    node.restart(SECOND)
    node.notify()
    assert told(node) == (0, None, ["ops"])
    node.result("web", 0)
    node.result("web", 2)
    node.pass_by(60)
    assert told(node) == (0, None, [])


def test_a_contact_with_another_place_does_not_fail_any_more(node: AlertingNode) -> None:
    node.result("web", 2)
    node.notify(30)
    node.deliver(is_delivered=False, error="refused")
    node.contact("ops", email=["ops@localhost"])
    node.notify()
    assert told(node)[2] == []


def test_a_cluster_adds_up_what_its_nodes_say(node: AlertingNode) -> None:
    calm = status_of(node.node)
    node.result("web", 2)
    node.notify(30)
    node.deliver(is_delivered=False, error="refused")
    busy = status_of(node.node)
    merged = merge_statuses([calm, busy, busy])
    assert merged is not None
    assert (merged.messages_waiting, merged.failing_contacts) == (2, ["ops"])
    assert merged.messages_waiting_since == busy.messages_waiting_since
