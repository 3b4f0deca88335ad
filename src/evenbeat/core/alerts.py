"""Alerts: what one channel of a contact is told about one problem, and when. Pure, and needs no numpy.

Each decision compares what is with what was recorded. So it may be made at any time and as often as wanted, and a
restart, a failover or a reload needs nothing of its own:

    decide(alert, facts, policy, now)    what waits for the channel, what is suppressed and why, when to look again
    is_unfinished(alert, is_open=)       does the next problem of the task wait for the end of a message about this one?
    start(alert, facts, message, now)    the waiting item leaves in a message: its delivery counts as started
    end(alert, message, is_delivered=)   the delivery has ended

An item leaves when `leaves_at` has come, with all other items that wait for its channel. Decide each of them once more
just before, with the facts of that moment: a period may have closed meanwhile.
"""

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from evenbeat.core.acknowledgement import is_acknowledged
from evenbeat.model import Acknowledgement, Instant, State
from evenbeat.when.windows import FOREVER


class ItemKind(StrEnum):
    """What an item of a message says of a problem. Users read these words."""

    PROBLEM = "problem"
    RECOVERY = "recovery"
    ACKNOWLEDGED = "acknowledged"


class NotSent(StrEnum):
    """Why a channel is not told, or not yet. Users read these words."""

    DOWNTIME = "downtime"
    UNREACHABLE = "unreachable"
    PAUSED = "paused"
    OUTSIDE_PERIOD = "outside period"
    AWAITING_RESULT = "awaiting a fresh result"
    CHECKING_PARENTS = "checking parents"
    ACKNOWLEDGED = "acknowledged"
    CONTACT_REMOVED = "contact removed"
    NOT_NOTIFIED = "not in notify"
    STATE_NOT_SELECTED = "state not selected"
    OUTSIDE_CONTACT_PERIOD = "outside the contact's period"
    EARLIER_PROBLEM = "earlier problem first"
    OVER = "over before it was sent"
    GIVEN_UP = "given up"


WAITING_NOTES: Final = frozenset(
    (NotSent.AWAITING_RESULT, NotSent.CHECKING_PARENTS, NotSent.OUTSIDE_CONTACT_PERIOD, NotSent.EARLIER_PROBLEM),
)
"""What only delays; anything else that is noted suppresses."""


class Hold(IntEnum):
    """Why nobody is told of an open problem now: what holds on the side of its task. The first that is true counts."""

    NONE = 0
    DOWNTIME = 1
    UNREACHABLE = 2
    PAUSED = 3
    """By a person, or disabled."""
    OUTSIDE_PERIOD = 4
    """Of the task."""
    AWAITING_RESULT = 5
    """The state is known from before a downtime, unreachability, pause or stop of the node ended."""
    CHECKING_PARENTS = 6
    """The checks that the task depends on may be about to fail: then it is unreachable."""

    @property
    def word(self) -> str:
        """For people and stores; "" for none."""
        return _WORDS[self]


_WORDS: Final = (
    "",
    NotSent.DOWNTIME.value,
    NotSent.UNREACHABLE.value,
    NotSent.PAUSED.value,
    NotSent.OUTSIDE_PERIOD.value,
    NotSent.AWAITING_RESULT.value,
    NotSent.CHECKING_PARENTS.value,
)
HOLD_OF_WORD: Final = dict(zip(_WORDS, Hold, strict=True))
"""The other way round."""


