"""What a store promises: it remembers tasks, periods and settings, where each task stands, and what became of its runs.

A store decides nothing. All that a node learns in one step is one `Batch`, and is remembered as a whole or not at all.
Numbers are microseconds on the epoch where they are times; FOREVER means never, as everywhere in the house.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from evenbeat.model import DAY, Entry, Instant, Invalid, Outcome, Period, RunKind, State, Task
from evenbeat.model import FOREVER as FOREVER  # noqa: PLC0414 - part of the contract
from evenbeat.model import NEVER as NEVER  # noqa: PLC0414

PLAIN_OUTPUT_LENGTH: Final = 200
"""Characters of a plain success's output that history keeps. Of other runs, and as the latest, all of it is kept."""

FILTER_STATES: Final = (
    *("ok", "warning", "critical", "unknown", "unchecked", "running", "disabled", "failed"),
    *("paused", "problem"),
)
"""What a filter may ask for. `unchecked`: a check without any result yet.

`failed`: the latest run ended, and neither well nor because somebody stopped it. `paused`: disabled by hand.
`problem`: a check that is HARD and not OK, a task that is `failed`.
"""
COMPUTED_FILTER_STATES: Final = ("late", "stale")
"""The same, of what depends on the next time of a task, which a store does not know: see `report.task_status`."""
AUDIT_MIN_AGE: Final = 400 * DAY
"""How long the audit is kept, if not for longer by `keep` ..."""
AUDIT_MIN_ROWS: Final = 100_000
"""... as far as a change is among so many of the latest; all others are kept as long as `keep` says."""
FAILURES: Final = (Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED, Outcome.BROKEN, Outcome.LOST)


class StoreError(Exception):
    """The store cannot do its work: disk full, read-only, corrupt, written by a newer program. Says what to do."""


class DatabaseDamaged(StoreError):
    """The database itself is spoiled, gone or replaced: waiting and trying again do not help."""


class DatabaseLocked(StoreError):
    """Another program is writing to the database; when it has ended, all goes on."""


class ContradictoryBatch(StoreError):
    """A batch that cannot be true beside what is there: a second claim, an end without a claim, an unknown task."""


class Conflict(Invalid):
    """A change that does not fit what is there: the name is taken, or the version is another one by now."""


# What a node records


class Claim(NamedTuple):
    """A run is about to be made. Committed before anything starts; refused if the task has an open claim.

    A claim of a task that was removed by then is not kept: see `Store.record`.
    """

    task: int
    nominal: int
    generation: int
    kind: int
    at: int
    accounted: int
    """Where the task stands from now on: every nominal time up to this instant is accounted for ..."""
    extra: int
    extra_kind: int
    """... and the off-grid run that is planned, if any."""
    token: int = 0
    """What names the run between nodes and workers; a store that only ever has one node need not keep it."""


class RunStart(NamedTuple):
    """A run that lasts has really started; told for runs that do not end at once, ignored if it has ended already."""

    task: int
    started: int


class Finish(NamedTuple):
    """A claimed run has ended, however it ended; refused if there is no open claim. Also for a task removed by now."""

    task: int
    started: int
    """When it really started; when it was claimed, if it never did or nobody knows."""
    ended: int
    outcome: str
    status: int | None
    """Exit status, or the negative number of the signal."""
    output: str
    cursor: bytes | None
    """None leaves the task's cursor as it was."""
    last_start: int
    """Of the task's last on-grid run, this one included."""
    state: int
    hard: bool
    attempt: int
    changes: int
    flapping: bool
    result_at: int
    extra: int
    extra_kind: int
    notable: bool
    """Whether it is more than a plain success: failures and changes of state are kept for as long as `keep` says."""

    @property
    def is_latest(self) -> bool:
        """False if it started before the latest result of its check: then that one stays the latest, with its times,
        outcome and output, and this run is only in the history.
        """
        return self.result_at <= self.started


