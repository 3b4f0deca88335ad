"""What one channel of a contact was sent about a problem, and what comes next or why nothing does, in one line."""

from typing import Final, NamedTuple

from evenbeat.admin.alert_routes import alert_of, facts_of
from evenbeat.core.acknowledgement import is_acknowledged
from evenbeat.core.alerts import COUNTS_ANEW, WAITING_NOTES, Alert, ItemKind, NotSent, decide
from evenbeat.core.delivery_pace import holds_up, may_pass_at
from evenbeat.model import Instant
from evenbeat.report.documents import iso_time
from evenbeat.report.notification_reader import NotificationReader
from evenbeat.report.notification_words import (
    GIVEN_UP,
    REMINDER,
    SENT,
    delivery_words,
    gathered_words,
    in_words,
    reason_sentence,
    state_word,
)
from evenbeat.report.why_facts import ContactAnswer
from evenbeat.report.words import first_line
from evenbeat.store.alert_records import WAITING, AlertDecision, AlertProblem, AlertRecord, MessageRecord
from evenbeat.when.duration import spoken_duration
from evenbeat.when.windows import FOREVER

_KNOWN_SINCE: Final = frozenset(
    (NotSent.DOWNTIME, NotSent.UNREACHABLE, NotSent.PAUSED, NotSent.OUTSIDE_PERIOD, NotSent.AWAITING_RESULT)
)
"""What keeps everybody from being told of a problem: it is on record since when."""


class _Next(NamedTuple):
    """What comes next for a channel."""

    words: str = ""
    """After the name of the contact, or "it"; empty if nothing does."""
    outcome: str = ""
    reason: str = ""
    until: int = FOREVER


