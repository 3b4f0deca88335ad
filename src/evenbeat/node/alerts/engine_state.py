"""What the parts of the engine share: what is known, what is to be committed, and the pace of the work."""

from collections.abc import Callable
from typing import Final

from evenbeat.admin.alert_routes import ContactBook
from evenbeat.core.alerts import Alert
from evenbeat.core.partition_ownership import partition_of_contact
from evenbeat.node.alerts.counters import AlertCounters
from evenbeat.node.alerts.decision_writer import AlertWriter
from evenbeat.node.alerts.messages_under_way import Deliveries
from evenbeat.node.alerts.node_services import NodeServices
from evenbeat.node.alerts.problem_changes import AlertNews
from evenbeat.node.alerts.problems_to_notify import Case, Cases, ChannelAlert
from evenbeat.node.alerts.work_in_slices import Slices
from evenbeat.store.alert_records import AlertRefusals
from evenbeat.store.contract import Store

SomeContacts = Callable[[str], bool]
"""Is it one of these contacts?"""
_RECORDS_AT_ONCE: Final = 500
"""Rows that are committed at once: more of them would make the batches of turns wait."""


class AlertState:
    """Of one engine."""

    def __init__(self, store: Store, node: NodeServices) -> None:
        self.store = store
        self.now = node.now
        self.contacts = ContactBook(node.find_period)
        self.news = AlertNews(store)
        self.cases = Cases()
        self.deliveries = Deliveries()
        self.writer = AlertWriter(store)
        self.counts = AlertCounters()
        self.slices = Slices()
        self.held: frozenset[int] = frozenset()
        """The partitions whose contacts this node tells, as of the last look."""
        self.leaves: SomeContacts = leaves_none
        """Contacts that other nodes are about to tell: nothing more is sent to them from here."""

    def tells(self, contact: str) -> bool:
        """Does this node, among all, tell this contact? If the contact is gone, the node that would."""
        return partition_of_contact(contact) in self.held

    def keep(self, case: Case, key: str, contact: str, alert: Alert) -> None:
        """A channel knows this of a case from now on, which is to be committed."""
        known = case.find(key) or ChannelAlert(key, contact, 0, alert)
        self.cases.set_alert(case, self.writer.put_alert(case, known._replace(alert=alert)))

    async def commit_if_many(self) -> None:
        """Commit what was decided if it has become much."""
        if self.writer.size >= _RECORDS_AT_ONCE:
            await self.commit()

    async def commit(self) -> AlertRefusals:
        """Commit what was decided; what the store knows otherwise is read and decided again."""
        refused = await self.writer.commit()
        for problem, _ in refused.alerts:
            case = self.cases.get(problem)
            if case is not None:
                case.is_doubtful = True
        if refused.alerts:
            self.news.problems_changed({problem for problem, _ in refused.alerts})
        return refused


def leaves_none(contact: str) -> bool:  # noqa: ARG001 - the answer for any contact
    """No contact is handed over."""
    return False