class SubmittedResult(NamedTuple):
    """A result of a check without a run of ours: told from outside, or that none was told. Needs no claim, and leaves
    one that is open alone: the task may run meanwhile.
    """

    task: int
    nominal: int
    generation: int
    kind: int
    at: int
    """When the node learned of it; `ended` is when it was so."""
    started: int
    ended: int
    outcome: str
    status: int | None
    output: str
    made: int | None
    """The state that it made of the check; None if a newer result was known: then the latest one stays what it was."""
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


class Skip(NamedTuple):
    """Nominal times without a run of their own: from first to last, so many.

    One that begins where the task's newest range says `next_nominal`, for the same reason, extends that range.
    """

    task: int
    first: int
    last: int
    times: int
    reason: str
    at: int
    next_nominal: int
    """The nominal time that follows `last`, by the definition that the range was counted by."""
    accounted: int
    extra: int
    extra_kind: int


class Refusal(NamedTuple):
    """An off-grid run that was refused, and where its task stands without it."""

    task: int
    due: int
    kind: int
    reason: str
    at: int
    accounted: int
    extra: int
    extra_kind: int


class ProgressRecord(NamedTuple):
    """Where a task stands without any run: just placed, resumed, forced to start at a time, its clock set back."""

    task: int
    accounted: int
    extra: int
    extra_kind: int
    last_start: int
    result_at: int
    pause_from: int = NEVER
    pause_until: int = NEVER
    """Nominal times after `pause_from` and up to `pause_until` are accounted for, though earlier ones are still owed.

    While the task is paused, `pause_until` is FOREVER.
    """


class SettledDefinitions(NamedTuple):
    """Earlier definitions of a task, up to those that were in force until then, count no more: see `PastDefinition`."""

    task: int
    until: int


class Batch(Struct):
    """What a node learned in one step, in this order: a run ends before the next one of its task is claimed.

    Left alone by whoever recorded it. Plain ints, strs and bools; what only looks like them, as numpy's do, is refused.
    """

    starts: list[RunStart] = []
    finishes: list[Finish] = []
    standings: list[ProgressRecord] = []
    skips: list[Skip] = []
    refusals: list[Refusal] = []
    claims: list[Claim] = []
    told: list[SubmittedResult] = []
    """Comes after `finishes`."""
    settled: list[SettledDefinitions] = []


# What it is told


class PastDefinition(NamedTuple):
    """How a task was defined until it was changed: what was due before the change is settled by this definition.

    The store keeps it from the change on until a node records that it is settled. So a change counts from the same
    instant on whether a node takes it over at once, after a crash, or when it is started weeks later.
    """

    task: int
    until: int
    definition: Task
    periods: Mapping[str, Period] | None
    """The periods as they were, if they are what was changed."""


class TaskProgress(NamedTuple):
    """Where a task stands, as a node needs it when it starts."""

    task: int
    accounted: int
    extra: int
    extra_kind: int
    last_start: int
    """Of the last on-grid run, the claimed one included if it has started."""
    state: int
    hard: bool
    attempt: int
    changes: int
    flapping: bool
    result_at: int
    claimed: int | None
    """The nominal time of a run that was claimed and has not ended; None if there is none."""
    claimed_kind: int
    claimed_at: int
    claimed_generation: int
    claimed_token: int = 0
    claimed_untaken: bool = False
    """The node that claimed it has left in order, and knew that no worker had it."""
    pause_from: int = NEVER
    pause_until: int = NEVER


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
    """Of a check: what this run made of it; None if it had no say (lost, or older than what is known)."""
    hard: bool
    attempt: int
    """0 while it runs."""
    output: str
    number: int = 0
    """Of the task: another task may have had its name before."""


class SkipRecord(Struct, frozen=True):
    """Nominal times that were skipped for one reason, as history shows them; or one refused off-grid run."""

    task: str
    first: Instant
    last: Instant
    times: int
    reason: str
    at: Instant
    """When the last of them was."""
    kind: RunKind = RunKind.GRID
    number: int = 0
    """Of the task, as in `RunRecord`."""


