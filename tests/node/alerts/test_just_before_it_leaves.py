"""What changes between a problem and the message about it: it is decided once more, by what is true then."""

import pytest
from alerting_node import AlertingNode

from evenbeat.core.task import Flag
from evenbeat.model import SECOND, Period
from evenbeat.store.contract import StoreError


@pytest.fixture
def node() -> AlertingNode:
    node = AlertingNode()
    node.contact("ops")
    return node


def test_a_period_that_closes_meanwhile_keeps_the_message_until_it_opens(node: AlertingNode) -> None:
    node.periods(day=Period(ranges=("08:00-20:00",), zone="UTC"))
    node.contact("ops", period="day")
    node.check("web", "ops")
    node.now += (20 * 3600 - 11) * SECOND
    node.result("web", 2)
    node.pass_by(60)
    assert node.messages == []
    assert node.reasons("web") == ["waiting outside the contact's period"]
    node.pass_by(12 * 3600 + 600, step=300)
    assert node.told() == ["problem web"]


def test_what_holds_a_problem_is_settled_before_the_problem_is_read(node: AlertingNode) -> None:
    node.check("beat", "ops", passive=True, gather="0s")
    row = node.row("beat")
    node.columns.flags[row] |= int(Flag.DOWNTIME)
    node.turns.passive.submit(row, 2, "no answer", node.clock.now(), node.clock.now())
    node.loop.run_until_complete(node.engine.step())
    node.loop.run_until_complete(node.engine.step())
    assert node.messages == []
    assert node.reasons("beat") == ["suppressed downtime"]


def test_items_keep_their_order_whatever_becomes_of_them_meanwhile(node: AlertingNode) -> None:
    for name in ("a", "b"):
        node.check(name, "ops")
        node.result(name, 1)
    node.result("a", 2)
    node.pass_by(60)
    (message,) = node.messages
    assert [(item.task, item.state) for item in message.items] == [("a", "critical"), ("b", "warning")]


def result_unheard_of(node: AlertingNode, monkeypatch: pytest.MonkeyPatch, name: str, state: int) -> None:
    """A result that the store knows of, and the engine not yet: in a cluster it comes from another node."""
    with monkeypatch.context() as deaf:
        deaf.setattr(node.engine.news, "batch_committed", lambda _: None)
        deaf.setattr(node.turns, "on_problems", lambda _: None)
        node.result(name, state)


def test_a_problem_that_is_not_worse_any_more_is_not_sent_again(
    node: AlertingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.check("web", "ops")
    node.check("db", "ops")
    node.result("web", 3)
    node.pass_by(60)
    node.result("web", 2)
    node.result("db", 2)
    result_unheard_of(node, monkeypatch, "web", 3)
    node.pass_by(60)
    assert node.told() == ["problem web", "problem db"]
    assert node.reasons("web") == ["sent problem", "suppressed over before it was sent"]
    node.result("web", 2)
    node.pass_by(60)
    assert [(item.task, item.state) for item in node.items()][2:] == [("web", "critical")]


def test_nothing_leaves_if_nothing_is_worse_any_more(node: AlertingNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.check("web", "ops")
    node.result("web", 1)
    node.pass_by(60)
    node.result("web", 2)
    result_unheard_of(node, monkeypatch, "web", 1)
    node.pass_by(60)
    assert len(node.messages) == len(node.store.messages()) == 1
    node.result("web", 0)
    node.pass_by(60)
    assert node.told() == ["problem web", "recovery web"]


def test_a_state_that_the_contact_has_not_selected_any_more_is_not_sent(
    node: AlertingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.contact("ops", states=["critical"])
    node.check("web", "ops")
    node.result("web", 2)
    result_unheard_of(node, monkeypatch, "web", 1)
    node.pass_by(60)
    assert node.messages == []


def test_news_that_could_not_be_read_is_read_later(node: AlertingNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.check("web", "ops")
    node.notify()

    def failing(_: object) -> None:
        raise StoreError("the disk cannot be read")

    with monkeypatch.context() as broken:
        broken.setattr(node.store, "alert_problems", failing)
        with pytest.raises(StoreError):
            node.result("web", 2)
    node.notify()
    node.pass_by(60)
    assert node.told() == ["problem web"]
