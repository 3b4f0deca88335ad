"""Turns rows of `progress` in SQLite into TaskProgress: SQLite has no booleans, and most tasks have no pause.

And rows of problems into records.
"""

from typing import Final

import msgspec

from evenbeat.store.common import rows
from evenbeat.store.common.rows import Row
from evenbeat.store.contract import NEVER, TaskProgress
from evenbeat.store.problem_records import ProblemRecord

_labels: Final = msgspec.json.Decoder(dict[str, str]).decode


def progress(row: Row) -> TaskProgress:
    """The progress of a task, from its columns."""
    task, accounted, extra, extra_kind, last_start, state, hard, attempt, changes, flapping, *rest = row
    if rest[-2] is None:
        rest[-3:-1] = NEVER, NEVER
    return TaskProgress(
        task, accounted, extra, extra_kind, last_start, state, hard == 1, attempt, changes, flapping == 1, *rest
    )


def problem_record(row: Row) -> ProblemRecord:
    """A problem, from its columns; the labels of its task are JSON."""
    labels = row[13]
    return rows.problem_record((*row[:13], *row[14:]), _labels(labels) if labels else {})
