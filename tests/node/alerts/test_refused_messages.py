"""Messages that a receiver refuses: later ones pass them, too large ones are split, and the log says so."""

from collections.abc import Callable
from itertools import count

import pytest
from alerting_node import AlertingNode
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_messages import item

from evenbeat.core.delivery_pace import LONGEST_RETRY, PASSED_AFTER
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Outcome
from evenbeat.node.alerts.too_large_messages import halves
from evenbeat.store.alert_records import AlertRefusals
from evenbeat.wire.sender_documents import DeliveryEnd, DeliveryOrder, MessageDocument, message_decoder

Receiver = Callable[[MessageDocument], str]
"""What the receiver says to a message: "" takes it; otherwise a refusal, or "failed"."""


@pytest.fixture
def node() -> AlertingNode:
    node = AlertingNode()
    node.contact("ops", per_hour=3_600)
    return node


def _answer(node: AlertingNode, receiver: Receiver) -> list[MessageDocument]:
    """The receiver answers to what is being delivered; what it took."""
    taken = []

    def end(order: DeliveryOrder) -> DeliveryEnd:
        document = message_decoder.decode(order.document)
        said = receiver(document)
        if not said:
            taken.append(document)
            return DeliveryEnd(order.message, order.channel, is_delivered=True)
        refusal = said if said in ("for good", "too large") else ""
        return DeliveryEnd(order.message, order.channel, is_delivered=False, error=said, refusal=refusal)  # type: ignore[arg-type]

    node.sender.end_each(end)
    node.notify()
    return taken


def _pass(node: AlertingNode, receiver: Receiver, seconds: int, step: int = 1) -> list[MessageDocument]:
    taken = []
    for _ in range(0, seconds, step):
        node.notify(step)
        taken += _answer(node, receiver)
    return taken


def _told(documents: list[MessageDocument]) -> list[str]:
    return [f"{item.kind} {item.task}" for document in documents for item in document.items]


def _failing(*tasks: str) -> Receiver:
    """It fails for messages that tell of these tasks."""
    return lambda document: "failed" if any(item.task in tasks for item in document.items) else ""


