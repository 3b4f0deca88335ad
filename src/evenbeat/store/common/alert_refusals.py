"""Decides what of an alert batch is kept, see AlertRefusals: not the rows that another node has changed meanwhile."""

from collections import defaultdict
from collections.abc import Container, Mapping
from typing import NamedTuple

from evenbeat.store.alert_records import NONE_REFUSED, WAITING, AlertBatch, AlertKey, AlertRefusals
from evenbeat.store.contract import ContradictoryBatch


class KnownAlert(NamedTuple):
    """What of a row decides whether it may be replaced."""

    version: int
    message: int


class KnownAlerts(NamedTuple):
    """What the store has of the rows that a batch is about."""

    alerts: Mapping[AlertKey, KnownAlert]
    problems: Container[int]
    """Those that exist."""
    waiting: Container[int]
    """Messages that have not ended ..."""
    ended: Container[int]
    """... and those that have."""
    incomplete: Container[int] = frozenset()
    """Those that have not ended and may get further parts."""


class KnownMessage(NamedTuple):
    """What of a message decides what may be recorded of it."""

    state: str
    is_complete: bool


def known_of(
    alerts: Mapping[AlertKey, KnownAlert], problems: Container[int], messages: Mapping[int, KnownMessage]
) -> KnownAlerts:
    """What a store has, from what it has of the messages."""
    waiting = {id_ for id_, message in messages.items() if message.state == WAITING}
    incomplete = {id_ for id_ in waiting if not messages[id_].is_complete}
    return KnownAlerts(alerts, problems, waiting, messages.keys() - waiting, incomplete)


def problems_of(batch: AlertBatch) -> list[int]:
    """The problems that a batch is about, each once."""
    return sorted({row.problem for row in batch.alerts} | {row.problem for row in batch.decisions})


def messages_of(batch: AlertBatch) -> list[int]:
    """The messages that a batch starts, continues, tries or ends, each once."""
    return sorted(
        {new.id for new in batch.messages}
        | {part.message for part in batch.parts}
        | {attempt.message for attempt in batch.attempts}
        | {end.message for end in batch.message_ends}
    )


def check_alert_batch(batch: AlertBatch) -> None:
    """Raise ContradictoryBatch if a row occurs twice."""
    for what, keys in (
        ("alert", [row.key for row in batch.alerts]),
        ("new message", [new.id for new in batch.messages]),
        ("part of message", [part.message for part in batch.parts]),
        ("attempt of message", [attempt.message for attempt in batch.attempts]),
        ("end of message", [end.message for end in batch.message_ends]),
    ):
        if len(set(keys)) < len(keys):
            twice = next(key for i, key in enumerate(keys) if key in keys[:i])
            raise ContradictoryBatch(f"one batch has the {what} {twice} twice")


def without_refused(batch: AlertBatch, known: KnownAlerts) -> tuple[AlertBatch, AlertRefusals]:
    """What of a batch is kept, and what is not."""
    alerts, messages = _refused(batch, known)
    decisions = [row for row in batch.decisions if row.problem in known.problems and row.key not in alerts]
    if not alerts and not messages and len(decisions) == len(batch.decisions):
        return batch, NONE_REFUSED
    kept = AlertBatch(
        [row for row in batch.alerts if row.key not in alerts],
        decisions,
        [new for new in batch.messages if new.id not in messages],
        [attempt for attempt in batch.attempts if attempt.message not in messages],
        [end for end in batch.message_ends if end.message not in messages],
        [part for part in batch.parts if part.message not in messages],
    )
    return kept, AlertRefusals(frozenset(alerts), frozenset(messages))


def _refused(batch: AlertBatch, known: KnownAlerts) -> tuple[set[AlertKey], set[int]]:
    absent = KnownAlert(0, 0)
    alerts = {
        row.key
        for row in batch.alerts
        if row.version != known.alerts.get(row.key, absent).version or row.problem not in known.problems
    }
    new = {message.id for message in batch.messages}
    messages = {id_ for id_ in new if id_ in known.waiting or id_ in known.ended}
    tried = {attempt.message for attempt in batch.attempts} - new
    ends = {end.message for end in batch.message_ends} - new
    continued = {part.message for part in batch.parts}
    messages |= {id_ for id_ in tried | ends if id_ not in known.waiting}
    messages |= {id_ for id_ in continued if id_ not in known.incomplete}
    if not alerts and not messages:
        return alerts, messages
    # A message is refused with its alerts, and its alerts with it: also with those of a second message that they end.
    told = new | continued
    of_message: dict[int, list[AlertKey]] = defaultdict(list)
    of_alert: dict[AlertKey, list[int]] = {}
    for row in batch.alerts:
        ended = known.alerts.get(row.key, absent).message
        of_alert[row.key] = [id_ for id_, some in ((row.message, told), (ended, ends)) if id_ in some]
        for id_ in of_alert[row.key]:
            of_message[id_].append(row.key)
    open_alerts, open_messages = list(alerts), list(messages)
    while open_alerts or open_messages:
        found = {id_ for key in open_alerts for id_ in of_alert[key]} - messages
        also = {key for id_ in open_messages for key in of_message[id_]} - alerts
        messages |= found
        alerts |= also
        open_alerts, open_messages = list(also), list(found)
    return alerts, messages
