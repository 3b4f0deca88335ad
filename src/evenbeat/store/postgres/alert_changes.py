"""Records alert batches in PostgreSQL: what must be known first, and what is written, each in one round trip."""

from collections.abc import Sequence
from typing import NamedTuple

import psycopg

from evenbeat.store.alert_records import AlertBatch
from evenbeat.store.common.alert_refusals import (
    KnownAlert,
    KnownAlerts,
    KnownMessage,
    known_of,
    messages_of,
    problems_of,
)
from evenbeat.store.common.alert_rows import alert_row, message_row
from evenbeat.store.common.rows import Row
from evenbeat.store.postgres.connect import Connection
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.text import from_text, numbers, texts


class AskedAlerts(NamedTuple):
    """What must be known of the rows of a batch: the answers can be fetched when the pipeline has ended."""

    alerts: psycopg.Cursor[Row]
    problems: psycopg.Cursor[Row]
    messages: list[int]
    """Asked for then."""


def lock_contacts(connection: Connection, batches: Sequence[AlertBatch]) -> None:
    """Wait for other nodes that record alerts of the same contacts. Always in the same order, so none waits for us."""
    contacts = {row.contact for batch in batches for row in batch.alerts}
    contacts |= {new.contact for batch in batches for new in batch.messages}
    if contacts:
        connection.execute(query("lock_contacts"), (sorted(contacts),))


def ask(connection: Connection, batch: AlertBatch) -> AskedAlerts:
    """Ask for what decides what of a batch is kept. The problems and messages stay as they are until the commit."""
    problems = numbers(problems_of(batch))
    return AskedAlerts(
        connection.execute(query("known_alerts"), (problems,), prepare=True),
        connection.execute(query("known_problems"), (problems,), prepare=True),
        messages_of(batch),
    )


def known(connection: Connection, asked: AskedAlerts) -> KnownAlerts:
    """What the answers say. Outside the pipeline, whose end leaves the server without its timeout for a client that
    stops in the middle of a transaction: one more question brings it back.
    """
    found = connection.execute(query("known_messages"), (numbers(asked.messages),), prepare=True)
    alerts = {(row[0], from_text(row[1])): KnownAlert(*row[2:]) for row in asked.alerts.fetchall()}
    messages = {id_: KnownMessage(from_text(state), complete) for id_, state, complete in found.fetchall()}
    return known_of(alerts, {id_ for (id_,) in asked.problems.fetchall()}, messages)


def write(connection: Connection, batch: AlertBatch) -> None:
    """Write what is kept of a batch."""
    for name, rows in (
        ("put_alerts", list(map(alert_row, batch.alerts))),
        ("add_decisions", batch.decisions),
        ("add_messages", list(map(message_row, batch.messages))),
        ("continue_messages", [(part.message, part.items, part.is_last) for part in batch.parts]),
        ("try_messages", batch.attempts),
        ("end_messages", batch.message_ends),
    ):
        if rows:
            connection.execute(query(name), _columns(rows), prepare=True)
    documents = [(new.id, new.document) for new in batch.messages]
    documents += [(part.message, part.document) for part in batch.parts]
    if documents:
        connection.execute(query("add_documents"), list(map(list, zip(*documents, strict=True))))


def _columns(rows: Sequence[tuple[object, ...]]) -> list[str]:
    """One array per column."""
    return [texts(column) if isinstance(column[0], str) else numbers(column) for column in zip(*rows, strict=True)]