class TestPassing:
    def test_a_message_that_fails_holds_up_nothing_for_long(self, node: AlertingNode) -> None:
        for name in "a", "b":
            node.check(name, "ops", gather="1s")
        node.result("a", 2)
        assert not _pass(node, _failing("a"), 2)
        node.result("b", 2)
        taken = _pass(node, _failing("a"), 60)
        assert _told(taken) == ["problem b"]
        assert [len(message.items) for message in node.messages[-2:]] == [1, 1]

    def test_what_fails_only_for_a_moment_is_not_passed(self, node: AlertingNode) -> None:
        for name in "a", "b":
            node.check(name, "ops", gather="1s")
        node.result("a", 2)
        _pass(node, _failing("a"), 2)
        node.result("b", 2)
        assert _told(_pass(node, lambda _: "", 60)) == ["problem a", "problem b"]

    def test_a_recovery_never_passes_its_problem(self, node: AlertingNode) -> None:
        for name in "a", "b":
            node.check(name, "ops", gather="1s")
        node.result("a", 2)
        _pass(node, _failing("a"), 60)
        node.result("a", 0)
        node.result("b", 2)
        assert _told(_pass(node, _failing("a"), 60)) == ["problem b"]
        assert _told(_pass(node, lambda _: "", 2 * HOUR // SECOND, 30)) == ["problem a", "recovery a"]

    def test_the_next_problem_of_a_task_does_not_pass_the_recovery_of_the_one_before(self, node: AlertingNode) -> None:
        for name in "a", "b":
            node.check(name, "ops", gather="1s")
        node.result("a", 2)
        _pass(node, _failing("a"), 60)
        node.result("a", 0)
        node.result("a", 1)
        node.result("b", 2)
        assert _told(_pass(node, _failing("a"), 60)) == ["problem b"]
        assert node.reasons("a") == ["sent problem", "waiting earlier problem first"]
        node.engine.begin_anew()
        taken = _pass(node, lambda _: "", 2 * HOUR // SECOND, 30)
        assert _told(taken) == ["problem a", "recovery a", "problem a"]
        assert [(item.task, item.problem) for item in taken[-1].items] == [("a", 1), ("a", 2)]
        assert node.reasons("a")[-2:] == ["sent recovery", "sent problem"]

    def test_the_next_problem_is_told_once_the_message_about_the_one_before_is_given_up(
        self, node: AlertingNode
    ) -> None:
        node.check("a", "ops", gather="1s")
        node.result("a", 2)
        _pass(node, _failing("a"), 60)
        node.result("a", 0)
        node.result("a", 1)
        assert (
            _told(_pass(node, lambda document: "failed" if document.message == 1 else "", 12 * HOUR // SECOND, 300))
            == []
        )
        assert _told(_pass(node, lambda _: "for good", HOUR // SECOND, 60)) == []
        assert node.reasons("a")[2:] == [
            "given up for good",
            "suppressed given up",
            "sent problem",
            "given up for good",
        ]

    def test_the_next_problem_does_not_pass_a_recovery_that_is_under_way(self, node: AlertingNode) -> None:
        node.check("a", "ops", gather="1s")
        node.result("a", 2)
        assert _told(_pass(node, lambda _: "", 5)) == ["problem a"]
        node.result("a", 0)
        _pass(node, _failing("a"), 60)
        node.result("a", 2)
        assert _told(_pass(node, lambda document: "failed" if document.message == 2 else "", 300)) == []
        assert _told(_pass(node, lambda _: "", HOUR // SECOND, 10)) == ["recovery a", "problem a"]

    def test_a_problem_that_is_over_while_it_waits_for_the_one_before_is_never_told(self, node: AlertingNode) -> None:
        node.check("a", "ops", gather="1s")
        node.result("a", 2)
        _pass(node, _failing("a"), 60)
        for state in (0, 1, 0):
            node.result("a", state)
        assert _told(_pass(node, lambda _: "", HOUR // SECOND, 30)) == ["problem a", "recovery a"]
        assert "suppressed over before it was sent" in node.reasons("a")

    def test_a_passed_message_is_given_up_after_a_day_without_a_recovery(self, node: AlertingNode) -> None:
        node.check("a", "ops", gather="1s")
        node.result("a", 2)
        _pass(node, _failing("a"), 2)
        node.result("a", 0)
        assert not _pass(node, _failing("a"), 2 * DAY // SECOND, 60)
        assert {record.state for record in node.store.messages()} == {"given up"}
        assert node.reasons("a") == ["sent problem", "given up failed", "suppressed given up"]

    def test_a_receiver_that_is_down_gets_few_messages_and_everything_once_it_is_back(self, node: AlertingNode) -> None:
        names = [f"t{number}" for number in range(40)]
        for name in names:
            node.check(name, "ops", gather="1s")
        for name in names:
            node.result(name, 2)
            _pass(node, lambda _: "failed", 60, 5)
        most = 40 * MINUTE // LONGEST_RETRY + 8
        assert len(node.engine.deliveries) <= most
        taken = _pass(node, lambda _: "", HOUR // SECOND, 5)
        assert sorted(_told(taken)) == sorted(f"problem {name}" for name in names)

    def test_the_next_node_goes_on_with_all_of_them(self, node: AlertingNode) -> None:
        for name in "a", "b":
            node.check(name, "ops", gather="1s")
        node.result("a", 2)
        _pass(node, lambda _: "failed", 40)
        node.result("b", 2)
        _pass(node, lambda _: "failed", 40)
        assert len(node.engine.deliveries) == 2
        node.engine.begin_anew()
        node.notify()
        assert len(node.engine.deliveries) == 2
        assert sorted(_told(_pass(node, lambda _: "", HOUR // SECOND, 5))) == ["problem a", "problem b"]

    @settings(max_examples=examples(20), deadline=None)
    @given(
        poison=st.sets(st.integers(0, 7), max_size=6),
        pauses=st.lists(st.integers(0, 90), min_size=8, max_size=8),
    )
    def test_whatever_is_refused_all_else_arrives_soon_and_once(self, poison: set[int], pauses: list[int]) -> None:
        node = AlertingNode()
        node.contact("ops", per_hour=3_600)
        names = [f"t{number}" for number in range(8)]
        for name in names:
            node.check(name, "ops", gather="0s")
        refused = [names[number] for number in poison]
        taken = []
        for name, pause in zip(names, pauses, strict=True):
            node.result(name, 2)
            taken += _pass(node, _failing(*refused), pause)
        taken += _pass(node, _failing(*refused), (PASSED_AFTER + len(poison)) * LONGEST_RETRY // SECOND, 5)
        told = _told(taken)
        assert len(told) == len(set(told))
        # What left in one message with something that is refused shares its fate.
        with_refused = [message for message in node.messages if any(item.task in refused for item in message.items)]
        shared = {item.task for message in with_refused for item in message.items}
        assert {f"problem {name}" for name in names if name not in shared} <= set(told)


class TestForGood:
    def test_a_message_that_is_refused_for_good_is_given_up_at_once(self, node: AlertingNode) -> None:
        for name in "a", "b":
            node.check(name, "ops", gather="1s")
        node.result("a", 2)
        _pass(node, lambda _: "for good", 2)
        node.result("b", 2)
        assert _told(_pass(node, lambda _: "", 3)) == ["problem b"]
        assert node.reasons("a") == ["sent problem", "given up for good"]
        node.result("a", 0)
        assert _pass(node, lambda _: "", HOUR // SECOND, 60) == []


class TestTooLarge:
    def _storm(self, node: AlertingNode, size: int) -> list[str]:
        names = [f"t{number:04}" for number in range(size)]
        for name in names:
            node.check(name, "ops")
        for name in names:
            node.force(name)
        node.turn(SECOND)
        for name in names:
            node.end(name, Outcome.FAILED, 2)
        node.turn()
        node.notify()
        node.notify(30)
        return names

    @pytest.mark.parametrize(("size", "most"), [(2, 1), (7, 2), (250, 40)])
    def test_it_is_sent_again_as_smaller_ones(self, node: AlertingNode, size: int, most: int) -> None:
        names = self._storm(node, size)

        def receiver(document: MessageDocument) -> str:
            return "too large" if len(document.items) > most else ""

        taken = _pass(node, receiver, 30)
        assert _told(taken) == [f"problem {name}" for name in names]
        assert len({document.message for document in taken}) == len(taken)
        states = {record.state for record in node.store.messages()}
        assert states == {"given up", "delivered"}
        first = node.store.messages()[-1]
        assert (first.state, "sent again as 2 and 3" in first.error) == ("given up", True)
        assert not any("given up" in reason for reason in node.reasons(names[0]))
        node.result(names[0], 0)
        assert _told(_pass(node, receiver, 40)) == [f"recovery {names[0]}"]

    def test_what_it_says_of_one_task_stays_together(self) -> None:
        items = [item(name, problem=number) for number, name in enumerate("abcba")]
        assert [[(one.task, one.problem) for one in half] for half in halves(items)] == [
            [("a", 0), ("b", 1), ("b", 3), ("a", 4)],
            [("c", 2)],
        ]
        assert [len(half) for half in halves([item("a")] * 3)] == [2, 1]

    def test_one_item_that_is_too_large_is_given_up(self, node: AlertingNode) -> None:
        (name,) = self._storm(node, 1)
        _pass(node, lambda _: "too large", 5)
        assert node.reasons(name) == ["sent problem", "given up too large"]

    def test_a_node_that_ends_between_the_smaller_ones_loses_nothing(self, node: AlertingNode) -> None:
        names = self._storm(node, 300)
        whole = node.messages[0]

        class Ended(Exception):
            pass

        commit = node.engine._state.commit
        commits = count()

        async def commit_some() -> AlertRefusals:
            if next(commits) == 3:
                raise Ended
            return await commit()

        node.engine._state.commit = commit_some  # type: ignore[method-assign]
        with pytest.raises(Ended):
            _answer(node, lambda _: "too large")
        node.engine._state.commit = commit  # type: ignore[method-assign]
        node.sender.under_way.clear()
        node.engine.deliveries.remove(next(iter(node.engine.deliveries)))
        node.engine.begin_anew()

        def receiver(document: MessageDocument) -> str:
            return "too large" if len(document.items) == len(whole.items) else ""

        told = _told(_pass(node, receiver, 60))
        assert sorted(told) == [f"problem {name}" for name in names]
