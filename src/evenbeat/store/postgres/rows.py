"""Turns rows of PostgreSQL into what they stand for: decodes their texts, then does as `common.rows` does."""

from collections.abc import Sequence
from typing import Any

from evenbeat.model import Entry
from evenbeat.store.common import rows
from evenbeat.store.common.rows import Row
from evenbeat.store.contract import Change, Condition, RunRecord, SkipRecord, TaskProgress
from evenbeat.store.postgres.text import from_text


def entry(row: Row) -> Entry:
    """An entry, from number, id, version, owner, created, changed, definition."""
    return rows.entry((*row[:3], from_text(row[3]), *row[4:]))


def condition(row: Row) -> Condition:
    """The condition of a task, from the columns of its entry, of its progress and of its latest result."""
    return rows.condition((*row[:3], from_text(row[3]), *row[4:-1], from_text(row[-1])))


def progress(row: Row) -> TaskProgress:
    """The progress of a task, from its columns."""
    return TaskProgress(*row)


def run_record(row: Row) -> RunRecord:
    """A run, from the name of its task, whether that is a check, the columns of the run, and the task's number."""
    return rows.run_record((from_text(row[0]), *row[1:-2], from_text(row[-2]), row[-1]))


def skip_record(row: Row) -> SkipRecord:
    """A skip, from its columns."""
    return rows.skip_record((from_text(row[0]), *row[1:4], from_text(row[4]), *row[5:]))


def change(row: Sequence[Any]) -> Change:
    """A change in the audit, from its columns."""
    return rows.change([row[0], *map(from_text, row[1:])])
