"""Documents of the API, turned back into the nouns that they describe: the inverse of `evenbeat.report.documents`."""

from typing import Any, Final

from msgspec import UNSET, Struct, structs
from msgspec.structs import replace

from evenbeat.load.contacts import contact_from_table
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import (
    SECOND,
    Acknowledgement,
    Downtime,
    DowntimeLimit,
    Entry,
    Instant,
    Outcome,
    Period,
    Prefer,
    RunKind,
    State,
    TaskPause,
)
from evenbeat.report.contacts import ContactInfo, ContactPlace
from evenbeat.report.downtimes import KnownDowntime
from evenbeat.store.contract import NEVER, Change, Condition, FieldChange, RunRecord, SkipRecord
from evenbeat.store.problem_records import ProblemNote, ProblemRecord
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone
from evenbeat.wire.documents import (
    AcknowledgementDocument,
    ChangeDocument,
    ContactDocument,
    Contacts,
    DowntimeDocument,
    DowntimeOfTask,
    Forced,
    OutputPartDocument,
    PauseOfTask,
    ProblemNoteDocument,
    ProblemOfTask,
    RunDocument,
    Seconds,
    SkipDocument,
    StoppedRunDocument,
    Taken,
    TaskDocument,
    TaskPage,
)
from evenbeat.wire.live_runs import OutputPart
from evenbeat.wire.replies import AcceptedResult, EndedRun, StopFound, StoppedRun

_UTC: Final = zone("UTC")
_STATES: Final = {state.name.lower(): state for state in State}
_OUTCOMES: Final = {outcome.value: outcome for outcome in Outcome}
_KINDS: Final = {kind.word: kind for kind in RunKind}
UNKNOWN_NUMBER: Final = 0
"""The number of every task here: numbers belong to a store, documents identify tasks by id."""


class TaskAsSent(TaskDocument, kw_only=True):
    """A task whose keys stay what the node sent: as TaskKeys, the argument 5 would become 5.0."""

    task: dict[str, Any]  # type: ignore[assignment]
    unreachable: bool = False
    unreachable_through: tuple[str, ...] = ()  # type: ignore[assignment]
    timebox: Seconds | None = None
    """A node of before does not send these."""
    waits_for: tuple[str, ...] = ()  # type: ignore[assignment]


class TaskPageAsSent(TaskPage):
    """A page of such tasks."""

    tasks: list[TaskAsSent]  # type: ignore[assignment]


class ContactAsSent(ContactDocument):
    """A contact whose keys stay what the node sent."""

    definition: dict[str, Any] | None  # type: ignore[assignment]


class ContactsAsSent(Contacts):
    """All such contacts."""

    contacts: list[ContactAsSent]  # type: ignore[assignment]


# The functions below raise Invalid or KeyError for a document that no node has made.


def to_change(document: ChangeDocument) -> Change:
    """The change; durations stay the texts that they are."""
    fields = tuple(FieldChange(field.key, field.old, field.new) for field in document.fields)
    return Change(to_instant(document.at), document.who, document.action, document.name, document.detail, fields)


def to_contact_info(sent: ContactAsSent) -> ContactInfo:
    """A contact, with its definition if the node has sent it."""
    places = tuple(
        ContactPlace(place.kind, place.shown, place.blocked, place.failing, place.latest) for place in sent.places
    )
    contact = None if sent.definition is None else contact_from_table(sent.name, sent.definition)
    return ContactInfo(
        sent.name, sent.owner, places, sent.period, tuple(sent.states), sent.per_hour, sent.tasks, contact
    )


def to_instant(text: str) -> Instant:
    """A time."""
    return parse_instant(text, _UTC)


def _to_instant_or_none(text: str | None) -> Instant | None:
    return None if text is None else to_instant(text)


