"""Copies a store from an SQLite file to PostgreSQL: all or nothing, with all numbers, ids and versions."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec

from evenbeat.model import DAY, Task
from evenbeat.store.common.packed_history import DamageReports
from evenbeat.store.common.run_log import LogBlock
from evenbeat.store.contract import ENVIRONMENT_TOLD, StoreError
from evenbeat.store.postgres.connect import Connection, PostgresAddress, prepare
from evenbeat.store.postgres.statements import fill_in, query
from evenbeat.store.postgres.task_changes import is_off, labels_of, notify
from evenbeat.store.postgres.write_session import WriteSession
from evenbeat.store.sqlite.connect import check_readable, explained

_FETCHED_AT_ONCE: Final = 5_000
_MOST_DAYS: Final = 400
"""Days of history that get tables of their own; the runs of a longer history go to the default table."""
_RUN: Final = "task, nominal, claimed, started, ended, generation, status, attempt, kind, state, hard, outcome, output"
_COLUMNS: Final = {
    "tasks": "number, id, name, owner, version, created, changed, removed, definition",
    "progress": "task, accounted, extra, last_start, result_at, started, ended, changes, attempt, extra_kind, "
    "state, hard, flapping, outcome, cursor, output",
    "claims": "task, nominal, at, accounted, extra, started, generation, kind, extra_kind, stop",
    "past_definitions": "task, until, definition, periods",
    "pauses": "task, pause_from, pause_until",
    "chain_ends": "task, succeeded, nominal, generation, at",
    "chain_uses": "task, used",
    "plain_runs": _RUN,
    "notable_runs": _RUN,
    "outputs": "task, claimed, data",
    "parts": "number, layer, since, is_merged, state, rows, size, blocks, first_claimed, last_claimed, starts",
    "blocks": "part, first_task, last_task, rows, first_claimed, last_claimed, notable, body",
    "skips": "task, first, last, times, at, next_nominal, kind, reason",
    "problems": "id, task, cause, opened, since, state, severity, worst, worst_severity, closed, reason, ack_at, "
    "ack_until, ack_sticky, ack_severity, ack_worst, ack_who, ack_comment, hold, held_since",
    "problem_notes": "problem, at, who, action, text",
    "alerts": "problem, channel, contact, version, sent, is_known, last_sent, waiting, is_reminder, leaves_at, "
    "counts_from, held, told_ack, message, is_over",
    "alert_decisions": "at, problem, channel, contact, decision, reason, message, item",
    "messages": "id, channel, contact, created, items, state, attempts, next_attempt, started_attempt, "
    "possible_repetition, ended, error, detail, is_complete",
    "message_documents": "message, part, document",
    "returned": "task, claimed, ended, value",
    "changes": "at, who, action, name, detail, fields",
    "periods": "name, owner, definition",
    "settings": "key, value",
}
"""Tables and columns; they have the same names in both databases."""
_LOGGED: Final = {"plain_runs": "runs - notable", "notable_runs": "notable"}
"""Tables whose rows may be in the log of runs, and how many of those in a record."""
_ORDER: Final = dict.fromkeys(
    (
        "plain_runs",
        "notable_runs",
        "blocks",
        "skips",
        "problems",
        "problem_notes",
        "alert_decisions",
        "messages",
        "changes",
    ),
    "id",
)
"""Tables whose rows have an order, and the column that defines it."""
_LEFT_OUT: Final = {
    "settings": "key LIKE 'deaths:%'",
    "parts": "state <> 'complete'",
    "blocks": "part NOT IN (SELECT number FROM parts WHERE state = 'complete')",
}
"""Rows that are not copied: they concern worker processes and unfinished work of the node that owned the file."""
_BOOLEANS: Final = frozenset(
    {
        "hard",
        "flapping",
        "is_merged",
        "succeeded",
        "ack_sticky",
        "is_reminder",
        "is_known",
        "is_over",
        "possible_repetition",
    }
    | {"is_complete"}
)

CopyProgress = Callable[[str, int, int], None]
"""Called with the name of a table, how many of its rows were copied, and how many there are."""


def copy_sqlite(path: Path, dsn: str, report: CopyProgress = lambda *_: None) -> dict[str, int]:
    """Copy a file, which must not change meanwhile, to an empty database; return how many rows each table has."""
    check_readable(path)
    address = PostgresAddress(dsn)
    prepare(address)
    session = WriteSession(address)
    try:
        with explained(path), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
            source.execute("BEGIN")
            return session.transaction(lambda connection: _copy(source, connection, address, report))
    finally:
        session.drop()


def _copy(
    source: sqlite3.Connection, connection: Connection, address: PostgresAddress, report: CopyProgress
) -> dict[str, int]:
    connection.execute("SET LOCAL statement_timeout = 0")
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    connection.execute(query("next_settings_stamp"))
    # Written when this database was created; that of the file counts.
    connection.execute(query("delete_settings"), ([ENVIRONMENT_TOLD],))
    _must_be_empty(connection, address)
    _make_days(source, connection)
    copied = {}
    damage = DamageReports("the file that is copied")
    for table, columns in _COLUMNS.items():
        counted = f"SELECT count(*) FROM {table} WHERE NOT ({_LEFT_OUT.get(table, 'false')})"  # noqa: S608 - our words
        (total,) = source.execute(counted).fetchone()
        rows = _rows(source, table, columns)
        more = ""
        if table in _LOGGED:
            (logged,) = source.execute(f"SELECT coalesce(sum({_LOGGED[table]}), 0) FROM run_log").fetchone()  # noqa: S608
            total += logged
            rows = chain(rows, _logged_rows(source, damage, notable=table == "notable_runs"))
        if table == "tasks":
            rows, more = map(_task_row, rows), ", stamp, is_check, is_off, labels, limit_key"
        with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({columns}{more}) FROM STDIN") as copy:
            for done, row in enumerate(rows):
                if done % _FETCHED_AT_ONCE == 0:
                    report(table, done, total)
                copy.write_row(row)
        copied[table] = total
    connection.execute(query("take_numbers"), (_last_id(source, "tasks"),))
    connection.execute(query("set_last_problem"), {"last": _last_id(source, "problems")})
    connection.execute(query("set_last_message"), (_last_id(source, "messages"),))
    connection.execute(query("set_last_part"), {"last": _last_id(source, "parts")})
    notify(connection, "tasks")
    notify(connection, "settings")
    return copied


def _last_id(source: sqlite3.Connection, table: str) -> int:
    """The largest id that a table has ever had."""
    (last,) = source.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    return int(last)


def _must_be_empty(connection: Connection, address: PostgresAddress) -> None:
    for table in ("tasks", "changes", "periods", "settings", "plain_runs", "notable_runs", "parts", "skips", "leases"):
        if connection.execute(fill_in("any_row", ":table", table)).fetchone() is not None:
            raise StoreError(
                f"{address}: the database is not empty ({table}), and a copy replaces nothing: "
                "choose another database, or drop its schema evenbeat first"
            )


def _make_days(source: sqlite3.Connection, connection: Connection) -> None:
    claimed = " UNION ALL ".join(
        [
            "SELECT claimed AS first, claimed AS last FROM plain_runs",
            "SELECT claimed, claimed FROM notable_runs",
            "SELECT first_claimed, last_claimed FROM run_log",
        ]
    )
    first, last = source.execute(f"SELECT min(first), max(last) FROM ({claimed})").fetchone()  # noqa: S608 - ours
    if first is not None and last - first < _MOST_DAYS * DAY:
        connection.execute(query("ensure_days"), (first, last // DAY - first // DAY + 1))


def _rows(source: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    order = _ORDER.get(table, "1")
    left_out = _LEFT_OUT.get(table, "false")
    words = f"SELECT {columns} FROM {table} WHERE NOT ({left_out}) ORDER BY {order}"  # noqa: S608 - our own words
    cursor = source.execute(words)
    flags = [i for i, column in enumerate(columns.split(", ")) if column in _BOOLEANS]
    while some := cursor.fetchmany(_FETCHED_AT_ONCE):
        for row in some:
            values = list(row)
            for i in flags:
                values[i] = None if values[i] is None else bool(values[i])
            yield tuple(values)


def _logged_rows(source: sqlite3.Connection, damage: DamageReports, *, notable: bool) -> Iterator[tuple[Any, ...]]:
    """The runs in the log, as rows of a table of runs. Damaged records are reported and left out."""
    for number, rows, body in source.execute("SELECT id, runs, body FROM run_log ORDER BY id"):
        with damage.skipped(0, number, rows):
            for run in LogBlock(body).runs():
                if run.notable == notable:
                    row = {**run._asdict(), "state": None if run.state < 0 else run.state}
                    yield tuple(row[column] for column in _RUN.split(", "))


def _task_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        task = msgspec.json.decode(row[-1], type=Task)
    except msgspec.ValidationError as e:
        raise StoreError(f"task number {row[0]} has a definition that this program does not understand: {e}") from e
    return (*row, 1, task.check, is_off(task), labels_of(task), task.limit)
