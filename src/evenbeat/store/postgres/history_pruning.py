"""Deletes old history in PostgreSQL: drops the tables of whole days, and deletes the rest by rows, a part at a time."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg

from evenbeat.store.alert_records import DOCUMENT_KEPT
from evenbeat.store.contract import AUDIT_MIN_AGE, AUDIT_MIN_ROWS
from evenbeat.store.postgres.connect import Connection, ensure_day_tables
from evenbeat.store.postgres.statements import fill_in, query
from evenbeat.store.postgres.write_session import WriteSession

_PRUNED_AT_ONCE: Final = 20_000
"""Rows of each table that are deleted at once."""
_PRUNED: Final = (
    *("prune_plain", "prune_notable", "prune_outputs", "prune_skips", "prune_changes"),
    *("prune_problems", "prune_decisions", "prune_messages", "prune_documents", "prune_returned"),
)
_REQUEST_MAX_AGE: Final = 3_600_000_000
"""Microseconds after which forwarded requests and answers are deleted."""


def prune_history(session: WriteSession, now: int, cutoff: int, bound: int) -> int:
    """Delete old history; return how many rows were deleted."""
    connection = session.connection()
    with session.address.explained():
        ensure_day_tables(connection, now)
        gone = _drop_days(connection, now, cutoff, bound)
    return gone + session.transaction(lambda transaction: _prune_rows(transaction, now, cutoff, bound))


def _drop_days(connection: Connection, now: int, cutoff: int, bound: int) -> int:
    (last,) = _row(connection, query("last_plain_id"))
    gone = 0
    for kind in ("plain_runs", "notable_runs"):
        for (day,) in connection.execute(query("days"), (kind,)).fetchall():
            if _end_of(day) > now:
                break
            try:
                with connection.transaction():
                    connection.execute(query("lock_briefly"))
                    rows = _drop(connection, day, cutoff, last - bound if kind == "plain_runs" else 0)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
                # Another session reads the table, or has dropped it; this is called again.
                break
            if rows is None:
                break
            gone += rows
    return gone


def _drop(connection: Connection, day: str, cutoff: int, last_id: int) -> int | None:
    """Drop the table of a past day; return its number of rows, or None if some of them must stay."""
    newest = connection.execute(fill_in("newest_of_day", ":day", day)).fetchone()
    rows = 0
    if newest is not None:
        id_, ended = newest
        if id_ > last_id and ended >= cutoff:
            return None
        rows, latest = _row(connection, fill_in("whole_day", ":day", day))
        if id_ > last_id and latest >= cutoff:
            return None
    connection.execute(fill_in("drop_day", ":day", day))
    return rows


def _end_of(day: str) -> int:
    """When the day of a table ends, by the name of the table."""
    begins = datetime.strptime(day[-8:], "%Y%m%d").replace(tzinfo=UTC)
    return int((begins + timedelta(days=1)).timestamp()) * 1_000_000


def _prune_rows(connection: Connection, now: int, cutoff: int, bound: int) -> int:
    if not _row(connection, query("try_to_prune"))[0]:
        return 0
    (last,) = _row(connection, query("last_plain_id"))
    asked = {"cutoff": cutoff, "part": _PRUNED_AT_ONCE, "last": last, "bound": bound}
    asked |= {"documents_cutoff": now - DOCUMENT_KEPT}
    asked |= {"audit_cutoff": min(cutoff, now - AUDIT_MIN_AGE), "audit_rows": AUDIT_MIN_ROWS}
    gone = 0
    for name in _PRUNED:
        gone += connection.execute(query(name), asked).rowcount
    forgotten = [number for (number,) in connection.execute(query("forgotten"), asked)]
    others = ("forget_pauses", "forget_definitions", "forget_chain_ends", "forget_chain_uses", "forget_outputs")
    for name in others if forgotten else ():
        connection.execute(query(name), (forgotten,))
    for name in ("forget_claims", "forget_problems", "forget_progress", "forget_tasks") if forgotten else ():
        gone += connection.execute(query(name), (forgotten,)).rowcount
    connection.execute(query("prune_requests"), (_REQUEST_MAX_AGE,))
    connection.execute(query("forget_writers"), ([],))
    return gone


def _row(connection: Connection, statement: str) -> tuple[Any, ...]:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row
