"""What an App returns: tasks, runs, problems and downtimes with times as datetime and durations as timedelta."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from evenbeat.load.task_tables import task_to_table
from evenbeat.model import FOREVER, NEVER, Acknowledgement, Downtime, Entry, Outcome, RunKind, State, Task
from evenbeat.node.loop.pending_run import PendingRun
from evenbeat.report.downtimes import KnownDowntime
from evenbeat.store.contract import Condition, Finish, RunRecord, Skip
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.when.instant import EPOCH_UTC
from evenbeat.wire.events import RunEvent
from evenbeat.wire.replies import EndedRun, StopFound, StoppedRun


def time_of(instant: int) -> datetime:
    """An instant in UTC."""
    return EPOCH_UTC + timedelta(microseconds=instant)


def time_or_none(instant: int | None) -> datetime | None:
    """An instant in UTC; None for no time, never and for ever."""
    return None if instant is None or not NEVER < instant < FOREVER else time_of(instant)


def length_or_none(length: int | None) -> timedelta | None:
    """A duration; None for none."""
    return None if length is None else timedelta(microseconds=length)


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """A task as it is defined."""

    id: str
    version: int
    owner: str
    """The creator of the task: a file, a program or a person."""
    created: datetime
    changed: datetime
    task: Task
    """The definition itself: durations are microseconds here. `keys` has them as files do."""
    number: int
    """Never given to another task."""

    @classmethod
    def of(cls, entry: Entry) -> "TaskDefinition":
        created, changed = time_of(entry.created), time_of(entry.changed)
        return cls(entry.id, entry.version, entry.owner, created, changed, entry.task, entry.number)

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.task.labels

    @property
    def every(self) -> timedelta | None:
        """The interval; None of a task with another kind of schedule."""
        return length_or_none(self.task.schedule.every)

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of the task as a file has them: `{"every": "5m", "command": [...]}`."""
        return task_to_table(self.task)


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task and how it is."""

    entry: TaskDefinition
    next_run: datetime | None
    """None: it is paused, or has no next time. Without a running node: when it would run."""
    next_kind: RunKind
    expected_by: datetime | None
    """By when the next result is expected."""
    timebox: timedelta | None
    """How long the next run may last; None if nothing ends it."""
    longer_than: timedelta | None
    """A run that lasts longer is unusually long; None if there is neither a next run nor one under way."""
    long: bool
    """The run under way is unusually long."""
    running_since: datetime | None
    last_start: datetime | None
    last_end: datetime | None
    outcome: Outcome | None
    """Of the latest run that ended."""
    output: str
    state: State | None
    """Of a check that has a result."""
    hard: bool
    attempt: int
    flapping: bool
    late: bool
    """It is due and has not started."""
    stale: bool
    """An expected result is missing."""
    blocked: str
    """Why the task never runs although it is enabled."""
    unreachable_through: tuple[str, ...]
    """The checks that it depends on and that are not fine."""
    downtimes: tuple[Downtime, ...]
    """The active downtimes that it is in."""
    waits_for: tuple[str, ...]
    """Of a task that runs after others: those that must still succeed, or of which one must fail, until it is due."""

    @classmethod
    def of(cls, found: Condition) -> "TaskInfo":
        return cls(
            entry=TaskDefinition.of(found.entry),
            next_run=time_or_none(found.next_run),
            next_kind=found.next_kind,
            expected_by=time_or_none(found.expected_by),
            timebox=length_or_none(found.timebox),
            longer_than=length_or_none(found.longer_than),
            long=found.long,
            running_since=time_or_none(found.running_since),
            last_start=time_or_none(found.last_start),
            last_end=time_or_none(found.last_end),
            outcome=found.outcome,
            output=found.output,
            state=found.state,
            hard=found.hard,
            attempt=found.attempt,
            flapping=found.flapping,
            late=found.late,
            stale=found.stale,
            blocked=found.blocked,
            unreachable_through=found.unreachable_through,
            downtimes=found.downtimes,
            waits_for=found.waits_for,
        )

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def paused(self) -> bool:
        return self.entry.task.paused


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run: under way, or how it ended."""

    task: str
    started: datetime | None
    ended: datetime | None
    """None while it runs."""
    outcome: Outcome | None
    status: int | None
    """The exit status, or the negated number of the signal."""
    output: str
    nominal: datetime | None = None
    """When it was due by its schedule."""
    kind: RunKind | None = None
    claimed: datetime | None = None
    state: State | None = None
    """The state that the run gave its check; None if it gave none."""
    hard: bool = False
    attempt: int = 0
    number: int = 0
    """Of its task."""
    is_retried: bool = False
    """Of an event: it failed and tries again."""

    @classmethod
    def of(cls, run: RunRecord) -> "RunInfo":
        return cls(
            task=run.task,
            started=time_or_none(run.started),
            ended=time_or_none(run.ended),
            outcome=run.outcome,
            status=run.status,
            output=run.output,
            nominal=time_of(run.nominal),
            kind=run.kind,
            claimed=time_of(run.claimed),
            state=run.state,
            hard=run.hard,
            attempt=run.attempt,
            number=run.number,
        )

    @classmethod
    def of_end(cls, run: EndedRun, kind: RunKind | None = RunKind.FORCED) -> "RunInfo":
        return cls(
            task=run.task,
            started=time_of(run.started),
            ended=time_of(run.ended),
            outcome=Outcome(run.outcome),
            status=run.status,
            output=run.output,
            kind=kind,
            claimed=time_of(run.claimed) if run.claimed else None,
            number=run.number,
        )

    @classmethod
    def of_finish(cls, task: str, run: PendingRun, finish: Finish, *, is_check: bool, is_retried: bool) -> "RunInfo":
        return cls(
            task=task,
            started=time_of(finish.started),
            ended=time_of(finish.ended),
            outcome=Outcome(finish.outcome),
            status=finish.status,
            output=finish.output,
            nominal=time_of(run.nominal),
            kind=RunKind(run.kind),
            claimed=time_of(run.claimed),
            state=State(finish.state) if is_check else None,
            hard=finish.hard,
            attempt=finish.attempt,
            number=run.number,
            is_retried=is_retried,
        )

    @classmethod
    def of_event(cls, event: RunEvent) -> "RunInfo":
        return cls(
            task=event.task,
            started=time_of(event.started),
            ended=time_of(event.ended),
            outcome=event.outcome,
            status=event.status,
            output=event.output,
            nominal=time_of(event.nominal),
            kind=event.kind,
            state=event.state,
            hard=event.hard,
            attempt=event.attempt,
        )

    @property
    def succeeded(self) -> bool:
        return self.outcome == Outcome.SUCCEEDED

    @property
    def length(self) -> timedelta | None:
        """How long it lasted; None while it runs."""
        return None if self.started is None or self.ended is None else self.ended - self.started


