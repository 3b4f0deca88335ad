"""Routes: whom a task notifies, and through which channels; how a contact wants to be notified, and when.

With what a store knows of a problem and its alerts, this is what decisions of `core.alerts` rest on: the engine of a
node makes them, and reports make them again to say what comes next.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from evenbeat.admin.contacts import UsableContact
from evenbeat.core.alerts import HOLD_OF_WORD, Alert, Hold, Policy, ProblemFacts
from evenbeat.core.channels import Channel
from evenbeat.model import DEFAULT_GATHER, SEVERITY, Contact, Instant, NotifyContact, State, Task
from evenbeat.store.alert_records import AlertProblem, AlertRecord
from evenbeat.when.period import CompiledPeriod
from evenbeat.when.windows import FOREVER


class Route(NamedTuple):
    """What a task says of notifications. Many tasks say the same."""

    notify: tuple[NotifyContact, ...] = ()
    repeat: int = 0
    """How often it reminds; 0 for never."""
    gather: int = DEFAULT_GATHER

    def wish_for(self, contact: str) -> NotifyContact | None:
        """What it says of this contact: of several delays, the shortest."""
        return min((wish for wish in self.notify if wish.to == contact), key=lambda wish: wish.after, default=None)


NO_ROUTE: Final = Route()
"""Of a task that is gone."""


def route_of(task: Task) -> Route:
    """What this task says."""
    return Route(task.notify, task.repeat or 0, DEFAULT_GATHER if task.gather is None else task.gather)


class ContactBook:
    """The contacts as they are defined now, and their channels."""

    def __init__(self, find_period: Callable[[str], CompiledPeriod | None]) -> None:
        self._find_period = find_period
        self.contacts: Mapping[str, UsableContact] = {}
        self._by_key: dict[str, Channel] = {}
        self._severities: dict[str, frozenset[int]] = {}

    def define(self, contacts: Mapping[str, UsableContact]) -> None:
        """These are all contacts there are."""
        self.contacts = contacts
        self._by_key = {channel.key: channel for usable in contacts.values() for channel in usable.channels}
        self._severities = {name: _severities_of(usable.contact) for name, usable in contacts.items()}

    def channel(self, key: str) -> Channel | None:
        """The channel with this key; None if its contact is gone, or has another place now."""
        return self._by_key.get(key)

    def channels(self) -> Iterable[Channel]:
        """All channels there are."""
        return self._by_key.values()

    def channels_of(self, route: Route) -> Iterable[Channel]:
        """The channels of the contacts that a route names."""
        names = {wish.to for wish in route.notify} & self.contacts.keys()
        return (channel for name in names for channel in self.contacts[name].channels)

    def policy(self, route: Route, channel: Channel, now: Instant) -> Policy:
        """How a task with this route wants this channel to be used."""
        wish = route.wish_for(channel.contact)
        return Policy(
            gather=route.gather,
            is_wanted=wish is not None,
            after=0 if wish is None else wish.after,
            repeat=route.repeat,
            severities=self._severities[channel.contact],
            opens_at=self.opens_at(channel.contact, now),
        )

    def opens_at(self, contact: str, now: Instant) -> int:
        """When the period of the contact opens: now if it is open, FOREVER if it never does."""
        name = self.contacts[contact].contact.period
        period = None if name is None else self._find_period(name)
        if period is None or period.contains(now):
            return now
        opens = period.next_open(now)
        return FOREVER if opens is None else opens


def _severities_of(contact: Contact) -> frozenset[int]:
    return frozenset(SEVERITY[State[state.name]] for state in contact.states)


def alert_of(record: AlertRecord) -> Alert:
    """What a row of the store says that a channel knows."""
    return Alert(*(getattr(record, name) for name in Alert._fields))


def facts_of(problem: AlertProblem) -> ProblemFacts:
    """What decisions depend on, of a problem as the store has it."""
    return ProblemFacts(
        opened=problem.opened,
        is_open=problem.closed is None,
        severity=problem.severity,
        state=State(problem.state),
        flapping=problem.flapping,
        reason=problem.reason,
        hold=HOLD_OF_WORD.get(problem.hold, Hold.NONE),
        ack=problem.acknowledgement,
    )
