"""Why did a task run at some time, or not? By its records, else by its schedule."""

from typing import Final

from evenbeat.core.gate import Reason
from evenbeat.model import DAY, HOUR, MINUTE, Instant, RunKind, State
from evenbeat.report.downtime_words import in_downtime_words
from evenbeat.report.problems import past_problem_sentence
from evenbeat.report.retries import attempt_of_run
from evenbeat.report.why_facts import Answer, ExplainedTask, TaskFacts
from evenbeat.report.words import (
    RUN_KIND_WORDS,
    duration_words,
    long_schedule,
    outcome_words,
    run_summary,
    run_words,
    skip_words,
)
from evenbeat.store.contract import RunRecord
from evenbeat.when.duration import format_duration, spoken_duration

_MAX_LOOK_BACK: Final = 3_000 * DAY
"""How far back the previous nominal time is searched."""
_MAX_PHRASES: Final = 5
_REASON_TEXTS: Final[dict[str, str]] = {
    Reason.COALESCED: 'an earlier run still waited or ran, and stood for these times too (backlog = "merge")',
    Reason.MISSED: "no node was running then; `missed` says what is made up for",
    Reason.DISABLED: "it was paused, or its definition said enabled = false",
    Reason.PERIOD_CLOSED: "it had waited for its start until its period was closed",
    Reason.NOT_FROM_A_FILE: 'commands = "files": no file named at `evenbeat up` said what it executes',
    Reason.UNREACHABLE: 'a check that it depended on was not fine (when_unreachable = "skip")',
    Reason.TOO_SOON: "the run before it had started late; see `tolerance`",
}


def why_then(facts: TaskFacts, start: Instant, end: Instant) -> Answer:
    """Did the task run between these instants (the second or minute that a person typed)? Why, or why not?"""
    subject = ExplainedTask(facts)
    reasons: list[str] = []
    sentence = (
        _is_in_future(subject, start, end, reasons)
        or _ran(subject, start, end, reasons)
        or _skipped(subject, start, end, reasons)
        or _before_creation(subject, end, reasons)
        or _summarized(subject, start, reasons)
        or _no_result(subject, start, end, reasons)
        or _without_record(subject, start, end, reasons)
        or _not_due(subject, start, end, reasons)
    )
    if start <= facts.now:
        open_then = (p for p in facts.problems if p.opened < end and (p.closed is None or p.closed >= start))
        reasons += (past_problem_sentence(problem, subject.zone) for problem in open_then)
        of_parents = (
            p for p in facts.problems_of_parents if p.opened < end and (p.closed is None or p.closed >= start)
        )
        words = [f"{p.task!r}, which it depends on: {past_problem_sentence(p, subject.zone)}" for p in of_parents]
        reasons += _shortened(words, "problems of checks that it depends on")
    tense = "was" if start <= facts.now else "will be"
    reasons += (f"it {tense} {in_downtime_words(downtime, subject.zone)}" for downtime in facts.downtimes)
    return Answer(f"{subject.task.name} {sentence}.", reasons)


def _is_in_future(subject: ExplainedTask, start: Instant, end: Instant, reasons: list[str]) -> str:
    if start <= subject.facts.now:
        return ""
    reasons.append(f"its schedule is {long_schedule(subject.task, subject.times)}")
    due = next(iter(subject.inside.between(start, end)), None)
    if due is not None:
        return f"is due then, on {subject.at(due)}"
    _add_neighbours(subject, start, end, reasons)
    return "is not due then"


