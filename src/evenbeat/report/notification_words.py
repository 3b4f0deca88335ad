"""Notifications in plain words: what was sent through a channel, what became of it, and why something was not sent."""

from typing import Final

from evenbeat.admin.alert_routes import ContactBook
from evenbeat.core.alerts import ItemKind, NotSent
from evenbeat.model import SEVERITY, Cause, Instant
from evenbeat.report.words import first_line
from evenbeat.store.alert_records import WAITING, AlertDecision, MessageRecord
from evenbeat.when.duration import spoken_duration
from evenbeat.when.instant import spoken_instant
from evenbeat.when.zone import Zone

REMINDER: Final = "reminder"
"""The item of a decision about a problem that was sent before."""
SENT: Final = "sent"
GIVEN_UP: Final = "given up"
_STATE_NAMES: Final = {severity: state.name for state, severity in SEVERITY.items()}
_CAUSE_WORDS: Final[dict[str, str]] = {
    Cause.FAILED: "the failure",
    Cause.STALE: "the missing result",
    Cause.LONG: "the long run",
}
_ITEM_WORDS: Final[dict[str, str]] = {
    ItemKind.PROBLEM: "of the problem",
    REMINDER: "of the problem",
    ItemKind.RECOVERY: "that it is over",
    ItemKind.ACKNOWLEDGED: "of the acknowledgement",
}
_REASON_SENTENCES: Final[dict[str, str]] = {
    NotSent.DOWNTIME: "the task is in downtime",
    NotSent.UNREACHABLE: "the task is unreachable, as what it depends on is not fine",
    NotSent.PAUSED: "the task is paused or disabled",
    NotSent.OUTSIDE_PERIOD: "the period of the task is closed",
    NotSent.AWAITING_RESULT: "a fresh result of the task is awaited",
    NotSent.CHECKING_PARENTS: "what the task depends on is checked first",
    NotSent.ACKNOWLEDGED: "it is acknowledged",
    NotSent.CONTACT_REMOVED: "the contact, or this place of it, was removed",
    NotSent.NOT_NOTIFIED: "the contact is not in `notify` any more",
    NotSent.STATE_NOT_SELECTED: "the contact does not take this state",
    NotSent.OUTSIDE_CONTACT_PERIOD: "the period of the contact is closed",
    NotSent.EARLIER_PROBLEM: "a message about an earlier problem of the task, which is over, has not arrived yet",
    NotSent.OVER: "it was over before that was sent",
}


def reason_sentence(reason: str) -> str:
    """Why something is not sent now: "the task is in downtime"."""
    return _REASON_SENTENCES.get(reason, reason)


def state_word(severity: int, cause: str) -> str:
    """What a channel was told of: "CRITICAL", "the missing result"."""
    return _CAUSE_WORDS.get(cause) or _STATE_NAMES.get(severity, "")


def place_words(book: ContactBook, key: str) -> str:
    """The place of a channel without secrets: "webhook https://example.org"; its kind alone if it is gone."""
    channel = book.channel(key)
    if channel is not None:
        return channel.shown if channel.kind == "send" else f"{channel.kind} {channel.shown}"
    return f"{key.rsplit('/', 2)[-2]}, a place that it had then" if key.count("/") >= 2 else "a place that it had then"


def delivery_words(message: MessageRecord | None, now: Instant, where: Zone) -> str:
    """What became of a message: "delivered", or why not and when it is tried again."""
    if message is None:
        return "what became of it is no longer on record"
    if message.state == GIVEN_UP:
        when = "" if message.ended is None else f" {spoken_instant(message.ended, where)}"
        return f"given up{when}{_error_words(message)}"
    repeated = ", possibly more than once" if message.possible_repetition else ""
    if message.state != WAITING:
        return f"delivered{f' at attempt {message.attempts}' if message.attempts > 1 else ''}{repeated}"
    if not message.error:
        return "on its way"
    again = message.next_attempt
    then = "it is being tried again" if again is None or again <= now else f"tried again {in_words(again, now)}"
    return f"not delivered yet{_error_words(message)}; {then}"


def _error_words(message: MessageRecord) -> str:
    error = first_line(message.error)
    return f": {error}" if error else ""


def gathered_words(message: MessageRecord | None) -> str:
    """ ", gathered into message 12 with 3 others"; empty for a message about one thing."""
    if message is None or message.items <= 1:
        return ""
    others = message.items - 1
    return f", gathered into message {message.id} with {others:,} other{'' if others == 1 else 's'}"


def decision_words(
    decision: AlertDecision, message: MessageRecord | None, place: str, now: Instant, where: Zone
) -> str:
    """A line of the log of decisions, without its time: "ops was told of the problem, by email ..., delivered"."""
    contact, verb = decision.contact, "reminded" if decision.item == REMINDER else "told"
    if decision.decision == SENT:
        item = _ITEM_WORDS.get(decision.item, "of the problem")
        how = f"{delivery_words(message, now, where)}{gathered_words(message)}"
        return f"{contact} was {verb} {item}, by {place}, {how}"
    if decision.decision == GIVEN_UP:
        error = first_line(decision.reason)
        return f"message {decision.message} to {contact} was given up, by {place}{f': {error}' if error else ''}"
    item = f" {_ITEM_WORDS[decision.item]}" if decision.item in (ItemKind.RECOVERY, ItemKind.ACKNOWLEDGED) else ""
    return f"{contact} was not {verb}{item}{' yet' if decision.decision == WAITING else ''}: {decision.reason}"


def in_words(t: Instant, now: Instant) -> str:
    """ "in 12 min", for a time to come; "now" for one that has passed."""
    return f"in {spoken_duration(t - now)}" if t > now else "now"
