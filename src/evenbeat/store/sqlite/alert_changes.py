"""Changes of alerts, decisions and messages in SQLite. Each function must be called within a transaction."""

import sqlite3

from evenbeat.store.alert_records import AlertBatch, AlertRefusals
from evenbeat.store.common.alert_refusals import (
    KnownAlert,
    KnownAlerts,
    KnownMessage,
    known_of,
    messages_of,
    problems_of,
    without_refused,
)
from evenbeat.store.common.alert_rows import alert_row, message_row
from evenbeat.store.sqlite.many_rows import execute_rows
from evenbeat.store.sqlite.statements import as_list, query


def record_alerts(connection: sqlite3.Connection, batch: AlertBatch) -> AlertRefusals:
    """Record what is not refused; return what is."""
    kept, refused = without_refused(batch, _known(connection, batch))
    execute_rows(connection, "put_alerts", map(alert_row, kept.alerts))
    execute_rows(connection, "add_decisions", kept.decisions)
    connection.executemany(query("add_message"), map(message_row, kept.messages))
    connection.executemany(query("add_document"), ((new.id, new.document) for new in kept.messages))
    connection.executemany(query("continue_message"), ((p.message, p.items, p.is_last) for p in kept.parts))
    connection.executemany(query("add_document"), ((p.message, p.document) for p in kept.parts))
    connection.executemany(query("try_message"), kept.attempts)
    connection.executemany(query("end_message"), kept.message_ends)
    return refused


def _known(connection: sqlite3.Connection, batch: AlertBatch) -> KnownAlerts:
    problems = as_list(problems_of(batch))
    rows = connection.execute(query("known_alerts"), (problems,))
    alerts = {(problem, channel): KnownAlert(version, message) for problem, channel, version, message in rows}
    there = {problem for (problem,) in connection.execute(query("known_problems"), (problems,))}
    messages = connection.execute(query("known_messages"), (as_list(messages_of(batch)),))
    return known_of(alerts, there, {id_: KnownMessage(state, bool(complete)) for id_, state, complete in messages})


def reserve_messages(connection: sqlite3.Connection, count: int) -> int:
    """The first of some ids that no message has or had."""
    ((first,),) = connection.execute(query("reserve_messages"), (count,)).fetchall()
    return int(first)
