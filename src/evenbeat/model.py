"""The nouns: Schedule, Period, Task, Job and Entry, what a run is and how it ends, and Invalid, the refusal of a text.

Times are int64 microseconds on the Unix epoch, durations are int microseconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Final, NewType

from msgspec import Meta, Struct
from msgspec.structs import replace

Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00:00Z."""
NEVER: Final = Instant(-(2**62))
"""Before any other instant: the time of a last start or result that does not exist."""
FOREVER: Final = Instant(2**62)
"""After any other instant: the time of something that will not happen."""

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY

MIN_EVERY: Final = SECOND
"""A segment of the timetable: nothing is due more often."""

MAX_EVERY: Final = 3_653 * DAY
"""Ten years; a longer interval is a slip of the pen, and `at` says it better."""

PARTITION_COUNT: Final = 256
"""Tasks are divided into this many parts by their numbers; in a cluster each part belongs to one node."""

NAME_LIMIT: Final = 256
COMMAND_LIMIT: Final = 100_000
"""Longest word of a command; the kernel takes no more than 128 KiB."""
OUTPUT_LIMIT: Final = 64 << 10
"""Bytes of a run's output that are kept unless its task says otherwise: the first ones and the last ones."""
MIN_OUTPUT_KEEP: Final = 1 << 10
MAX_OUTPUT_KEEP: Final = 16 << 20
CURSOR_LIMIT: Final = 4_096
"""Maximum size of a cursor, which marks where to continue; larger data belongs in the task's own storage."""
RESULT_LIMIT: Final = 64 << 10
"""Bytes of what a function returned, as JSON; larger data belongs in a storage of its own."""
TEXT_LIMIT: Final = 1_000
"""Longest cron entry, calendar expression or period line, in characters. Every input is bounded."""


class Invalid(ValueError):
    """A refusal: what was found, where, and what would be accepted.

    `column` counts from 1 in the text the user wrote; `place` names the part of it ("field 1", "tasks.report.cron").
    """

    def __init__(self, problem: str, *, column: int | None = None, place: str = "") -> None:
        self.problem = problem
        self.column = column
        self.place = place
        super().__init__(problem)

    def __str__(self) -> str:
        where = ", ".join(filter(None, (self.place, f"column {self.column}" if self.column else "")))
        return f"{where}: {self.problem}" if where else self.problem


@contextmanager
def prefix_place(place: str, separator: str = ", ") -> Iterator[None]:
    """Put a place in front of the one that a refusal names itself."""
    try:
        yield
    except Invalid as e:
        whole = separator.join(filter(None, (place, e.place)))
        raise Invalid(e.problem, column=e.column, place=whole) from None


class Spread(StrEnum):
    """How the phase of an interval task is chosen."""

    EVEN = "even"
    HASH = "hash"
    ICINGA = "icinga"
    BERGAMOT = "bergamot"
    ALIGNED = "aligned"


class Hash(StrEnum):
    """Where the H of a cron entry gets its values from."""

    STABLE = "stable"
    JENKINS = "jenkins"


class Days(StrEnum):
    """Day of month and day of week both restricted: does either match, or must both?"""

    OR = "or"
    AND = "and"


class Prefer(StrEnum):
    """Which side wins where a period both includes and excludes an instant."""

    INCLUDE = "include"
    EXCLUDE = "exclude"


_HASH_STABLE: Final = Hash.STABLE
_DAYS_OR: Final = Days.OR
"""Cached: enum lookups take longer than everything else that is computed for a schedule."""

Name = Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT)]
PARENT_LIMIT: Final = 100
"""How many tasks `depends`, `depends_any`, `after` and `after_failure` name at most, each of them."""
Parents = Annotated[tuple[Name, ...], Meta(max_length=PARENT_LIMIT)]
ShortText = Annotated[str, Meta(min_length=1, max_length=TEXT_LIMIT)]
SecondOfMinute = Annotated[int, Meta(ge=0, le=59)]


SCHEDULE_KINDS: Final = ("every", "cron", "calendar", "at", "after", "after_failure")
"""The keys that say when a task is due. A task has one of them."""


