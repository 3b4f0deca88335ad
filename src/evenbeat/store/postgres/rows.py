"""Turns rows of PostgreSQL into what they stand for: decodes their texts, then does as `common.rows` does."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from evenbeat.model import Entry
from evenbeat.store.common import rows
from evenbeat.store.common.rows import Row
from evenbeat.store.contract import Change, Condition, RunRecord, SkipRecord, TaskProgress
from evenbeat.store.postgres.text import from_text
from evenbeat.store.problem_records import ProblemNote, ProblemRecord

_label: Final = msgspec.json.Decoder(tuple[str, str]).decode


def entry(row: Row) -> Entry:
    """An entry, from number, id, version, owner, created, changed, definition."""
    return rows.entry((*row[:3], from_text(row[3]), *row[4:]))


def condition(row: Row) -> Condition:
    """The condition of a task, from the columns of its entry, of its progress and of its latest result."""
    return rows.condition((*row[:3], from_text(row[3]), *row[4:-1], from_text(row[-1])))


def progress(row: Row) -> TaskProgress:
    """The progress of a task, from its columns."""
    return TaskProgress._make((*row[:-1], from_text(row[-1])))


def run_record(row: Row) -> RunRecord:
    """A run, from the name of its task, whether that is a check, the columns of the run, and the task's number."""
    return rows.run_record((from_text(row[0]), *row[1:-2], from_text(row[-2]), row[-1]))


def skip_record(row: Row) -> SkipRecord:
    """A skip, from its columns."""
    return rows.skip_record((from_text(row[0]), *row[1:4], from_text(row[4]), *row[5:]))


def change(row: Sequence[Any]) -> Change:
    """A change in the audit, from its columns."""
    return rows.change([row[0], *map(from_text, row[1:])])


def problem_record(row: Row) -> ProblemRecord:
    """A problem, from its columns; the labels of its task are JSON arrays of key and value."""
    *known, labels, hold, held_since, at, who, comment, until, sticky, then, worst = row
    number, task, name, *middle, flapping, output, owner = known
    ack = (at, *map(_text, (who, comment)), until, sticky, then, worst)
    named = (number, task, from_text(name), *middle, flapping, _text(output), from_text(owner), hold, held_since, *ack)
    return rows.problem_record(named, dict(map(_label, labels)))


def _text(text: str | None) -> str | None:
    return None if text is None else from_text(text)


def problem_note(row: Row) -> ProblemNote:
    """What people wrote about a problem, from its columns."""
    return rows.problem_note((row[0], *map(from_text, row[1:])))


def plain(row: Row) -> Row:
    """A row all of whose texts are encoded, decoded."""
    return tuple([from_text(value) if isinstance(value, str) else value for value in row])
