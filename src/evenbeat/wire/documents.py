"""The JSON documents of the HTTP API: what its handlers send and what the HTTP client reads.

The names of these classes are the component names of the OpenAPI document. Handlers may answer with dicts of these
shapes, as `evenbeat.report.documents` makes them; tests compare the two.
"""

from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from evenbeat.model import (
    HIDDEN_VALUE,
    MAX_OUTPUT_KEEP,
    MIN_OUTPUT_KEEP,
    NOTIFY_LIMIT,
    PLACE_LIMIT,
    RETRY_CAUSE_LIMIT,
    Backlog,
    CommandWord,
    ContactState,
    Days,
    Hash,
    Missed,
    Name,
    Parents,
    RetryCause,
    ShortText,
    Spread,
    WhenMissing,
    WhenUnreachable,
)

TimestampText = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""ISO 8601 with an offset."""
TimeText = Annotated[str, Meta(max_length=64, extra_json_schema={"format": "evenbeat-time"})]
"""A time as people write it: 2026-12-01, 2026-12-01T09:00, 2026-12-01T09:00:00+01:00."""
DurationText = Annotated[str, Meta(min_length=1, max_length=64, extra_json_schema={"format": "evenbeat-duration"})]
"""A duration as people write it: 150ms 10s 5m 2h 1d 1w 1h30m."""
Seconds = Annotated[float, Meta(ge=0)]
Duration = DurationText | Seconds
Timebox = Annotated[str, Meta(min_length=1, max_length=64, extra_json_schema={"format": "evenbeat-timebox"})] | Seconds
"""A duration, a share of the time to the next nominal time such as 50%, or none."""
SizeText = Annotated[str, Meta(min_length=1, max_length=64, extra_json_schema={"format": "evenbeat-size"})]
Size = SizeText | Annotated[int, Meta(ge=MIN_OUTPUT_KEEP, le=MAX_OUTPUT_KEEP)]
"""Bytes, or such as 512KB or 1MB."""
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
    "long",
    "unreachable",
    "downtime",
]
"""What a filter may ask for: STATES and COMPUTED_STATES of `evenbeat.store.contract`."""
KindWord = Literal[
    "grid",
    "first",
    "catch-up",
    "retry",
    "start-at",
    "occasion",
    "forced",
    "told",
    "stale",
    "freshness",
    "log",
    "chain",
]
OutcomeWord = Literal[
    "succeeded", "failed", "killed", "timeboxed", "broken", "dropped", "lost", "cancelled", "interrupted"
]
LiteralValue = str | float | bool | list[Any] | dict[str, Any] | None


_Env = Annotated[
    dict[Name, CommandWord],
    Meta(description=f"Variables. Without the role admin, every value that is no reference reads {HIDDEN_VALUE}."),
]


class NotifyTarget(Struct, forbid_unknown_fields=True):
    """A contact that gets messages about problems of the task, and after which delay."""

    to: Name
    after: Duration = 0


class TaskKeys(Struct, forbid_unknown_fields=True):
    """The keys of a task, as in a file: exactly one of every, cron, calendar, at, after, after_failure; a command or a
    function.
    """

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
    timebox: Timebox | UnsetType = UNSET
    longer_than: Duration | UnsetType = UNSET
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
    after: Parents | UnsetType = UNSET
    after_failure: Parents | UnsetType = UNSET
    depends: Parents | UnsetType = UNSET
    depends_any: Parents | UnsetType = UNSET
    when_unreachable: WhenUnreachable | UnsetType = UNSET
    notify: Annotated[tuple[NotifyTarget | Name, ...], Meta(max_length=NOTIFY_LIMIT)] | UnsetType = UNSET
    repeat: Duration | UnsetType = UNSET
    gather: Duration | UnsetType = UNSET
    retries: Annotated[int, Meta(ge=0, le=100)] | UnsetType = UNSET
    backoff: Duration | UnsetType = UNSET
    backoff_max: Duration | UnsetType = UNSET
    retry_on: Annotated[tuple[RetryCause, ...], Meta(max_length=RETRY_CAUSE_LIMIT)] | UnsetType = UNSET
    output_keep: Size | UnsetType = UNSET


class ContactKeys(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The keys of a contact, as in a file: one or more of send, webhook, command, email."""

    send: Annotated[tuple[ShortText, ...], Meta(max_length=PLACE_LIMIT)] | UnsetType = UNSET
    webhook: ShortText | UnsetType = UNSET
    secret: ShortText | UnsetType = UNSET
    """A reference: env:NAME or file:/PATH."""
    command: tuple[CommandWord, ...] | UnsetType = UNSET
    email: Annotated[tuple[ShortText, ...], Meta(max_length=PLACE_LIMIT)] | UnsetType = UNSET
    smtp: ShortText | UnsetType = UNSET
    sender: ShortText | UnsetType = UNSET
    period: Name | UnsetType = UNSET
    states: tuple[ContactState, ...] | UnsetType = UNSET
    per_hour: Annotated[int, Meta(ge=1, le=3_600)] | UnsetType = UNSET