@dataclass(frozen=True, slots=True)
class SkipInfo:
    """Nominal times of a task that had no run, for one reason."""

    task: str
    first: datetime
    last: datetime
    times: int
    reason: str

    @classmethod
    def of(cls, task: str, skip: Skip) -> "SkipInfo":
        return cls(task, time_of(skip.first), time_of(skip.last), skip.times, skip.reason)


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task was created, changed or removed."""

    task: str | None
    """None if many tasks changed at once."""
    change: str
    """created, changed, removed; of a node of another program also downtime, acknowledged and the like."""


Event = RunInfo | SkipInfo | TaskChange


@dataclass(frozen=True, slots=True)
class StopInfo:
    """What was found of a task that was to be stopped."""

    task: str
    found: StopFound
    """A run under way, a forced run or a retry that waited, or nothing."""
    run: RunInfo | None = None
    """How the run ended, if that was waited for."""

    @classmethod
    def of(cls, stopped: StoppedRun) -> "StopInfo":
        run = None if stopped.run is None else RunInfo.of_end(stopped.run, kind=None)
        return cls(stopped.task, stopped.found, run)


@dataclass(frozen=True, slots=True)
class AcknowledgementInfo:
    """Somebody takes care of a problem."""

    at: datetime
    who: str
    comment: str
    until: datetime | None
    """It ends then; None: with the problem."""
    sticky: bool
    """It goes on when the problem gets worse."""

    @classmethod
    def of(cls, found: Acknowledgement) -> "AcknowledgementInfo":
        return cls(time_of(found.at), found.who, found.comment, time_or_none(found.until), found.sticky)


@dataclass(frozen=True, slots=True)
class ProblemInfo:
    """What is wrong with a task, or was."""

    id: int
    task: str
    cause: str
    """state, failed, stale or long."""
    opened: datetime
    since: datetime
    """Since when it is in its present state, or was in the last one when it closed."""
    closed: datetime | None
    state: State
    """The present one; of a closed problem, the most severe that it has had."""
    worst: State
    reason: str
    """Why it closed, if not by a result: removed, changed, superseded."""
    flapping: bool
    output: str
    owner: str
    labels: Mapping[str, str]
    acknowledgement: AcknowledgementInfo | None
    hold: str
    """Why nobody is notified of it now; empty if somebody may be."""
    held_since: datetime | None
    unreachable: bool
    downtime: bool
    """The task is in an active downtime."""

    @classmethod
    def of(cls, found: ProblemRecord) -> "ProblemInfo":
        return cls(
            id=found.id,
            task=found.task,
            cause=found.cause,
            opened=time_of(found.opened),
            since=time_of(found.since),
            closed=time_or_none(found.closed),
            state=found.state,
            worst=found.worst,
            reason=found.reason,
            flapping=found.flapping,
            output=found.output,
            owner=found.owner,
            labels=found.labels,
            acknowledgement=None if found.acknowledgement is None else AcknowledgementInfo.of(found.acknowledgement),
            hold=found.hold,
            held_since=time_or_none(found.held_since),
            unreachable=found.unreachable,
            downtime=found.downtime,
        )


@dataclass(frozen=True, slots=True)
class DowntimeInfo:
    """A downtime, and how it stands."""

    id: str
    names: tuple[str, ...]
    """Names or patterns; empty for any."""
    owner: str | None
    labels: Mapping[str, str]
    start: datetime | None
    end: datetime | None
    period: str | None
    """It is active only while this period is open."""
    dependents: bool
    """So are the tasks that depend on these."""
    comment: str
    who: str
    created: datetime
    ended_by: str
    """Who ended it before its time."""
    is_active: bool
    is_over: bool
    next_change: datetime | None
    """When it may begin or end next; None: never."""
    is_declared: bool
    """A file or an owner declares it: it is changed and ended there."""

    @classmethod
    def of(cls, known: KnownDowntime) -> "DowntimeInfo":
        found = known.downtime
        return cls(
            id=found.id,
            names=found.names,
            owner=found.owner,
            labels=found.labels,
            start=time_or_none(found.start),
            end=time_or_none(found.end),
            period=found.period,
            dependents=found.dependents,
            comment=found.comment,
            who=found.who,
            created=time_of(found.created),
            ended_by=found.ended_by,
            is_active=known.is_active,
            is_over=known.is_over,
            next_change=time_or_none(known.next_change),
            is_declared=known.is_declared,
        )
