"""Changes of problems by people in PostgreSQL. Each function must be called within a transaction."""

from collections.abc import Iterable, Sequence

from evenbeat.model import Acknowledgement, Instant
from evenbeat.store.common.rows import Row
from evenbeat.store.postgres.connect import Connection
from evenbeat.store.postgres.statements import query


def acknowledge(
    connection: Connection, ids: Sequence[int], ack: Acknowledgement | None, now: Instant, who: str
) -> list[int]:
    """Acknowledge open problems, or take their acknowledgements back; return the ids of those that were changed."""
    connection.execute(query("lock_problems_alone"))
    if ack is None:
        found = connection.execute(query("unacknowledge_problems"), {"ids": list(ids)})
        return _note(connection, ids, found, now, who, "unacknowledged")
    values = {"at": ack.at, "who": ack.who, "comment": ack.comment, "until": ack.until, "sticky": ack.sticky}
    found = connection.execute(query("acknowledge_problems"), {"ids": list(ids), **values})
    return _note(connection, ids, found, now, who, "acknowledged", ack.comment)


def comment(connection: Connection, ids: Sequence[int], text: str, now: Instant, who: str) -> list[int]:
    """Add a comment to problems; return the ids of those that exist."""
    found = connection.execute(query("known_problems"), (list(ids),))
    return _note(connection, ids, found, now, who, "commented", text)


def _note(
    connection: Connection,
    ids: Sequence[int],
    found: Iterable[Row],
    now: Instant,
    who: str,
    action: str,
    text: str = "",
) -> list[int]:
    """Write a note to each of the problems that were found; return their ids in the order that was asked for."""
    changed = {number for (number,) in found}
    noted = [number for number in ids if number in changed]
    if noted:
        values = {"ids": noted, "now": now, "who": who, "action": action, "text": text}
        connection.execute(query("note_problems"), values)
    return noted
