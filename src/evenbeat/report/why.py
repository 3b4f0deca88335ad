"""Why does a task run, or not, and when next? Composed here, from the store and the live node."""

from collections.abc import Callable, Sequence
from shlex import quote
from typing import Final

from msgspec.structs import replace

from evenbeat.admin.command_permission import blocked_advice, permission_of
from evenbeat.admin.history_settings import stored_retention
from evenbeat.admin.worker_killers import deaths_key, stored_deaths
from evenbeat.core.chains import ChainStatus
from evenbeat.core.gate import Reason
from evenbeat.core.run_plan import timebox_of
from evenbeat.core.task_defaults import attempts_of, grace_of
from evenbeat.core.timebox import NO_TIMEBOX
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Cause, Instant, RunKind, State, Task, TaskPause, WhenUnreachable
from evenbeat.report.chains import ChainReader, listed_names, parent_sentences
from evenbeat.report.downtime_words import in_downtime_words
from evenbeat.report.downtimes import downtimes_during
from evenbeat.report.parents import conditions_named
from evenbeat.report.problems import problem_sentence
from evenbeat.report.retries import attempt_words, waiting_retry
from evenbeat.report.summaries import summary_around
from evenbeat.report.task_status import ConditionReader, unreadable, with_next_run
from evenbeat.report.why_facts import Answer, ExplainedTask, TaskFacts, ahead_words, typed_time_span
from evenbeat.report.why_notified import notified_now, notified_then
from evenbeat.report.why_past import why_then
from evenbeat.report.words import (
    RUN_KIND_WORDS,
    deaths_words,
    is_set_aside,
    long_schedule,
    nominals_of,
    pause_words,
    state_words,
    timebox_words,
    unreachable_words,
    zone_of,
)
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import AuditFilter, Filter, ProblemFilter, RunRecord, SnapshotReader, Store, TaskSnapshot
from evenbeat.store.latest_result import is_result_missing
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.when.duration import spoken_duration
from evenbeat.when.period import compile_periods
from evenbeat.when.schedule import NodeEventSchedule
from evenbeat.wire.cluster_messages import DEFAULT_POOL
from evenbeat.wire.live_runs import LiveTaskState
from evenbeat.wire.replies import NotFound

_MAX_RECORDS: Final = 5_000
"""Records that are searched for the time in question."""
_RECENT_RECORDS: Final = 10
_RECENT_CHANGES: Final = 100
"""Changes of a task among which the latest pause is searched for."""
_IS_UNREACHABLE: Final = "it is unreachable, as a check that it depends on is not fine"

NodeAnswer = tuple[bool, LiveTaskState | None]
"""Is a node running, and what does it say of the task? None if it cannot answer yet."""


