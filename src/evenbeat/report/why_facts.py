"""What an answer to `why` rests on: the facts of a task, and that task compiled."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from evenbeat.model import DAY, FOREVER, HOUR, MINUTE, SECOND, Downtime, Entry, Instant, Period, RunKind, Task
from evenbeat.report.words import nominals_of, run_words, skip_words, zone_of
from evenbeat.store.contract import Condition, RunRecord, SkipRecord
from evenbeat.store.history_contract import RunSummary
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.when.duration import spoken_duration
from evenbeat.when.inside_period import within_period
from evenbeat.when.instant import parse_instant, spoken_instant
from evenbeat.when.period import CompiledPeriod, compile_periods
from evenbeat.when.zone import Zone
from evenbeat.wire.live_runs import LiveTaskState


class ContactAnswer(Struct, frozen=True):
    """What one contact was sent about a problem, what waits for it, or why it is sent nothing."""

    text: str
    """In plain words."""
    contact: str = ""
    """Empty if it is about none."""
    problem: int | None = None
    outcome: str = ""
    """sent, waiting (something will be), suppressed, given up; empty if nothing was decided."""
    reason: str = ""
    """Why what waits waits, or why it is suppressed: downtime, acknowledged, unreachable, ..."""
    place: str = ""
    """Where it was sent to, without secrets."""
    sent_at: str | None = None
    """The latest time, of the problem itself or a reminder."""
    message: int | None = None
    delivery: str = ""
    """Of that message: waiting, delivered, given up; empty if that is not on record."""
    error: str = ""
    """Why it was not delivered."""
    until: str | None = None
    """When what waits is decided again, if nothing else changes."""


class Answer(Struct, frozen=True):
    """One sentence, and the reasons for it."""

    answer: str
    reasons: list[str]
    notified: list[ContactAnswer] = []
    """Who was notified of the open problems of the task, or of the latest one that has closed, and why others not."""


class TaskFacts(Struct, frozen=True):
    """What the store and the live node know of a task."""

    condition: Condition
    runs: Sequence[RunRecord]
    """Newest first, as the skips are."""
    skips: Sequence[SkipRecord]
    periods: Mapping[str, Period]
    now: Instant
    keep: int
    """Microseconds for which history is kept."""
    is_live: bool
    """Is a node running on the database?"""
    moment: LiveTaskState | None = None
    """What that node says of the task; None also if the node cannot answer yet."""
    is_shared: bool = False
    """Is the database that of a cluster?"""
    problems: Sequence[ProblemRecord] = ()
    """Now: the open ones; of a time in the past: closed ones too."""
    downtimes: Sequence[Downtime] = ()
    """Those that the task is in now, or was in during a time in the past."""
    not_fine: Sequence[str] = ()
    """Why it is unreachable now: sentences about the checks that it depends on."""
    problems_of_parents: Sequence[ProblemRecord] = ()
    """Of a time in the past: the problems that checks which it depends on have had."""
    keep_runs: int = FOREVER
    """Microseconds for which every run is kept."""
    summary: RunSummary | None = None
    """Of a time whose runs are not kept any more: of its hour, or of its day."""
    is_of_day: bool = False
    """Whether that is the summary of a day."""
    parents: Sequence[str] = ()
    """What the tasks do now that it waits for, if it runs after others: a sentence for each."""


class ExplainedTask:
    """The task in question, compiled: its times, its period, its zone, and how to write an instant."""

    def __init__(self, facts: TaskFacts) -> None:
        self.facts = facts
        self.task: Task = facts.condition.entry.task
        self.times = nominals_of(self.task)
        self.zone = zone_of(self.task, self.times)
        self.period: CompiledPeriod | None = None
        if self.task.period is not None and self.task.period in facts.periods:
            self.period = compile_periods(facts.periods)[self.task.period]
        self.inside = within_period(self.times, self.period)

    @property
    def is_forced(self) -> bool:
        """Is a forced run due or waiting?"""
        moment = self.facts.moment
        return (self.facts.condition.next_kind if moment is None else moment.kind) is RunKind.FORCED

    def at(self, t: Instant) -> str:
        return spoken_instant(t, self.zone)

    def ahead(self, t: Instant) -> str:
        """ "on Mon 2026-11-16 09:00:37+01:00, in 3 min 20 s"."""
        return ahead_words(t, self.facts.now, self.zone)

    def latest(self) -> list[str]:
        """The last run and the last skip."""
        facts = self.facts
        ended = next((run for run in facts.runs if run.ended is not None and run.kind is not RunKind.LOG), None)
        what = "the last run" if ended and ended.kind not in (RunKind.TOLD, RunKind.STALE) else "the last result"
        nothing = "no result has been submitted yet" if self.task.passive else "it has not run yet"
        found = [f"{what} {run_words(ended, self.zone)}" if ended else nothing]
        logged = next((run for run in facts.runs if run.kind is RunKind.LOG), None)
        if logged is not None:
            found.append(f"the last line of its log {run_words(logged, self.zone)}")
        if facts.skips:
            found.append(f"the last skip: {skip_words(facts.skips[0], self.zone)}")
        return found


def ahead_words(t: Instant, now: Instant, where: Zone) -> str:
    """ "on Mon 2026-11-16 09:00:37+01:00, in 3 min 20 s"."""
    distance = t - now
    return f"on {spoken_instant(t, where)}, " + (f"in {spoken_duration(distance)}" if distance > 0 else "which is now")


def typed_time_span(text: str, entry: Entry) -> tuple[Instant, Instant]:
    """The second, minute, hour or day that a typed time names, in the zone of the task."""
    start = parse_instant(text, zone_of(entry.task, nominals_of(entry.task)))
    clock = re.search(r"[T ]\d\d(?P<minutes>:?\d\d)?(?P<seconds>:?\d\d)?", text)
    length = DAY if clock is None else SECOND if clock["seconds"] else MINUTE if clock["minutes"] else HOUR
    return start, Instant(start + length)