class FieldChange(NamedTuple):
    """One key that has another value now, in the words of files: `every`, `labels.team`; None: it was not there."""

    key: str
    old: Any
    new: Any
    """Durations in microseconds. Literal values of `env` are never here: HIDDEN stands for them."""


class Change(Struct, frozen=True):
    """Who changed what, for the audit."""

    at: Instant
    who: str
    action: str
    """created, changed, removed, enabled, disabled, forced ..."""
    name: str
    detail: str = ""
    fields: tuple[FieldChange, ...] = ()
    """From what to what."""


class NumberedChange(NamedTuple):
    """A change and its number in the audit: later ones have larger numbers."""

    number: int
    change: Change


class AuditFilter(Struct, frozen=True):
    """Which changes: all that fit everything that is said."""

    name: str | None = None
    """Of a task, also a removed one, or "period NAME", "limit NAME", "token NAME", "slots" ..."""
    who: str | None = None
    since: Instant | None = None
    before: int | None = None
    """With smaller numbers, for the next page."""
    most: int = 100


class Condition(Struct, frozen=True):
    """A task and how it is: what `ls` and `show` tell."""

    entry: Entry
    accounted: Instant | None
    """Nominal times up to this instant are accounted for, or were due by an earlier definition; None: no node has seen
    the task yet.
    """
    extra: Instant | None
    extra_kind: RunKind
    """The off-grid run that is planned."""
    pause_from: int
    pause_until: int
    """As in `Standing`."""
    running_since: Instant | None
    last_start: Instant | None
    """Of the latest run that ended, on the grid or off it ..."""
    last_end: Instant | None
    outcome: Outcome | None
    state: State | None
    """Of a check that has a result."""
    hard: bool
    attempt: int
    flapping: bool
    output: str
    next_run: Instant | None = None
    """When it runs next; None: it is paused, or no time is left. Not from the store: see `report.task_status`."""
    next_kind: RunKind = RunKind.GRID
    expected_by: Instant | None = None
    """When its next result must be there, and ..."""
    late: bool = False
    """... whether it is due and has not started, ..."""
    stale: bool = False
    """... or has no result although one should be there. From the same place, as is ..."""
    blocked: str = ""
    """... why it never runs, although it is enabled: what it says may not be executed, and ..."""
    deaths: int = 0
    """... how many worker processes in a row have died with its runs."""


class Filter(Struct, frozen=True):
    """Which tasks: all that fit everything that is said."""

    names: tuple[str, ...] = ()
    """Exact names, ids, or patterns with * and ?."""
    owner: str | None = None
    labels: Mapping[str, str] = {}
    state: str | None = None
    """One of STATES; anything else is refused with Invalid, COMPUTED_STATES by stores too."""
    after: str = ""
    """Names after this one, for the next page."""
    most: int = 1_000_000
    contains: str | None = None
    """What is somewhere in the name; of the letters a to z, the case does not matter."""


ALL_TASKS: Final = Filter()


WithdrawnTasks = frozenset[int]
"""Numbers of tasks that were removed before their claims were committed: those claims are not kept."""
NONE_WITHDRAWN: Final[WithdrawnTasks] = frozenset()


