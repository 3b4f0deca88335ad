"""The oracle of the notification tests: compares what arrived at receivers with the history and the log of decisions.

It shares no code with evenbeat: the store through plain SQL, which is the same for SQLite and PostgreSQL.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from fickle_receivers import REFUSED, TAKEN, Arrival, ArrivedItem
from packed_runs import packed_runs, state_of

SECOND: Final = 1_000_000
SLACK: Final = 10 * SECOND
"""So long after a downtime began, something that was about to leave may still do so on a busy machine; and so long the
schedulers of a cluster may take to hear of it, which is a second or two on a machine of their own.
"""
_SEVERITY: Final = {"ok": 0, "warning": 1, "unknown": 2, "critical": 3}


class Problem(NamedTuple):
    """A row of the history."""

    id: int
    task: str
    cause: str
    opened: int
    closed: int | None
    hold: str
    is_acknowledged: bool = False


class Decided(NamedTuple):
    """A row of the log of decisions."""

    at: int
    problem: int
    contact: str
    decision: str
    reason: str
    message: int
    item: str


class Message(NamedTuple):
    id: int
    contact: str
    created: int
    state: str


class CheckResult(NamedTuple):
    """A run of a check."""

    task: str
    ended: int
    state: int
    hard: bool


class Quiet(NamedTuple):
    """Nobody was to be told of a problem of this task: from the reply to whoever asked for that, until they took it
    back.
    """

    why: str
    task: str
    begin: int
    end: int | None


class Evidence(NamedTuple):
    """Everything there is to judge by, when all is calm again."""

    arrivals: list[Arrival]
    problems: list[Problem]
    decisions: list[Decided]
    messages: list[Message]
    results: list[CheckResult]
    notify: Mapping[str, tuple[str, ...]]
    """Contacts by tasks."""
    quiet: list[Quiet]
    unsettled: int
    """Messages and alerts that wait for nothing but their time, or for the end of a delivery."""
    had_takeovers: bool = False
    """It is a cluster. Of a problem that opens and closes while no node has the contact, nothing is in the log of
    decisions; and schedulers hear of a downtime later than whoever set it.
    """


def read(
    connection: Any,
    arrivals: Iterable[Arrival],
    notify: Mapping[str, tuple[str, ...]],
    quiet: Iterable[Quiet] = (),
) -> Evidence:
    """`connection`: to either store, within one transaction."""

    def rows(statement: str) -> list[tuple[Any, ...]]:
        return list(connection.execute(statement).fetchall())

    problems = rows(
        "SELECT p.id, t.name, p.cause, p.opened, coalesce(p.closed, t.removed), p.hold, p.ack_at IS NOT NULL "
        "FROM problems p JOIN tasks t ON t.number = p.task ORDER BY p.id"
    )
    decisions = rows(
        "SELECT at, problem, contact, decision, reason, message, item FROM alert_decisions ORDER BY id",
    )
    messages = rows("SELECT id, contact, created, state FROM messages ORDER BY id")
    results = rows(
        " UNION ALL ".join(
            f"SELECT t.name, r.ended, r.state, r.hard FROM {table} r JOIN tasks t ON t.number = r.task "
            "WHERE r.state IS NOT NULL"
            for table in ("plain_runs", "notable_runs")
        )
    )
    names = dict(rows("SELECT number, name FROM tasks"))
    results += [
        (names[run.task], run.ended, run.state, run.hard)
        for run in packed_runs(connection)
        if state_of(run) is not None
    ]
    ((unsettled,),) = rows(
        "SELECT (SELECT count(*) FROM messages WHERE state = 'waiting') + "
        "(SELECT count(*) FROM alerts WHERE leaves_at > 0 OR (message > 0 AND NOT is_over))"
    )
    return Evidence(
        sorted(arrivals, key=lambda arrival: arrival.at),
        [Problem(*row) for row in problems],
        [Decided(*row) for row in decisions],
        [Message(*row) for row in messages],
        sorted({CheckResult(*row) for row in results}, key=lambda result: result.ended),
        notify,
        list(quiet),
        unsettled,
    )


def findings(evidence: Evidence) -> list[str]:
    """What is not right, in words; nothing if all is."""
    told, unlike_log = _told(evidence)
    return [
        *([f"{evidence.unsettled} messages or alerts are not settled"] if evidence.unsettled else []),
        *_repeated(evidence),
        *unlike_log,
        *_unbalanced(evidence, told),
        *_untold(evidence, told),
        *_told_in_quiet(evidence, told),
        *_unlike_results(evidence),
    ]


# What arrived


class Told(NamedTuple):
    """An item that reached a contact, at first, in the order of messages."""

    message: int
    at: int
    contact: str
    problem: int
    item: ArrivedItem
    is_taken: bool


def _repeated(evidence: Evidence) -> Iterator[str]:
    """The same message arrives twice only if the later one is marked, and it says the same."""
    by_message: dict[int, list[Arrival]] = defaultdict(list)
    for arrival in evidence.arrivals:
        by_message[arrival.message].append(arrival)
    for message, arrivals in by_message.items():
        if len({arrival.channel for arrival in arrivals}) > 1:
            yield f"message {message} arrived at {sorted({arrival.channel for arrival in arrivals})}"
        if len({arrival.items for arrival in arrivals}) > 1:
            yield f"message {message} says something else when it is repeated: {arrivals}"
        unmarked = [arrival for arrival in arrivals if arrival.verdict != REFUSED and not arrival.is_marked]
        if len(unmarked) > 1:
            yield f"message {message} to {arrivals[0].channel} arrived {len(unmarked)} times without being marked"


def _told(evidence: Evidence) -> tuple[list[Told], list[str]]:
    """The items that reached contacts; and where they are not those that the log of decisions says were sent."""
    sent: dict[int, list[Decided]] = defaultdict(list)
    for decided in evidence.decisions:
        if decided.decision == "sent":
            sent[decided.message].append(decided)
    first: dict[int, list[Arrival]] = defaultdict(list)
    for arrival in evidence.arrivals:
        if arrival.verdict != REFUSED:
            first[arrival.message].append(arrival)
    problems = {problem.id: problem for problem in evidence.problems}
    told, found = [], []
    for message, arrivals in sorted(first.items()):
        is_taken = any(arrival.verdict == TAKEN for arrival in arrivals)
        missing = list(sent[message])
        for item in arrivals[0].items:
            sent_as = next((d for d in missing if _is_about(d, item, problems)), None)
            if sent_as is None or sent_as.contact != arrivals[0].channel:
                found.append(f"message {message} to {arrivals[0].channel}: no decision to send {item}")
                continue
            missing.remove(sent_as)
            told.append(Told(message, arrivals[0].at, sent_as.contact, sent_as.problem, item, is_taken))
        found += [f"message {message} does not say what was decided: {decided}" for decided in missing]
    states = {message.id: message.state for message in evidence.messages}
    taken = {one.message for one in told if one.is_taken}
    for message in sorted(sent.keys() | states.keys()):
        if message not in states:
            found.append(f"message {message} is not kept")
        elif states[message] == "delivered" and message not in taken:
            found.append(f"message {message} is recorded as delivered, and no receiver has taken it")
        elif states[message] == "given up":
            found.append(f"message {message} was given up")
    found += [f"message {message} arrived, and is not recorded" for message in first if message not in states]
    return told, found


def _is_about(decided: Decided, item: ArrivedItem, problems: Mapping[int, Problem]) -> bool:
    if decided.item != ("reminder" if item.reminder else item.kind) or decided.problem not in problems:
        return False
    return decided.problem == item.problem if item.problem else problems[decided.problem].task == item.task


# What each contact is told of each problem


def _unbalanced(evidence: Evidence, told: list[Told]) -> Iterator[str]:
    problems = {problem.id: problem for problem in evidence.problems}
    items: dict[tuple[str, int], list[Told]] = defaultdict(list)
    for one in sorted(told, key=lambda one: one.message):
        items[one.contact, one.problem].append(one)
    for (contact, number), history in items.items():
        about = f"{contact}: problem {number} of {problems[number].task}"
        kinds = [one.item.kind for one in history]
        if any(one.item.reminder for one in history):
            yield f"{about} was reminded of, which nobody wants: {kinds}"
        if kinds[0] != "problem":
            yield f"{about} began with {kinds[0]}"
        if "recovery" in kinds[:-1]:
            yield f"{about} goes on after its recovery: {kinds}"
        yield from _not_worse(about, history)
        is_over = problems[number].closed is not None
        if is_over and kinds[-1] != "recovery":
            yield f"{about} is over, and {contact} was not told: {kinds}"
        if not is_over and kinds[-1] == "recovery":
            yield f"{about} is open, and {contact} was told that it is over"
    yield from _out_of_order(told)


def _not_worse(about: str, history: list[Told]) -> Iterator[str]:
    worst = 0
    if any(one.item.state == "ok" for one in history):
        return  # it flaps: while it is OK it counts as its worst state, which no item says
    for one in history:
        if one.item.kind != "problem" or not one.item.state:
            continue
        severity = _SEVERITY[one.item.state]
        if severity <= worst:
            yield f"{about} was told again, and was no worse: {[o.item.state for o in history]}"
        worst = max(worst, severity)


def _out_of_order(told: list[Told]) -> Iterator[str]:
    """The problems of a task come one after the other at each contact, by when they arrived there."""
    by_task: dict[tuple[str, str], list[Told]] = defaultdict(list)
    for one in sorted(told, key=lambda one: one.at):
        by_task[one.contact, one.item.task].append(one)
    for (contact, task), history in by_task.items():
        if not history[0].item.problem:
            continue  # a mail sorts its lines
        numbers = [one.problem for one in history]
        if numbers != sorted(numbers):
            yield f"{contact}: problems of {task} are mixed: {[(o.problem, o.item.kind) for o in history]}"


def _untold(evidence: Evidence, told: list[Told]) -> Iterator[str]:
    """Each problem was told to each contact, or there is a reason why not."""
    known = {(one.contact, one.problem) for one in told}
    reasons: dict[tuple[str, int], list[str]] = defaultdict(list)
    for decided in evidence.decisions:
        if decided.decision != "sent":
            reasons[decided.contact, decided.problem].append(decided.reason)
    for problem in evidence.problems:
        for contact in evidence.notify.get(problem.task, ()):
            if (contact, problem.id) in known:
                continue
            why = reasons[contact, problem.id]
            if problem.closed is None and not (problem.hold or problem.is_acknowledged):
                yield f"{contact} was not told of the open problem {problem.id} of {problem.task}: {why}"
            elif problem.closed is not None and not why and not evidence.had_takeovers:
                yield f"nothing says why {contact} was not told of problem {problem.id} of {problem.task}"


def _told_in_quiet(evidence: Evidence, told: list[Told]) -> Iterator[str]:
    created = {message.id: message.created for message in evidence.messages}
    problems = {problem.id: problem for problem in evidence.problems}
    for one in told:
        if one.item.kind != "problem" or one.message not in created:
            continue
        left, problem = created[one.message], problems[one.problem]
        if left > one.at:
            yield f"message {one.message} arrived before it was made"
        for quiet in evidence.quiet:
            is_heard_of = problem.opened > quiet.begin and not evidence.had_takeovers
            begin = quiet.begin if is_heard_of else quiet.begin + SLACK
            if quiet.task == problem.task and begin < left and (quiet.end is None or left < quiet.end):
                yield f"{one.contact} was told of {problem} in spite of {quiet}, at {left}"


def _unlike_results(evidence: Evidence) -> Iterator[str]:
    """Each HARD result that is not OK belongs to a problem of its check."""
    problems: dict[str, list[Problem]] = defaultdict(list)
    for problem in evidence.problems:
        if problem.cause == "state":
            problems[problem.task].append(problem)
    results: dict[str, list[CheckResult]] = defaultdict(list)
    for result in evidence.results:
        results[result.task].append(result)
    for task, history in results.items():
        following = [*(result.ended for result in history[1:]), None]
        for result, then in zip(history, following, strict=True):
            if result.hard and result.state and not any(_covers(p, result.ended, then) for p in problems[task]):
                yield f"{task} was not OK at {result.ended}, and had no problem"


def _covers(problem: Problem, ended: int, then: int | None) -> bool:
    return (then is None or problem.opened <= then) and (problem.closed is None or problem.closed >= ended)