class Alert(NamedTuple):
    """What one channel knows of one problem; the default knows nothing and need not be stored."""

    sent: int = 0
    """The severity that it was sent last, given up or not; 0 for none."""
    is_known: bool = False
    """A delivery of the problem succeeded: the channel is owed its recovery."""
    last_sent: int = 0
    """When delivery of the problem, or of a reminder, was started last; or when a reminder was due that was missed."""
    waiting: str = ""
    """The ItemKind that waits; "" for none."""
    is_reminder: bool = False
    """Of an item that waits."""
    leaves_at: int = 0
    """When the gather of the waiting item ends; 0 while it is held."""
    counts_from: int = 0
    """Delays count from here, and reminders not from earlier; 0: from the opening of the problem."""
    held: str = ""
    """Why what waits is held, as of the last decision: a NotSent, or "". If nothing waits, only what delays count from
    the end of.
    """
    told_ack: int = 0
    """`at` of the acknowledgement that it was told, or that it will not be told."""
    message: int = 0
    """The message under way, whose end is not known: until then nothing more is sent. 0 for none."""
    is_over: bool = False
    """The problem has closed, and nothing more will be sent, unless the same problem opens again."""

    @property
    def is_leaving(self) -> bool:
        """Does an item wait for nothing but the end of its gather?"""
        return self.leaves_at != 0


class ProblemFacts(NamedTuple):
    """A problem: the same for all channels."""

    opened: int
    is_open: bool
    severity: int
    """SEVERITY of its state; while a check that flaps is OK, of the worst state that the problem has had."""
    state: State
    """For the item."""
    flapping: bool = False
    """For the item."""
    reason: str = ""
    """Why it closed, if not by a result."""
    hold: Hold = Hold.NONE
    ack: Acknowledgement | None = None


class Policy(NamedTuple):
    """How a task wants a contact to be told. A channel whose contact does not exist has none."""

    gather: int
    is_wanted: bool = True
    """The contact is in `notify`."""
    after: int = 0
    repeat: int = 0
    """0: never."""
    severities: frozenset[int] = frozenset()
    """Only these; empty for all."""
    opens_at: int = 0
    """When the period of the contact opens next; in the past if it is open."""


class Decision(NamedTuple):
    """What follows for one channel from what is known of one problem."""

    alert: Alert
    note: str
    """The NotSent to record, as it is new and keeps something from being sent now; "" for nothing."""
    again_at: int
    """When time alone changes the decision; FOREVER if it does not. The end of a gather is `alert.leaves_at`."""


_HOLDS_OF_PEOPLE: Final = (Hold.DOWNTIME, Hold.UNREACHABLE, Hold.PAUSED, Hold.OUTSIDE_PERIOD)
COUNTS_ANEW: Final = frozenset((NotSent.DOWNTIME, NotSent.UNREACHABLE, NotSent.ACKNOWLEDGED))
"""Delays and reminders count from the end of these."""
_DROPS_REMINDERS: Final = COUNTS_ANEW | {
    NotSent.PAUSED,
    NotSent.OUTSIDE_PERIOD,
    NotSent.OUTSIDE_CONTACT_PERIOD,
    NotSent.STATE_NOT_SELECTED,
}
"""A reminder that was due during one of these is not made up for."""


def decide(
    alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int, *, has_earlier: bool = False
) -> Decision:
    """What the channel is to be told now; `policy` is None if its contact does not exist any more. `has_earlier`: an
    earlier problem of the same task `is_unfinished` for the channel.
    """
    if not facts.is_open:
        return _decide_closed(alert, policy, now)
    if alert.is_over:  # the same problem is open again, as its task came back
        alert = Alert(message=alert.message)
    return _decide_open(alert, facts, policy, now, has_earlier=has_earlier)


def is_unfinished(alert: Alert, *, is_open: bool) -> bool:
    """Is a message about this problem under way though it has closed? Later messages may pass that one, so the next
    problem of the task waits for its end: the channel would be told of both, and of the recovery last.
    """
    return not is_open and alert.message != 0


def start(alert: Alert, facts: ProblemFacts, message: int, now: int) -> Alert:
    """The item that waits leaves in this message. From now on it counts as sent."""
    if not alert.is_leaving:
        raise ValueError(f"nothing is leaving: {alert}")
    left = alert._replace(waiting="", is_reminder=False, leaves_at=0, message=message)
    match alert.waiting:
        case ItemKind.PROBLEM:
            return left._replace(sent=facts.severity, last_sent=now)
        case ItemKind.ACKNOWLEDGED:
            return left._replace(told_ack=0 if facts.ack is None else facts.ack.at)
        case _:
            return left._replace(is_over=True)


