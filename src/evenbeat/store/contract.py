"""The contract of a store: it keeps tasks, periods, settings, the progress of each task, and the history of its runs.

A store decides nothing. Everything that a node learns in one step is one `Batch`, and is kept as a whole or not at all.
Times are microseconds since the epoch; FOREVER stands for a time that never comes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from evenbeat.model import (
    DAY,
    Acknowledgement,
    Downtime,
    Entry,
    Instant,
    Invalid,
    Outcome,
    Period,
    RunKind,
    State,
    Task,
)
from evenbeat.model import FOREVER as FOREVER  # noqa: PLC0414 - part of the contract
from evenbeat.model import NEVER as NEVER  # noqa: PLC0414
from evenbeat.past_runs import PLAIN_OUTPUT_LENGTH as PLAIN_OUTPUT_LENGTH  # noqa: PLC0414
from evenbeat.store.alert_contract import AlertStore
from evenbeat.store.chain_records import ChainEnd, ChainParent, ChainUse
from evenbeat.store.problem_records import OpenProblem, ProblemChange, ProblemHold, ProblemNote, ProblemRecord

FILTER_STATES: Final = (
    *("ok", "warning", "critical", "unknown", "unchecked", "running", "disabled", "failed"),
    *("paused", "problem"),
)
"""States that a filter may name. `unchecked`: a check that has no result yet.