def to_condition(sent: TaskAsSent) -> Condition:
    """A task and its condition. No document says the kind of its next run, nor the last accounted time."""
    task = replace(
        task_from_table(sent.name, sent.task, check=sent.check), paused=sent.paused, pause=_to_pause(sent.pause)
    )
    created, changed = to_instant(sent.created), to_instant(sent.changed)
    return Condition(
        entry=Entry(UNKNOWN_NUMBER, sent.id, sent.version, sent.owner, created, changed, task),
        accounted=None,
        extra=None if sent.retry is None else to_instant(sent.retry.at),
        extra_kind=RunKind.GRID if sent.retry is None else RunKind.RETRY,
        pause_from=NEVER,
        pause_until=NEVER,
        running_since=_to_instant_or_none(sent.running_since),
        last_start=_to_instant_or_none(sent.last_start),
        last_end=_to_instant_or_none(sent.last_end),
        outcome=None if sent.outcome is None else _OUTCOMES[sent.outcome],
        state=None if sent.state is None else _STATES[sent.state],
        hard=bool(sent.hard),
        attempt=(sent.attempt or 0) if sent.retry is None else sent.retry.attempt - 1,
        flapping=sent.flapping,
        output=sent.output,
        next_run=_to_instant_or_none(sent.next),
        expected_by=_to_instant_or_none(sent.expected_by),
        timebox=None if sent.timebox is None else round(sent.timebox * SECOND),
        longer_than=None if sent.longer_than is None else round(sent.longer_than * SECOND),
        long=sent.long,
        late=sent.late,
        stale=sent.stale,
        blocked=sent.blocked or "",
        deaths=sent.worker_deaths,
        unreachable_through=sent.unreachable_through,
        downtimes=tuple(_to_downtime_of_task(downtime, sent.name) for downtime in sent.downtimes),
        waits_for=sent.waits_for,
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


def to_output_part(sent: OutputPartDocument) -> OutputPart:
    """A part of the output of a run."""
    return OutputPart(
        now=to_instant(sent.now),
        claimed=_to_instant_or_none(sent.run),
        nominal=_to_instant_or_none(sent.nominal),
        kind=_KINDS[sent.kind],
        started=_to_instant_or_none(sent.started),
        position=sent.position,
        left_out=sent.left_out,
        text=sent.text,
        ended=_to_instant_or_none(sent.ended),
        outcome=None if sent.outcome is None else _OUTCOMES[sent.outcome],
        status=sent.status,
        waiting=sent.waiting,
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
        unreachable=sent.unreachable,
        hold=sent.hold or "",
        held_since=to_instant(sent.held_since) if sent.held_since else None,
        downtime=sent.downtime is True,
        passive=sent.passive is True,
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


def to_stopped_run(sent: StoppedRunDocument) -> StoppedRun:
    """What became of one task that was to be stopped."""
    return StoppedRun(sent.task, StopFound(sent.found), None if sent.run is None else to_ended_run(sent.run))


def to_accepted_result(sent: Taken) -> AcceptedResult:
    """The state of a check after a submitted result."""
    return AcceptedResult(sent.task, _STATES[sent.state], sent.hard, sent.attempt, sent.is_newest)


def _to_pause(sent: PauseOfTask | None) -> TaskPause | None:
    """Who has paused a task, and until when."""
    if sent is None:
        return None
    return TaskPause(to_instant(sent.at), sent.by, _to_instant_or_none(sent.until), sent.reason)


def _to_downtime_of_task(sent: DowntimeOfTask, name: str) -> Downtime:
    """A downtime that the task is in, as far as its document tells."""
    start, end = _to_instant_or_none(sent.start), _to_instant_or_none(sent.until)
    return Downtime(sent.id, (name,), start=start, end=end, period=sent.period, comment=sent.comment, who=sent.who)


class PeriodAsSent(Struct):
    """A period and its owner."""

    name: str
    owner: str
    ranges: tuple[str, ...] = ()
    holidays: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    prefer: Prefer = Prefer.INCLUDE
    zone: str = "UTC"

    def period(self) -> Period:
        """The period without its name and owner."""
        return Period(self.ranges, self.holidays, self.include, self.exclude, self.prefer, self.zone)


class PeriodsAsSent(Struct):
    """All periods."""

    periods: list[PeriodAsSent]


def to_known_downtime(sent: DowntimeDocument) -> KnownDowntime:
    """A downtime and how it stands."""
    return KnownDowntime(
        to_downtime(sent), sent.active, sent.over, _to_instant_or_none(sent.next_change), sent.declared
    )


def to_downtime(sent: DowntimeDocument) -> Downtime:
    """A downtime."""
    limit = sent.limited_to
    return Downtime(
        sent.id,
        tuple(sent.names),
        sent.owner,
        sent.labels,
        _to_instant_or_none(sent.start),
        _to_instant_or_none(sent.until),
        sent.period,
        sent.dependents,
        sent.comment,
        sent.who,
        to_instant(sent.created),
        sent.ended_by,
        None if limit is None else DowntimeLimit(limit.owner, limit.labels),
    )