def explain(
    store: Store,
    name_or_id: str,
    at: str | None,
    now: Instant,
    ask_node: Callable[[int], NodeAnswer],
    *,
    is_limited: bool = False,
) -> Answer:
    """Why does a task run, or not, now or at a time that a person has typed? `ask_node` is given its number.

    A limited caller learns nothing of what messages to contacts say of other tasks, nor what the tasks do that this
    one runs after.
    """
    stored, runs, skips = _snapshot(store, name_or_id)
    entry = stored.entry
    number, task = entry.number, _with_pause(store, entry.task)
    stored = replace(stored, entry=replace(entry, task=task))
    span = None if at is None else typed_time_span(at, entry)
    is_live, live = ask_node(number)
    is_missing = task.passive and is_result_missing(store, number)
    if span is not None:
        runs, skips = _runs_around(store, number, *span), store.skips(number, most=_MAX_RECORDS)
    periods = {} if task.period is None else {name: period for name, (_, period) in store.periods().items()}
    if live is not None and live.deaths is not None:
        deaths = live.deaths
    else:
        deaths = stored_deaths(store.setting(deaths_key(number)))
    permission = permission_of(store)
    reader = ConditionReader(store, now)
    parents, chain = reader.parents, ChainReader(store).statuses([entry]).get(number)
    summary, is_of_day, retention = None, False, stored_retention(store)
    if span is not None and span[0] < now - retention.keep_runs:
        summary, is_of_day = summary_around(store, number, *span)
    facts = TaskFacts(
        condition=with_next_run(
            stored,
            now,
            compile_periods(periods),
            permission,
            deaths=deaths,
            is_missing=is_missing,
            unreachable_through=parents.unreachable_through([task]).get(task.name, ()),
            chain=chain,
        ),
        runs=runs,
        skips=skips,
        periods=periods,
        now=now,
        keep=retention.keep,
        keep_runs=retention.keep_runs,
        summary=summary,
        is_of_day=is_of_day,
        is_live=is_live,
        moment=live,
        is_shared=isinstance(store, ClusterStore),
        problems=store.problems(
            ProblemFilter(Filter(names=(entry.id,)), is_open=True if span is None else None, most=_MAX_RECORDS)
        ),
        downtimes=downtimes_during(store, entry, *((now, now) if span is None else span)),
        not_fine=parents.sentences(task) if span is None else (),
        parents=() if chain is None or span is not None or is_limited else _parents(store, task, reader, chain, now),
        problems_of_parents=() if span is None else _problems_of(store, parents.ancestors(task)),
    )
    where, problems = zone_of(task, nominals_of(task)), facts.problems
    if span is None:
        told = notified_now(store, entry, problems, now, where, is_limited=is_limited)
        return replace(why_now(facts), notified=told)
    told = notified_then(store, entry, problems, span, now, where, is_limited=is_limited)
    return replace(why_then(facts, *span), notified=told)


def _parents(store: Store, task: Task, reader: ConditionReader, chain: ChainStatus, now: Instant) -> list[str]:
    """What the tasks do that this one waits for."""
    where = zone_of(task, nominals_of(task))
    return parent_sentences(store, chain.waits_for, reader.of, lambda t: ahead_words(t, now, where))


def _snapshot(store: Store, name_or_id: str) -> TaskSnapshot:
    """The task and its latest records."""
    if isinstance(store, SnapshotReader):
        found = store.task_snapshot(name_or_id, _RECENT_RECORDS)
        if found is not None:
            return found
    elif (entry := store.find(name_or_id)) is not None:
        for condition in store.conditions(Filter(names=(entry.id,))):
            runs, skips = (
                store.runs(entry.number, most=_RECENT_RECORDS),
                store.skips(entry.number, most=_RECENT_RECORDS),
            )
            return TaskSnapshot(condition, runs, skips)
    if store.find(name_or_id) is not None:
        raise unreadable(name_or_id)
    raise NotFound(f"there is no task {name_or_id!r}")


def _with_pause(store: Store, task: Task) -> Task:
    """A paused task with who paused it and when: a pause without end and reason is known to the audit alone."""
    if not task.paused or task.pause is not None:
        return task
    changes = (change for _, change in store.audit(AuditFilter(name=task.name, most=_RECENT_CHANGES)))
    paused = next((change for change in changes if change.action == "paused"), None)
    return task if paused is None else replace(task, pause=TaskPause(paused.at, paused.who))


def _problems_of(store: Store, checks: Sequence[str]) -> list[ProblemRecord]:
    """The problems that these checks have or had."""
    if not checks:
        return []
    names = tuple(condition.entry.id for condition in conditions_named(store, checks))
    return store.problems(ProblemFilter(Filter(names=names), cause=Cause.STATE, is_open=None, most=_MAX_RECORDS))


def _runs_around(store: Store, number: int, start: Instant, end: Instant) -> list[RunRecord]:
    """The runs of a span, and as many later ones as can be read: what was due in the span may have started later."""
    found = store.runs(number, before=end, most=_MAX_RECORDS)
    for beyond in (MINUTE, HOUR, DAY):
        more = store.runs(number, before=Instant(end + beyond), most=_MAX_RECORDS)
        if len(more) == _MAX_RECORDS and more[-1].claimed > start:
            break
        found = more
    return found