class ChannelStory:
    """One channel and one problem."""

    def __init__(
        self,
        reader: NotificationReader,
        problem: AlertProblem,
        key: str,
        contact: str,
        record: AlertRecord | None,
        decisions: list[AlertDecision],
    ) -> None:
        """`decisions` are those about this problem and channel, newest first."""
        self._reader = reader
        self._problem = problem
        self._key = key
        self._contact = contact
        self._decisions = decisions
        self._alert = Alert() if record is None else alert_of(record)
        channel = reader.book.channel(key)
        self._policy = None if channel is None else reader.book.policy(reader.route, channel, reader.now)
        has_earlier = self._alert.held == NotSent.EARLIER_PROBLEM
        self._decision = decide(self._alert, facts_of(problem), self._policy, reader.now, has_earlier=has_earlier)
        self._sent = self._last_sent(ItemKind.PROBLEM, REMINDER)
        self._recovery = None if problem.closed is None else self._last_sent(ItemKind.RECOVERY)
        self._acknowledged = self._last_sent(ItemKind.ACKNOWLEDGED)
        known = (self._sent, self._recovery, self._acknowledged)
        self._messages = reader.messages(decision for decision in known if decision is not None)

    def answer(self) -> ContactAnswer:
        """The line."""
        told = self._told_words()
        after = self._next_closed() if self._problem.closed is not None else self._next_open()
        if told:
            text = f"{self._contact} {told}{f'; it {after.words}' if after.words else ''}"
        else:
            text = f"{self._contact} {after.words or 'was not told: nothing is on record'}"
        message = self._message(self._sent)
        outcome = after.outcome
        if told:
            outcome = GIVEN_UP if message is not None and message.state == GIVEN_UP else SENT
        return ContactAnswer(
            text,
            self._contact,
            self._problem.id,
            outcome=outcome,
            reason=after.reason,
            place=self._reader.place(self._key),
            sent_at=iso_time(Instant(self._sent.at)) if self._sent is not None else None,
            message=None if message is None else message.id,
            delivery="" if message is None else message.state,
            error="" if message is None else first_line(message.error),
            until=iso_time(Instant(after.until)) if after.until < FOREVER else None,
        )

    # What was sent

    def _last_sent(self, *items: str) -> AlertDecision | None:
        return next((d for d in self._decisions if d.decision == SENT and d.item in items), None)

    def _message(self, sent: AlertDecision | None) -> MessageRecord | None:
        return None if sent is None else self._messages.get(sent.message)

    def _told_words(self) -> str:
        """ "was told on ... of CRITICAL, by webhook https://..., delivered"; empty if nothing was sent."""
        at = self._sent.at if self._sent is not None else self._alert.last_sent
        if not at:
            return ""
        state = state_word(self._alert.sent, self._problem.cause)
        verb = "reminded" if self._sent is not None and self._sent.item == REMINDER else "told"
        words = f"was {verb} on {self._reader.at(at)}{f' of {state}' if state else ''}"
        words += f", by {self._reader.place(self._key)}, {self._delivery(self._sent)}"
        if self._acknowledged is not None and self._acknowledged.at >= at:
            words += f"; on {self._reader.at(self._acknowledged.at)} of an acknowledgement"
            words += f", {self._delivery(self._acknowledged)}"
        if self._recovery is not None:
            words += f"; on {self._reader.at(self._recovery.at)} that it is over, {self._delivery(self._recovery)}"
        return words

    def _delivery(self, sent: AlertDecision | None) -> str:
        message = self._message(sent)
        if message is None and self._alert.is_known:
            return "delivered"
        return delivery_words(message, self._reader.now, self._reader.where) + gathered_words(message)

    # What comes next

    def _next_open(self) -> _Next:
        alert, policy = self._decision.alert, self._policy
        if policy is None:
            return self._suppressed(NotSent.CONTACT_REMOVED)
        if not policy.is_wanted:
            return self._suppressed(NotSent.NOT_NOTIFIED)
        if alert.waiting:
            return self._leaving() if alert.is_leaving else self._held(alert.held)
        if alert.message or (alert.sent and not policy.repeat):
            return _Next()
        if held := alert.held or self._problem.hold:
            return self._held(held)
        if policy.severities and self._problem.severity not in policy.severities:
            return self._held(NotSent.STATE_NOT_SELECTED)
        at = max(self._decision.again_at, policy.opens_at)
        if at >= FOREVER:
            return _Next()
        what = "reminded" if alert.sent else "told"
        return _Next(f"is {what} {in_words(Instant(at), self._reader.now)}, if nobody acknowledges", WAITING, until=at)

    def _next_closed(self) -> _Next:
        alert = self._decision.alert
        if alert.waiting:
            return self._leaving() if alert.is_leaving else self._held(alert.held)
        if alert.message or self._recovery is not None:
            return _Next()
        if alert.sent:
            reason = NotSent.CONTACT_REMOVED if alert.is_known else NotSent.GIVEN_UP
            why = reason_sentence(reason) if alert.is_known else "the message about the problem was given up"
            return _Next(f"is not told that it is over: {why}", "suppressed" if alert.is_known else GIVEN_UP, reason)
        lasted = (self._problem.closed or 0) - self._problem.opened
        before = [d.reason for d in reversed(self._decisions) if d.reason and d.reason != NotSent.OVER]
        until_then = ", ".join(dict.fromkeys(before))
        if until_then:
            words = f"was not told: {reason_sentence(NotSent.OVER)}; until then: {until_then}"
        elif self._policy is not None and self._policy.after > lasted:
            words = f"was not told: it was over before its delay of {spoken_duration(self._policy.after)} had passed"
        elif self._policy is not None and not self._policy.is_wanted:
            return self._suppressed(NotSent.NOT_NOTIFIED)
        else:
            words = f"was not told: {reason_sentence(NotSent.OVER)}"
        return _Next(words, "suppressed", before[-1] if before else NotSent.OVER)

    def _leaving(self) -> _Next:
        """Something waits for the end of its gather, for the message before it, or for the rate of the contact."""
        alert, now = self._decision.alert, self._reader.now
        what = self._item_words("is")
        earlier = self._reader.under_way(self._key)
        blocking = next((one for one in earlier if holds_up(one.attempts - (one.started_attempt is not None))), None)
        if blocking is not None:
            how = delivery_words(blocking, now, self._reader.where)
            return _Next(
                f"{what} once message {blocking.id} to it has ended or failed a few times; it is {how}", WAITING
            )
        if earlier:
            passes_at = may_pass_at(len(earlier), earlier[0].created)
            if passes_at > max(alert.leaves_at, now):
                how = delivery_words(earlier[0], now, self._reader.where)
                words = f"{what} {in_words(Instant(passes_at), now)}, as message {earlier[0].id} to it is {how}"
                return _Next(words, WAITING, until=passes_at)
        may_leave_at = self._reader.may_leave_at(self._key, self._contact)
        if may_leave_at > max(alert.leaves_at, now):
            when = f"{in_words(Instant(may_leave_at), now)}, as it gets no more messages within an hour"
            return _Next(f"{what} {when}", WAITING, until=may_leave_at)
        # Something else that waits for the same place may take it along before.
        rest = alert.leaves_at - now
        return _Next(
            f"{what} {f'within {spoken_duration(rest)}' if rest > 0 else 'now'}", WAITING, until=alert.leaves_at
        )

    def _held(self, reason: str) -> _Next:
        """Something is not sent now, for this reason."""
        alert, policy = self._decision.alert, self._policy
        assert policy is not None
        until: int = FOREVER
        why = reason_sentence(reason)
        if reason in _KNOWN_SINCE and self._problem.held_since is not None:
            why += f", since {self._reader.at(self._problem.held_since)}"
        elif reason == NotSent.ACKNOWLEDGED:
            why, until = self._acknowledgement_words()
        elif reason == NotSent.STATE_NOT_SELECTED:
            severities = sorted(policy.severities)
            why = f"it takes only {', '.join(state_word(severity, '') for severity in severities)}"
        elif reason == NotSent.OUTSIDE_CONTACT_PERIOD:
            until = policy.opens_at
            opens = f"opens {in_words(Instant(until), self._reader.now)}" if until < FOREVER else "never opens"
            why = f"its period {self._reader.book.contacts[self._contact].contact.period!r} is closed, and {opens}"
        if policy.after and not alert.sent and reason in COUNTS_ANEW and self._problem.closed is None:
            why += f"; its delay of {spoken_duration(policy.after)} counts from the end of that"
        outcome = WAITING if reason in WAITING_NOTES else "suppressed"
        return _Next(f"{self._item_words('is not')} now: {why}", outcome, reason, until)

    def _acknowledgement_words(self) -> tuple[str, int]:
        ack = self._problem.acknowledgement
        if ack is None or not is_acknowledged(ack, self._reader.now):
            return reason_sentence(NotSent.ACKNOWLEDGED), FOREVER
        until = "" if ack.until is None else f", until {self._reader.at(ack.until)}"
        return f"{ack.who} acknowledged it on {self._reader.at(ack.at)}{until}", ack.until or FOREVER

    def _suppressed(self, reason: NotSent) -> _Next:
        more = " any more" if self._alert.sent else ""
        return _Next(f"is not told{more}: {reason_sentence(reason)}", "suppressed", reason)

    def _item_words(self, verb: str) -> str:
        """ "is told of CRITICAL", "is not reminded"."""
        alert = self._decision.alert
        match alert.waiting:
            case ItemKind.RECOVERY:
                return f"{verb} told that it is over"
            case ItemKind.ACKNOWLEDGED:
                return f"{verb} told of the acknowledgement"
            case ItemKind.PROBLEM if not alert.is_reminder and alert.sent:
                return f"{verb} told of {state_word(self._problem.severity, self._problem.cause)}"
        return f"{verb} reminded" if alert.is_reminder or alert.sent else f"{verb} told"
