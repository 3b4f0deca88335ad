"""Rows of the PostgreSQL store as the nouns they stand for: as in the SQLite store, texts read back first."""

from collections.abc import Sequence
from typing import Any

from evenbeat.model import Entry
from evenbeat.store.common import rows
from evenbeat.store.contract import Change, Condition, RunRecord, SkipRecord, TaskProgress
from evenbeat.store.postgres.text import from_text

Row = rows.Row


def entry(row: Row) -> Entry:
    """Of number, id, version, owner, created, changed, definition."""
    return rows.entry((*row[:3], from_text(row[3]), *row[4:]))


def condition(row: Row) -> Condition:
    """Of an entry's columns, then where it stands and its latest result."""
    return rows.condition((*row[:3], from_text(row[3]), *row[4:-1], from_text(row[-1])))


def progress(row: Row) -> TaskProgress:
    """Of the columns of Progress."""
    return TaskProgress(*row)


def run_record(row: Row) -> RunRecord:
    """Of a name, whether it is a check, the columns of a run, and the number of its task."""
    return rows.run_record((from_text(row[0]), *row[1:-2], from_text(row[-2]), row[-1]))


def skip_record(row: Row) -> SkipRecord:
    """Of its columns."""
    return rows.skip_record((from_text(row[0]), *row[1:4], from_text(row[4]), *row[5:]))


def change(row: Sequence[Any]) -> Change:
    """Of its columns."""
    return rows.change([row[0], *map(from_text, row[1:])])
