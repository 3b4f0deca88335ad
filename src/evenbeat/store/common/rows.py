"""Turns rows of the SQL stores into what they stand for, and definitions into text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from evenbeat.model import Acknowledgement, Entry, Instant, Outcome, Period, RunKind, State, Task
from evenbeat.store.common.audit import fields_of, fields_text
from evenbeat.store.contract import (
    FOREVER,
    NEVER,
    Change,
    Condition,
    PastDefinition,
    RunRecord,
    SkipRecord,
    StoreError,
)
from evenbeat.store.problem_records import ProblemNote, ProblemRecord

Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]


class UnreadableDefinition(StoreError):
    """A definition is damaged, or of another version of this program."""


_encode: Final = msgspec.json.Encoder().encode
_task: Final = msgspec.json.Decoder(Task).decode
_period: Final = msgspec.json.Decoder(Period).decode
_periods: Final = msgspec.json.Decoder(dict[str, Period]).decode


def change(row: Sequence[Any]) -> Change:
    """A change in the audit, from its columns."""
    at, who, action, name, detail, fields = row
    return Change(at, who, action, name, detail, fields_of(fields))


def change_row(change: Change) -> Row:
    """The columns of a change, as the audit keeps it."""
    return change.at, change.who, change.action, change.name, change.detail, fields_text(change.fields)


def as_text(definition: Task | Period) -> str:
    """A definition as text for the database: JSON."""
    return _encode(definition).decode()


def entry(row: Row) -> Entry:
    """An entry, from number, id, version, owner, created, changed, definition."""
    number, id_, version, owner, created, changed, definition = row
    try:
        return Entry(number, id_, version, owner, created, changed, _task(definition))
    except msgspec.DecodeError as e:
        raise UnreadableDefinition(
            f"task number {number} has a definition that this program does not understand: {e}"
        ) from e


def entries(found: Sequence[Row]) -> Iterable[Entry]:
    """Entries of rows of these columns, of which there is at least one: without steps of Python for each of them."""
    *columns, definitions = zip(*found, strict=True)
    try:
        return map(Entry, *columns, list(map(_task, definitions)))
    except msgspec.DecodeError:
        return map(entry, found)  # the error names the task


def period(definition: str) -> Period:
    """A period, from the text of its definition."""
    try:
        return _period(definition)
    except msgspec.DecodeError as e:
        raise UnreadableDefinition(f"a period has a definition that this program does not understand: {e}") from e


def named_period(row: Row) -> tuple[str, tuple[str, Period]]:
    """The name, owner and definition of a period, from those columns."""
    name, owner, definition = row
    return name, (owner, period(definition))


def condition(row: Row) -> Condition:
    """The condition of a task, from the columns of its entry, of its progress and of its latest result."""
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


def past_definition(row: Row) -> PastDefinition:
    """A past definition, from its columns."""
    task, until, definition, periods = row
    try:
        return PastDefinition(task, until, _task(definition), None if periods is None else _periods(periods))
    except msgspec.ValidationError as e:
        raise StoreError(f"task number {task} had a definition that this program does not understand: {e}") from e


def past_row(past: PastDefinition) -> Row:
    """The columns of a past definition."""
    periods = None if past.periods is None else _encode(past.periods).decode()
    return past.task, past.until, as_text(past.definition), periods


def run_record(row: Row) -> RunRecord:
    """A run, from the name of its task, whether that is a check, the columns of the run, and the task's number."""
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
    """A skip, from its columns."""
    name, first, last, times, reason, at, kind, number = row
    return SkipRecord(name, first, last, times, reason, at, RunKind(kind), number)


def problem_record(row: Row, labels: Mapping[str, str]) -> ProblemRecord:
    """A problem, from its columns and those of its task, and from those of its acknowledgement."""
    number, task, name, cause, opened, since, state, worst, closed, reason, flapping, output, owner, *rest = row
    hold, held_since, *ack = rest
    return ProblemRecord(
        number,
        task,
        name,
        cause,
        opened,
        since,
        State(state),
        State(worst),
        closed,
        reason,
        bool(flapping),
        output or "",
        owner,
        labels,
        acknowledgement(*ack),
        hold,
        held_since,
    )


def acknowledgement(
    at: Instant | None, who: str, comment: str, until: Instant | None, sticky: int, severity: int, worst: int
) -> Acknowledgement | None:
    """An acknowledgement, from its columns; None if there is none."""
    return None if at is None else Acknowledgement(at, who, comment, until, bool(sticky), severity, worst)


def problem_note(row: Row) -> ProblemNote:
    """What people wrote about a problem, from its columns."""
    return ProblemNote(*row)
