"""Problems for people and programs: which ones a question selects, as documents, and in words."""

from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from evenbeat.core.acknowledgement import is_acknowledged
from evenbeat.core.telling_lines import summary_line
from evenbeat.model import Cause, Instant, Task
from evenbeat.report.documents import iso_time
from evenbeat.report.downtimes import DowntimeReader
from evenbeat.report.parents import entries_named
from evenbeat.report.task_status import ConditionReader
from evenbeat.report.words import first_line
from evenbeat.store.contract import Filter, ProblemFilter, Store
from evenbeat.store.problem_records import ProblemNote, ProblemRecord
from evenbeat.when.instant import spoken_instant
from evenbeat.when.zone import Zone
from evenbeat.wire.replies import NotFound

_PAGE_SIZE: Final = 1_000
"""Tasks that are read at once."""
_WORDS: Final[dict[str, str]] = {Cause.FAILED: "failing", Cause.STALE: "result missing", Cause.LONG: "runs long"}


def read_problems(store: Store, only: ProblemFilter, now: Instant) -> list[ProblemRecord]:
    """The problems that the filter selects, newest first."""
    return _with_conditions(store, store.problems(replace(only, now=now)), now)


def _with_conditions(store: Store, found: list[ProblemRecord], now: Instant) -> list[ProblemRecord]:
    """These problems; open ones say whether their tasks are unreachable or in downtime."""
    return _with_downtime(store, _with_reachability(store, found, now), now)


def _with_downtime(store: Store, problems: list[ProblemRecord], now: Instant) -> list[ProblemRecord]:
    """The same, with what downtimes say of the open ones."""
    reader = DowntimeReader(store, now)
    if not reader.active:
        return problems
    names = list(dict.fromkeys(problem.task for problem in problems if problem.closed is None))
    found: set[str] = set()
    for i in range(0, len(names), _PAGE_SIZE):
        found.update(reader.of(list(store.entries(Filter(names=tuple(names[i : i + _PAGE_SIZE]))))))
    return [
        replace(problem, downtime=True) if problem.closed is None and problem.task in found else problem
        for problem in problems
    ]


def _with_reachability(store: Store, found: list[ProblemRecord], now: Instant) -> list[ProblemRecord]:
    """These problems; open ones say whether their tasks are unreachable, and whether they are passive."""
    reader = ConditionReader(store, now)
    unreachable: set[int] = set()
    passive: set[int] = set()
    open_ones = {problem.task for problem in found if problem.closed is None}
    entries = iter(entries_named(store, open_ones))
    while some := list(islice(entries, _PAGE_SIZE)):
        passive |= {entry.number for entry in some if _has_nothing_to_run(entry.task)}
        depending = [entry for entry in some if entry.task.depends or entry.task.depends_any]
        names = reader.unreachable([entry.task for entry in depending]) if depending else {}
        unreachable |= {entry.number for entry in depending if entry.task.name in names}
    if not unreachable and not passive:
        return found
    return [
        replace(problem, unreachable=problem.number in unreachable, passive=problem.number in passive)
        if problem.closed is None and problem.number in unreachable | passive
        else problem
        for problem in found
    ]


def _has_nothing_to_run(task: Task) -> bool:
    return task.passive and not task.job.command and task.job.function is None


def count_problems(store: Store, only: ProblemFilter, now: Instant) -> int:
    """How many there are, without regard to `before` and `most`."""
    return store.count_problems(replace(only, now=now))


def find_problem(store: Store, number: int, now: Instant) -> tuple[ProblemRecord, list[ProblemNote]]:
    """A problem and its notes; NotFound if there is none with this id."""
    problem = store.find_problem(number)
    if problem is None:
        raise NotFound(f"there is no problem {number}")
    return _with_conditions(store, [problem], now)[0], store.problem_notes(number)


def has_acknowledgement(problem: ProblemRecord, now: Instant) -> bool:
    """Does an acknowledgement of the problem count now, or did it when the problem closed?"""
    return is_acknowledged(problem.acknowledgement, now if problem.closed is None else problem.closed)


