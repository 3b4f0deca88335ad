"""Changes of problems in SQLite. Each function must be called within a transaction."""

import sqlite3
from collections.abc import Iterable, Sequence

from evenbeat.model import Acknowledgement, Instant
from evenbeat.store.sqlite.statements import as_list, query


def acknowledge(
    connection: sqlite3.Connection, ids: Sequence[int], ack: Acknowledgement | None, now: Instant, who: str
) -> list[int]:
    """Acknowledge open problems, or take their acknowledgements back; return the ids of those that were changed."""
    values: dict[str, object] = {"ids": as_list(ids)}
    if ack is None:
        found = connection.execute(query("unacknowledge_problems"), values)
    else:
        values |= {"at": ack.at, "who": ack.who, "comment": ack.comment, "until": ack.until, "sticky": +ack.sticky}
        found = connection.execute(query("acknowledge_problems"), values)
    changed = {number for (number,) in found}
    action, text = ("unacknowledged", "") if ack is None else ("acknowledged", ack.comment)
    return _note(connection, [number for number in ids if number in changed], now, who, action, text)


def comment(connection: sqlite3.Connection, ids: Sequence[int], text: str, now: Instant, who: str) -> list[int]:
    """Add a comment to problems; return the ids of those that exist."""
    known = {number for (number,) in connection.execute(query("known_problems"), (as_list(ids),))}
    return _note(connection, [number for number in ids if number in known], now, who, "commented", text)


def _note(
    connection: sqlite3.Connection, ids: Iterable[int], now: Instant, who: str, action: str, text: str
) -> list[int]:
    noted = list(ids)
    connection.executemany(query("note_problems"), ((number, now, who, action, text) for number in noted))
    return noted
