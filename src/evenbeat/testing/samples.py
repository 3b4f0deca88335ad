"""Tasks and records for tests, with everything that a test does not care about filled in."""

from typing import Any, Final

from evenbeat.model import MINUTE, SEVERITY, Cause, Instant, Job, Outcome, RunKind, Schedule, State, Task
from evenbeat.store.alert_records import AlertDecision, AlertRecord, MessageRecord
from evenbeat.store.contract import FOREVER, NEVER, Claim, Finish, ProgressRecord, Refusal, Skip, SubmittedResult
from evenbeat.store.problem_records import ProblemChange, ProblemHold

T0: Final = Instant(1_800_000_000_000_000)
"""An arbitrary time in 2027."""


def a_task(name: str, *, check: bool = False, enabled: bool = True, **labels: str) -> Task:
    """A task that is due every minute."""
    schedule = Schedule(every=MINUTE, phase=0)
    return Task(name, schedule, Job(command=("noop",)), check=check, enabled=enabled, labels=labels)


def a_progress_record(
    task: int, accounted: int = T0, extra: int = FOREVER, kind: RunKind = RunKind.FIRST
) -> ProgressRecord:
    """The progress of a task that was placed and has not run yet."""
    return ProgressRecord(task, accounted, extra, kind, NEVER, NEVER)


def a_claim(task: int, nominal: int = T0, kind: RunKind = RunKind.GRID, at: int | None = None) -> Claim:
    """The claim of a run, a millisecond after it was due; the next minute is accounted for."""
    return Claim(task, nominal, 0, kind, nominal + 1_000 if at is None else at, nominal + MINUTE, FOREVER, 0)


def a_finish(
    task: int,
    nominal: int = T0,
    output: str = "",
    *,
    outcome: str = Outcome.SUCCEEDED.value,
    state: int = 0,
    notable: bool = False,
    cursor: bytes | None = None,
) -> Finish:
    """The end of a run that started two milliseconds after it was due and took a second."""
    start = nominal + 2_000
    status = 0 if outcome == Outcome.SUCCEEDED else 1
    return Finish(
        task,
        start,
        start + 1_000_000,
        outcome,
        status,
        output,
        cursor,
        last_start=start,
        state=state,
        hard=not state,
        attempt=1,
        changes=0,
        flapping=False,
        result_at=start,
        extra=FOREVER,
        extra_kind=0,
        notable=notable,
    )


def a_skip(task: int, first: int = T0, times: int = 1, reason: str = "disabled") -> Skip:
    """A skip of several nominal times, a minute apart, recorded at the last of them."""
    last = first + (times - 1) * MINUTE
    return Skip(task, first, last, times, reason, last, last + MINUTE, last, FOREVER, 0)


def a_refusal(task: int, due: int = T0, kind: RunKind = RunKind.RETRY, reason: str = "period_closed") -> Refusal:
    """An off-grid run that was refused when it was due."""
    return Refusal(task, due, kind, reason, due, due, FOREVER, 0)


def a_submitted_result(
    task: int, at: int = T0, output: str = "", *, made: int | None = 0, notable: bool = False
) -> SubmittedResult:
    """A submitted result of a check made just then; the next minute is accounted for."""
    state = 0 if made is None else made
    return SubmittedResult(
        task,
        at,
        0,
        RunKind.TOLD,
        at,
        at,
        at,
        Outcome.FAILED.value if made else Outcome.SUCCEEDED.value,
        made or 0,
        output,
        made,
        state,
        hard=not state,
        attempt=1,
        changes=0,
        flapping=False,
        result_at=at,
        accounted=T0 + MINUTE,
        extra=FOREVER,
        extra_kind=0,
        notable=notable,
    )


def a_problem_change(
    task: int,
    opened: int = T0,
    at: int | None = None,
    state: State = State.CRITICAL,
    *,
    is_open: bool = True,
    cause: Cause = Cause.STATE,
    reason: str = "",
) -> ProblemChange:
    """A problem opens; with another `at`, it changes or closes then."""
    when = opened if at is None else at
    return ProblemChange(task, cause.value, opened, when, int(state), SEVERITY[state], is_open, reason)


def a_hold(task: int, hold: str = "downtime", at: int | None = None, opened: int = T0) -> ProblemHold:
    """The problem of a check is held from now on, since it opened if `at` is left out."""
    return ProblemHold(task, Cause.STATE.value, opened, hold, opened if at is None else at)


def an_alert(problem: int, channel: str = "ops/webhook/1a2b3c4d", version: int = 0, **known: Any) -> AlertRecord:
    """What a channel knows of a problem: nothing yet, if `known` is left out."""
    return AlertRecord(problem, channel, channel.partition("/")[0], version, **known)


def a_decision(
    problem: int,
    channel: str = "ops/webhook/1a2b3c4d",
    at: int = T0,
    decision: str = "sent",
    reason: str = "",
    message: int = 0,
) -> AlertDecision:
    """What was decided about a problem for a channel."""
    return AlertDecision(at, problem, channel, channel.partition("/")[0], decision, reason, message, "problem")


def a_message(
    id_: int, channel: str = "ops/webhook/1a2b3c4d", created: int = T0, document: bytes = b"{}"
) -> MessageRecord:
    """A new message with one item."""
    return MessageRecord(id_, channel, channel.partition("/")[0], Instant(created), 1, document)


def a_load_line(*averages: float) -> str:
    """What a plugin that watches the load prints, with performance data."""
    text = ", ".join(f"{average:.2f}" for average in averages)
    names = zip((1, 5, 15), averages, ("5.000;10.000", "4.000;6.000", "3.000;4.000"), strict=True)
    perf = " ".join(f"load{name}={average:.2f}0;{limits};0;" for name, average, limits in names)
    return f"OK - load average: {text}|{perf}"