def end(alert: Alert, message: int, *, is_delivered: bool) -> Alert:
    """Delivery of this message has ended: it succeeded, or was given up. A problem that the channel does not know of
    has no recovery; a worse state or a reminder may still be sent.
    """
    if message != alert.message:
        return alert
    # Nothing was sent if the problem opened again while its recovery was under way.
    return alert._replace(message=0, is_known=alert.is_known or (is_delivered and alert.sent != 0))


def resend(alert: Alert, message: int) -> Alert:
    """The message under way was too large for the receiver: this smaller one tells what it said, and ends instead."""
    return alert._replace(message=message)


# An open problem


class _Wanted(NamedTuple):
    """What the channel should be told if nothing held it."""

    kind: str
    is_reminder: bool = False
    again_at: int = FOREVER
    """If nothing: when something will be."""


_NOTHING: Final = _Wanted("")


def _decide_open(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int, *, has_earlier: bool) -> Decision:
    ack = facts.ack if is_acknowledged(facts.ack, Instant(now)) else None
    held = _why_held(facts, policy, now, is_acknowledged=ack is not None)
    known = _counted(alert, facts, policy, held, now)
    if policy is None or not policy.is_wanted:
        # What it got is remembered, should it be wanted again; the recovery is sent in any case. What it did not get is
        # sent then.
        if not (known.is_known or known.message):
            known = known._replace(sent=0, last_sent=0)
        why_not = NotSent.CONTACT_REMOVED if policy is None else NotSent.NOT_NOTIFIED
        return Decision(_idle(known, held), why_not if alert.waiting else "", FOREVER)
    wanted = _wanted_problem(known, facts, policy, now)
    again_at = wanted.again_at if ack is None or ack.until is None else min(wanted.again_at, ack.until)
    if ack is not None and known.is_known and not known.message and ack.at != known.told_ack:
        why_not_told = _why_no_acknowledgement(facts, policy, now)
        if not why_not_told:
            return Decision(_leaving(alert, known, policy, ItemKind.ACKNOWLEDGED, held, now), "", again_at)
        known = known._replace(told_ack=ack.at)
        if not wanted.kind:
            return Decision(_idle(known, held), why_not_told, again_at)
    if not wanted.kind:
        is_dropped = alert.is_leaving and alert.sent != 0 and alert.waiting == ItemKind.PROBLEM
        return Decision(_idle(known, held), NotSent.OVER if is_dropped else "", again_at)
    if not held and has_earlier and not known.sent:
        held = NotSent.EARLIER_PROBLEM
    if not held:
        leaving = _leaving(alert, known, policy, wanted.kind, held, now, is_reminder=wanted.is_reminder)
        return Decision(leaving, "", again_at)
    is_new = (alert.waiting, alert.is_reminder, alert.held) != (wanted.kind, wanted.is_reminder, held)
    if held == NotSent.OUTSIDE_CONTACT_PERIOD:
        again_at = min(again_at, policy.opens_at)
    waits = known._replace(waiting=wanted.kind, is_reminder=wanted.is_reminder, leaves_at=0, held=held)
    return Decision(waits, held if is_new else "", again_at)


def _why_held(facts: ProblemFacts, policy: Policy | None, now: int, *, is_acknowledged: bool) -> str:
    """Why the problem is not sent now, whether it is wanted or not: "" if nothing keeps it. That from whose end delays
    count comes first.
    """
    if facts.hold in (Hold.DOWNTIME, Hold.UNREACHABLE):
        return facts.hold.word
    if is_acknowledged:
        return NotSent.ACKNOWLEDGED
    if facts.hold:
        return facts.hold.word
    if policy is None:
        return ""
    if policy.severities and facts.severity not in policy.severities:
        return NotSent.STATE_NOT_SELECTED
    return NotSent.OUTSIDE_CONTACT_PERIOD if policy.opens_at > now else ""


