"""Documents of the API, turned back into the nouns that they describe: the inverse of `evenbeat.report.documents`."""

from typing import Any, Final

from msgspec import UNSET, structs
from msgspec.structs import replace

from evenbeat.load.task_keys import task_from_table
from evenbeat.model import Acknowledgement, Entry, Instant, Outcome, RunKind, State
from evenbeat.store.contract import NEVER, Change, Condition, FieldChange, RunRecord, SkipRecord
from evenbeat.store.problem_records import ProblemNote, ProblemRecord
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone
from evenbeat.wire.documents import (
    AcknowledgementDocument,
    ChangeDocument,
    Forced,
    ProblemNoteDocument,
    ProblemOfTask,
    RunDocument,
    SkipDocument,
    Taken,
    TaskDocument,
    TaskPage,
)
from evenbeat.wire.replies import AcceptedResult, EndedRun

_UTC: Final = zone("UTC")
_STATES: Final = {state.name.lower(): state for state in State}
_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}
_KINDS: Final = {kind.word: kind for kind in RunKind}
UNKNOWN_NUMBER: Final = 0
"""The number of every task here: numbers belong to a store, documents identify tasks by id."""


class TaskAsSent(TaskDocument):
    """A task whose keys stay what the node sent: as TaskKeys, the argument 5 would become 5.0."""

    task: dict[str, Any]  # type: ignore[assignment]


class TaskPageAsSent(TaskPage):
    """A page of such tasks."""

    tasks: list[TaskAsSent]  # type: ignore[assignment]


# The functions below raise Invalid or KeyError for a document that no node has made.


def to_change(document: ChangeDocument) -> Change:
    """The change; durations stay the texts that they are."""
    fields = tuple(FieldChange(field.key, field.old, field.new) for field in document.fields)
    return Change(to_instant(document.at), document.who, document.action, document.name, document.detail, fields)


def to_instant(text: str) -> Instant:
    """A time."""
    return parse_instant(text, _UTC)


def _to_instant_or_none(text: str | None) -> Instant | None:
    return None if text is None else to_instant(text)


def to_condition(sent: TaskAsSent) -> Condition:
    """A task and its condition. No document says the kind of its next run, nor the last accounted time."""
    task = replace(task_from_table(sent.name, sent.task, check=sent.check), paused=sent.paused)
    created, changed = to_instant(sent.created), to_instant(sent.changed)
    return Condition(
        entry=Entry(UNKNOWN_NUMBER, sent.id, sent.version, sent.owner, created, changed, task),
        accounted=None,
        extra=None,
        extra_kind=RunKind.GRID,
        pause_from=NEVER,
        pause_until=NEVER,
        running_since=_to_instant_or_none(sent.running_since),
        last_start=_to_instant_or_none(sent.last_start),
        last_end=_to_instant_or_none(sent.last_end),
        outcome=None if sent.outcome is None else _OUTCOMES[sent.outcome],
        state=None if sent.state is None else _STATES[sent.state],
        hard=bool(sent.hard),
        attempt=sent.attempt or 0,
        flapping=sent.flapping,
        output=sent.output,
        next_run=_to_instant_or_none(sent.next),
        expected_by=_to_instant_or_none(sent.expected_by),
        late=sent.late,
        stale=sent.stale,
        blocked=sent.blocked or "",
        deaths=sent.worker_deaths,
    )


def to_run_record(sent: RunDocument) -> RunRecord:
    """A run."""
    return RunRecord(
        task=sent.task,
        nominal=to_instant(sent.nominal),
        generation=0,
        kind=_KINDS[sent.kind],
        claimed=to_instant(sent.claimed),
        started=_to_instant_or_none(sent.started),
        ended=_to_instant_or_none(sent.ended),
        outcome=None if sent.outcome is None else _OUTCOMES[sent.outcome],
        status=sent.status,
        state=None if sent.state is None else _STATES[sent.state],
        hard=bool(sent.hard),
        attempt=sent.attempt or 0,
        output=sent.output,
    )


def to_skip_record(sent: SkipDocument) -> SkipRecord:
    """Skipped times."""
    first, last, at = to_instant(sent.first), to_instant(sent.last), to_instant(sent.at)
    return SkipRecord(sent.task, first, last, sent.times, sent.reason, at, _KINDS[sent.kind])


def to_problem_record(sent: ProblemOfTask) -> ProblemRecord:
    """A problem; an acknowledgement that was sent counts, so its severities are those of one that does."""
    return ProblemRecord(
        id=sent.id,
        number=UNKNOWN_NUMBER,
        task=sent.task,
        cause=sent.cause,
        opened=to_instant(sent.opened),
        since=to_instant(sent.since),
        state=_STATES[sent.state],
        worst=_STATES[sent.worst],
        closed=_to_instant_or_none(sent.closed),
        reason=sent.reason,
        flapping=sent.flapping,
        output=sent.output,
        owner=sent.owner,
        labels=sent.labels,
        acknowledgement=None if sent.acknowledged is None else _to_acknowledgement(sent.acknowledged),
    )


def _to_acknowledgement(sent: AcknowledgementDocument) -> Acknowledgement:
    return Acknowledgement(
        to_instant(sent.at), sent.by, sent.comment, _to_instant_or_none(sent.until), sticky=sent.sticky
    )


def to_problem_note(sent: ProblemNoteDocument) -> ProblemNote:
    """What somebody wrote about a problem."""
    return ProblemNote(to_instant(sent.at), sent.who, sent.action, sent.text)


def to_ended_run(sent: Forced) -> EndedRun:
    """A forced run whose end was waited for; KeyError for one without an end."""
    found = {key: value for key, value in structs.asdict(sent).items() if value is not UNSET}
    started, ended = to_instant(found["started"]), to_instant(found["ended"])
    return EndedRun(sent.task, started, ended, found["outcome"], found["status"], found["output"])


def to_accepted_result(sent: Taken) -> AcceptedResult:
    """The state of a check after a submitted result."""
    return AcceptedResult(sent.task, _STATES[sent.state], sent.hard, sent.attempt, sent.is_newest)