class Store(Protocol):
    """Reads may be asked from any thread. A change of tasks is done when the call returns, `record` when its future is.

    `who` is for the audit.
    """

    # Tasks: create, read, update, delete, list

    def create(self, tasks: Sequence[Task], owner: str, now: Instant, who: str = "") -> list[Entry]:
        """New tasks, all or none; raise Conflict, naming them, if names are taken.

        A task that was removed while it ran comes back if its name is given again before that run has ended: number,
        id, state, cursor and history stay, definition and owner are the new ones, and the version counts on.
        """

    def update(
        self,
        changes: Sequence[tuple[int, Task]],
        now: Instant,
        who: str = "",
        version: int | None = None,
        owner: str | None = None,
    ) -> list[Entry]:
        """New definitions for tasks by number, all or none; with `version`, only if that is what they have.

        With `owner`, the tasks belong to that owner from now on. The definitions before are kept as `PastDefinition`s
        until they are settled.

        Raise Conflict if one is gone, has another version, or its new name is taken.
        """

    def remove(self, numbers: Sequence[int], now: Instant, who: str = "") -> None:
        """Delete tasks, as far as they are there; their history stays as long as `keep` says."""

    def find(self, name_or_id: str) -> Entry | None:
        """One task by its name or id."""

    def find_removed(self, name_or_id: str) -> Entry | None:
        """The task with this id, or the last one of this name, that was removed and is kept for its history."""

    def removed_running(self) -> list[Entry]:
        """Tasks that were removed while they ran, and whose runs have not ended; in the order of their numbers."""

    def entries(self, only: Filter = ALL_TASKS) -> Iterator[Entry]:
        """Tasks in the order of their names; of use for millions."""

    def conditions(self, only: Filter = ALL_TASKS) -> Iterator[Condition]:
        """The same, and how they are."""

    def count(self, only: Filter = ALL_TASKS) -> int:
        """How many fit; `after` and `most` do not matter."""

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
        """Create or replace periods; None deletes. Whether a task still uses it is the caller's question.

        `past`: the tasks whose nominal times are others by that, as they were until now.
        """

    def setting(self, key: str) -> str | None:
        """A small text under a key: limits, clock generation, digests of files."""

    def settings(self, prefix: str) -> dict[str, str]:
        """All settings whose keys begin so."""

    def set_settings(self, settings: Mapping[str, str | None]) -> None:
        """Set or delete some, all or none."""

    # Where tasks stand, and their runs

    def progress(self) -> Iterator[TaskProgress]:
        """Of every task that has any and is there, or was removed while it ran; in the order of their numbers."""

    def past_definitions(self) -> Iterator[PastDefinition]:
        """All that are not settled, in the order of tasks and times; not those of removed tasks."""

    def record(self, *batches: Batch) -> Future[WithdrawnTasks]:
        """Remember batches, in this order, all or none of them.

        The future is done when they are durable, or fails with StoreError and nothing was kept. Its result are the
        tasks whose claims were not kept, because the tasks had been removed: those runs must not be made. A removal is
        thus seen by every claim that is committed after it, and every claim before it by a `create` of the same name.
        """

    def cursors(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """The saved cursors of some tasks; those without one are left out."""

    def runs(
        self, task: int | None = None, before: Instant | None = None, most: int = 100, *, notable: bool = False
    ) -> list[RunRecord]:
        """Newest first, by when they were claimed; of one task or of all, the running ones included.

        With `before`, those claimed before it; with `notable`, only those that ended and are.
        """

    def starts(self, since: Instant, until: Instant) -> dict[int, int]:
        """How many runs were claimed in each second since then and before `until`, the running ones included.

        By the number of the second on the epoch; those without any are left out.
        """

    def skips(self, task: int | None = None, before: Instant | None = None, most: int = 100) -> list[SkipRecord]:
        """Newest first, by `at`; skipped nominal times and refused off-grid runs. With `before`, those before it."""

    def changes(self, name: str | None = None, most: int = 100) -> list[Change]:
        """The audit, newest first."""

    def audit(self, only: AuditFilter) -> list[NumberedChange]:
        """Part of the audit, newest first."""

    def note(self, changes: Iterable[Change]) -> None:
        """Add to the audit what is no change of a task: forced, reloaded."""

    # Care

    def prune(self, now: Instant, keep: int) -> int:
        """Forget what is older than `keep` microseconds, and plain successes beyond a bound; a part at a time.

        The audit is kept longer: see AUDIT_KEPT and AUDIT_ROWS.

        Says how many rows went; 0 when there is nothing left to do.
        """

    def backup(self, path: Path) -> None:
        """A consistent copy, while everything goes on; raise StoreError if there is something at `path` already."""

    def close(self) -> None:
        """Everything that was recorded is kept; the store is not used any more."""
