"""Documents of the API back to the nouns that they were made of: what `evenbeat.report.documents` does, undone."""

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from evenbeat.load.task_keys import task_from_table
from evenbeat.model import Entry, Instant, Outcome, RunKind, State
from evenbeat.store.contract import NEVER, Change, Condition, FieldChange, RunRecord, SkipRecord
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone
from evenbeat.wire.replies import AcceptedResult, EndedRun

_UTC: Final = zone("UTC")
_STATES: Final = {state.name.lower(): state for state in State}
_KINDS: Final = {kind.word: kind for kind in RunKind}
UNKNOWN_NUMBER: Final = 0
"""Numbers are a store's own; elsewhere tasks go by their ids."""


class ReceivedTask(Struct):
    """A task and how it is."""

    name: str
    id: str
    owner: str
    version: int
    check: bool
    paused: bool
    next: str | None
    running_since: str | None
    last_start: str | None
    last_end: str | None
    outcome: Outcome | None
    state: str | None
    hard: bool | None
    attempt: int | None
    flapping: bool
    output: str
    created: str
    changed: str
    task: dict[str, Any]
    expected_by: str | None = None
    late: bool = False
    stale: bool = False
    blocked: str | None = None
    worker_deaths: int = 0


class ReceivedTaskPage(Struct):
    """Of tasks."""

    tasks: list[ReceivedTask]
    next: str | None
    live: bool = True


class ReceivedFieldChange(Struct):
    """A key that has another value now."""

    key: str
    old: Any
    new: Any


class ReceivedChange(Struct):
    """A line of the audit."""

    at: str
    who: str
    action: str
    name: str
    detail: str
    fields: list[ReceivedFieldChange]


class ReceivedAuditPage(Struct):
    """Of the audit."""

    changes: list[ReceivedChange]
    next: int | None


def to_change(document: ReceivedChange) -> Change:
    """The change; durations stay the texts that they are."""
    fields = tuple(FieldChange(field.key, field.old, field.new) for field in document.fields)
    return Change(to_instant(document.at), document.who, document.action, document.name, document.detail, fields)


class ReceivedRun(Struct):
    """A run."""

    task: str
    nominal: str
    kind: str
    claimed: str
    started: str | None
    ended: str | None
    outcome: Outcome | None
    status: int | None
    state: str | None
    hard: bool | None
    attempt: int | None
    output: str


class ReceivedSkip(Struct):
    """Skipped times."""

    task: str
    first: str
    last: str
    times: int
    reason: str
    kind: str
    at: str


class ReceivedHistory(Struct):
    """Newest first."""

    runs: list[ReceivedRun]
    skips: list[ReceivedSkip]
    next: str | None


class ReceivedForcedRun(Struct):
    """A forced run that was waited for."""

    task: str
    started: str
    ended: str
    outcome: str
    status: int | None
    output: str


class ReceivedForcedRuns(Struct):
    """Several of them."""

    runs: list[ReceivedForcedRun]
    waiting: dict[str, str] = {}


class ReceivedActionResult(Struct):
    """An action by filter."""

    names: list[str]
    unchanged: int
    files: list[str] = []


class ReceivedCheckState(Struct):
    """A result that was told."""

    task: str
    state: str
    hard: bool
    attempt: int
    is_newest: bool


class ReceivedHeartbeat(Struct):
    """Its new token."""

    token: str


# All of these raise Invalid or KeyError for what was never made by a node.


def to_instant(text: str) -> Instant:
    """A time."""
    return parse_instant(text, _UTC)


def _to_instant_or_none(text: str | None) -> Instant | None:
    return None if text is None else to_instant(text)


def to_condition(said: ReceivedTask) -> Condition:
    """A task and how it is. Whether its next run is on the grid, and how far it has come, is not told."""
    task = replace(task_from_table(said.name, said.task, check=said.check), paused=said.paused)
    created, changed = to_instant(said.created), to_instant(said.changed)
    return Condition(
        entry=Entry(UNKNOWN_NUMBER, said.id, said.version, said.owner, created, changed, task),
        accounted=None,
        extra=None,
        extra_kind=RunKind.GRID,
        pause_from=NEVER,
        pause_until=NEVER,
        running_since=_to_instant_or_none(said.running_since),
        last_start=_to_instant_or_none(said.last_start),
        last_end=_to_instant_or_none(said.last_end),
        outcome=said.outcome,
        state=None if said.state is None else _STATES[said.state],
        hard=bool(said.hard),
        attempt=said.attempt or 0,
        flapping=said.flapping,
        output=said.output,
        next_run=_to_instant_or_none(said.next),
        expected_by=_to_instant_or_none(said.expected_by),
        late=said.late,
        stale=said.stale,
        blocked=said.blocked or "",
        deaths=said.worker_deaths,
    )


def to_run_record(said: ReceivedRun) -> RunRecord:
    """A run."""
    return RunRecord(
        task=said.task,
        nominal=to_instant(said.nominal),
        generation=0,
        kind=_KINDS[said.kind],
        claimed=to_instant(said.claimed),
        started=_to_instant_or_none(said.started),
        ended=_to_instant_or_none(said.ended),
        outcome=said.outcome,
        status=said.status,
        state=None if said.state is None else _STATES[said.state],
        hard=bool(said.hard),
        attempt=said.attempt or 0,
        output=said.output,
    )


def to_skip_record(said: ReceivedSkip) -> SkipRecord:
    """Skipped times."""
    first, last, at = to_instant(said.first), to_instant(said.last), to_instant(said.at)
    return SkipRecord(said.task, first, last, said.times, said.reason, at, _KINDS[said.kind])


def to_ended_run(said: ReceivedForcedRun) -> EndedRun:
    """A forced run that was waited for."""
    return EndedRun(said.task, to_instant(said.started), to_instant(said.ended), said.outcome, said.status, said.output)


def to_accepted_result(said: ReceivedCheckState) -> AcceptedResult:
    """A result that was told."""
    return AcceptedResult(said.task, _STATES[said.state], said.hard, said.attempt, said.is_newest)
