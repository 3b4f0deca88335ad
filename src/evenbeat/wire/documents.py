"""The JSON documents of the HTTP API: what its handlers send and what the HTTP client reads.

The names of these classes are the component names of the OpenAPI document. Handlers may answer with dicts of these
shapes, as `evenbeat.report.documents` makes them; tests compare the two.
"""

from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from evenbeat.model import HIDDEN_VALUE, Backlog, CommandWord, Days, Hash, Missed, Name, ShortText, Spread, WhenMissing

TimestampText = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""ISO 8601 with an offset."""
TimeText = Annotated[str, Meta(max_length=64, extra_json_schema={"format": "evenbeat-time"})]
"""A time as people write it: 2026-12-01, 2026-12-01T09:00, 2026-12-01T09:00:00+01:00."""
DurationText = Annotated[str, Meta(min_length=1, max_length=64, extra_json_schema={"format": "evenbeat-duration"})]
"""A duration as people write it: 150ms 10s 5m 2h 1d 1w 1h30m."""
Seconds = Annotated[float, Meta(ge=0)]
Duration = DurationText | Seconds
ZoneName = Annotated[str, Meta(min_length=1, max_length=256, extra_json_schema={"format": "time-zone"})]
CronText = Annotated[str, Meta(min_length=1, max_length=1_000, extra_json_schema={"format": "cron"})]
CalendarText = Annotated[str, Meta(min_length=1, max_length=1_000, extra_json_schema={"format": "calendar"})]
Count = Annotated[int, Meta(ge=0)]
LongText = Annotated[str, Meta(min_length=1, max_length=100_000)]

StateWord = Literal["ok", "warning", "critical", "unknown"]
FilterState = Literal[
    "ok",
    "warning",
    "critical",
    "unknown",
    "unchecked",
    "running",
    "disabled",
    "failed",
    "paused",
    "problem",
    "late",
    "stale",
]
"""What a filter may ask for: STATES and COMPUTED_STATES of `evenbeat.store.contract`."""
KindWord = Literal["grid", "first", "catch-up", "retry", "start-at", "occasion", "forced", "told", "stale", "freshness"]
OutcomeWord = Literal["succeeded", "failed", "killed", "timeboxed", "broken", "dropped", "lost", "cancelled"]
LiteralValue = str | float | bool | None


_Env = Annotated[
    dict[Name, CommandWord],
    Meta(description=f"Variables. Without the role admin, every value that is no reference reads {HIDDEN_VALUE}."),
]


class TaskKeys(Struct, forbid_unknown_fields=True):
    """The keys of a task, as in a file: exactly one of every, cron, calendar, at; a command or a function."""

    every: Duration | UnsetType = UNSET
    cron: CronText | UnsetType = UNSET
    calendar: CalendarText | UnsetType = UNSET
    at: TimeText | UnsetType = UNSET
    zone: ZoneName | UnsetType = UNSET
    spread: Spread | UnsetType = UNSET
    phase: Duration | UnsetType = UNSET
    hash: Hash | UnsetType = UNSET
    days: Days | UnsetType = UNSET
    second: Annotated[int, Meta(ge=0, le=59)] | Literal["spread"] | UnsetType = UNSET
    command: LongText | tuple[CommandWord, ...] | UnsetType = UNSET
    shell: bool | UnsetType = UNSET
    function: ShortText | UnsetType = UNSET
    args: tuple[LiteralValue, ...] | UnsetType = UNSET
    kwargs: dict[str, LiteralValue] | UnsetType = UNSET
    env: _Env | UnsetType = UNSET
    cwd: ShortText | UnsetType = UNSET
    user: Name | UnsetType = UNSET
    period: Name | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    start_at: TimeText | UnsetType = UNSET
    weight: Annotated[float, Meta(gt=0, le=86_400)] | UnsetType = UNSET
    timebox: Duration | UnsetType = UNSET
    tolerance: Duration | UnsetType = UNSET
    missed: Missed | UnsetType = UNSET
    catch_up: Duration | UnsetType = UNSET
    backlog: Backlog | UnsetType = UNSET
    limit: Name | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=-100, le=100)] | UnsetType = UNSET
    retry: Duration | UnsetType = UNSET
    attempts: Annotated[int, Meta(ge=1, le=255)] | UnsetType = UNSET
    grace: Duration | UnsetType = UNSET
    labels: dict[Name, Name] | UnsetType = UNSET
    passive: bool | UnsetType = UNSET
    when_missing: WhenMissing | UnsetType = UNSET
    pool: Name | UnsetType = UNSET


class NewTask(TaskKeys, kw_only=True):
    """A task with its name."""

    name: Name
    check: bool = False


class WholeTask(TaskKeys, kw_only=True):
    """A whole definition; a name renames."""

    name: Name | UnsetType = UNSET
    check: bool = False


def _nullable(hint: Any) -> Any:
    return hint | None


TaskPatch: Final = msgspec.defstruct(
    "TaskPatch",
    [
        *((key, _nullable(hint), UNSET) for key, hint in get_type_hints(TaskKeys, include_extras=True).items()),
        ("name", Name | UnsetType, UNSET),
        ("check", bool | UnsetType | None, UNSET),
    ],
    forbid_unknown_fields=True,
    namespace={"__doc__": "Keys to change; null takes one away, back to its default. Tables are merged."},
)

TaskDraft: Final = msgspec.defstruct(
    "TaskDraft",
    [(key, Any, UNSET) for key in (*TaskKeys.__struct_fields__, "name", "check")],
    namespace={"__doc__": "Keys of a task, whether they can be used or not."},
)


class TaskDocument(Struct):
    """A task and how it is."""

    name: str
    id: str
    owner: str
    version: int
    check: bool
    enabled: bool
    paused: bool
    blocked: str | None
    """Why it is never executed, although it is enabled: "not from a file"; null if it is."""
    worker_deaths: int
    """Worker processes that died with its runs, one after the other. After the first, it runs alone on a worker."""
    set_aside: bool
    """So many have died that a lost run of it is not repeated; its schedule goes on."""
    schedule: str
    next: TimestampText | None
    expected_by: TimestampText | None
    """When its next result must be there: its next nominal time, the longest run that is allowed, and its grace."""
    late: bool
    """It is due for more than a second, and has not started."""
    stale: bool
    """A result should have been there by now."""
    running_since: TimestampText | None
    last_start: TimestampText | None
    last_end: TimestampText | None
    outcome: OutcomeWord | None
    state: StateWord | None
    hard: bool | None
    attempt: int | None
    flapping: bool
    output: str
    created: TimestampText
    changed: TimestampText
    task: TaskKeys


class TaskPage(Struct):
    """Tasks in the order of their names."""

    live: bool
    """Is a node running? Else nothing runs, and `next` is when tasks would."""
    tasks: list[TaskDocument]
    next: str | None
    """Give it as `after` for the next page; null on the last one."""
    total: Count


class RunDocument(Struct):
    """A run."""

    task: str
    nominal: TimestampText
    kind: KindWord
    claimed: TimestampText
    started: TimestampText | None
    ended: TimestampText | None
    outcome: OutcomeWord | None
    status: int | None
    state: StateWord | None
    hard: bool | None
    attempt: int | None
    output: str


class SkipDocument(Struct):
    """Nominal times that were skipped, for one reason."""

    task: str
    first: TimestampText
    last: TimestampText
    times: Count
    reason: str
    kind: KindWord
    at: TimestampText


class History(Struct):
    """Runs and skips, newest first."""

    runs: list[RunDocument]
    skips: list[SkipDocument]
    next: TimestampText | None
    """Give it as `before` for what is older; null if there is nothing."""


class FieldChangeDocument(Struct):
    """A key that has another value now."""

    key: str
    """As in a file: every, command, labels.team; literal values of env.NAME are hidden."""
    old: Any
    """null: it was not there."""
    new: Any


class ChangeDocument(Struct):
    """Who changed what."""

    at: TimestampText
    who: str
    action: str
    name: str
    """Of a task, or `token ci`, `limit db`, `period p`, `slots`, `node`, a file."""
    detail: str
    fields: list[FieldChangeDocument]
    """From what to what."""


class AuditPage(Struct):
    """Part of the audit, newest first."""

    changes: list[ChangeDocument]
    next: int | None
    """Give it as `before` for what is older; null if there is nothing."""


class Changes(Struct):
    """The audit, newest first."""

    changes: list[ChangeDocument]


class Forced(Struct, omit_defaults=True):
    """A run that somebody asked for; how it ended, if that was waited for."""

    task: str
    started: TimestampText | UnsetType = UNSET
    ended: TimestampText | UnsetType = UNSET
    outcome: OutcomeWord | UnsetType = UNSET
    status: int | UnsetType | None = UNSET
    output: str | UnsetType = UNSET
    waiting: str | UnsetType = UNSET
    """What it waits for, if it could not start at once and its end was not waited for."""


class ForcedRuns(Struct):
    """How they ended, if that was waited for."""

    runs: list[Forced]
    waiting: dict[str, str]
    """Of the tasks that could not start at once: what each waited for, by its name."""


class Done(Struct):
    """To how many it was done, and to whom first."""

    action: Literal["pause", "resume", "run", "delete"]
    count: Count
    names: list[str]
    unchanged: Count
    """Those that fit and were so already."""
    files: list[str]
    """That own some of them: a task that was deleted is created again when its file is next applied."""


class Taken(Struct):
    """How the check is now."""

    task: str
    state: StateWord
    hard: bool
    attempt: int
    is_newest: bool
    """False if a newer result was known: then it has changed nothing."""


class Heartbeat(Struct):
    """Told once: only a digest of the token is kept."""

    token: str
    url: str


class AcknowledgementDocument(Struct):
    """Somebody takes care of a problem."""

    by: str
    at: TimestampText
    comment: str
    until: TimestampText | None
    """It ends then; null: with the problem."""
    sticky: bool
    """It goes on when the problem gets worse."""


CauseWord = Literal["state", "failed"]


class ProblemOfTask(Struct):
    """What is wrong with a task: it keeps its id from the result that opened it to the one that closes it."""

    id: int
    task: str
    cause: CauseWord
    """state: a check is HARD and not OK. failed: a run of another task failed."""
    state: StateWord
    """The present one; of a closed problem the most severe that it has had."""
    worst: StateWord
    opened: TimestampText
    since: TimestampText
    """When it came into its present state."""
    closed: TimestampText | None
    reason: str
    """Why it closed, if not by a result: removed, changed, superseded."""
    flapping: bool
    output: str
    """The first line of the latest output; empty of a closed problem."""
    owner: str
    labels: dict[str, str]
    acknowledged: AcknowledgementDocument | None
    """null if nobody has, if that has ended, or if the problem has become worse since."""


class ProblemPage(Struct):
    """Problems, newest first."""

    problems: list[ProblemOfTask]
    next: int | None
    """Give it as `before` for the next page; null on the last one."""
    total: Count


class ProblemNoteDocument(Struct):
    """What somebody wrote about a problem, or did with it."""

    at: TimestampText
    who: str
    action: Literal["commented", "acknowledged", "unacknowledged"]
    text: str


class ProblemWithNotes(ProblemOfTask):
    """A problem and what people wrote about it."""

    notes: list[ProblemNoteDocument]
    """Oldest first."""


class ChangedProblems(Struct):
    """The problems to which it was done."""

    ids: list[int]
    tasks: list[str]


class RunningDocument(Struct):
    """A run that is under way."""

    task: str
    nominal: TimestampText
    kind: KindWord
    started: TimestampText | None
    elapsed: Seconds
    timebox: Seconds


class RunningNow(Struct):
    """Those that began first in front."""

    running: list[RunningDocument]
    total: Count


class WorkerDocument(Struct):
    """A process of a node."""

    pid: int
    kind: str


class NodeDocument(Struct):
    """A node that lives on the database."""

    id: str
    pid: int
    started: TimestampText
    version: str
    workers: list[WorkerDocument]
    database: str


class Nodes(Struct):
    """All of them."""

    nodes: list[NodeDocument]