class Schedule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a task is due: exactly one of SCHEDULE_KINDS; the rest refines it."""

    every: int | None = None
    cron: ShortText | None = None
    calendar: ShortText | None = None
    at: ShortText | None = None
    zone: Name = "UTC"
    spread: Spread = Spread.EVEN
    phase: int | None = None
    """Microseconds; None until it is placed. Kept as long as `every` and `spread` do not change."""
    pinned: bool = False
    """The phase was given with the definition: without it there the task is placed anew."""
    hash: Hash = Hash.STABLE
    days: Days = Days.OR
    second: SecondOfMinute | None = None
    """The second within the minute of a cron entry; None spreads it by the task's name."""
    after: Parents = ()
    """Due when each of these tasks has succeeded since it was used last: see `core.chains`."""
    after_failure: Parents = ()
    """Due when one of these tasks has failed, and is not tried again."""

    @property
    def parents(self) -> tuple[str, ...]:
        """The tasks that make a chained task due; empty for any other schedule."""
        return self.after or self.after_failure

    def __post_init__(self) -> None:
        if not self._is_plain_interval():
            self._check()

    def _is_plain_interval(self) -> bool:
        """A quick test that nearly all of a million tasks pass."""
        every, phase = self.every, self.phase
        return (
            every is not None
            and MIN_EVERY <= every <= MAX_EVERY
            and self.cron is self.calendar is self.at is None
            and not self.after
            and not self.after_failure
            and self.second is None
            and (phase is None or 0 <= phase < every)
            and self.hash is _HASH_STABLE
            and self.days is _DAYS_OR
        )

    def _check(self) -> None:
        kinds = [kind for kind in SCHEDULE_KINDS if getattr(self, kind) not in (None, ())]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none of them"
            accepted = ", ".join(SCHEDULE_KINDS)
            raise Invalid(f"a schedule has exactly one of {accepted}; found {found}", place="schedule")
        if self.every is not None and not MIN_EVERY <= self.every <= MAX_EVERY:
            raise Invalid(f"{self.every / SECOND:g} s is out of range, accepted: 1s to 3653d", place="every")
        if self.phase is not None and (self.every is None or not 0 <= self.phase < self.every):
            found = f"{self.phase / SECOND:g} s" + (f" of {self.every / SECOND:g} s" if self.every is not None else "")
            raise Invalid(f"{found}: a phase belongs to `every`, from 0 to less than it", place="phase")
        for field, default in (("hash", Hash.STABLE), ("days", Days.OR), ("second", None)):
            if self.cron is None and getattr(self, field) != default:
                raise Invalid(f"`{field}` belongs to cron entries, this schedule has `{kinds[0]}`", place=field)
        if self.every is None and self.spread != Spread.EVEN:
            raise Invalid(f"`spread` belongs to `every`, this schedule has `{kinds[0]}`", place="spread")


