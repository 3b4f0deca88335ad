"""A node driven by hand that notifies contacts: its engine goes round when the test says so."""

from collections.abc import Iterator
from typing import Any

import msgspec
from hand_driven_node import HandDrivenNode

from evenbeat.admin.contact_changes import change_contacts
from evenbeat.admin.contacts import CONTACTS_PREFIX, contacts_with_owners
from evenbeat.admin.problem_actions import perform_problem_request
from evenbeat.model import SECOND, Contact, Outcome
from evenbeat.node.alerts.notification_engine import AlertEngine
from evenbeat.store.alert_records import AlertDecision, AlertDecisionFilter
from evenbeat.store.contract import Filter
from evenbeat.wire.requests import AcknowledgeProblems, SetContact
from evenbeat.wire.sender_documents import MessageDocument, MessageItem, message_decoder

WEBHOOK = "http://localhost:1/hook"


class AlertingNode(HandDrivenNode):
    """Tasks fail and recover when the test says so, and time passes as it says."""

    def contact(self, name: str, **keys: Any) -> None:
        """Define a contact, by default one with a webhook."""
        if not keys.keys() & {"send", "webhook", "command", "email"}:
            keys["webhook"] = WEBHOOK
        change_contacts(self.admin, SetContact(name, msgspec.convert(keys, Contact), "ana"))
        self.node.apply_changes()

    def no_contact(self, name: str) -> None:
        """Remove a contact, be it named by a task: news of contacts and of tasks may come one after the other."""
        kept = {key: contact for key, (_, contact) in contacts_with_owners(self.store).items() if key != name}
        self.store.set_settings({f"{CONTACTS_PREFIX}api": msgspec.json.encode(kept).decode()})
        self.engine.news.has_settings = True

    @property
    def engine(self) -> AlertEngine:
        return self.node.alerts.engine

    # Tasks

    def check(self, name: str, *notify: Any, **keys: Any) -> None:
        """A check that is HARD at once."""
        self.add(name, check=True, attempts=1, notify=list(notify), **keys)

    def redefine(self, name: str, *notify: Any, new_name: str | None = None) -> None:
        """The check gets another definition."""
        keys = {"command": ["true"], "every": "1m", "phase": "0s", "attempts": 1, "notify": list(notify)}
        self.set(name, new_name=new_name, **keys)

    def result(self, name: str, state: int, output: str = "") -> None:
        """The check runs a second later, with this result."""
        self.force(name)
        self.turn(SECOND)
        outcome = Outcome.SUCCEEDED if state == 0 else Outcome.FAILED
        self.end(name, outcome, state, output=output.encode())
        self.turn()
        self.notify()

    def acknowledge(self, name: str, comment: str = "") -> None:
        """Somebody acknowledges the problems of a task."""
        reply = perform_problem_request(self.admin, AcknowledgeProblems(Filter(names=(name,)), "ana", comment=comment))
        assert reply.problems is not None
        self.engine.news.problems_changed(reply.problems.ids)

    # Time

    def notify(self, after: float = 0) -> None:
        """Time passes; then the engine goes round until nothing is left to do at once."""
        self.now += round(after * SECOND)
        self.turns.settle_holds(self.clock.now())
        for _ in range(10):
            self.loop.run_until_complete(self.engine.step())
            if not self.engine.has_news and self.engine.next_due() > self.now:
                return
        raise AssertionError("the engine does not come to rest")

    def deliver(self, *, is_delivered: bool = True, error: str = "", may_have_arrived: bool = False) -> None:
        """What is being delivered ends now, and the engine learns it."""
        self.sender.end_all(is_delivered=is_delivered, error=error, may_have_arrived=may_have_arrived)
        self.notify()

    def pass_by(self, seconds: float, step: float = 10) -> None:
        """Time passes in steps; every delivery succeeds."""
        while seconds > 0:
            self.notify(min(step, seconds))
            self.deliver()
            seconds -= step

    # What contacts got

    @property
    def messages(self) -> list[MessageDocument]:
        """What the sender was ordered to deliver."""
        return [message_decoder.decode(order.document) for order in self.sender.orders]

    def items(self, contact: str | None = None) -> Iterator[MessageItem]:
        return (item for m in self.messages if contact in (None, m.contact) for item in m.items)

    def told(self, contact: str | None = None) -> list[str]:
        """Kind and task of each item, in the order in which they left."""
        return [f"{'reminder' if item.reminder else item.kind} {item.task}" for item in self.items(contact)]

    def decisions(self, name: str) -> list[AlertDecision]:
        """What was decided about the problems of a task, oldest first."""
        found = self.store.alert_decisions(AlertDecisionFilter(task=name))
        return [numbered.decision for numbered in reversed(found)]

    def reasons(self, name: str) -> list[str]:
        return [f"{d.decision} {d.reason or d.item}" for d in self.decisions(name)]