def _ran(subject: ExplainedTask, start: Instant, end: Instant, reasons: list[str]) -> str:
    runs = (run for run in subject.facts.runs if run.kind is not RunKind.LOG)
    found = [run for run in runs if _covers(run, start, end, subject.facts.now)]
    if not found:
        return ""
    # A run that was due then says more than one that was still running.
    run = next((run for run in reversed(found) if start <= run.nominal < end), found[-1])
    begun = run.claimed if run.started is None else run.started
    if run.kind in (RunKind.TOLD, RunKind.STALE):
        reasons.append(
            f"that result was {RUN_KIND_WORDS[run.kind]}" if run.kind is RunKind.TOLD else RUN_KIND_WORDS[run.kind]
        )
        return f"did not run then, but a result {run_words(run, subject.zone)}"
    attempt = attempt_of_run(run)
    if attempt is None:
        reasons.append(f"that run was {RUN_KIND_WORDS[run.kind]}, due {subject.at(run.nominal)}")
    else:
        reasons.append(f"that run was attempt {attempt} of the run that was due {subject.at(run.nominal)}")
    late = begun - run.nominal
    if late >= MINUTE // 60 and attempt is None:
        reasons.append(f"it started {spoken_duration(late)} after it was due")
    if run.state is not None:
        hardness = "HARD" if run.hard else f"SOFT, attempt {run.attempt}"
        reasons.append(f"it made the check {run.state.name} ({hardness})")
    if said := run_summary(run):
        reasons.append(f"it said: {said}")
    others = [f"another run {run_words(other, subject.zone)}" for other in reversed(found) if other is not run]
    reasons += _shortened(others, "runs")
    if run.ended is None:
        return f"ran then, and still does: it started on {subject.at(begun)}"
    return (
        f"ran then: it started on {subject.at(begun)}, took {duration_words(run.ended - begun)} and {_past_tense(run)}"
    )


def _covers(run: RunRecord, start: Instant, end: Instant, now: Instant) -> bool:
    begun = run.claimed if run.started is None else run.started
    return start <= run.nominal < end or (begun < end and start <= (now if run.ended is None else run.ended))


def _past_tense(run: RunRecord) -> str:
    word = outcome_words(run.outcome, run.status)
    return word if word.startswith(("succeeded", "failed")) else f"was {word}"


def _skipped(subject: ExplainedTask, start: Instant, end: Instant, reasons: list[str]) -> str:
    found = [skip for skip in subject.facts.skips if skip.first < end and start <= skip.last]
    if not found:
        return ""
    skip = next((s for s in found if s.kind is RunKind.GRID), found[0])
    reasons.append(skip_words(skip, subject.zone))
    if skip.reason in _REASON_TEXTS:
        reasons.append(_REASON_TEXTS[skip.reason])
    if skip.at > skip.last:
        reasons.append(f"this was recorded on {subject.at(skip.at)}")
    others = [f"also: {skip_words(other, subject.zone)}" for other in found if other is not skip]
    reasons += _shortened(others, "skips")
    if skip.kind is not RunKind.GRID:
        return f"did not run then: {RUN_KIND_WORDS[skip.kind]} was refused, {skip.reason}"
    return f"did not run then: {skip.reason}"


def _shortened(phrases: list[str], what: str) -> list[str]:
    rest = len(phrases) - _MAX_PHRASES
    return [*phrases[:_MAX_PHRASES], f"and {rest:,} more {what}"] if rest > 0 else phrases


def _before_creation(subject: ExplainedTask, end: Instant, reasons: list[str]) -> str:
    entry = subject.facts.condition.entry
    if end > entry.created:
        return ""
    reasons.append(f"it was created on {subject.at(entry.created)}, by {entry.owner}")
    return "did not run then: it did not exist yet"


def _summarized(subject: ExplainedTask, start: Instant, reasons: list[str]) -> str:
    """For a time whose runs are not kept any more: what the summary of its hour, or of its day, says."""
    facts, summary = subject.facts, subject.facts.summary
    if summary is None or start >= facts.now - facts.keep_runs:
        return ""
    length = DAY if facts.is_of_day else HOUR
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in summary.outcomes.items())
    reasons.append(f"of the runs that ended then: {outcomes}")
    if summary.states:
        states = ", ".join(f"{count:,} {State(state).name}" for state, count in summary.states.items())
        reasons.append(f"its results: {states}")
    if summary.duration.max:
        half, longest = duration_words(summary.duration.p50), duration_words(summary.duration.max)
        reasons.append(f"they took {longest} at most, half of them no more than {half}")
    every = f"every run is kept for {format_duration(facts.keep_runs)}"
    reasons.append(f"{every}; this is the summary of the {'day' if facts.is_of_day else 'hour'}")
    begin, end = Instant(summary.since), Instant(summary.since + length)
    times = "once" if summary.runs == 1 else f"{summary.runs:,} times"
    return f"ran {times} between {subject.at(begin)} and {subject.at(end)}"


