"""A small world of one problem and one channel of a contact, on the production code of `core.alerts`.

Timers are due or not: what was noted before a step is either RECENT, so that nothing is due, or LONG_AGO, so that
everything is. Beside what the channel is believed to know, the world keeps what really happened.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from evenbeat.core import alerts
from evenbeat.core.alerts import Alert, Decision, Hold, ItemKind, NotSent, Policy, ProblemFacts
from evenbeat.model import Acknowledgement, Instant, State
from evenbeat.when.windows import FOREVER

NOW: Final = 100_000
GATHER: Final = 30
_RECENT: Final = NOW - 1
_LONG_AGO: Final = NOW - 3_000
_OPENED: Final = NOW - 600
_DELAY: Final = 500
_LONG_DELAY: Final = 700
"""Has the delay since the opening passed? One of these is the delay: a time in between, or RECENT, is not long ago."""
_REPEAT: Final = 500
_SET_BACK: Final = 50_000
WARNING: Final = 1
CRITICAL: Final = 3
"""Severities."""
_STATES: Final = {WARNING: State.WARNING, CRITICAL: State.CRITICAL}
PEOPLE_HOLD: Final = (Hold.DOWNTIME, Hold.UNREACHABLE, Hold.PAUSED, Hold.OUTSIDE_PERIOD)
_COUNT_ANEW: Final = (NotSent.DOWNTIME, NotSent.UNREACHABLE, NotSent.ACKNOWLEDGED)
_DROP_REMINDERS: Final = (
    *_COUNT_ANEW,
    NotSent.PAUSED,
    NotSent.OUTSIDE_PERIOD,
    NotSent.OUTSIDE_CONTACT_PERIOD,
    NotSent.STATE_NOT_SELECTED,
)


class AlertRules(NamedTuple):
    """What is explored: the functions of `core.alerts`, or mutants of them."""

    decide: Callable[..., Decision] = alerts.decide
    start: Callable[[Alert, ProblemFacts, int, int], Alert] = alerts.start
    end: Callable[..., Alert] = alerts.end
    is_unfinished: Callable[..., bool] = alerts.is_unfinished


ALERT_RULES: Final = AlertRules()


class AlertShape(NamedTuple):
    """What can happen in a world."""

    name: str
    holds: tuple[Hold, ...] = (Hold.NONE,)
    acknowledgements: tuple[str, ...] = ()
    """plain, sticky, ending"""
    switches: tuple[str, ...] = ()
    """Of the contact and of `notify`, see `WorldContact`."""
    has_delay: bool = False
    repeats: bool = True
    """In the beginning."""
    returns: bool = False
    """The task is removed, and comes back with its problem."""
    set_back: bool = False
    """The clock is set back."""


class WorldAck(NamedTuple):
    """An acknowledgement."""

    how: str
    severity: int
    """Of the problem when it was acknowledged."""
    worst_since: int


class WorldContact(NamedTuple):
    """Whether, and for what, the contact can be reached."""

    is_there: bool = True
    """The contact exists."""
    is_wanted: bool = True
    """It is in `notify`."""
    is_open: bool = True
    """Its period."""
    is_picky: bool = False
    """It wants CRITICAL problems only."""
    repeats: bool = True


class ChannelState(NamedTuple):
    """A problem, a channel, and what the channel was sent."""

    alert: Alert = Alert()
    problem: str = ""
    """open, closed, removed"""
    severity: int = 0
    worst: int = 0
    hold: Hold = Hold.NONE
    ack: WorldAck | None = None
    is_old: bool = False
    """The problem opened longer ago than any delay."""
    message: str = ""
    """The ItemKind in the message under way."""
    knows: bool = False
    """The channel received the problem, and no recovery since."""
    last: int = 0
    """The severity that was sent last."""
    is_delayed: bool = True
    """The delay has not passed since the opening, or since what counts anew has ended."""
    is_rested: bool = False
    """Time for a reminder has passed since the problem was sent, or since reminders were possible again."""
    reason: str = ""
    """The one that was recorded for what should be sent now."""
    knows_ack: bool = False
    """The channel was sent the acknowledgement, or it could not be sent when it could be first."""
    contact: WorldContact = WorldContact()

    def __str__(self) -> str:
        words = [self.problem or "no problem", str(self.alert), f"hold {self.hold.word or 'none'}", f"ack {self.ack}"]
        words += [
            str(self.contact),
            f"message {self.message or 'none'}",
            f"knows: {self.knows}",
            f"last sent: {self.last}",
        ]
        return ", ".join(words)


class AlertStep(NamedTuple):
    """What an event did."""

    before: ChannelState
    """With the event, and before the decision."""
    event: str
    after: ChannelState
    """As of NOW: `settled` makes it the beginning of another step."""
    note: str
    decision: Decision
    now: int = NOW
    started: str = ""
    """The ItemKind that left."""
    was_reminder: bool = False
    origin: ChannelState = ChannelState()
    """Before the event."""


def initial_channel_state(shape: AlertShape) -> ChannelState:
    """No problem."""
    return ChannelState(contact=WorldContact(repeats=shape.repeats))


def facts_of(state: ChannelState) -> ProblemFacts:
    """What is known of the problem."""
    ack = state.ack
    known = ack and Acknowledgement(
        Instant(NOW - 5),
        "ann",
        until=Instant(NOW + 10) if ack.how == "ending" else None,
        sticky=ack.how == "sticky",
        severity=ack.severity,
        worst_since=ack.worst_since,
    )
    is_open = state.problem == "open"
    shown = _STATES.get(state.severity, State.OK)
    return ProblemFacts(_OPENED, is_open, state.severity, shown, hold=state.hold, ack=known)


def policy_of(shape: AlertShape, state: ChannelState) -> Policy | None:
    """How the task wants the contact to be told, if the contact exists."""
    if not state.contact.is_there:
        return None
    delay = (_DELAY if state.is_old else _LONG_DELAY) if shape.has_delay else 0
    return Policy(
        GATHER,
        state.contact.is_wanted,
        delay,
        _REPEAT if state.contact.repeats else 0,
        frozenset((CRITICAL,)) if state.contact.is_picky else frozenset(),
        0 if state.contact.is_open else NOW + 1_000,
    )


class AlertWorld:
    """A world that can be put into any state. What an event does from there is one step."""

    def __init__(self, shape: AlertShape, rules: AlertRules = ALERT_RULES) -> None:
        self.shape = shape
        self.rules = rules
        self.drained: set[ChannelState] = set()
        """States without anything that keeps messages, for `alert_explore.nothing_is_lost`."""

    def steps(self, state: ChannelState) -> Iterator[AlertStep]:
        """Everything that can happen next, and what it does."""
        return (step._replace(origin=state) for step in self._steps(state))

    def _steps(self, state: ChannelState) -> Iterator[AlertStep]:
        for event, changed in self._changes(state):
            yield self.decided(event, _counted(self.shape, state, changed))
        if self.shape.set_back and state.problem == "open":
            yield self.decided(
                "the clock is set back", state._replace(is_delayed=True, is_rested=False), NOW - _SET_BACK
            )
        if state.alert.is_leaving and not state.message:
            yield self._leave(state)
        if state.message:
            yield self._end(state, is_delivered=True)
            yield self._end(state, is_delivered=False)

    def again(self, step: AlertStep, now: int) -> Decision:
        """The decision after a step, made once more, then or later."""
        return self.rules.decide(step.after.alert, facts_of(step.after), policy_of(self.shape, step.after), now)

    def _changes(self, state: ChannelState) -> Iterator[tuple[str, ChannelState]]:
        yield from self._changes_of_problem(state)
        is_open = state.problem == "open"
        for hold in self.shape.holds if is_open else ():
            if hold != state.hold:
                yield f"hold: {hold.word or 'none'}", state._replace(hold=hold)
        if is_open:
            for how in self.shape.acknowledgements:
                ack = WorldAck(how, state.severity, state.severity)
                told = state.alert._replace(told_ack=0)
                yield f"acknowledged, {how}", state._replace(ack=ack, alert=told, knows_ack=False)
            if state.ack is not None:
                yield "the acknowledgement ends", state._replace(ack=None, knows_ack=False)
        if is_open and not _is_all_old(state):
            alert = state.alert
            since = alert.counts_from and _LONG_AGO
            passed = alert._replace(last_sent=alert.last_sent and _LONG_AGO, counts_from=since)
            yield "time passes", state._replace(alert=passed, is_old=True, is_delayed=False, is_rested=True)
        for name in self.shape.switches:
            yield f"{name}: {not getattr(state.contact, name)}", self._switched(state, name)

    def _switched(self, state: ChannelState, name: str) -> ChannelState:
        switched = (
            is_on is not (some == name) for some, is_on in zip(WorldContact._fields, state.contact, strict=True)
        )
        state = state._replace(contact=WorldContact(*switched))
        if not state.contact.is_there and state.message:
            # The messages of a contact that is removed are given up.
            knows = state.knows and state.message != ItemKind.RECOVERY
            alert = self.rules.end(state.alert, 1, is_delivered=False)
            state = state._replace(alert=alert, message="", knows=knows)
        return state

    def _changes_of_problem(self, state: ChannelState) -> Iterator[tuple[str, ChannelState]]:
        if not state.problem:
            for severity in (WARNING, CRITICAL):
                opened = state._replace(problem="open", severity=severity, worst=severity)
                yield f"it opens: {_STATES[severity].name}", opened
        elif state.problem == "open":
            for severity in (WARNING, CRITICAL):
                if severity != state.severity:
                    yield f"a result: {_STATES[severity].name}", _became(state, severity)
            if state.severity != state.worst:
                yield "a result: OK, and it flaps", _became(state, state.worst)
            closed = state._replace(problem="closed", hold=Hold.NONE, ack=None)
            yield "it closes", closed
            if self.shape.returns:
                yield "its task is removed", state._replace(problem="removed")
        elif state.problem == "removed":
            yield "its task comes back", state._replace(problem="open", last=0 if state.alert.is_over else state.last)

    def decided(self, event: str, state: ChannelState, now: int = NOW) -> AlertStep:
        found = self.rules.decide(state.alert, facts_of(state), policy_of(self.shape, state), now)
        return AlertStep(state, event, self._after(state, found.alert, found.note), found.note, found, now)

    def _leave(self, state: ChannelState) -> AlertStep:
        """The gather of the item has ended: it leaves, if it still does."""
        event = "it leaves"
        state = state._replace(alert=state.alert._replace(leaves_at=NOW))
        found = self.rules.decide(state.alert, facts_of(state), policy_of(self.shape, state), NOW)
        if not found.alert.is_leaving:
            return AlertStep(state, event, self._after(state, found.alert, found.note), found.note, found)
        kind = found.alert.waiting
        alert = self.rules.start(found.alert, facts_of(state), 1, NOW)
        after = state._replace(message=kind)
        if kind == ItemKind.PROBLEM:
            after = after._replace(last=state.severity, is_rested=False)
        elif kind == ItemKind.ACKNOWLEDGED:
            after = after._replace(knows_ack=True)
        then = found._replace(alert=alert, again_at=FOREVER)
        left = self._after(after, alert, found.note)
        return AlertStep(state, event, left, found.note, then, NOW, kind, found.alert.is_reminder)

    def _end(self, state: ChannelState, *, is_delivered: bool) -> AlertStep:
        alert = self.rules.end(state.alert, 1, is_delivered=is_delivered)
        # A recovery that is given up ends it too: that is the guarantee.
        knows = state.message != ItemKind.RECOVERY and (is_delivered or state.knows)
        ended = state._replace(alert=alert, message="", knows=knows)
        return self.decided("delivered" if is_delivered else "given up", ended)

    def _after(self, state: ChannelState, alert: Alert, note: str) -> ChannelState:
        """The state after a decision that was recorded."""
        is_given_up = alert.is_over and not state.contact.is_there
        after = state._replace(alert=alert, reason=note or state.reason, knows=state.knows and not is_given_up)
        is_wanted = state.contact.is_there and state.contact.is_wanted
        if state.problem == "open" and not (is_wanted or after.knows or after.message):
            after = after._replace(last=0)  # added later, it gets what is still open
        if owes_acknowledgement(after) and why_no_acknowledgement(after):
            after = after._replace(knows_ack=True)
        keeps = owed(self.shape, after) and not alert.is_leaving
        return after if keeps else after._replace(reason="")


def owed(shape: AlertShape, state: ChannelState) -> str:
    """What the channel should be told of the problem now, if nothing kept it: first, worse, reminder, recovery."""
    if state.message or not state.problem:
        return ""
    if state.problem != "open":
        return "recovery" if state.knows else ""
    if not state.last:
        return "" if shape.has_delay and state.is_delayed else "first"
    if state.severity > state.last:
        return "worse"
    return "reminder" if state.contact.repeats and state.is_rested else ""


def owes_acknowledgement(state: ChannelState) -> bool:
    """Should the channel be told that somebody takes care of a problem that it knows?"""
    is_wanted = state.contact.is_there and state.contact.is_wanted
    told = state.knows_ack or bool(state.message)
    return state.problem == "open" and state.knows and is_acknowledged(state) and is_wanted and not told


def why_no_acknowledgement(state: ChannelState) -> str:
    """Why the channel is never told of an acknowledgement that it should be told of now."""
    if state.hold in PEOPLE_HOLD:
        return state.hold.word
    return "" if state.contact.is_open else NotSent.OUTSIDE_CONTACT_PERIOD


def why_not(state: ChannelState) -> str:
    """Why the problem is not sent now, by the words of the contract; "" if nothing keeps it."""
    return next((why for why, holds in _REASONS if holds(state)), "")


def is_acknowledged(state: ChannelState) -> bool:
    """Does the acknowledgement count?"""
    return state.ack is not None and (state.ack.how == "sticky" or state.ack.worst_since <= state.ack.severity)


_REASONS: Final[tuple[tuple[str, Callable[[ChannelState], bool]], ...]] = (
    (NotSent.DOWNTIME, lambda state: state.hold is Hold.DOWNTIME),
    (NotSent.UNREACHABLE, lambda state: state.hold is Hold.UNREACHABLE),
    (NotSent.ACKNOWLEDGED, is_acknowledged),
    (NotSent.PAUSED, lambda state: state.hold is Hold.PAUSED),
    (NotSent.OUTSIDE_PERIOD, lambda state: state.hold is Hold.OUTSIDE_PERIOD),
    (NotSent.AWAITING_RESULT, lambda state: state.hold is Hold.AWAITING_RESULT),
    (NotSent.CHECKING_PARENTS, lambda state: state.hold is Hold.CHECKING_PARENTS),
    (NotSent.CONTACT_REMOVED, lambda state: not state.contact.is_there),
    (NotSent.NOT_NOTIFIED, lambda state: not state.contact.is_wanted),
    (NotSent.STATE_NOT_SELECTED, lambda state: state.contact.is_picky and state.severity != CRITICAL),
    (NotSent.OUTSIDE_CONTACT_PERIOD, lambda state: not state.contact.is_open),
)


def _counted(shape: AlertShape, before: ChannelState, state: ChannelState) -> ChannelState:
    """With the time that delays and reminders count from, after an event."""
    was = why_not(before)
    if state.problem != "open" or before.problem != "open" or was == why_not(state):
        return state
    if was in _COUNT_ANEW:
        return state._replace(is_rested=False, is_delayed=True)
    concerned = all(one.contact.is_there and one.contact.is_wanted for one in (before, state))
    is_missed = concerned and was in _DROP_REMINDERS and owed(shape, before) == "reminder"
    return state._replace(is_rested=state.is_rested and not is_missed)


def _became(state: ChannelState, severity: int) -> ChannelState:
    ack = state.ack
    if ack is not None and severity > ack.worst_since:
        ack = ack._replace(worst_since=severity)
    return state._replace(severity=severity, worst=max(severity, state.worst), ack=ack)


def _is_all_old(state: ChannelState) -> bool:
    times = state.alert.last_sent, state.alert.counts_from
    return state.is_rested and state.is_old and not state.is_delayed and _RECENT not in times


def settled(step: AlertStep) -> ChannelState:
    """The state after a step as of an earlier time. A problem that is closed for good is forgotten when nothing is left
    to send.
    """
    state, alert = step.after, step.after.alert
    if state.problem == "closed" and alert.is_over and not state.message:
        return ChannelState(contact=state.contact)
    aged = alert._replace(
        leaves_at=alert.leaves_at and NOW + GATHER,
        last_sent=_aged(alert.last_sent, step.now),
        counts_from=_aged(alert.counts_from, step.now),
    )
    return state._replace(alert=aged)


def _aged(t: int, now: int) -> int:
    return t and (_LONG_AGO if t <= now - _REPEAT else _RECENT)
