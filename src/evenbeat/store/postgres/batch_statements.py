"""Turns a batch into statements for PostgreSQL: one for all rows of a kind, with one array per column."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evenbeat.store.common.batch_rows import with_distinct_tasks
from evenbeat.store.contract import Batch, Claim, Finish, Refusal, Skip, SubmittedResult
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.text import numbers, texts
from evenbeat.store.problem_records import ProblemChange

_OUTPUT_OF_FINISH = Finish._fields.index("output")
_CURSOR = Finish._fields.index("cursor")
_OUTPUT_OF_RESULT = SubmittedResult._fields.index("output")
_REASON_OF_SKIP = Skip._fields.index("reason")
_REASON_OF_REFUSAL = Refusal._fields.index("reason")
_REASON_OF_CHANGE = ProblemChange._fields.index("reason")


class Statement(NamedTuple):
    """A statement and its parameters."""

    text: str
    values: Sequence[object]
    claims: Sequence[Claim] = ()
    """The claims that it makes; it returns the tasks that were removed before."""


def batch_statements(batch: Batch) -> Iterator[Statement]:
    """The statements of a batch, in the order of the contract."""
    if batch.starts:
        yield Statement(query("start"), _columns(batch.starts))
    if batch.finishes:
        yield from _finish(batch.finishes)
    for submitted in with_distinct_tasks(batch.told):
        yield Statement(query("submit"), _columns(submitted, _OUTPUT_OF_RESULT))
    for records in with_distinct_tasks(batch.standings):
        yield Statement(query("record_progress"), _columns(records))
    for skips in with_distinct_tasks(batch.skips):
        yield Statement(query("skip"), _columns(skips, _REASON_OF_SKIP))
    for refusals in with_distinct_tasks(batch.refusals):
        yield Statement(query("refuse"), _columns(refusals, _REASON_OF_REFUSAL))
    if batch.claims:
        yield Statement(query("claim"), _columns(batch.claims), batch.claims)
    if batch.settled:
        yield Statement(query("settle_definitions"), _columns(batch.settled))
    if batch.problems:
        yield Statement(query("lock_problems"), ())
    for changes in with_distinct_tasks(batch.problems):
        columns = _columns(changes, _REASON_OF_CHANGE)
        for name in ("supersede_problems", "change_problems", "add_problems"):
            yield Statement(query(name), columns)


def _columns(rows: Sequence[tuple[object, ...]], text: int = -1) -> list[str]:
    """One array per column; `text` is the index of the column that holds arbitrary texts."""
    return [texts(column) if i == text else numbers(column) for i, column in enumerate(zip(*rows, strict=True))]


def _finish(finishes: Sequence[Finish]) -> Iterator[Statement]:
    columns = list(zip(*finishes, strict=True))
    arrays = [
        texts(column) if i == _OUTPUT_OF_FINISH else numbers(column) for i, column in enumerate(columns) if i != _CURSOR
    ]
    yield Statement(query("finish"), arrays)
    saved = [(finish.task, finish.cursor) for finish in finishes if finish.cursor is not None]
    if saved:
        yield Statement(query("save_cursors"), [[task for task, _ in saved], [cursor for _, cursor in saved]])