def _no_result(subject: ExplainedTask, start: Instant, end: Instant, reasons: list[str]) -> str:
    """For a passive check, whose results are submitted: was one expected then?"""
    facts = subject.facts
    if not subject.task.passive or start < facts.now - facts.keep:
        return ""
    reasons.append("it has nothing to run: its results are submitted externally")
    due = next(iter(subject.inside.between(start, min(end, facts.now))), None)
    if due is None:
        _add_neighbours(subject, start, end, reasons)
        return "got no result then, and none was expected"
    following = _first_unaccounted(subject)
    if following is not None and following <= due:
        return f"got no result then: one is expected since {subject.at(due)}, and may still come"
    return f"got no result then: one was expected on {subject.at(due)}, and one of another time counts for it"


def _without_record(subject: ExplainedTask, start: Instant, end: Instant, reasons: list[str]) -> str:
    """The task should have been due then, or history does not go back that far."""
    facts = subject.facts
    if start < facts.now - facts.keep:
        reasons.append(f"history is kept for {format_duration(facts.keep)}")
        _add_neighbours(subject, start, end, reasons)
        return "has no record of that time any more"
    due = next(iter(subject.inside.between(start, min(end, facts.now))), None)
    if due is None:
        return ""
    following, entry = _first_unaccounted(subject), facts.condition.entry
    if following is not None and following <= due:
        reasons.append(f"what is due since {subject.at(following)} is not accounted for yet")
        if facts.is_live:
            return f"was due then, on {subject.at(due)}, and has not run yet"
        reasons.append("no node is running on this database: the next one runs or records what was missed")
        return f"did not run then: it was due on {subject.at(due)}, but no node was running"
    if entry.changed > start:
        reasons.append(f"its definition was changed on {subject.at(entry.changed)}, so it may have been due otherwise")
    if due < entry.created:
        reasons.append(f"it was created on {subject.at(entry.created)}")
    if start < facts.now - facts.keep_runs:
        reasons.append(f"every run is kept for {format_duration(facts.keep_runs)}")
    else:
        reasons.append("of plain successes only the latest are kept")
    return f"would be due then, on {subject.at(due)}, but there is no record of it"


def _first_unaccounted(subject: ExplainedTask) -> Instant | None:
    """The first nominal time of which it is not decided yet whether it has a run; None if no node has seen the task."""
    accounted = subject.facts.condition.accounted
    return None if accounted is None else subject.inside.next_after(accounted)


def _not_due(subject: ExplainedTask, start: Instant, end: Instant, reasons: list[str]) -> str:
    facts, period = subject.facts, subject.period
    reasons.append(f"its schedule is {long_schedule(subject.task, subject.times)}")
    if facts.condition.entry.changed > start:
        reasons.append(f"its definition was changed on {subject.at(facts.condition.entry.changed)}")
    _add_neighbours(subject, start, end, reasons)
    if period is not None and not period.contains(start):
        return f"did not run then: its period {subject.task.period!r} was closed"
    return "did not run then: it was not due"


def _add_neighbours(subject: ExplainedTask, start: Instant, end: Instant, reasons: list[str]) -> None:
    """The nominal times before and after."""
    before, after = _previous_nominal(subject, start), subject.inside.next_after(Instant(end - 1))
    if before is not None and before >= subject.facts.condition.entry.created:
        reasons.append(f"the nominal time before that is {subject.at(before)}")
    if after is not None:
        reasons.append(f"the nominal time after that is {subject.at(after)}")


def _previous_nominal(subject: ExplainedTask, t: Instant) -> Instant | None:
    """The last nominal time before `t`; inside a period they are only known forwards."""
    span = MINUTE
    while span < _MAX_LOOK_BACK:
        found = None
        for found in subject.inside.between(Instant(t - span), t):  # noqa: B007 - the last one is wanted
            pass
        if found is not None:
            return found
        span *= 10
    return None