def problem_document(problem: ProblemRecord, now: Instant) -> dict[str, Any]:
    """A problem, with its acknowledgement if that counts."""
    ack = problem.acknowledgement if has_acknowledgement(problem, now) else None
    held = {"hold": problem.hold, "held_since": iso_time(problem.held_since)} if problem.hold else {}
    return {
        "id": problem.id,
        "task": problem.task,
        "cause": problem.cause,
        "state": problem.state.name.lower(),
        "worst": problem.worst.name.lower(),
        "opened": iso_time(problem.opened),
        "since": iso_time(problem.since),
        "closed": iso_time(problem.closed),
        "reason": problem.reason,
        "flapping": problem.flapping,
        "output": problem_summary(problem),
        "owner": problem.owner,
        "labels": dict(problem.labels),
        "acknowledged": ack
        and {
            "by": ack.who,
            "at": iso_time(ack.at),
            "comment": ack.comment,
            "until": iso_time(ack.until),
            "sticky": ack.sticky,
        },
        "unreachable": problem.unreachable,
        "in_downtime": problem.downtime,
        **held,
        **({"downtime": True} if problem.downtime else {}),
        **({"passive": True} if problem.passive else {}),
    }


def note_document(note: ProblemNote) -> dict[str, Any]:
    """What somebody wrote about a problem, or did with it."""
    return {"at": iso_time(note.at), "who": note.who, "action": note.action, "text": note.text}


def problem_summary(problem: ProblemRecord) -> str:
    """The line of its output that says most: of a check the first, of a task that failed the last."""
    return summary_line(problem.output, is_check=problem.cause == Cause.STATE, has_failed=True)


def problem_words(problem: ProblemRecord) -> str:
    """CRITICAL, or what is wrong with a task that has no state."""
    return _WORDS.get(problem.cause, problem.state.name)


def problem_sentence(problem: ProblemRecord, now: Instant, where: Zone) -> str:
    """ "open problem 12: CRITICAL since Mon 2026-11-16 09:00:37+01:00, acknowledged by ana until ...: on it"."""
    state = problem_words(problem)
    flapping = ", flapping" if problem.flapping else ""
    opened = "" if problem.opened == problem.since else f", opened {spoken_instant(problem.opened, where)}"
    since = f"{state}{flapping} since {spoken_instant(problem.since, where)}{opened}"
    held = f"; {held_words(problem, where)}" if problem.hold else ""
    return f"open problem {problem.id}: {since}, {acknowledged_words(problem, now, where)}{held}"


def held_words(problem: ProblemRecord, where: Zone) -> str:
    """Why nobody is told of it now, and since when; empty if somebody may be."""
    if not problem.hold:
        return ""
    since = "" if problem.held_since is None else f" since {spoken_instant(problem.held_since, where)}"
    return f"nobody is notified of it{since}: {problem.hold}"


def past_problem_sentence(problem: ProblemRecord, where: Zone) -> str:
    """ "problem 12 was open then: at worst CRITICAL, from Mon ... to Mon ..."."""
    opened = spoken_instant(problem.opened, where)
    end = "is open still" if problem.closed is None else f"closed {spoken_instant(problem.closed, where)}"
    return f"problem {problem.id} was open then: at worst {problem.worst.name}, opened {opened}, {end}"


def acknowledged_words(problem: ProblemRecord, now: Instant, where: Zone) -> str:
    """Who acknowledged it, until when, with which words; or that nobody has."""
    ack = problem.acknowledgement
    if ack is None or not has_acknowledgement(problem, now):
        return "not acknowledged"
    until = "" if ack.until is None else f" until {spoken_instant(ack.until, where)}"
    comment = first_line(ack.comment)
    return f"acknowledged by {ack.who}{until}{', sticky' if ack.sticky else ''}{f': {comment}' if comment else ''}"