def why_now(facts: TaskFacts) -> Answer:
    """Does the task run now, and if not, why not, and when next?"""
    subject = ExplainedTask(facts)
    reasons = [f"its schedule is {long_schedule(subject.task, subject.times)}"]
    sentence = (
        _running(subject, reasons)
        or _forced(subject, reasons)
        or _switched_off(subject, reasons)
        or _without_node(subject, reasons)
        or _passive(subject, reasons)
        or _hindered(subject, reasons)
        or _waiting(subject, reasons)
        or _closed(subject, reasons)
        or _unreachable(subject, reasons)
        or _next(subject, reasons)
    )
    if facts.not_fine and _IS_UNREACHABLE not in sentence:
        reasons.append(f"it is {unreachable_words(facts.condition)}")
        reasons += facts.not_fine
    if facts.condition.longer_than is not None:
        reasons.append(timebox_words(facts.condition))
    deaths = facts.condition.deaths
    if deaths:
        reasons.append(deaths_words(subject.task.name, deaths))
    if is_set_aside(deaths):
        sentence += f"; it is set aside: {deaths} workers in a row died with it"
    reasons += subject.latest()
    reasons += (problem_sentence(problem, facts.now, subject.zone) for problem in facts.problems)
    reasons += (f"it is {in_downtime_words(downtime, subject.zone)}" for downtime in facts.downtimes)
    return Answer(f"{subject.task.name} {sentence}.", reasons)


def _running(subject: ExplainedTask, reasons: list[str]) -> str:
    since, now, task = subject.facts.condition.running_since, subject.facts.now, subject.task
    if since is None or not subject.facts.is_live:
        return ""
    moment = subject.facts.moment
    if moment is not None and moment.stopping:
        reasons.append(f"its run ends: {moment.stopping}")
    if moment is not None and moment.is_untaken:
        return _waits_for_worker(subject, moment, since, reasons)
    nominal = subject.times.previous_before(Instant(since + 1))
    box = timebox_of(task, since if nominal is None else nominal)
    if box < NO_TIMEBOX:
        reasons.append(f"its timebox ends {subject.ahead(Instant(since + box))}")
    if subject.facts.condition.long:
        reasons.append("this run is unusually long")
    if subject.is_forced:
        reasons.append("a forced run waits for this one to end")
    elif not task.enabled or task.paused:
        reasons.append("it is disabled: this run may end, and no other follows")
    return f"is running, since {subject.at(since)}: {spoken_duration(max(now - since, 0))}"


def _waits_for_worker(subject: ExplainedTask, moment: LiveTaskState, since: Instant, reasons: list[str]) -> str:
    """The run is claimed and handed over, and no worker of the cluster has started it."""
    pool = subject.task.pool or DEFAULT_POOL
    if moment.obstacles:
        reasons += moment.obstacles
    elif moment.without_worker_for is None:
        reasons.append(f"the workers of its pool {pool!r} may have no slot free; `evenbeat status` tells")
    else:
        gone = spoken_duration(round(moment.without_worker_for) * SECOND)
        reasons.append(f"its pool {pool!r} has had no worker for {gone}; `evenbeat worker --pool {quote(pool)}` is one")
    return f"is due, and no worker has taken it yet, since {subject.at(since)}"


def _forced(subject: ExplainedTask, reasons: list[str]) -> str:
    """A forced run is due: it starts regardless of `enabled` and the period."""
    if not subject.is_forced or not subject.facts.is_live:
        return ""
    if subject.task.paused or not subject.task.enabled:
        how = "paused" if subject.task.paused else "disabled"
        reasons.append(f"it is {how}: a forced run starts all the same, and no other follows it")
    if subject.period is not None and not subject.period.contains(subject.facts.now):
        reasons.append(f"its period {subject.task.period!r} is closed: a forced run starts all the same")
    return _hindered(subject, reasons) or _waiting(subject, reasons) or "runs now: a forced run is due"


