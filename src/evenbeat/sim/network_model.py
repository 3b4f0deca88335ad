"""A small network: two checks behind a parent, two contacts, and messages under way, on the production code.

What holds the problems of the checks is decided as in `hold_model`, and then what each contact is told of each. Things
can be late: a message is under way for any time, and the second contact is told after a delay.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

from evenbeat.core.alerts import Alert, Hold, ItemKind, Policy, ProblemFacts
from evenbeat.core.problem_holds import Holds
from evenbeat.model import Acknowledgement, Instant, State
from evenbeat.sim.alert_model import ALERT_RULES, AlertRules
from evenbeat.sim.hold_model import RESTART, HeldCheck, HoldShape, HoldState, HoldWorld, initial_hold_state
from evenbeat.sim.hold_model import settled as settled_holds

_NOW: Final = 100_000
_RECENT: Final = _NOW - 1
_LONG_AGO: Final = _NOW - 3_000
_OPENED: Final = _NOW - 600
_GATHER: Final = 30
_CRITICAL: Final = 3
_Thing = TypeVar("_Thing")
CUT: Final = "a message is cut by the end of the node"
CONTACTS: Final = ("ops", "boss")
"""The second one is told after a delay."""


class NetworkShape(NamedTuple):
    """What can happen in a network."""

    name: str
    checks: int = 2
    downtimes: bool = False
    acknowledges: bool = False
    leaves: bool = False
    """A contact is removed, and comes back."""
    closes: bool = False
    """The period of a contact closes, and opens."""
    flaps: bool = False
    gives_up: bool = False
    cuts: bool = False
    """The node ends before it has recorded all parts of a message: it is delivered with the first item alone."""
    is_calm: bool = False
    """The node does not restart, the parent is never SOFT, and no time passes while something is checked."""


class Told(NamedTuple):
    """What a contact knows of a problem: as it is recorded, and what it really received."""

    alert: Alert = Alert()
    knows: bool = False
    is_old: bool = False
    """The delay has passed since the problem opened."""


class Contact(NamedTuple):
    """A contact with one channel."""

    told: tuple[Told, ...]
    """Of each check."""
    messages: tuple[tuple[tuple[int, str], ...], ...] = ()
    """Those under way, the oldest first: the checks and ItemKinds in them."""
    is_there: bool = True
    is_open: bool = True


class NetworkState(NamedTuple):
    """Checks, the first of which is the parent, and contacts."""

    checks: HoldState
    was_open: tuple[bool, ...]
    """Of each check but the parent: had it a problem when it was decided last?"""
    acks: tuple[bool, ...]
    contacts: tuple[Contact, ...]

    def __str__(self) -> str:
        checks = "; ".join(map(str, self.checks))
        return f"{checks}; acknowledged: {self.acks}; " + "; ".join(map(str, self.contacts))


class NetworkStep(NamedTuple):
    """What an event did."""

    before: NetworkState
    event: str
    after: NetworkState
    started: tuple[tuple[str, int, str], ...] = ()
    """Contact, check and ItemKind of what left."""


def initial_network_state(shape: NetworkShape) -> NetworkState:
    """Everything is fine, and nobody knows of anything."""
    checks = initial_hold_state(HoldShape("", shape.checks))
    nothing = (False,) * shape.checks
    return NetworkState(checks, nothing, nothing, (Contact((Told(),) * shape.checks),) * len(CONTACTS))


class NetworkWorld:
    """A world that can be put into any state. What an event does from there is one step."""

    def __init__(self, shape: NetworkShape, rules: AlertRules = ALERT_RULES, kind: type[Holds] = Holds) -> None:
        self.shape = shape
        self._rules = rules
        switches = ("in_downtime",) if shape.downtimes else ()
        held = HoldShape(shape.name, shape.checks, runs=False, switches=switches, flaps=shape.flaps)
        self._holds = HoldWorld(held, kind)
        self._known_steps: dict[HoldState, list[tuple[str, HoldState]]] = {}
        self.drained: set[NetworkState] = set()
        """States without anything that keeps messages, for `network_explore.nothing_is_lost`."""

    def steps(self, state: NetworkState) -> Iterator[NetworkStep]:
        """Everything that can happen next, and what it does."""
        for event, checks in self._steps_of_checks(state.checks):
            if not _opens_too_soon(state, checks):  # another problem of the same check has alerts of its own
                yield NetworkStep(state, event, self._decided(_learn(state, checks)))
        for i in range(self.shape.checks):
            if self.shape.acknowledges and state.checks[i + 1].is_open:
                acks = _with(state.acks, i, not state.acks[i])
                contacts = tuple(_not_told(contact, i) for contact in state.contacts)
                after = self._decided(state._replace(acks=acks, contacts=contacts))
                yield NetworkStep(state, f"check {i + 1}: acknowledged {acks[i]}", after)
        for n, contact in enumerate(state.contacts):
            yield from self._steps_of(state, n, contact)

    def quiet_steps(self, state: NetworkState) -> Iterator[NetworkStep]:
        """What time and deliveries that succeed lead to, when nothing else happens."""
        decided = self._decided(state)
        for n, contact in enumerate(decided.contacts):
            if contact.messages:
                yield self._end(decided, n, is_delivered=True)
            elif any(told.alert.is_leaving for told in contact.told):
                yield self._leave(decided, n)
            elif any(_is_young(told) and decided.checks[i + 1].is_open for i, told in enumerate(contact.told)):
                older = contact._replace(told=tuple(map(_older, contact.told)))
                yield self._changed(decided, n, older, "the delay passes")

    def _steps_of(self, state: NetworkState, n: int, contact: Contact) -> Iterator[NetworkStep]:
        name = CONTACTS[n]
        leaving = sum(told.alert.is_leaving for told in contact.told)
        if leaving:
            yield self._leave(state, n)
        if leaving > 1 and self.shape.cuts:
            yield self._leave(state, n, most=1)
        if contact.messages:
            yield self._end(state, n, is_delivered=True)
            if self.shape.gives_up:
                yield self._end(state, n, is_delivered=False)
        if n and any(_is_young(told) and state.checks[i + 1].is_open for i, told in enumerate(contact.told)):
            older = contact._replace(told=tuple(map(_older, contact.told)))
            yield self._changed(state, n, older, f"{name}: the delay passes")
        if self.shape.closes and not n:
            yield self._changed(
                state, n, contact._replace(is_open=not contact.is_open), f"{name}: open {not contact.is_open}"
            )
        if self.shape.leaves and not n:
            gone = contact
            for _ in contact.messages if contact.is_there else ():
                gone = self._ended(gone, is_delivered=False)
            there = gone._replace(is_there=not contact.is_there)
            yield self._changed(state, n, there, f"{name}: there {there.is_there}")

    def _changed(self, state: NetworkState, n: int, contact: Contact, event: str) -> NetworkStep:
        return NetworkStep(state, event, self._decided(state._replace(contacts=_with(state.contacts, n, contact))))

    def _steps_of_checks(self, checks: HoldState) -> list[tuple[str, HoldState]]:
        """What can happen to the checks, and what the node holds then: the same whatever the contacts know."""
        left_out = (*_LEFT_OUT, *_NOT_CALM) if self.shape.is_calm else _LEFT_OUT
        if checks not in self._known_steps:
            self._known_steps[checks] = [
                (step.event, settled_holds(step))
                for step in self._holds.steps(checks)
                if not step.reopened and not any(word in step.event for word in left_out)
            ]
        return self._known_steps[checks]

    def _decided(self, state: NetworkState) -> NetworkState:
        contacts = tuple(self._decided_for(state, n, contact) for n, contact in enumerate(state.contacts))
        return state._replace(contacts=contacts, was_open=tuple(check.is_open for check in state.checks[1:]))

    def _decided_for(self, state: NetworkState, n: int, contact: Contact) -> Contact:
        told = []
        for i, known in enumerate(contact.told):
            if not state.checks[i + 1].is_open and not state.was_open[i] and known == Told():
                told.append(known)  # there is no problem
                continue
            alert = self._rules.decide(known.alert, facts_of(state, i), _policy(n, contact, known), _NOW).alert
            is_over = alert.is_over and not alert.message
            told.append(Told() if is_over else known._replace(alert=_aged(alert, has_delay=n > 0)))
            if is_over and known.knows and contact.is_there:
                told[-1] = known._replace(alert=alert)  # nobody will tell it: `balanced` finds that
        return contact._replace(told=tuple(told))

    def _leave(self, state: NetworkState, n: int, most: int | None = None) -> NetworkStep:
        """The gather of the first item has ended: all that waits for the contact becomes one message."""
        state = self._decided(state)
        contact = state.contacts[n]
        items: list[tuple[int, str]] = []
        number = len(contact.messages) + 1
        for i, known in enumerate(contact.told):
            if known.alert.is_leaving and len(items) != most:
                items.append((i, str(known.alert.waiting)))
                alert = self._rules.start(known.alert, facts_of(state, i), number, _NOW)
                known = known._replace(alert=_aged(alert, has_delay=n > 0))  # noqa: PLW2901
                contact = contact._replace(told=_with(contact.told, i, known))
        contact = contact._replace(messages=(*contact.messages, tuple(items)))
        after = self._decided(state._replace(contacts=_with(state.contacts, n, contact)))
        started = tuple((CONTACTS[n], i, kind) for i, kind in items)
        event = f"{CONTACTS[n]}: {'a message leaves' if most is None else CUT}"
        return NetworkStep(state, event, after, started)

    def _end(self, state: NetworkState, n: int, *, is_delivered: bool) -> NetworkStep:
        contact = self._ended(state.contacts[n], is_delivered=is_delivered)
        event = f"{CONTACTS[n]}: {'delivered' if is_delivered else 'given up'}"
        return self._changed(state, n, contact, event)

    def _ended(self, contact: Contact, *, is_delivered: bool) -> Contact:
        """The oldest message of the contact has ended."""
        items, rest = dict(contact.messages[0]), contact.messages[1:]
        told = []
        for i, known in enumerate(contact.told):
            alert = known.alert
            knows = known.knows
            if i in items:
                knows = items[i] != ItemKind.RECOVERY and (knows or is_delivered)
            if alert.message == 1:
                alert = self._rules.end(alert, 1, is_delivered=is_delivered)
            elif alert.message:
                alert = alert._replace(message=alert.message - 1)
            told.append(known._replace(alert=alert, knows=knows))
        return contact._replace(told=tuple(told), messages=rest)


def _learn(state: NetworkState, checks: HoldState) -> NetworkState:
    """The node has looked at what holds problems. The acknowledgement of a problem that closes is over."""
    acks = tuple(ack and checks[i + 1].is_open for i, ack in enumerate(state.acks))
    return state._replace(checks=checks, acks=acks)


def _opens_too_soon(state: NetworkState, checks: HoldState) -> bool:
    """Does a check have another problem while a contact has something to hear of the last one?"""
    for i, check in enumerate(state.checks[1:]):
        opens = not check.is_open and checks[i + 1].is_open
        if opens and any(contact.told[i] != Told() for contact in state.contacts):
            return True
    return False


def _not_told(contact: Contact, i: int) -> Contact:
    """The contact before it hears of another acknowledgement of a problem."""
    known = contact.told[i]
    return contact._replace(told=_with(contact.told, i, known._replace(alert=known.alert._replace(told_ack=0))))


_LEFT_OUT: Final = ("the node stands still for a while", "ten seconds pass")
_NOT_CALM: Final = (RESTART, "SOFT", "five minutes pass", "the time for a result passes")


def facts_of(state: NetworkState, i: int) -> ProblemFacts:
    """What is known of the problem of a check, counted without the parent."""
    check: HeldCheck = state.checks[i + 1]
    ack = None
    if state.acks[i]:
        ack = Acknowledgement(Instant(_NOW - 5), "ann", severity=_CRITICAL, worst_since=_CRITICAL)
    return ProblemFacts(
        _OPENED, check.is_open, _CRITICAL, State.CRITICAL, check.flapping, hold=Hold(check.hold), ack=ack
    )


def _policy(n: int, contact: Contact, told: Told) -> Policy | None:
    if not contact.is_there:
        return None
    after = 0 if not n else 500 if told.is_old else 700
    return Policy(_GATHER, after=after, opens_at=0 if contact.is_open else _NOW + 1_000)


def _is_young(told: Told) -> bool:
    return not told.is_old or told.alert.counts_from == _RECENT


def _older(told: Told) -> Told:
    counts_from = told.alert.counts_from and _LONG_AGO
    return told._replace(is_old=True, alert=told.alert._replace(counts_from=counts_from))


def _aged(alert: Alert, *, has_delay: bool) -> Alert:
    """The alert as of an earlier time; times that nothing waits for are all the same."""
    counts_from = alert.counts_from if has_delay and not alert.sent else 0
    return alert._replace(
        leaves_at=alert.leaves_at and _NOW,
        last_sent=alert.last_sent and _LONG_AGO,
        counts_from=counts_from and (_LONG_AGO if counts_from <= _LONG_AGO else _RECENT),
        told_ack=alert.told_ack,
    )


def _with(values: tuple[_Thing, ...], i: int, value: _Thing) -> tuple[_Thing, ...]:
    return (*values[:i], value, *values[i + 1 :])
