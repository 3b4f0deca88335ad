"""Tasks, runs and skips in words for people, shared by `why`, `history` and `show`."""

from shlex import quote
from typing import Final

from evenbeat.core.permission import has_runnable_job
from evenbeat.core.telling_lines import summary_line
from evenbeat.core.worker_deaths import MAX_WORKER_DEATHS
from evenbeat.model import MINUTE, SECOND, Outcome, RunKind, State, Task, WhenUnreachable
from evenbeat.report.retries import attempt_of_run
from evenbeat.store.contract import Condition, RunRecord, SkipRecord
from evenbeat.when.calendar import Calendar
from evenbeat.when.cron import Cron
from evenbeat.when.duration import format_duration, spoken_duration
from evenbeat.when.explain import explain_cron, explain_occasion
from evenbeat.when.instant import spoken_instant
from evenbeat.when.nominal_times import CompiledSchedule
from evenbeat.when.schedule import NodeEventSchedule, compile_schedule
from evenbeat.when.zone import Zone, zone

RUN_KIND_WORDS: Final = {
    RunKind.GRID: "by its schedule",
    RunKind.FIRST: "a first run, soon after it was created",
    RunKind.CATCH_UP: "a run that makes up for what was missed",
    RunKind.RETRY: "a retry",
    RunKind.START_AT: "as its start_at says",
    RunKind.OCCASION: "on an occasion: the node started or stops",
    RunKind.FORCED: "a forced run",
    RunKind.TOLD: "submitted externally",
    RunKind.STALE: "no result was submitted in time",
    RunKind.FRESHNESS: "a run because no result came in time",
    RunKind.LOG: "logged by the sender of heartbeats",
    RunKind.CHAIN: "a run after its parents",
}


def nominals_of(task: Task) -> CompiledSchedule:
    """The schedule of a stored task, compiled."""
    return compile_schedule(task.schedule, task.name)


def zone_of(task: Task, times: CompiledSchedule) -> Zone:
    """The zone in which the times of a task are shown."""
    return times.zone if isinstance(times, Cron | Calendar) else zone(task.schedule.zone)


def short_schedule(task: Task) -> str:
    """The schedule as it was written: "every 5m", "cron H 3 * * *"."""
    s = task.schedule
    if s.every is not None:
        return f"every {format_duration(s.every)}"
    if s.parents:
        return f"{'after' if s.after else 'after failure of'} {', '.join(s.parents)}"
    return f"cron {s.cron}" if s.cron else f"calendar {s.calendar}" if s.calendar else f"at {s.at}"


def long_schedule(task: Task, times: CompiledSchedule) -> str:
    """The schedule as it was written, with an explanation where that helps."""
    if isinstance(times, Cron):
        text = explain_cron(times)
    elif isinstance(times, NodeEventSchedule):
        text = explain_occasion(times.event)
    else:
        return short_schedule(task)
    return f"{short_schedule(task)}: {text[:1].lower()}{text[1:].rstrip('.')}"


def pause_words(task: Task, where: Zone) -> str:
    """ "paused by ana until Mon 2026-11-16 09:00:37+01:00: new disks"."""
    pause = task.pause
    if pause is None:
        return "paused"
    until = "" if pause.until is None else f" until {spoken_instant(pause.until, where)}"
    reason = first_line(pause.reason)
    return f"paused by {pause.who}{until}{f': {reason}' if reason else ''}"


def state_words(state: State, *, hard: bool, attempt: int, attempts: int) -> str:
    """ "CRITICAL (SOFT, attempt 2 of 3)"; a hard one is just its name."""
    return state.name if hard else f"{state.name} (SOFT, attempt {attempt} of {attempts})"


def duration_words(microseconds: int) -> str:
    """How long a run took."""
    if microseconds >= MINUTE:
        return spoken_duration(microseconds)
    return f"{microseconds / SECOND:.1f} s" if microseconds >= SECOND else f"{microseconds / 1000:.1f} ms"


def outcome_words(outcome: Outcome | str | None, status: int | None) -> str:
    """How a run ended, with its exit status unless that is 0: "failed with status 2"."""
    if outcome is None:
        return "runs"
    word = str(outcome)
    if not status or outcome in (Outcome.CANCELLED, Outcome.INTERRUPTED):  # the signal that ended it was ours
        return word
    return f"{word} by signal {-status}" if status < 0 else f"{word} with status {status}"


