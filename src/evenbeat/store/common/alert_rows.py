"""Turns rows of the SQL stores into alerts, decisions and messages, and these into rows."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from evenbeat.store.alert_records import AlertDecision, AlertProblem, AlertRecord, MessageRecord, NumberedDecision
from evenbeat.store.common.rows import Row, acknowledgement

_ACKNOWLEDGEMENT: Final = 13
"""Index of the first column of the acknowledgement, in the row of a problem ..."""
_ALERT: Final = 20
"""... and of the first column of the alert."""


def alert_problems(found: Iterable[Row]) -> Iterator[tuple[AlertProblem, list[AlertRecord]]]:
    """Problems with their alerts: from one row for each alert, in the order of the problems."""
    for _, its in groupby(found, itemgetter(0)):
        same = list(its)
        alerts = [alert_record(row[_ALERT:]) for row in same if row[_ALERT] is not None]
        yield _alert_problem(same[0][:_ALERT]), alerts


def _alert_problem(row: Row) -> AlertProblem:
    *known, flapping, hold, held_since = row[:_ACKNOWLEDGEMENT]
    ack = acknowledgement(*row[_ACKNOWLEDGEMENT:])
    return AlertProblem._make((*known, bool(flapping), hold, held_since, ack))


def alert_record(row: Row) -> AlertRecord:
    """What a channel knows of a problem, from its columns."""
    *its, sent, is_known, last_sent, waiting, is_reminder, leaves_at, counts_from, held, told_ack, message, is_over = (
        row
    )
    known = sent, bool(is_known), last_sent, waiting, bool(is_reminder), leaves_at, counts_from, held, told_ack
    return AlertRecord._make((*its, *known, message, bool(is_over)))


def alert_row(alert: AlertRecord) -> Row:
    """The columns of a row as it becomes."""
    return (*alert[:3], alert.version + 1, *alert[4:])


def numbered_decision(row: Row) -> NumberedDecision:
    """A decision, from its number, the name of the task, and its columns."""
    number, task, *columns = row
    return NumberedDecision(number, task, AlertDecision._make(columns))


def message_record(row: Row) -> MessageRecord:
    """A message, from its columns."""
    *known, state, attempts, next_attempt, started, possible, ended, error, detail, complete = row
    id_, channel, contact, created, items = known
    return MessageRecord(
        *(id_, channel, contact, created, items, b"", state, attempts, next_attempt, started, bool(possible)),
        *(ended, error, detail, bool(complete)),
    )


def message_row(message: MessageRecord) -> Row:
    """The columns of a message."""
    m = message
    return (
        *(m.id, m.channel, m.contact, m.created, m.items, m.state, m.attempts, m.next_attempt, m.started_attempt),
        *(m.possible_repetition, m.ended, m.error, m.detail, m.is_complete),
    )
