"""Splits the rows of a batch so that one SQL statement can take many of them."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from evenbeat.store.contract import ProgressRecord, Refusal, Skip, SubmittedResult
from evenbeat.store.problem_records import ProblemChange, ProblemHold

T = TypeVar("T", Refusal, Skip, ProgressRecord, SubmittedResult, ProblemChange, ProblemHold)


def with_distinct_tasks(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Groups of rows in which each task occurs once, as one statement cannot change a task twice.

    The first group has the first row of each task, the next group the second, and so on.
    """
    while rows:
        if len({row.task for row in rows}) == len(rows):
            yield rows
            return
        firsts = {row.task: i for i, row in reversed(list(enumerate(rows)))}
        yield [rows[i] for i in sorted(firsts.values())]
        rows = [row for i, row in enumerate(rows) if firsts[row.task] != i]