def run_words(run: RunRecord, where: Zone) -> str:
    """A run in one phrase."""
    begun = run.claimed if run.started is None else run.started
    if run.kind is RunKind.LOG:
        return f"was logged {spoken_instant(run.claimed, where)}: {run_summary(run)}"
    if run.kind in (RunKind.TOLD, RunKind.STALE):
        return _submitted_words(run, where)
    if run.ended is None and run.started is None:
        return f"was claimed {spoken_instant(begun, where)} and has not started"
    when = f"started {spoken_instant(begun, where)}"
    if run.ended is None:
        return f"{when} and has not ended"
    said = run_summary(run)
    attempt = attempt_of_run(run)
    outcome = f"{outcome_words(run.outcome, run.status)}{f' at attempt {attempt}' if attempt is not None else ''}"
    return f"{when}, took {duration_words(run.ended - begun)}, {outcome}{f': {said}' if said else ''}"


def _submitted_words(run: RunRecord, where: Zone) -> str:
    """A submitted result: when it arrived, and how long the check took, if that is known."""
    how = "was submitted" if run.kind is RunKind.TOLD else "was missing"
    took = ""
    if run.started is not None and run.ended is not None and run.ended > run.started:
        took = f", took {duration_words(run.ended - run.started)}"
    said = run_summary(run)
    state = "older than what was known" if run.state is None else run.state.name
    return f"{how} {spoken_instant(run.claimed, where)}{took}, {state}{f': {said}' if said else ''}"


def skip_words(skip: SkipRecord, where: Zone) -> str:
    """A skip in one phrase: "12 times coalesced, from .. to .."."""
    if skip.kind is not RunKind.GRID:
        return f"{skip.kind.word} run of {spoken_instant(skip.first, where)} refused: {skip.reason}"
    if skip.times == 1:
        return f"{spoken_instant(skip.first, where)}: {skip.reason}"
    span = f"from {spoken_instant(skip.first, where)} to {spoken_instant(skip.last, where)}"
    return f"{skip.times:,} times {skip.reason}, {span}"


def run_summary(run: RunRecord) -> str:
    """The line of a run's output that says most."""
    is_check = run.state is not None or run.kind in (RunKind.TOLD, RunKind.STALE)
    return summary_line(run.output, is_check=is_check, has_failed=has_run_failed(run.outcome))


def condition_summary(condition: Condition) -> str:
    """The line that says most of the latest output of a task."""
    check, output = condition.entry.task.check, condition.output
    return summary_line(output, is_check=check, has_failed=has_run_failed(condition.outcome))


def has_run_failed(outcome: Outcome | str | None) -> bool:
    """Has a run ended badly by itself? Of one that a person has stopped, the first line of its output says who."""
    return outcome not in (None, Outcome.SUCCEEDED, Outcome.CANCELLED)


def first_line(text: str) -> str:
    """The first line of a text that is not empty."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]


def unreachable_words(condition: Condition) -> str:
    """Through which checks a task is unreachable, and what follows for its runs."""
    names = condition.unreachable_through
    shown = ", ".join(map(repr, names))
    skips = condition.entry.task.when_unreachable is WhenUnreachable.SKIP
    runs = "its runs are skipped" if skips else "it runs all the same"
    if condition.entry.task.passive and not has_runnable_job(condition.entry.task):
        runs = "no result is expected of it"
    return f"unreachable: {shown} {'is' if len(names) == 1 else 'are'} not fine; {runs}"


def is_set_aside(deaths: int) -> bool:
    """Have so many worker processes in a row died with a task that its lost runs are not repeated?"""
    return deaths >= MAX_WORKER_DEATHS


def deaths_words(name: str, deaths: int) -> str:
    """What follows from the deaths of worker processes with the runs of a task."""
    workers = "a worker process" if deaths == 1 else f"{deaths} worker processes in a row"
    if not is_set_aside(deaths):
        return (
            f"{workers} died with it: until a run of it ends by itself it runs alone on a worker process, and after "
            f"{MAX_WORKER_DEATHS} deaths a lost run is not repeated"
        )
    return (
        f"set aside, as {workers} died with it: a lost run is not repeated, and what its schedule or "
        f"`evenbeat run {quote(name)}` starts runs alone on a worker process; the first run that ends by itself ends "
        "this"
    )


def timebox_words(condition: Condition) -> str:
    """What ends a run, and after what time it is unusually long: "no timebox; a run longer than 1 h is unusual"."""
    box, longest = condition.timebox, condition.longer_than
    words = "no timebox" if box is None else f"timebox {spoken_duration(box)}"
    if longest is None or (box is not None and box <= longest):
        return words
    return f"{words}; a run longer than {spoken_duration(longest)} is unusual"