class SentMessage(Struct):
    """A message to one place of a contact, and what became of it."""

    id: int
    contact: str
    kind: str
    """send, webhook, command or email."""
    place: str
    """Without secrets; empty if the contact does not have it any more."""
    created: TimestampText
    items: Count
    """How many problems, recoveries and acknowledgements it tells; for a limited token, of the tasks that it sees."""
    state: Literal["waiting", "delivered", "given up"]
    attempts: Count
    next_attempt: TimestampText | None
    """null: as soon as its turn comes, or never as it has ended."""
    ended: TimestampText | None
    error: str
    """Why the latest delivery failed."""
    detail: str
    """What else is known of it, such as the answer of the receiver."""
    possible_repetition: bool
    """It may have arrived more than once."""
    text: str
    """What became of it, in plain words."""


class ContactPlaceDocument(Struct):
    """One place that messages go to."""

    kind: Literal["send", "webhook", "command", "email"]
    shown: str
    """The place without secrets: of a URL its scheme and host, of a command its program."""
    blocked: bool
    """A command that is not executed: only files may define commands, and it is not from such a file."""
    failing: bool = False
    """The latest delivery to it has failed."""
    latest: SentMessage | None = None
    """The latest message to it that is on record."""


class ContactDocument(Struct):
    """A contact: where messages about problems go."""

    name: str
    owner: str
    places: list[ContactPlaceDocument]
    period: str | None
    """Messages wait until it is open; null: they do not."""
    states: list[ContactState]
    """Only problems in one of these states; empty: all."""
    per_hour: Count
    """The most messages an hour to each place."""
    tasks: Count
    """How many tasks name it."""
    definition: ContactKeys | None
    """For the role admin; null for others."""


class Contacts(Struct):
    """All contacts, ordered by name."""

    contacts: list[ContactDocument]


class TestedPlace(Struct):
    """What became of the test message to one place."""

    kind: Literal["send", "webhook", "command", "email"]
    shown: str
    delivered: bool
    error: str
    """Why not."""
    detail: str
    """What the receiver answered."""


class ContactTest(Struct):
    """What became of the test messages to a contact."""

    places: list[TestedPlace]


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


class PauseOfTask(Struct):
    """Who has paused a task, and until when."""

    by: str
    at: TimestampText
    until: TimestampText | None
    """It is resumed then; null: when somebody does."""
    reason: str


class DowntimeOfTask(Struct, rename={"start": "from"}):
    """An active downtime that a task is in."""

    id: str
    start: TimestampText | None
    until: TimestampText | None
    period: str | None
    comment: str
    who: str


