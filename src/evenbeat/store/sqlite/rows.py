"""Rows of the SQLite store as the nouns they stand for."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from evenbeat.model import Entry, Instant, Outcome, Period, RunKind, State, Task
from evenbeat.store.common.audit import fields_of
from evenbeat.store.contract import (
    FOREVER,
    NEVER,
    Change,
    Condition,
    PastDefinition,
    RunRecord,
    SkipRecord,
    StoreError,
    TaskProgress,
)

Row = tuple[Any, ...]


class UnreadableDefinition(StoreError):
    """A definition is damaged, or of another version of this program."""


_encode: Final = msgspec.json.Encoder().encode
_task: Final = msgspec.json.Decoder(Task).decode
_period: Final = msgspec.json.Decoder(Period).decode
_periods: Final = msgspec.json.Decoder(dict[str, Period]).decode


def change(row: Sequence[Any]) -> Change:
    """Of its columns."""
    at, who, action, name, detail, fields = row
    return Change(at, who, action, name, detail, fields_of(fields))


def as_text(definition: Task | Period) -> str:
    """A definition as the database keeps it."""
    return _encode(definition).decode()


def as_list(values: Sequence[int] | Sequence[str]) -> str:
    """Many values as one parameter."""
    return _encode(list(values)).decode()


def entry(row: Row) -> Entry:
    """Of number, id, version, owner, created, changed, definition."""
    number, id_, version, owner, created, changed, definition = row
    try:
        return Entry(number, id_, version, owner, created, changed, _task(definition))
    except msgspec.DecodeError as e:
        raise UnreadableDefinition(
            f"task number {number} has a definition that this program does not understand: {e}"
        ) from e


def period(definition: str) -> Period:
    """Of its definition."""
    try:
        return _period(definition)
    except msgspec.DecodeError as e:
        raise UnreadableDefinition(f"a period has a definition that this program does not understand: {e}") from e


def named_period(row: Row) -> tuple[str, tuple[str, Period]]:
    """Of name, owner, definition."""
    name, owner, definition = row
    return name, (owner, period(definition))


def condition(row: Row) -> Condition:
    """Of an entry's columns, then where it stands and its latest result."""
    its = entry(row[:7])
    accounted, extra, extra_kind, pause_from, pause_until, since, started, ended, *rest = row[7:]
    outcome, state, hard, attempt, flapping, result_at, output = rest
    return Condition(
        its,
        _instant(accounted),
        _instant(extra),
        RunKind(extra_kind),
        NEVER if pause_from is None else pause_from,
        NEVER if pause_until is None else pause_until,
        since,
        started,
        ended,
        Outcome(outcome) if outcome else None,
        State(state) if its.task.check and result_at > NEVER else None,
        bool(hard),
        attempt,
        bool(flapping),
        output,
    )


def _instant(value: int | None) -> Instant | None:
    return None if value is None or value == FOREVER else Instant(value)


def progress(row: Row) -> TaskProgress:
    """Of the columns of Progress; SQLite has no bools, and most tasks have no pause."""
    task, accounted, extra, extra_kind, last_start, state, hard, attempt, changes, flapping, *rest = row
    if rest[-1] is None:
        rest[-2:] = NEVER, NEVER
    return TaskProgress(
        task, accounted, extra, extra_kind, last_start, state, hard == 1, attempt, changes, flapping == 1, *rest
    )


def past_definition(row: Row) -> PastDefinition:
    """Of its columns."""
    task, until, definition, periods = row
    try:
        return PastDefinition(task, until, _task(definition), None if periods is None else _periods(periods))
    except msgspec.ValidationError as e:
        raise StoreError(f"task number {task} had a definition that this program does not understand: {e}") from e


def past_row(past: PastDefinition) -> Row:
    """Its columns."""
    periods = None if past.periods is None else _encode(past.periods).decode()
    return past.task, past.until, as_text(past.definition), periods


def run_record(row: Row) -> RunRecord:
    """Of a name, whether it is a check, the columns of a run, and the number of its task."""
    name, check, nominal, generation, kind, claimed, started, ended, outcome, status, *rest = row
    state, hard, attempt, out, number = rest
    return RunRecord(
        name,
        nominal,
        generation,
        RunKind(kind),
        claimed,
        started,
        ended,
        Outcome(outcome) if outcome else None,
        status,
        State(state) if check and state is not None else None,
        bool(hard),
        attempt,
        out,
        number,
    )


def skip_record(row: Row) -> SkipRecord:
    """Of its columns."""
    name, first, last, times, reason, at, kind, number = row
    return SkipRecord(name, first, last, times, reason, at, RunKind(kind), number)
