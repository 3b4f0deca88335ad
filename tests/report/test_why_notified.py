"""Why was nobody notified, and why was I? The sentences, for what a node has really decided."""

from typing import Any

import pytest
from alerting_node import AlertingNode
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.admin.downtimes import change_downtimes
from evenbeat.admin.stored_downtimes import stored_downtimes
from evenbeat.model import HOUR, SECOND, Instant, Outcome, Period
from evenbeat.report.why import explain
from evenbeat.report.why_facts import ContactAnswer
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone
from evenbeat.wire.requests import AddDowntime, EndDowntime

HOOK = "webhook http://localhost"


@pytest.fixture
def node() -> AlertingNode:
    node = AlertingNode()
    node.contact("ops")
    node.contact("boss", email=["boss@localhost"])
    return node


def answers(node: AlertingNode, name: str = "web", at: str | None = None) -> list[ContactAnswer]:
    return explain(node.store, name, at, node.clock.now(), lambda _: (False, None)).notified


def lines(node: AlertingNode, name: str = "web", at: str | None = None) -> list[str]:
    return [answer.text for answer in answers(node, name, at)]


def line(node: AlertingNode, contact: str = "ops") -> str:
    (found,) = (answer.text for answer in answers(node) if answer.contact == contact)
    return found


class TestNow:
    def test_a_task_without_contacts_notifies_nobody(self, node: AlertingNode) -> None:
        node.check("web")
        assert lines(node) == ["nobody is notified: it has no `notify`"]
        node.result("web", 2)
        assert lines(node) == ["nobody is notified: it has no `notify`"]

    def test_without_a_problem_it_says_who_would_be_told(self, node: AlertingNode) -> None:
        node.check("web", "ops", {"to": "boss", "after": "30m"})
        expected = "no problem is on record; when one opens, ops is told at once, boss is told after 30 min"
        assert lines(node) == [expected]

    def test_from_the_gather_to_the_recovery(self, node: AlertingNode) -> None:
        node.check("web", "ops", {"to": "boss", "after": "30m"}, repeat="4h")
        node.result("web", 1)
        assert lines(node) == ["ops is told within 30 s", "boss is told in 30 min, if nobody acknowledges"]
        node.notify(30)
        told = f"ops was told on Fri 2024-10-04 00:00:31+00:00 of WARNING, by {HOOK}"
        assert line(node) == f"{told}, on its way"
        node.deliver(is_delivered=False, error="connection refused")
        assert line(node) == f"{told}, not delivered yet: connection refused; tried again in 5 s"
        node.notify(5)
        node.deliver()
        assert line(node) == f"{told}, delivered at attempt 2; it is reminded in 3 h 59 min, if nobody acknowledges"
        assert line(node, "boss") == "boss is told in 29 min 25 s, if nobody acknowledges"
        node.result("web", 2)
        assert line(node) == f"{told}, delivered at attempt 2; it is told of CRITICAL within 30 s"
        node.pass_by(30)
        node.result("web", 0)
        over = "problem 1, over since Fri 2024-10-04 00:01:08+00:00: "
        told = f"ops was told on Fri 2024-10-04 00:01:07+00:00 of CRITICAL, by {HOOK}, delivered"
        assert lines(node) == [
            f"{over}{told}; it is told that it is over within 30 s",
            f"{over}boss was not told: it was over before its delay of 30 min had passed",
        ]
        node.pass_by(40)
        assert line(node) == f"{over}{told}; on Fri 2024-10-04 00:01:38+00:00 that it is over, delivered"

    def test_facts_beside_the_words_are_for_programs(self, node: AlertingNode) -> None:
        node.check("web", "ops", {"to": "boss", "after": "30m"})
        node.result("web", 2)
        node.notify(30)
        node.deliver(is_delivered=False, error="refused\nat once")
        ops, boss = answers(node)
        assert (ops.contact, ops.problem, ops.outcome, ops.place) == ("ops", 1, "sent", HOOK)
        assert (ops.sent_at, ops.message, ops.delivery) == ("2024-10-04T00:00:31+00:00", 1, "waiting")
        assert ops.error == "refused"
        assert (boss.outcome, boss.reason, boss.until) == ("waiting", "", "2024-10-04T00:30:01+00:00")
        assert (boss.sent_at, boss.message, boss.delivery) == (None, None, "")

    def test_a_task_that_is_no_check_fails(self, node: AlertingNode) -> None:
        node.add("backup", notify=["ops"])
        node.force("backup")
        node.turn()
        node.end("backup", Outcome.FAILED, 1)
        node.turn()
        node.pass_by(60)
        (found,) = lines(node, "backup")
        assert f"of the failure, by {HOOK}, delivered" in found

    def test_places_with_different_fates_have_lines_of_their_own(self, node: AlertingNode) -> None:
        node.contact("ops", webhook="http://localhost:1/S3CRET", send=["slack://S3CRET"])
        node.check("web", "ops")
        node.result("web", 2)
        assert lines(node) == ["ops is told within 30 s"]
        node.pass_by(30)
        assert [found.split("by ")[1] for found in lines(node)] == ["slack://..., delivered", f"{HOOK}, delivered"]
        assert "S3CRET" not in str(answers(node))

    def test_an_acknowledgement_suppresses_who_was_not_told_and_reminders(self, node: AlertingNode) -> None:
        node.check("web", "ops", {"to": "boss", "after": "30m"}, repeat="1h")
        node.result("web", 2)
        node.pass_by(60)
        node.acknowledge("web", "on it")
        assert line(node).endswith("delivered; it is told of the acknowledgement within 30 s")
        node.pass_by(60)
        by = "ana acknowledged it on Fri 2024-10-04 00:01:01+00:00"
        assert line(node).endswith(f" of an acknowledgement, delivered; it is not reminded now: {by}")
        assert line(node, "boss") == f"boss is not told now: {by}; its delay of 30 min counts from the end of that"
        node.pass_by(3600, step=60)
        assert line(node, "boss").startswith(f"boss is not told now: {by}")
        assert [(a.outcome, a.reason) for a in answers(node)] == [
            ("sent", "acknowledged"),
            ("suppressed", "acknowledged"),
        ]

    def test_of_a_task_that_does_not_remind_nothing_is_said_of_reminders(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.pass_by(60)
        node.acknowledge("web", "on it")
        node.pass_by(60)
        assert line(node).endswith("of an acknowledgement, delivered")

    def test_a_downtime(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        change_downtimes(node.admin, AddDowntime("ana", ("web",), end=Instant(node.now + 2 * HOUR)))
        node.node.apply_changes()
        node.turn()
        node.result("web", 2)
        assert lines(node) == [
            "ops is not told now: the task is in downtime, since Fri 2024-10-04 00:00:01+00:00",
        ]
        assert [(a.outcome, a.reason) for a in answers(node)] == [("suppressed", "downtime")]
        (downtime,) = stored_downtimes(node.store)
        change_downtimes(node.admin, EndDowntime(downtime.id, "ana"))
        node.node.apply_changes()
        node.turn()
        node.notify()
        assert "ops is not told now: a fresh result of the task is awaited, since" in line(node)
        assert [(a.outcome, a.reason) for a in answers(node)] == [("waiting", "awaiting a fresh result")]

    def test_a_paused_task(self, node: AlertingNode) -> None:
        node.check("web", {"to": "ops", "after": "10m"})
        node.result("web", 2)
        node.pause("web")
        node.pass_by(900, step=60)
        assert line(node).startswith("ops is not told now: the task is paused or disabled, since Fri 2024")

    def test_a_state_that_the_contact_does_not_take(self, node: AlertingNode) -> None:
        node.contact("ops", states=["critical", "unknown"])
        node.check("web", {"to": "ops", "after": "10m"})
        node.result("web", 1)
        expected = "ops is not told now: it takes only UNKNOWN, CRITICAL"
        assert line(node) == expected
        node.pass_by(900, step=60)
        assert line(node) == expected

    def test_the_period_of_a_contact(self, node: AlertingNode) -> None:
        node.periods(day=Period(ranges=("08:00-20:00",), zone="UTC"))
        node.contact("ops", period="day")
        node.check("web", "ops")
        node.result("web", 2)
        assert line(node) == "ops is not told now: its period 'day' is closed, and opens in 7 h 59 min"
        (found,) = answers(node)
        assert (found.outcome, found.until) == ("waiting", "2024-10-04T08:00:00+00:00")
        node.redefine("web", {"to": "ops", "after": "10m"})
        node.notify()
        assert line(node) == "ops is told in 7 h 59 min, if nobody acknowledges"

    def test_what_is_about_to_leave_waits_for_no_rate(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 1)
        node.now += 30_001_000
        assert line(node) == "ops is told now"

    def test_what_waits_for_the_message_before_it_and_for_the_rate(self, node: AlertingNode) -> None:
        node.contact("ops", per_hour=2)
        for name in ("a", "b", "web"):
            node.check(name, "ops")
        node.result("a", 2)
        node.notify(30)
        node.deliver(is_delivered=False, error="no answer")
        node.result("web", 2)
        waits = "ops is told once message 1 to it has ended or failed a few times; it is "
        assert line(node) == f"{waits}not delivered yet: no answer; tried again in 4 s"
        limited = explain(node.store, "web", None, node.clock.now(), lambda _: (False, None), is_limited=True).notified
        assert [answer.text for answer in limited] == [f"{waits}on its way"]
        node.pass_by(60)
        node.result("b", 2)
        assert lines(node, "b") == ["ops is told in 58 min 58 s, as it gets no more messages within an hour"]

    def test_what_waits_until_it_passes_messages_that_fail(self, node: AlertingNode) -> None:
        for name in ("a", "b", "web"):
            node.check(name, "ops", gather="0s")
        for name in ("a", "b"):
            node.result(name, 2)
            for _ in range(17):
                node.notify(1)
                node.deliver(is_delivered=False, error="no answer")
        assert [record.attempts for record in node.store.unfinished_messages()] == [3, 3]
        node.result("web", 2)
        assert (
            line(node) == "ops is told in 2 s, as message 2 to it is not delivered yet: no answer; tried again in 18 s"
        )
        node.notify(2)
        assert len(node.store.unfinished_messages()) == 3

    def test_what_was_gathered_names_its_message(self, node: AlertingNode) -> None:
        for name in ("a", "b", "web"):
            node.check(name, "ops")
            node.result(name, 2)
        node.pass_by(60)
        assert line(node).endswith("delivered, gathered into message 1 with 2 others")

    def test_a_contact_that_is_gone_or_not_in_notify_any_more(self, node: AlertingNode) -> None:
        node.check("web", "ops", "boss")
        node.result("web", 2)
        node.pass_by(60)
        node.redefine("web", "ops")
        node.no_contact("ops")
        node.notify()
        assert line(node, "boss").endswith(
            "by email boss@localhost, delivered; it is not told any more: the contact is not in `notify` any more"
        )
        found = [answer for answer in answers(node) if answer.contact == "ops"]
        assert "ops is not told: it has no place that messages may go to" not in [answer.text for answer in found]
        assert found[0].text.endswith("it is not told any more: the contact, or this place of it, was removed")
        assert "by webhook, a place that it had then, delivered" in found[0].text

    def test_a_message_that_is_given_up(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.notify(30)
        while node.store.unfinished_messages():
            node.deliver(is_delivered=False, error="no route to host")
            node.notify(600)
        found = line(node)
        assert f"by {HOOK}, given up " in found
        assert found.endswith(": no route to host")
        assert [answer.outcome for answer in answers(node)] == ["given up"]
        node.result("web", 0)
        node.pass_by(60)
        assert line(node).endswith("it is not told that it is over: the message about the problem was given up")

    def test_over_before_it_was_sent(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.result("web", 0)
        node.notify()
        over = "problem 1, over since Fri 2024-10-04 00:00:02+00:00: "
        assert lines(node) == [f"{over}ops was not told: it was over before that was sent"]
        assert [(a.outcome, a.reason) for a in answers(node)] == [("suppressed", "over before it was sent")]


class TestThen:
    def test_what_was_decided_around_a_time(self, node: AlertingNode) -> None:
        node.check("web", "ops", {"to": "boss", "after": "30m"}, repeat="1h")
        node.result("web", 2)
        node.pass_by(60)
        node.acknowledge("web")
        node.pass_by(2 * 3600, step=60)
        told = f"Fri 2024-10-04 00:00:31+00:00: ops was told of the problem, by {HOOK}, delivered"
        assert lines(node, at="2024-10-04T00:00") == [told, "nothing had been decided about boss until then"]
        assert lines(node, at="2024-10-04T00:01:30") == [
            f"the last decision before: {told}",
            "nothing had been decided about boss until then",
        ]
        acknowledged = lines(node, at="2024-10-04T00:30")
        assert acknowledged[-1].endswith("boss was not told: acknowledged")
        assert "ops was told of the acknowledgement" in acknowledged[0]
        assert any(text.endswith("ops was not reminded: acknowledged") for text in lines(node, at="2024-10-04T01"))

    def test_no_problem_was_open_then(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.turn(3600 * 1_000_000)
        node.result("web", 2)
        expected = "nobody was notified then: no problem of it is on record for that time"
        assert lines(node, at="2024-10-04T00:10") == [expected]

    def test_a_problem_that_was_over_before_is_not_named(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        node.pass_by(60)
        node.result("web", 0)
        node.pass_by(7200, step=60)
        assert lines(node, at="2024-10-04T00:01:30") == [
            "nobody was notified then: no problem of it is on record for that time"
        ]

    def test_about_the_future_nothing_is_said(self, node: AlertingNode) -> None:
        node.check("web", "ops")
        node.result("web", 2)
        assert lines(node, at="2024-10-05") == []

    def test_of_very_many_decisions_the_latest_are_shown(self, node: AlertingNode) -> None:
        node.check("web", "ops", repeat="1m")
        node.result("web", 2)
        node.pass_by(900, step=30)
        found = lines(node, at="2024-10-04")
        assert len(found) == 6
        assert found[-1].startswith("and ")
        assert all("ops was reminded of the problem" in text for text in found[:-1])


EVENTS = st.one_of(
    st.tuples(st.just("result"), st.sampled_from([0, 1, 2, 3])),
    st.tuples(st.just("pass"), st.sampled_from([10, 60, 600, 4000])),
    st.tuples(st.just("acknowledge"), st.none()),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("notify"), st.sampled_from([("ops",), (), ("ops", "boss")])),
)


@settings(max_examples=examples(40))
@given(events=st.lists(EVENTS, max_size=8), delay=st.sampled_from(["10m", "1h"]))
def test_what_it_says_will_be_sent_is_sent_then_and_not_before(events: list[tuple[str, Any]], delay: str) -> None:
    node = AlertingNode()
    node.contact("ops")
    node.contact("boss", email=["boss@localhost"])
    node.check("web", "ops", {"to": "boss", "after": delay}, repeat="2h")
    for what, value in [("result", 1), *events]:
        happen(node, what, value)
    promised = [a for a in answers(node) if a.until is not None and a.text.endswith(("nobody acknowledges", " s"))]
    if not promised:
        return
    first = min(promised, key=lambda answer: answer.until or "")
    until = parse_instant(first.until or "", zone("UTC"))
    left = len(node.sender.orders)
    while node.now < until - SECOND:
        node.notify(min(60.0, (until - SECOND - node.now) / SECOND))
        node.deliver()
    if "within" not in first.text:
        assert not [order for order in node.sender.orders[left:] if order.contact == first.contact], first
    node.pass_by(60, step=1)  # what is due then is gathered for half a minute
    assert [order for order in node.sender.orders[left:] if order.contact == first.contact], first


def happen(node: AlertingNode, what: str, value: Any) -> None:
    match what:
        case "result":
            node.result("web", value)
        case "pass":
            node.pass_by(value, step=min(value, 60))
        case "acknowledge" if node.store.problems():
            node.acknowledge("web")
            node.notify()
        case "pause":
            node.pause("web", paused=value)
            node.notify()
        case "notify":
            node.redefine("web", *value)
            node.notify()