class Period(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A named calendar filter. No ranges and no holidays means always."""

    ranges: tuple[ShortText, ...] = ()
    holidays: Name | None = None
    """A country, or a country and its part ("DE", "DE-BY"): its public holidays, all day, join the ranges."""
    include: tuple[Name, ...] = ()
    exclude: tuple[Name, ...] = ()
    prefer: Prefer = Prefer.INCLUDE
    zone: Name = "UTC"


class Missed(StrEnum):
    """What to do about nominal times that passed while the node was stopped."""

    ONCE = "once"
    SKIP = "skip"
    ALL = "all"


class WhenMissing(StrEnum):
    """The state of a passive check whose result did not come in time."""

    CRITICAL = "critical"
    UNKNOWN = "unknown"
    WARNING = "warning"


class WhenUnreachable(StrEnum):
    """What becomes of the runs of a task while a check that it depends on is not fine."""

    RUN = "run"
    SKIP = "skip"


class Backlog(StrEnum):
    """Nominal times that pass while a run waits or runs: merged into one, or each made, the guard permitting."""

    MERGE = "merge"
    EACH = "each"


class CommandSource(StrEnum):
    """Who may define commands: every caller who may change tasks, or only the files named at `up`."""

    ANYONE = "anyone"
    FILES = "files"


class RunKind(IntEnum):
    """What a run is: on the grid, or one of the off-grid ones."""

    GRID = 0
    FIRST = 1
    CATCH_UP = 2
    RETRY = 3
    START_AT = 4
    OCCASION = 5
    FORCED = 6
    TOLD = 7
    """Not an actual run: a result that was submitted externally."""
    STALE = 8
    """Not an actual run: an expected result was not submitted in time."""
    FRESHNESS = 9
    """A run of a passive check without results: its own command determines the state."""
    FORCED_BEFORE_START = 10
    """Only in stored progress, never of a run: a forced run waits, and `start_at` is still to come."""
    LOG = 11
    """Not an actual run: what the sender of a heartbeat said meanwhile, which changes no state."""
    CHAIN = 12
    """A run after its parents: it has the nominal time of a run of theirs."""

    @property
    def word(self) -> str:
        """As people read it."""
        return self.name.lower().replace("_", "-")


class Outcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """It ended by itself, with an exit status other than 0 or with an exception."""
    KILLED = "killed"
    """A signal ended it, and it was not ours."""
    TIMEBOXED = "timeboxed"
    BROKEN = "broken"
    """It could not be started: no such file, no permission, no such function."""
    DROPPED = "dropped"
    """The guard in the worker refused it."""
    LOST = "lost"
    """Its worker or node died, so its end is unknown."""
    CANCELLED = "cancelled"
    """A person has stopped it. In databases of before there was `interrupted` also: the node was stopped."""
    INTERRUPTED = "interrupted"
    """The node, or its worker, was stopped before it had ended."""


class State(IntEnum):
    """The monitoring state of a check: the exit status of a plugin."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


class Cause(StrEnum):
    """Why a task has a problem. It has at most one open problem of each cause."""

    STATE = "state"
    """A check is HARD and not OK."""
    FAILED = "failed"
    """A run of a task that is no check has failed."""
    STALE = "stale"
    """An expected result is missing: nothing has run, or its end is overdue."""
    LONG = "long"
    """A run lasts longer than `Task.longer_than`."""


CAUSES_OF_RESULTS: Final = (Cause.STATE, Cause.FAILED)
"""Problems that results of runs open and close. Time opens and closes the others."""
SEVERITY: Final = {State.OK: 0, State.WARNING: 1, State.UNKNOWN: 2, State.CRITICAL: 3}
"""How bad a state is: the larger, the worse."""


class Acknowledgement(Struct, frozen=True):
    """Somebody takes care of a problem. Whether it still counts is decided by `core.acknowledgement`."""

    at: Instant
    who: str
    comment: str = ""
    until: Instant | None = None
    """It ends then; None: with the problem."""
    sticky: bool = False
    """It goes on when the problem gets worse."""
    severity: int = 0
    """How severe the problem was when it was acknowledged - at worst, if a check that flaps was OK just then - ..."""
    worst_since: int = 0
    """... and the worst that it has been since."""


ArgumentValue = str | int | float | bool | None
"""A single value of a function: an argument, or a cursor."""
ArgumentItem = ArgumentValue | list[Any] | dict[str, Any]
"""An argument of a function: a single value, or a list or table of arguments, as a file can say it."""
MAX_ARGUMENT_DEPTH: Final = 16
"""Lists and tables inside each other."""
Duration = Annotated[int, Meta(ge=0, le=MAX_EVERY)]
CommandWord = Annotated[str, Meta(max_length=COMMAND_LIMIT)]


ENV_REFERENCE_PREFIXES: Final = ("env:", "file:")
"""How a value of `env`, or a place of a contact, begins that is not the value itself, but says where it is."""
SECRET_VARIABLE_PREFIXES: Final = ("EVENBEAT_TOKEN", "EVENBEAT_QUEUE")
"""Prefixes of variables that only evenbeat may read; see `core.environment` for the others."""
HIDDEN_VALUE: Final = "***hidden***"
"""Shown instead of a value of `env` to callers without the role `admin`."""


NOTIFY_LIMIT: Final = 50
"""How many contacts `notify` names at most."""
DEFAULT_GATHER: Final = 30 * SECOND
"""How long a message waits for more problems, unless the task says otherwise."""
PLACE_LIMIT: Final = 50
"""How many URLs, and how many addresses, a contact has at most."""


DEFAULT_SMTP: Final = "smtp://localhost:25"
"""The mail server of a contact that names none."""


class NotifyContact(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One of those whom a task notifies of its problems."""

    to: Name
    """The name of a contact."""
    after: Duration = 0
    """Only if the problem lasts that long: escalation."""


Notify = Annotated[tuple[NotifyContact, ...], Meta(max_length=NOTIFY_LIMIT)]
Repeat = Annotated[int, Meta(ge=MINUTE, le=MAX_EVERY)]
Gather = Annotated[int, Meta(ge=0, le=HOUR)]


class ContactState(StrEnum):
    """A state of problems that a contact may be limited to. A task that failed is critical."""

    WARNING = "warning"
    UNKNOWN = "unknown"
    CRITICAL = "critical"


class Contact(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where messages about problems go. Each URL, the webhook, the command and the email are channels of their own: see
    `core.channels`.
    """

    send: Annotated[tuple[ShortText, ...], Meta(max_length=PLACE_LIMIT)] = ()
    """URLs of services in the notation of apprise, or references: "env:NAME", "file:PATH"."""
    webhook: ShortText | None = None
    """A URL, or a reference, that gets each message as a JSON document."""
    secret: ShortText | None = None
    """A reference to the key that signs what the webhook gets."""
    command: tuple[CommandWord, ...] = ()
    """Its words; it gets each problem in the environment variables that Nagios sets."""
    email: Annotated[tuple[ShortText, ...], Meta(max_length=PLACE_LIMIT)] = ()
    """Addresses; one mail is sent to all of them."""
    smtp: ShortText = DEFAULT_SMTP
    """The server for `email`, and for mailto: in `send`: smtp, smtps or smtp+starttls; or a reference to such a URL."""
    sender: ShortText | None = None
    """The address that mails come from."""
    period: Name | None = None
    """Messages wait until it is open."""
    states: tuple[ContactState, ...] = ()
    """Only problems that are in one of these states; empty for all."""
    per_hour: Annotated[int, Meta(ge=1, le=3_600)] = 60
    """Messages to each channel; what exceeds it waits for the next message."""

    def __post_init__(self) -> None:
        if not (self.send or self.webhook is not None or self.command or self.email):
            raise Invalid("a contact without a place, accepted: one or more of send, webhook, command, email")
        if self.secret is not None and self.webhook is None:
            raise Invalid("`secret` signs what a webhook gets, and there is no `webhook`", place="secret")
        if self.sender is not None and not (self.email or self.send):
            raise Invalid("`sender` is for mail: there is neither `email` nor `send`", place="sender")
        if self.smtp != DEFAULT_SMTP and not (self.email or self.send):
            raise Invalid("`smtp` is for mail: there is neither `email` nor `send`", place="smtp")


MAX_DOWNTIME_NAMES: Final = 1_000
"""Names and patterns that one downtime has at most."""
MAX_DOWNTIME: Final = 366 * DAY
"""How long a downtime lasts at most that a person sets."""


class DowntimeLimit(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the caller was limited to who set a downtime: it includes no other tasks, dependents neither."""

    owner: Name | None = None
    labels: dict[Name, Name] = {}


class Downtime(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Problems of some tasks are expected, and not told. Whether it is active is decided by `core.downtimes`.

    Its tasks are those that fit all of names, owner and labels that are given.
    """

    id: Name
    names: Annotated[tuple[Name, ...], Meta(max_length=MAX_DOWNTIME_NAMES)] = ()
    """Names, or patterns with * and ?, of which one has to match; empty for any."""
    owner: Name | None = None
    labels: dict[Name, Name] = {}
    start: Instant | None = None
    """Not before this; None: since ever."""
    end: Instant | None = None
    """Not from here on; None: without end."""
    period: Name | None = None
    """Only while this is open."""
    dependents: bool = True
    """So are the tasks that depend on these."""
    comment: Annotated[str, Meta(max_length=TEXT_LIMIT)] = ""
    who: str = ""
    """Who set it: a person, or the owner whose file has it."""
    created: Instant = Instant(0)
    ended_by: str = ""
    """Who ended it before its time."""
    limited_to: DowntimeLimit | None = None

    def __post_init__(self) -> None:
        if not (self.names or self.owner is not None or self.labels):
            raise Invalid("a downtime of no tasks, accepted: one or more of names, owner, labels; names = ['*'] is all")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise Invalid("it ends before it begins", place="until")


class Job(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a worker executes in a run: a command, or a Python function."""

    command: tuple[CommandWord, ...] = ()
    """Its words; `("noop",)` is built in and succeeds at once."""
    shell: bool = False
    """The command is one line, and a shell reads it."""
    function: ShortText | None = None
    """"module:function", or "file.py:function"."""
    args: tuple[ArgumentItem, ...] = ()
    kwargs: dict[str, ArgumentItem] = {}
    env: dict[str, CommandWord] = {}
    """Added to what `core.environment` passes on; "env:NAME" and "file:PATH" are references, read when a run starts."""
    cwd: ShortText | None = None
    """The folder it runs in; "~" is the home folder of the user that runs it."""
    user: Name | None = None
    output_keep: Annotated[int, Meta(ge=MIN_OUTPUT_KEEP, le=MAX_OUTPUT_KEEP)] | None = None
    """Bytes of the output of each run that are kept, compressed, for as long as the run; None: see OUTPUT_LIMIT."""

    def __post_init__(self) -> None:
        if self.command and self.function is not None:
            raise Invalid("a task has a command or a function, found both", place="function")
        if self.shell and len(self.command) != 1:
            raise Invalid(f"with `shell` the command is one line, found {len(self.command)} words", place="command")
        if self.function is None and (self.args or self.kwargs):
            raise Invalid("arguments belong to a function; those of a command are its words", place="args")
        if self.args or self.kwargs:
            self._check_arguments()

    def changed(self, **keys: Any) -> "Job":
        """This job with other values of some keys."""
        return replace(self, **keys)

    def _check_arguments(self) -> None:
        for place, values in (("args", self.args), ("kwargs", self.kwargs.values())):
            for value in values:
                if problem := argument_problem(value):
                    raise Invalid(problem, place=place)


def argument_problem(value: object, depth: int = 0) -> str:
    """Why a value cannot be an argument; empty if it can."""
    accepted = "accepted: texts, numbers, true, false, lists and tables of these"
    if isinstance(value, ArgumentValue):
        return ""
    if not isinstance(value, list | dict):
        return f"a {type(value).__name__} cannot be an argument, {accepted}"
    if depth == MAX_ARGUMENT_DEPTH:
        return f"an argument with lists and tables more than {MAX_ARGUMENT_DEPTH} deep, {accepted}"
    if (
        isinstance(value, dict)
        and (wrong := next((key for key in value if not isinstance(key, str)), None)) is not None
    ):
        return f"{wrong!r} cannot be a key, accepted: texts"
    items = value.values() if isinstance(value, dict) else value
    return next((problem for item in items if (problem := argument_problem(item, depth + 1))), "")


HOME_FOLDER: Final = "~"
"""As `cwd`: the home folder of the user that runs it."""
DEFAULT_BACKOFF: Final = 10 * SECOND
DEFAULT_BACKOFF_MAX: Final = 10 * MINUTE
RETRY_CAUSE_LIMIT: Final = 100
"""How many exit codes and exceptions `retry_on` names at most."""
RetryCause = Annotated[int, Meta(ge=1, le=255)] | Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT)]

MAX_PAUSE: Final = 366 * DAY
"""How long a pause lasts at most that ends by itself."""


class TaskPause(Struct, frozen=True, omit_defaults=True):
    """Who has paused a task, and until when."""

    at: Instant
    who: str
    until: Instant | None = None
    """A node resumes the task then; None: a person does."""
    reason: str = ""


class Task(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that runs periodically."""

    name: Name
    schedule: Schedule
    job: Job = Job()
    period: Name | None = None
    check: bool = False
    enabled: bool = True
    paused: bool = False
    """Disabled by hand: a file that is read again does not undo it."""
    start_at: ShortText | None = None
    """Runs exactly then, not before, and follows its schedule after it."""
    weight: Annotated[float, Meta(gt=0, le=86_400)] = 1.0
    """Expected run time, in seconds: how much one run counts on the load wheel."""
    timebox: Annotated[int, Meta(ge=-100, le=MAX_EVERY)] | None = None
    """How long a run may last; 0 for no end; -1 to -100 for so many percent of the time to the next nominal time. None
    for the default: see `core.timebox.default_timebox`.
    """
    tolerance: Duration | None = None
    """How much closer than their interval two on-grid starts may be; None for half of it."""
    missed: Missed = Missed.ONCE
    catch_up: Duration = HOUR
    """How far back `missed = "all"` goes."""
    backlog: Backlog = Backlog.MERGE
    limit: Name | None = None
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    retry: Duration | None = None
    """Of a check in a SOFT problem state; None for a fifth of its interval, at least a second; 0 for none."""
    attempts: Annotated[int, Meta(ge=1, le=255)] | None = None
    """Problems in a row until a check is HARD; None for the default: see `core.task_defaults.attempts_of`."""
    longer_than: Annotated[int, Meta(ge=1, le=MAX_EVERY)] | None = None
    """A run that lasts longer is a problem, though nothing ends it. None for twice the interval, at least an hour."""
    grace: Duration | None = None
    """How much later than its timebox a result may come; None for the default: see `core.task_defaults.grace_of`."""
    labels: dict[Name, Name] = {}
    passive: bool = False
    """A check whose results are submitted externally, and expected by its schedule. A command or function that it
    has is run only when a result is missing.
    """
    when_missing: WhenMissing = WhenMissing.CRITICAL
    """Of a passive check without anything to run: its state when a result is missing."""
    pool: Name | None = None
    """Only workers of this pool run it: a site, a capability. None for any that serves the default pool."""
    depends: Parents = ()
    """The checks that it is unreachable without: one of them that is not fine is enough. See `core.reachability`."""
    depends_any: Parents = ()
    """Checks of which one that is fine is enough."""
    when_unreachable: WhenUnreachable = WhenUnreachable.RUN
    notify: Notify = ()
    """Who gets messages about its problems, and after which delay."""
    repeat: Repeat | None = None
    """How often a reminder is sent while a problem lasts; None for never."""
    gather: Gather | None = None
    """How long a message waits for more problems; None for DEFAULT_GATHER."""

    pause: TaskPause | None = None
    """Of a task that is paused with an end or a reason: by whom, until when and why."""
    retries: Annotated[int, Meta(ge=0, le=100)] | None = None
    """Of a task that is no check: how often a failed run tries again; None for never."""
    backoff: Duration | None = None
    """How long after a failure it tries again, twice as long each time; None for DEFAULT_BACKOFF."""
    backoff_max: Duration | None = None
    """The longest time between two attempts; None for DEFAULT_BACKOFF_MAX, or `backoff` if that is longer."""
    retry_on: Annotated[tuple[RetryCause, ...], Meta(max_length=RETRY_CAUSE_LIMIT)] = ()
    """Exit codes and names of exceptions after which it tries again; empty for every failure."""

    def with_phase(self, phase: int, *, pinned: bool | None = None) -> "Task":
        """This task with another phase; `pinned` says whether the definition gives the phase, None keeps that."""
        schedule = replace(self.schedule, phase=phase)
        return replace(self, schedule=schedule if pinned is None else replace(schedule, pinned=pinned))


class Entry(Struct, frozen=True):
    """A task as a store keeps it."""

    number: int
    """Never given to another task."""
    id: str
    version: int
    owner: str
    """The creator of the task: a file, a program or a person."""
    created: Instant
    changed: Instant
    task: Task


def partition_of(number: int) -> int:
    """The part that a task falls into."""
    return number % PARTITION_COUNT