def _switched_off(subject: ExplainedTask, reasons: list[str]) -> str:
    task = subject.task
    if subject.is_forced:  # the next node makes that run all the same
        return ""
    blocked = subject.facts.condition.blocked
    if blocked:
        why_not = f'{blocked} (commands = "files"): {blocked_advice(subject.facts.condition.entry.owner)}'
        if not task.passive:
            reasons.append("`commands` in [node] of the node's files sets who may say what is executed")
            return f"does not run: {why_not}"
        reasons.append(f"what it says is to be run when a result is missing is not executed: {why_not}")
    if task.paused:
        if task.pause is not None:
            reasons.append(f"it has been paused since {subject.at(task.pause.at)}")
        reasons.append(f"`evenbeat resume {quote(task.name)}` lets it run again")
        return f"does not run: it is {pause_words(task, subject.zone)}"
    if not task.enabled:
        reasons.append(f"`evenbeat set {quote(task.name)} enabled=true`, or its file, lets it run")
        return "does not run: it is disabled, its definition says enabled = false"
    return ""


def _without_node(subject: ExplainedTask, reasons: list[str]) -> str:
    facts = subject.facts
    if facts.is_live:
        return ""
    reasons.append(f"`evenbeat {'scheduler' if facts.is_shared else 'up'}` starts one")
    if facts.condition.running_since is not None:
        since = subject.at(facts.condition.running_since)
        reasons.append(f"a run was under way since {since} when the last node ended; the next one will resolve it")
    due = _due(subject)[0]
    if subject.is_forced:
        reasons.append("a forced run waits: the next node makes it, whether the task is paused or not")
    elif due is not None and due <= facts.now:
        reasons.append(f"it has been due since {subject.at(due)}; what is missed is recorded when a node starts")
    elif due is not None:
        reasons.append(f"it would be due {subject.ahead(due)}")
    return "does not run: no node is running on this database"


def _passive(subject: ExplainedTask, reasons: list[str]) -> str:
    task = subject.task
    moment = subject.facts.moment
    if not task.passive or (moment is not None and (moment.waiting or moment.kind is not RunKind.GRID)):
        return ""
    due = _due(subject)[0]
    if due is None:
        return "does not run: its results are submitted externally, and no further one is expected"
    before = subject.times.previous_before(due)
    allowed = timebox_of(task, due) + grace_of(task, None if before is None else due - before)
    runs = "function" if task.job.function is not None else "command" if task.job.command else ""
    runs = "" if subject.facts.condition.blocked else runs
    otherwise = f"its {runs} is run" if runs else f"it becomes {task.when_missing.upper()}"
    reasons.append(f"{otherwise} if none is submitted by {subject.at(Instant(due + allowed))}")
    if due <= subject.facts.now:
        return f"does not run: its results are submitted externally, and one is expected since {subject.at(due)}"
    return f"does not run: its results are submitted externally, and the next is expected {subject.ahead(due)}"


def _hindered(subject: ExplainedTask, reasons: list[str]) -> str:
    """The node cannot execute or record anything. For a task that is not due yet, that is one more reason."""
    moment, condition = subject.facts.moment, subject.facts.condition
    if moment is None or not moment.obstacles:
        return ""
    is_due = moment.waiting or (moment.due is not None and moment.due <= subject.facts.now)
    if not is_due and not (moment.is_claimed and condition.running_since is None):
        reasons += (f"at the moment it would not start: {obstacle}" for obstacle in moment.obstacles)
        return ""
    reasons += moment.obstacles[1:]
    return f"is due and does not start: {moment.obstacles[0]}"