class RetryOfTask(Struct):
    """A run that tries again what failed."""

    attempt: Count
    """Which attempt that will be ..."""
    attempts: Count
    """... of how many at most."""
    at: TimestampText


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
    timebox: Seconds | None
    """How long its next run may last; null if nothing ends it, or if there is no next run."""
    late: bool
    """It is due for more than a second, and has not started."""
    stale: bool
    """A result should have been there by now."""
    unreachable: bool
    """A check that it depends on is not fine, or all of `depends_any` are not."""
    unreachable_through: list[str]
    """These checks; the first ten of them."""
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
    downtime: bool = False
    """It is in an active downtime: its problems are not told."""
    downtimes: list[DowntimeOfTask] = []
    pause: PauseOfTask | None = None
    """Of a task that is paused with an end or a reason; null otherwise."""
    summary: str = ""
    """The line of `output` that says most: of a check the first, of a task that failed the last."""
    retry: RetryOfTask | None = None
    """Of a task whose latest run failed: when it tries again; null if it does not."""
    waits_for: list[str] = []
    """Of a task that runs after others: those that must still succeed, or of which one must fail, until it is due."""
    longer_than: Seconds | None = None
    """A run that lasts longer is unusually long; null if there is neither a next run nor one under way."""
    long: bool = False
    """The run under way is unusually long."""


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
    """Of a check: how many problems in a row it had by then. Of a retry of a task: which attempt it was."""
    output: str
    summary: str = ""
    """The line of `output` that says most: of a check the first, of a task that failed the last."""


class OutputPartDocument(Struct):
    """A part of the output of a run."""

    task: str
    now: TimestampText
    run: TimestampText | None
    """When it was claimed, which identifies it; null if there is none yet."""
    nominal: TimestampText | None
    kind: KindWord
    started: TimestampText | None
    position: Count
    """Give it as `position` for the next part."""
    left_out: int
    """Bytes in front of this part that are not kept."""
    text: str
    ended: TimestampText | None
    """The run has ended, and this is the last part; null while it is under way."""
    outcome: OutcomeWord | None
    status: int | None
    waiting: str
    """What the run waits for, if there is none yet."""


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


class StoppedRunDocument(Struct):
    """What became of one task that was to be stopped."""

    task: str
    found: Literal["run", "forced", "retry", "nothing"]
    """A run under way, which ends now; or a forced run, or a retry, that waited and was withdrawn."""
    run: Forced | None
    """How the run has ended, if that was waited for."""


class StoppedRuns(Struct):
    """What was found of the tasks that are named, and of all others of which something was."""

    stopped: list[StoppedRunDocument]


class CursorDocument(Struct):
    """Where the next run of a task goes on."""

    task: str
    cursor: str | int | float | bool | None
    """What an earlier run has saved, or a person has set; null if there is none."""


class ChangedCursorDocument(Struct):
    """Where the next run of a task goes on, and where it would have gone on before."""

    task: str
    before: str | int | float | bool | None
    cursor: str | int | float | bool | None


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
    """Shown once: only a digest of the token is kept."""

    token: str
    url: str
    """Where heartbeats go; on the command line empty if no node serves the API."""


def heartbeat_url(page: str, token: str) -> str:
    """The URL of heartbeats with a token, at the API of a node; empty without one."""
    return f"{page}v1/beat/{token}" if page else ""


class AcknowledgementDocument(Struct):
    """Somebody takes care of a problem."""

    by: str
    at: TimestampText
    comment: str
    until: TimestampText | None
    """It ends then; null: with the problem."""
    sticky: bool
    """It goes on when the problem gets worse."""


CauseWord = Literal["state", "failed", "stale", "long"]


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
    """The line that says most of the latest output; empty of a closed problem."""
    owner: str
    labels: dict[str, str]
    acknowledged: AcknowledgementDocument | None
    """null if nobody has, if that has ended, or if the problem has become worse since."""
    unreachable: bool
    """Its task is unreachable now: a check that the task depends on is not fine."""
    in_downtime: bool = False
    """Of an open problem: the task is in an active downtime."""
    hold: str | UnsetType = UNSET
    """Why nobody is notified of it now: downtime, unreachable, paused, outside period, ... Left out if somebody is."""
    held_since: TimestampText | UnsetType = UNSET
    downtime: bool | UnsetType = UNSET
    """As `in_downtime`; left out if it is false."""
    passive: bool | UnsetType = UNSET
    """Of an open problem: the task is a passive check that has nothing to run."""


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


