"""Turns rows of `progress` in SQLite into TaskProgress: SQLite has no booleans, and most tasks have no pause."""

from evenbeat.store.common.rows import Row
from evenbeat.store.contract import NEVER, TaskProgress


def progress(row: Row) -> TaskProgress:
    """The progress of a task, from its columns."""
    task, accounted, extra, extra_kind, last_start, state, hard, attempt, changes, flapping, *rest = row
    if rest[-1] is None:
        rest[-2:] = NEVER, NEVER
    return TaskProgress(
        task, accounted, extra, extra_kind, last_start, state, hard == 1, attempt, changes, flapping == 1, *rest
    )
