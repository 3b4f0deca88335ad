"""Documents of the API back to the nouns that they were made of: what `evenbeat.report.documents` does, undone."""

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from evenbeat.load.task_keys import task_of
from evenbeat.model import Entry, Instant, Kind, Outcome, State
from evenbeat.store.contract import NEVER, Change, Condition, FieldChange, RunRecord, SkipRecord
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone
from evenbeat.wire.requests import Ended, Taken

_UTC: Final = zone("UTC")
_STATES: Final = {state.name.lower(): state for state in State}
_KINDS: Final = {kind.word: kind for kind in Kind}
UNNUMBERED: Final = 0
"""Numbers are a store's own; elsewhere tasks go by their ids."""


class TaskDocument(Struct):
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


class Page(Struct):
    """Of tasks."""

    tasks: list[TaskDocument]
    next: str | None
    live: bool = True


class FieldDocument(Struct):
    """A key that has another value now."""

    key: str
    old: Any
    new: Any


class ChangeDocument(Struct):
    """A line of the audit."""

    at: str
    who: str
    action: str
    name: str
    detail: str
    fields: list[FieldDocument]


class AuditPage(Struct):
    """Of the audit."""

    changes: list[ChangeDocument]
    next: int | None


def change_of(document: ChangeDocument) -> Change:
    """The change; durations stay the texts that they are."""
    fields = tuple(FieldChange(field.key, field.old, field.new) for field in document.fields)
    return Change(instant_of(document.at), document.who, document.action, document.name, document.detail, fields)


class RunDocument(Struct):
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


class SkipDocument(Struct):
    """Skipped times."""

    task: str
    first: str
    last: str
    times: int
    reason: str
    kind: str
    at: str


class History(Struct):
    """Newest first."""

    runs: list[RunDocument]
    skips: list[SkipDocument]
    next: str | None


class EndedDocument(Struct):
    """A forced run that was waited for."""

    task: str
    started: str
    ended: str
    outcome: str
    status: int | None
    output: str


class Runs(Struct):
    """Several of them."""

    runs: list[EndedDocument]
    waiting: dict[str, str] = {}


class Done(Struct):
    """An action by filter."""

    names: list[str]
    unchanged: int
    files: list[str] = []


class TakenDocument(Struct):
    """A result that was told."""

    task: str
    state: str
    hard: bool
    attempt: int
    is_newest: bool


class Heartbeat(Struct):
    """Its new token."""

    token: str


# All of these raise Invalid or KeyError for what was never made by a node.


def instant_of(text: str) -> Instant:
    """A time."""
    return parse_instant(text, _UTC)


def _maybe(text: str | None) -> Instant | None:
    return None if text is None else instant_of(text)


def condition_of(said: TaskDocument) -> Condition:
    """A task and how it is. Whether its next run is on the grid, and how far it has come, is not told."""
    task = replace(task_of(said.name, said.task, check=said.check), paused=said.paused)
    created, changed = instant_of(said.created), instant_of(said.changed)
    return Condition(
        entry=Entry(UNNUMBERED, said.id, said.version, said.owner, created, changed, task),
        accounted=None,
        extra=None,
        extra_kind=Kind.GRID,
        pause_from=NEVER,
        pause_until=NEVER,
        running_since=_maybe(said.running_since),
        last_start=_maybe(said.last_start),
        last_end=_maybe(said.last_end),
        outcome=said.outcome,
        state=None if said.state is None else _STATES[said.state],
        hard=bool(said.hard),
        attempt=said.attempt or 0,
        flapping=said.flapping,
        output=said.output,
        next_run=_maybe(said.next),
        expected_by=_maybe(said.expected_by),
        late=said.late,
        stale=said.stale,
        blocked=said.blocked or "",
        deaths=said.worker_deaths,
    )


def run_of(said: RunDocument) -> RunRecord:
    """A run."""
    return RunRecord(
        task=said.task,
        nominal=instant_of(said.nominal),
        generation=0,
        kind=_KINDS[said.kind],
        claimed=instant_of(said.claimed),
        started=_maybe(said.started),
        ended=_maybe(said.ended),
        outcome=said.outcome,
        status=said.status,
        state=None if said.state is None else _STATES[said.state],
        hard=bool(said.hard),
        attempt=said.attempt or 0,
        output=said.output,
    )


def skip_of(said: SkipDocument) -> SkipRecord:
    """Skipped times."""
    first, last, at = instant_of(said.first), instant_of(said.last), instant_of(said.at)
    return SkipRecord(said.task, first, last, said.times, said.reason, at, _KINDS[said.kind])


def ended_of(said: EndedDocument) -> Ended:
    """A forced run that was waited for."""
    return Ended(said.task, instant_of(said.started), instant_of(said.ended), said.outcome, said.status, said.output)


def taken_of(said: TakenDocument) -> Taken:
    """A result that was told."""
    return Taken(said.task, _STATES[said.state], said.hard, said.attempt, said.is_newest)
