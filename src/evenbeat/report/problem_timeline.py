"""The timeline of a problem: its opening and end, what people wrote, and who was notified, in one order of time."""

from collections.abc import Iterable, Iterator
from typing import Final

from evenbeat.model import Instant
from evenbeat.report.documents import iso_time
from evenbeat.report.notification_reader import NotificationReader
from evenbeat.report.notification_words import GIVEN_UP, decision_words
from evenbeat.report.words import first_line
from evenbeat.store.alert_records import AlertDecision, MessageRecord
from evenbeat.store.contract import Store
from evenbeat.store.problem_records import ProblemNote, ProblemRecord
from evenbeat.when.zone import zone
from evenbeat.wire.documents import TimelineEntry

_UTC: Final = zone("UTC")
_OPENING, _NOTES, _DECISIONS, _END = range(4)
"""The order at one moment."""


def problem_timeline(
    store: Store, problem: ProblemRecord, notes: Iterable[ProblemNote], now: Instant, *, is_limited: bool = False
) -> list[TimelineEntry]:
    """What happened to the problem, oldest first: the latest 200 notes, and the latest 1,000 decisions."""
    reader = NotificationReader(store, None, now, _UTC, is_limited=is_limited)
    decisions = reader.decisions(problem.id)[::-1]
    messages = reader.messages(decisions)
    found = [*_opening_and_end(problem), *((note.at, _NOTES, _note_entry(note)) for note in notes)]
    found += (
        (Instant(decision.at), _DECISIONS, _decision_entry(reader, decision, messages.get(decision.message)))
        for decision in decisions
    )
    found.sort(key=lambda one: one[:2])
    return [entry for _, _, entry in found]


def _opening_and_end(problem: ProblemRecord) -> Iterator[tuple[Instant, int, TimelineEntry]]:
    yield problem.opened, _OPENING, TimelineEntry(_text(problem.opened), "opened", "the problem opened")
    if problem.closed is not None:
        why = f": {problem.reason}" if problem.reason else ""
        end = TimelineEntry(_text(problem.closed), "closed", f"the problem closed{why}", reason=problem.reason)
        yield problem.closed, _END, end


def _note_entry(note: ProblemNote) -> TimelineEntry:
    return TimelineEntry(_text(note.at), note.action, note.text, who=note.who)


def _decision_entry(
    reader: NotificationReader, decision: AlertDecision, message: MessageRecord | None
) -> TimelineEntry:
    place = reader.place(decision.channel)
    return TimelineEntry(
        at=_text(Instant(decision.at)),
        kind=decision.decision,
        text=decision_words(decision, message, place, reader.now, reader.where),
        contact=decision.contact,
        place=place,
        item=decision.item,
        reason="" if decision.decision == GIVEN_UP else decision.reason,
        message=decision.message or None,
        delivery="" if message is None else message.state,
        error=first_line(decision.reason if message is None and decision.decision == GIVEN_UP else _error_of(message)),
    )


def _error_of(message: MessageRecord | None) -> str:
    return "" if message is None else message.error


def _text(t: Instant) -> str:
    text = iso_time(t)
    assert text is not None
    return text