class TimelineEntry(Struct):
    """What happened to a problem at one moment: it opened or closed, somebody acted, or a contact was notified."""

    at: TimestampText
    kind: str
    """opened, closed, commented, acknowledged, unacknowledged; or sent, suppressed, waiting, given up."""
    text: str
    """What was written, or what happened in plain words."""
    who: str = ""
    """Who acted."""
    contact: str = ""
    place: str = ""
    """Where it was sent to, without secrets."""
    item: str = ""
    """What a notification is about: problem, reminder, recovery, acknowledged."""
    reason: str = ""
    """Why it closed, if not by a result; or why a notification was not sent."""
    message: int | None = None
    delivery: str = ""
    """Of that message: waiting, delivered, given up; empty if that is not on record."""
    error: str = ""
    """Why the message was not delivered."""


class ProblemWithNotes(ProblemOfTask, kw_only=True):
    """A problem and what people wrote about it."""

    notes: list[ProblemNoteDocument]
    """Oldest first."""
    timeline: list[TimelineEntry] = []
    """Notes, notifications, opening and closing in one order of time, oldest first."""


class SentMessagePage(Struct):
    """Messages, newest first."""

    messages: list[SentMessage]
    next: int | None
    """Give it as `before` for the next page; null on the last one."""


class NotificationDocument(Struct):
    """What was decided about one place of a contact and one problem, and why."""

    at: TimestampText
    task: str
    """The name of the task, or its last one."""
    problem: int
    contact: str
    place: str
    """Without secrets."""
    decision: str
    """sent, suppressed, waiting, given up."""
    item: str
    """What it is about: problem, reminder, recovery, acknowledged."""
    reason: str
    """Why it was not sent, or not yet."""
    message: int | None
    """The id of the message that it was sent in."""
    delivery: str
    """Of that message: waiting, delivered, given up; empty if that is not on record."""
    error: str
    """Why the message was not delivered."""
    text: str
    """All that in plain words."""


class NotificationPage(Struct):
    """Notifications, newest first."""

    notifications: list[NotificationDocument]
    next: str | None
    """Give it as `before` for the next page; null on the last one."""


class ChangedProblems(Struct):
    """The problems to which it was done."""

    ids: list[int]
    tasks: list[str]


class DowntimeLimitDocument(Struct):
    """What the caller was limited to who set the downtime: it includes no other tasks, dependents neither."""

    owner: str | None = None
    labels: dict[str, str] = {}


class DowntimeDocument(Struct, rename={"start": "from"}):
    """A downtime: problems of its tasks are not told while it is active."""

    id: str
    names: list[str]
    """Names, or patterns with * and ?; empty for any."""
    owner: str | None
    labels: dict[str, str]
    start: TimestampText | None
    until: TimestampText | None
    period: str | None
    """It is active only while this is open."""
    dependents: bool
    """So are the tasks that depend on these."""
    comment: str
    who: str
    created: TimestampText
    active: bool
    """Now."""
    over: bool
    next_change: TimestampText | None
    """When it may begin or end next."""
    declared: bool
    """A file or program declares it, and ends it."""
    ended_by: str
    """Who ended it before its time; empty if nobody did."""
    limited_to: DowntimeLimitDocument | None


class DowntimePage(Struct):
    """Downtimes, the earliest first."""

    downtimes: list[DowntimeDocument]
    next: str | None
    """Give it as `after` for the next page; null on the last one."""
    total: Count


class RunningDocument(Struct):
    """A run that is under way."""

    task: str
    nominal: TimestampText
    kind: KindWord
    started: TimestampText | None
    elapsed: Seconds
    timebox: Seconds | None
    stopping: str = ""
    """Who has asked to stop it, and why; empty if nobody has."""


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