def _waiting(subject: ExplainedTask, reasons: list[str]) -> str:
    moment = subject.facts.moment
    if moment is None or not moment.waiting:
        return ""
    if moment.kind is RunKind.FORCED:
        reasons.append("what waits is a forced run")
    elif moment.kind is not RunKind.GRID:
        reasons.append(f"what waits is {RUN_KIND_WORDS[moment.kind]}")
    if moment.waiting == Reason.LIMIT:
        reasons.append(f"all places of its limit {subject.task.limit!r} are taken")
    elif moment.waiting == Reason.NO_SLOT:
        reasons.append(
            f"{moment.pending:,} of {moment.slots:,} slots are taken; max_concurrent sets how many there are"
        )
    since = "" if moment.due is None else f", since {subject.at(moment.due)}"
    return f"is due and {moment.waiting}{since}"


def _closed(subject: ExplainedTask, reasons: list[str]) -> str:
    period, facts = subject.period, subject.facts
    if period is None or period.contains(facts.now):
        return ""
    opens = period.next_open(facts.now)
    due = _due(subject)[0]
    reasons.append(f"its next run is {subject.ahead(due)}" if due is not None else "no time of its schedule is inside")
    when = "does not open within 50 years" if opens is None else f"opens {subject.ahead(opens)}"
    return f"does not run now: its period {subject.task.period!r} is closed, and {when}"


def _unreachable(subject: ExplainedTask, reasons: list[str]) -> str:
    """Its runs are skipped as long as what it depends on is not fine."""
    if not subject.facts.not_fine or subject.task.when_unreachable is not WhenUnreachable.SKIP:
        return ""
    due = _due(subject)[0]
    reasons += subject.facts.not_fine
    if due is not None:
        reasons.append(f"its next time is {subject.ahead(due)}: skipped if that is still so")
    reasons.append(f"`evenbeat run {quote(subject.task.name)}` runs it all the same")
    return f"does not run now: {_IS_UNREACHABLE}"


def _next(subject: ExplainedTask, reasons: list[str]) -> str:
    condition, task = subject.facts.condition, subject.task
    due, kind = _due(subject)
    if due is None:
        if task.schedule.parents:
            return _after_parents(subject, reasons)
        if isinstance(subject.times, NodeEventSchedule):
            return f"runs at every {'start' if subject.times.event == '@reboot' else 'orderly stop'} of the node"
        return "does not run again: no time of its schedule is left"
    if condition.state not in (None, State.OK) and not condition.hard:
        assert condition.state is not None
        attempts = attempts_of(task)
        words = state_words(condition.state, hard=False, attempt=condition.attempt, attempts=attempts)
        reasons.append(f"it is {words}; after attempt {attempts} the problem is HARD")
    if kind is RunKind.RETRY and (retry := waiting_retry(condition)) is not None:
        reasons.append(f"that is {attempt_words(retry)}{_retried_run(subject)}")
    elif kind is not RunKind.GRID:
        reasons.append(f"that is {RUN_KIND_WORDS[kind]}")
    return f"runs next {subject.ahead(due)}"


def _retried_run(subject: ExplainedTask) -> str:
    """Which run is tried again, if the history still has it."""
    failed = next((run for run in subject.facts.runs if run.ended is not None), None)
    return "" if failed is None else f" of the run that was due {subject.at(failed.nominal)}"


def _after_parents(subject: ExplainedTask, reasons: list[str]) -> str:
    """It waits for other tasks: which ones, and what these do."""
    waits_for, parents = subject.facts.condition.waits_for, subject.facts.parents
    if subject.task.schedule.after_failure:
        reasons += parents
        return f"runs after a failure of {listed_names(waits_for, 'or')} that is not tried again"
    if len(waits_for) == len(parents) == 1:
        return f"waits for {parents[0].replace(' ', ', which ', 1)}"
    reasons += parents
    return f"waits for {listed_names(waits_for, 'and')}"


def _due(subject: ExplainedTask) -> tuple[Instant | None, RunKind]:
    """The next run: as the live node says, else as the store implies."""
    condition, moment = subject.facts.condition, subject.facts.moment
    if moment is not None:
        return moment.due, moment.kind
    return condition.next_run, condition.next_kind