`failed`: the latest run ended in failure (a run that a person stopped does not count). `paused`: paused by a person.
`problem`: a check that is HARD and not OK, or another task with an open problem of the cause FAILED: one that failed
and does not try again.
"""
COMPUTED_FILTER_STATES: Final = ("late", "stale", "long", "unreachable", "downtime")
"""Further states for `report.task_status`: they depend on the next time of a task, on the states of others, or on
downtimes, which a store does not know.
"""
AUDIT_MIN_AGE: Final = 400 * DAY
"""How long a change stays in the audit at least, even if `keep` is shorter ..."""
AUDIT_MIN_ROWS: Final = 100_000
"""... provided that it is among this many latest changes. Older ones are kept only as long as `keep` says."""
ENVIRONMENT_TOLD: Final = "environment told"
"""A setting: a node has named the variables that commands got from versions before. A new store has it at once."""
FAILURES: Final = (Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED, Outcome.BROKEN, Outcome.LOST)


class StoreError(Exception):
    """The store cannot do its work: disk full, read-only, corrupt, of a newer version. The message says what to do."""


class DatabaseDamaged(StoreError):
    """The database itself is corrupt, deleted or replaced: trying again does not help."""


class DatabaseLocked(StoreError):
    """Another program is writing to the database; the store works again when that program has finished."""


class ContradictoryBatch(StoreError):
    """A batch that contradicts the store: a second claim, the end of a run without a claim, an unknown task."""


class Conflict(Invalid):
    """A change that does not fit the stored tasks: the name is taken, or the version has changed meanwhile."""


# What a node records


class Claim(NamedTuple):
    """A run is about to start. Committed before anything starts; refused if the task has an open claim.

    A claim of a task that was removed meanwhile is not kept: see `Store.record`.
    """

    task: int
    nominal: int
    generation: int
    kind: int
    at: int
    accounted: int
    """Progress of the task from now on: every nominal time up to this instant is accounted for."""
    extra: int
    extra_kind: int
    """When the next off-grid run is planned (FOREVER: none is), and its kind."""
    token: int = 0
    """Identifies the run between nodes and workers; a store for a single node need not keep it."""


class RunStart(NamedTuple):
    """A claimed run has started. Recorded for runs that do not end at once; ignored if the run has ended already."""

    task: int
    started: int


class RunStop(NamedTuple):
    """A person has asked to stop the claimed run of a task; ignored if the run has ended already."""

    task: int
    by: str
    """Who, and why, in words for people: the first line of its output. Not empty."""


class CursorChange(NamedTuple):
    """A person has set where the next run of a task goes on. The task has no open claim, or may have been removed."""

    task: int
    cursor: bytes | None
    """None: the task has no cursor any more."""


class Finish(NamedTuple):
    """A claimed run has ended, with any outcome; refused if there is no open claim. The task may have been removed."""

    task: int
    started: int
    """When the run started; when it was claimed, if it never started or its start is unknown."""
    ended: int
    outcome: str
    status: int | None
    """Exit status, or the negated number of the signal."""
    output: str
    cursor: bytes | None
    """None leaves the cursor of the task unchanged."""
    last_start: int
    """Start of the latest on-grid run of the task, this run included."""
    state: int
    hard: bool
    attempt: int
    changes: int
    flapping: bool
    result_at: int
    extra: int
    extra_kind: int
    notable: bool
    """Whether the run is more than a plain success: failures and changes of state are kept as long as `keep` says."""

    @property
    def is_latest(self) -> bool:
        """False if the run started before the latest result of its check: then that result stays the latest, with its
        times, outcome and output, and this run only enters the history.
        """
        return self.result_at <= self.started


class Returned(NamedTuple):
    """What a function returned: the value of one run, see `ReturnedValues`."""

    task: int
    claimed: int
    """When the run was claimed."""
    ended: int
    value: str
    """JSON."""


class SubmittedResult(NamedTuple):
    """A result of a check that was submitted externally, or the fact that an expected result is missing.

    It needs no claim and leaves an open claim alone: the task may be running.
    """

    task: int
    nominal: int
    generation: int
    kind: int
    at: int
    """When the node received the result; `ended` is when the check was made."""
    started: int
    ended: int
    outcome: str
    status: int | None
    output: str
    made: int | None
    """The state that the result gave the check; None if a newer result is known, which then stays the latest."""
    state: int
    hard: bool
    attempt: int
    changes: int
    flapping: bool
    result_at: int
    accounted: int
    extra: int
    extra_kind: int
    notable: bool


class WholeOutput(NamedTuple):
    """The whole output of a run that has ended, for a task that asks for it; compressed."""

    task: int
    claimed: int
    """When the run was claimed, which identifies it among those of the task."""
    data: bytes


class Skip(NamedTuple):
    """A range of nominal times that had no run of their own.

    A skip whose `first` is the `next_nominal` of the newest range of its task, with the same reason, extends it.
    """

    task: int
    first: int
    last: int
    times: int
    reason: str
    at: int
    next_nominal: int
    """The nominal time that follows `last`, by the definition with which the range was counted."""
    accounted: int
    extra: int
    extra_kind: int


class Refusal(NamedTuple):
    """An off-grid run that was refused, and the progress of its task without that run."""

    task: int
    due: int
    kind: int
    reason: str
    at: int
    accounted: int
    extra: int
    extra_kind: int


class ProgressRecord(NamedTuple):
    """New progress of a task without any run: it was placed, resumed, given a start time, or the clock was set back."""

    task: int
    accounted: int
    extra: int
    extra_kind: int
    last_start: int
    result_at: int
    pause_from: int = NEVER
    pause_until: int = NEVER
    """Nominal times after `pause_from` and up to `pause_until` are accounted for, although earlier ones may not be.

    While the task is paused, `pause_until` is FOREVER.
    """


class SettledDefinitions(NamedTuple):
    """Past definitions of a task that were valid until this instant or earlier are settled: see `PastDefinition`."""

    task: int
    until: int


class Batch(Struct):
    """What a node learned in one step, applied in this order: a run ends before the next run of its task is claimed.

    Nobody may modify a batch after it was recorded. Values are plain ints, strs and bools; numpy's are refused.
    """

    starts: list[RunStart] = []
    finishes: list[Finish] = []
    standings: list[ProgressRecord] = []
    skips: list[Skip] = []
    refusals: list[Refusal] = []
    claims: list[Claim] = []
    told: list[SubmittedResult] = []
    """Applied after `finishes`."""
    settled: list[SettledDefinitions] = []
    problems: list[ProblemChange] = []
    """Applied after the above. Changes of problems of tasks that were removed meanwhile are ignored.

    A change that says that a closed problem is open opens it again; closing a closed problem changes nothing.
    """
    returned: list[Returned] = []
    """Of runs that `finishes` ends; kept by stores that are `ReturnedValues`."""
    holds: list[ProblemHold] = []
    """Of a problem that is not open, or of a task that was removed meanwhile, ignored."""
    stops: list[RunStop] = []
    """Applied after `claims`."""
    chain_ends: list[ChainEnd] = []
    """Each replaces the one of its task that was as good or as bad. A store may omit them while no task follows others.
    """
    chain_uses: list[ChainUse] = []
    """Each replaces the one of its task."""
    outputs: list[WholeOutput] = []
    """Of runs in `finishes`."""
    cursors: list[CursorChange] = []
    """Applied after `finishes`; of tasks that the store does not know, ignored."""


# What a store returns


class PastDefinition(NamedTuple):
    """How a task was defined until it was changed: runs that were due before the change are settled by this definition.

    The store keeps it from the change on until a node records that it is settled. So a change takes effect at the same
    instant, whether a node learns of it at once, after a crash, or when it is started weeks later.
    """

    task: int
    until: int
    definition: Task
    periods: Mapping[str, Period] | None
    """The periods as they were, if the change was one of periods."""


class TaskProgress(NamedTuple):
    """The progress of a task, as a node needs it when it starts."""

    task: int
    accounted: int
    extra: int
    extra_kind: int
    last_start: int
    """Start of the latest on-grid run, the claimed one included if it has started."""
    state: int
    hard: bool
    attempt: int
    changes: int
    flapping: bool
    result_at: int
    claimed: int | None
    """The nominal time of the run that is claimed and has not ended; None if there is none."""
    claimed_kind: int
    claimed_at: int
    claimed_generation: int
    claimed_token: int = 0
    claimed_untaken: bool = False
    """The node that claimed the run has left the cluster in an orderly way, and knew that no worker had the run."""
    pause_from: int = NEVER
    pause_until: int = NEVER
    claimed_stop: str = ""
    """Who has asked to stop the claimed run, as `RunStop.by` says it; empty if nobody has."""


class RunRecord(Struct, frozen=True):
    """A run as history shows it."""

    task: str
    nominal: Instant
    generation: int
    kind: RunKind
    claimed: Instant
    started: Instant | None
    ended: Instant | None
    """None while it runs."""
    outcome: Outcome | None
    status: int | None
    state: State | None
    """The state that this run gave its check; None if it gave none (it was lost, or older than the latest result)."""
    hard: bool
    attempt: int
    """0 while it runs."""
    output: str
    number: int = 0
    """Number of the task: another task may have had the name before."""


class SkipRecord(Struct, frozen=True):
    """Nominal times that were skipped for one reason, or one refused off-grid run, as history shows them."""

    task: str
    first: Instant
    last: Instant
    times: int
    reason: str
    at: Instant
    """When the last of them was skipped."""
    kind: RunKind = RunKind.GRID
    number: int = 0
    """Number of the task, as in `RunRecord`."""


class FieldChange(NamedTuple):
    """A key whose value changed, named as in files: `every`, `labels.team`. None stands for no value."""

    key: str
    old: Any
    new: Any
    """Durations are in microseconds. Literal values of `env` never appear: HIDDEN_VALUE stands for them."""


class Change(Struct, frozen=True):
    """Who changed what, for the audit."""

    at: Instant
    who: str
    action: str
    """created, changed, removed, enabled, disabled, forced ..."""
    name: str
    detail: str = ""
    fields: tuple[FieldChange, ...] = ()
    """Old and new values."""


class NumberedChange(NamedTuple):
    """A change and its number in the audit: later changes have larger numbers."""

    number: int
    change: Change


class AuditFilter(Struct, frozen=True):
    """Selects changes: those that meet all the conditions given."""

    name: str | None = None
    """The name of a task, also of a removed one, or "period NAME", "limit NAME", "token NAME", "slots" ..."""
    who: str | None = None
    since: Instant | None = None
    before: int | None = None
    """Changes with smaller numbers than this, for the next page."""
    most: int = 100


class Condition(Struct, frozen=True):
    """A task, its progress and its latest result: what `ls` and `show` print."""

    entry: Entry
    accounted: Instant | None
    """Nominal times up to this instant are accounted for, or were due by a past definition; None: no node has seen the
    task yet.
    """
    extra: Instant | None
    extra_kind: RunKind
    """The off-grid run that is planned."""
    pause_from: int
    pause_until: int
    """As in `ProgressRecord`."""
    running_since: Instant | None
    last_start: Instant | None
    """Start and end of the latest run that ended, on or off the grid."""
    last_end: Instant | None
    outcome: Outcome | None
    state: State | None
    """The state of a check that has a result, else None."""
    hard: bool
    attempt: int
    flapping: bool
    output: str
    next_run: Instant | None = None
    """When the task runs next; None: it is paused, or has no next time.

    A store leaves this and the following fields empty: `report.task_status` fills them in.
    """
    next_kind: RunKind = RunKind.GRID
    expected_by: Instant | None = None
    """By when the next result is expected."""
    timebox: int | None = None
    """Of the next run, as it counts; None if nothing ends it, or if there is no next run."""
    longer_than: int | None = None
    """A run that lasts longer is unusually long; None if there is neither a next run nor one under way."""
    long: bool = False
    """Whether the run under way is unusually long."""
    late: bool = False
    """Whether the task is due and has not started."""
    stale: bool = False
    """Whether an expected result is missing."""
    blocked: str = ""
    """Why the task never runs although it is enabled: its command or function may not be executed."""
    deaths: int = 0
    """How many worker processes in a row have died with its runs."""
    unreachable_through: tuple[str, ...] = ()
    """The checks that it depends on and that are not fine; empty if it is reachable."""
    downtimes: tuple[Downtime, ...] = ()
    """The active downtimes that the task is in."""
    waits_for: tuple[str, ...] = ()
    """Of a task that runs after others: those that must still succeed, or of which one must fail, until it is due."""


class Filter(Struct, frozen=True):
    """Selects tasks: those that meet all the conditions given."""

    names: tuple[str, ...] = ()
    """Exact names, ids, or patterns with * and ?; a task must match one of them."""
    owner: str | None = None
    labels: Mapping[str, str] = {}
    state: str | None = None
    """One of FILTER_STATES; a store refuses anything else with Invalid, COMPUTED_FILTER_STATES too."""
    after: str = ""
    """Only names that follow this one, for the next page."""
    most: int = 1_000_000
    contains: str | None = None
    """A part of the name; the case of the letters a to z does not matter."""


ALL_TASKS: Final = Filter()


class ProblemFilter(Struct, frozen=True):
    """Selects problems: those that meet all the conditions given. Newest first, by id."""

    tasks: Filter = ALL_TASKS
    """Of these tasks; its `state`, `after` and `most` are ignored."""
    cause: str | None = None
    state: State | None = None
    """In this state: the present one, or of a closed problem the most severe that it has had."""
    is_open: bool | None = True
    """None for open and closed ones."""
    ids: tuple[int, ...] = ()
    """Only these; empty for all."""
    before: int | None = None
    """Only smaller ids, for the next page."""
    most: int = 1_000_000
    acknowledged: bool | None = None
    """Only those with an acknowledgement that counts at `now` - or that counted when the problem closed - as
    `core.acknowledgement` says, or only the others; None for both.
    """
    now: Instant = Instant(0)


OPEN_PROBLEMS: Final = ProblemFilter()


WithdrawnTasks = frozenset[int]
"""Numbers of tasks that were removed before their claims were committed: those claims are not kept."""
NONE_WITHDRAWN: Final[WithdrawnTasks] = frozenset()


class TaskSnapshot(NamedTuple):
    """One task as of one moment."""

    condition: Condition
    runs: list[RunRecord]
    """The latest, newest first, as the skips are."""
    skips: list[SkipRecord]


@runtime_checkable
class SnapshotReader(Protocol):
    """A store that reads a task and its latest records as of one moment, while a node goes on writing.

    Optional: of any other store, they are read one after the other.
    """

    def task_snapshot(self, name_or_id: str, most: int) -> TaskSnapshot | None:
        """A task by its name or id, and up to `most` of its runs and of its skips; None if there is no such task."""


PLAIN_PROGRESS: Final = TaskProgress._fields[: TaskProgress._fields.index("result_at") + 1]
"""The fields of `TaskProgress` that differ among tasks without an open claim and without a pause."""


@runtime_checkable
class PlainProgressReader(Protocol):
    """A store that gives the progress of most tasks as whole numbers, for nodes that have a million of them.

    Optional. While nothing is recorded, both together are what `progress` gives.
    """

    def plain_progress(self) -> Iterator[Sequence[Sequence[int]]]:
        """The fields PLAIN_PROGRESS of all tasks that have any progress, no open claim and no pause, some tasks at a
        time, by number; some of them may have been removed.
        """

    def other_progress(self) -> Iterator[TaskProgress]:
        """The progress of all other tasks, as `progress` gives it."""


@runtime_checkable
class ReturnedValues(Protocol):
    """A store that keeps what functions returned, like history. Optional: another store ignores `Batch.returned`."""

    def returned(self, task: int, claimed: Instant) -> str | None:
        """What the run of this task returned that was claimed then, as JSON; None if nothing is kept."""


class Store(AlertStore, Protocol):
    """Any thread may read. A change of tasks is durable when the call returns, a batch when the future of `record` is
    done. `who` names the author of a change for the audit.
    """

    # Tasks: create, read, update, delete, list

    def create(self, tasks: Sequence[Task], owner: str, now: Instant, who: str = "") -> list[Entry]:
        """Create tasks, all or none; raise Conflict, which names them, if names are taken.

        A task that was removed while it ran is restored if its name is given again before that run has ended: it keeps
        number, id, state, cursor and history, gets the new definition and owner, and its version goes up. The problems
        that its removal closed are open again.
        """

    def update(
        self,
        changes: Sequence[tuple[int, Task]],
        now: Instant,
        who: str = "",
        version: int | None = None,
        owner: str | None = None,
    ) -> list[Entry]:
        """Give tasks new definitions, by number, all or none; with `version`, only if the tasks have that version.

        With `owner`, the tasks belong to that owner from now on. Their old definitions are kept as `PastDefinition`s
        until they are settled.

        Raise Conflict if a task is gone, has another version, or if its new name is taken.
        """

    def remove(self, numbers: Sequence[int], now: Instant, who: str = "") -> None:
        """Delete those of the tasks that exist; their history stays as long as `keep` says.

        Their open problems close at `now`, with the reason "removed".
        """

    def find(self, name_or_id: str) -> Entry | None:
        """One task by its name or id."""

    def find_removed(self, name_or_id: str) -> Entry | None:
        """The removed task with this id, or the last one with this name, as long as its history is kept."""

    def removed_running(self) -> list[Entry]:
        """Tasks that were removed while they ran and whose runs have not ended, in the order of their numbers."""

    def entries(self, only: Filter = ALL_TASKS) -> Iterator[Entry]:
        """Tasks in the order of their names, one at a time: there may be millions."""

    def conditions(self, only: Filter = ALL_TASKS) -> Iterator[Condition]:
        """Tasks with their progress and latest results, in the order of their names."""

    def count(self, only: Filter = ALL_TASKS) -> int:
        """How many tasks the filter selects; `after` and `most` are ignored."""

    def dependents(self, names: Sequence[str]) -> list[Entry]:
        """The tasks that name one of these checks in `depends` or `depends_any`, in the order of their names."""

    def followers(self, names: Sequence[str]) -> list[Entry]:
        """The tasks that name one of these in `after` or `after_failure`, in the order of their names."""

    # Periods, limits and other settings

    def periods(self) -> dict[str, tuple[str, Period]]:
        """All periods: owner and definition by name."""

    def set_periods(
        self,
        periods: Mapping[str, Period | None],
        owner: str,
        now: Instant,
        who: str = "",
        past: Sequence[PastDefinition] = (),
    ) -> None:
        """Create or replace periods; None deletes one. The caller checks that no task uses a deleted period.

        `past`: the old definitions of tasks whose nominal times change by this.
        """

    def setting(self, key: str) -> str | None:
        """The value of a setting, a small text: limits, clock generation, digests of files."""

    def settings(self, prefix: str) -> dict[str, str]:
        """All settings whose keys begin with `prefix`."""

    def set_settings(self, settings: Mapping[str, str | None]) -> None:
        """Set settings, or delete them with None; all or none."""

    # Progress of tasks, and their runs

    def progress(self) -> Iterator[TaskProgress]:
        """The progress of all tasks that have any, by number; of removed tasks only if they still run."""

    def past_definitions(self) -> Iterator[PastDefinition]:
        """All that are not settled, in the order of tasks and times, without those of removed tasks."""

    def record(self, *batches: Batch) -> Future[WithdrawnTasks]:
        """Keep batches, in this order, all or none of them.

        The future is done when they are durable; if it fails with StoreError, nothing was kept. Its result is the set
        of tasks whose claims were not kept because the tasks had been removed: those runs must not start. So every
        claim committed after a removal respects it, and a `create` of the same name sees every claim made before it.
        """

    def cursors(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """The saved cursors of these tasks; tasks without one are left out."""

    def chain_parents(self, names: Sequence[str]) -> list[ChainParent]:
        """Those of these tasks that exist, in the order of their names, with the latest of their recorded ends."""

    def chain_uses(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """What these tasks have used of their parents; tasks of which nothing is kept are left out.

        Nothing is kept of a task that was removed while it ran, and restored.
        """

    def runs(
        self, task: int | None = None, before: Instant | None = None, most: int = 100, *, notable: bool = False
    ) -> list[RunRecord]:
        """Runs of one task or of all, also those that still run; by the time of their claim, newest first.

        With `before`, those claimed before it; with `notable`, only notable runs that have ended.
        """

    def whole_output(self, task: int, claimed: int) -> bytes | None:
        """The whole output of the run of a task that was claimed then, as it was recorded; None if there is none."""

    def starts(self, since: Instant, until: Instant) -> dict[int, int]:
        """How many runs were claimed in each second from `since` to before `until`, also those that still run.

        The key is the second since the epoch; seconds without a run are left out.
        """

    def skips(self, task: int | None = None, before: Instant | None = None, most: int = 100) -> list[SkipRecord]:
        """Skipped nominal times and refused off-grid runs, by `at`, newest first. With `before`, those before it."""

    # Problems

    def open_problems(self) -> Iterator[OpenProblem]:
        """All open problems in the order of their tasks, for a node that starts."""

    def problems(self, only: ProblemFilter = OPEN_PROBLEMS) -> list[ProblemRecord]:
        """The problems that the filter selects, newest first, also of removed tasks; Invalid for an unknown cause."""

    def count_problems(self, only: ProblemFilter = OPEN_PROBLEMS) -> int:
        """How many problems the filter selects, without regard to `before` and `most`."""

    def find_problem(self, number: int) -> ProblemRecord | None:
        """A problem by its id, open or closed, as long as it is kept."""

    def problem_notes(self, number: int) -> list[ProblemNote]:
        """The latest MAX_PROBLEM_NOTES of what people wrote about a problem or did with it, oldest first."""

    def acknowledge(self, ids: Sequence[int], ack: Acknowledgement | None, now: Instant, who: str) -> list[int]:
        """Acknowledge open problems, or take their acknowledgements back (None). Each of them gets a note.

        Both severities of the acknowledgement are that of the problem now, or if that is 0 (a check that flaps is OK
        just now) the worst that it has had. Return those of the ids, in their order,
        whose problems are open and were changed: a problem that is not acknowledged has nothing to take back. Thousands
        may be changed in several steps, so that batches need not wait for all of them.
        """

    def comment(self, ids: Sequence[int], text: str, now: Instant, who: str) -> list[int]:
        """Add a comment to problems, open or closed; return those of the ids, in their order, that exist."""

    # Audit

    def changes(self, name: str | None = None, most: int = 100) -> list[Change]:
        """The audit, newest first; with `name`, of one task, period, limit or other thing."""

    def audit(self, only: AuditFilter) -> list[NumberedChange]:
        """The changes that the filter selects, newest first."""

    def note(self, changes: Iterable[Change]) -> None:
        """Add events to the audit that are no changes of tasks: forced, reloaded."""

    # Maintenance

    def prune(self, now: Instant, keep: int) -> int:
        """Delete history that is older than `keep` microseconds, and plain successes beyond a bound; a part at a time.

        Closed problems and their notes, alerts and decisions go like history, by the time when they closed; open ones
        stay, and so do those with an alert that is not over, and their tasks. Other decisions go by their time. The
        document of a message goes DOCUMENT_KEPT after the message ended, its row like history.

        The audit is kept longer: see AUDIT_MIN_AGE and AUDIT_MIN_ROWS.

        Whole outputs go with their runs.

        Return how many rows were deleted; 0 when there is nothing left to do.
        """

    def backup(self, path: Path) -> None:
        """Write a consistent copy while the store is in use; raise StoreError if `path` exists already."""

    def close(self) -> None:
        """Finish what was recorded, and close the store."""
