"""Turns rows of `progress` in SQLite into TaskProgress: SQLite has no booleans, and most tasks have no pause.

And rows of problems into records.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from evenbeat.store.common import rows
from evenbeat.store.common.rows import Row
from evenbeat.store.contract import NEVER, TaskProgress
from evenbeat.store.problem_records import ProblemRecord

_BOOLEANS: Final = tuple(map(TaskProgress._fields.index, ("hard", "flapping")))
_PAUSES: Final = tuple(map(TaskProgress._fields.index, ("pause_from", "pause_until")))
# Faster than `_make`: a million are made at a start.
_progress_of: Final[Callable[[tuple[object, ...]], TaskProgress]] = partial(tuple.__new__, TaskProgress)
_labels: Final = msgspec.json.Decoder(dict[str, str]).decode


def progress(found: Sequence[Row]) -> Iterable[TaskProgress]:
    """The progress of tasks, from rows of its columns, of which there is at least one."""
    columns: list[Iterable[Any]] = list(zip(*found, strict=True))
    for at in _BOOLEANS:
        columns[at] = map((1).__eq__, columns[at])
    for at in _PAUSES:
        columns[at] = [NEVER if value is None else value for value in columns[at]]
    return map(_progress_of, zip(*columns, strict=True))


def problem_record(row: Row) -> ProblemRecord:
    """A problem, from its columns; the labels of its task are JSON."""
    labels = row[13]
    return rows.problem_record((*row[:13], *row[14:]), _labels(labels) if labels else {})