def _why_no_acknowledgement(facts: ProblemFacts, policy: Policy, now: int) -> str:
    """Why the channel is not told of an acknowledgement: it is told at once or not at all."""
    if facts.hold in _HOLDS_OF_PEOPLE:
        return facts.hold.word
    return NotSent.OUTSIDE_CONTACT_PERIOD if policy.opens_at > now else ""


def _counted(alert: Alert, facts: ProblemFacts, policy: Policy | None, held: str, now: int) -> Alert:
    """The alert with the time from which delays and reminders count now."""
    last_sent, since = min(alert.last_sent, now), alert.counts_from
    if (since or facts.opened) > now:
        since = now  # the clock was set back
    was_lifted = bool(alert.held) and alert.held != held
    if was_lifted and alert.held in COUNTS_ANEW:
        since = now
    if was_lifted and alert.is_reminder and alert.held in _DROPS_REMINDERS and policy is not None and policy.repeat:
        first = max(last_sent, since or facts.opened)
        last_sent = first + (now - first) // policy.repeat * policy.repeat
    return alert._replace(last_sent=last_sent, counts_from=since)


def _wanted_problem(alert: Alert, facts: ProblemFacts, policy: Policy, now: int) -> _Wanted:
    if alert.message:
        return _NOTHING
    since = alert.counts_from or facts.opened
    if not alert.sent:
        due = since + policy.after
        return _Wanted(ItemKind.PROBLEM) if due <= now else _Wanted("", again_at=due)
    if facts.severity > alert.sent:
        return _Wanted(ItemKind.PROBLEM)
    if not policy.repeat:
        return _NOTHING
    due = max(alert.last_sent, since) + policy.repeat
    return _Wanted(ItemKind.PROBLEM, is_reminder=True) if due <= now else _Wanted("", again_at=due)


# A closed problem


def _decide_closed(alert: Alert, policy: Policy | None, now: int) -> Decision:
    if alert.is_over or alert.message:
        # The end of the message says whether the channel knows of the problem.
        return Decision(alert, "", FOREVER)
    if policy is None:
        return Decision(_over(alert), NotSent.CONTACT_REMOVED, FOREVER)
    if not alert.is_known:
        return Decision(_over(alert), NotSent.GIVEN_UP if alert.sent else NotSent.OVER, FOREVER)
    if policy.opens_at > now:
        waits = alert._replace(
            waiting=ItemKind.RECOVERY, is_reminder=False, leaves_at=0, held=NotSent.OUTSIDE_CONTACT_PERIOD
        )
        is_new = (alert.waiting, alert.held) != (waits.waiting, waits.held)
        return Decision(waits, NotSent.OUTSIDE_CONTACT_PERIOD if is_new else "", policy.opens_at)
    was_problem = alert.waiting == ItemKind.PROBLEM and alert.is_leaving
    leaving = _leaving(alert, alert, policy, ItemKind.RECOVERY, "", now)
    return Decision(leaving, NotSent.OVER if was_problem else "", FOREVER)


# What an alert becomes


def _leaving(
    before: Alert, alert: Alert, policy: Policy, kind: str, held: str, now: int, *, is_reminder: bool = False
) -> Alert:
    """An item waits for the end of its gather, which began when it was wanted first and not held."""
    ends = now + policy.gather
    if before.waiting == kind and before.is_leaving:
        ends = min(ends, before.leaves_at)
    return alert._replace(waiting=kind, is_reminder=is_reminder, leaves_at=ends, held=held)


def _idle(alert: Alert, held: str) -> Alert:
    """Nothing waits: what holds it matters only if delays count from its end."""
    return alert._replace(waiting="", is_reminder=False, leaves_at=0, held=held if held in COUNTS_ANEW else "")


def _over(alert: Alert) -> Alert:
    return alert._replace(waiting="", is_reminder=False, leaves_at=0, held="", is_over=True)
