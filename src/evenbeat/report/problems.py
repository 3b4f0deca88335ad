"""Problems for people and programs: which ones a question selects, as documents, and in words."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from evenbeat.core.acknowledgement import is_acknowledged
from evenbeat.model import Cause, Instant
from evenbeat.report.documents import iso_time
from evenbeat.report.words import first_line
from evenbeat.store.contract import ProblemFilter, Store
from evenbeat.store.problem_records import ProblemNote, ProblemRecord
from evenbeat.when.instant import spoken_instant
from evenbeat.when.zone import Zone
from evenbeat.wire.replies import NotFound

_PAGE_SIZE: Final = 1_000
"""Problems that are read at once while acknowledged ones are told from others."""


def read_problems(
    store: Store, only: ProblemFilter, now: Instant, *, acknowledged: bool | None = None
) -> list[ProblemRecord]:
    """The problems that the filter selects, newest first; with `acknowledged`, only those that are, or are not."""
    if acknowledged is None:
        return store.problems(only)
    return list(islice(_by_acknowledgement(store, only, now, acknowledged=acknowledged), only.most))


def count_problems(store: Store, only: ProblemFilter, now: Instant, *, acknowledged: bool | None = None) -> int:
    """How many there are, without regard to `before` and `most`."""
    if acknowledged is None:
        return store.count_problems(only)
    return sum(1 for _ in _by_acknowledgement(store, replace(only, before=None), now, acknowledged=acknowledged))


def _by_acknowledgement(
    store: Store, only: ProblemFilter, now: Instant, *, acknowledged: bool
) -> Iterator[ProblemRecord]:
    """Those that are acknowledged, or are not, without regard to `most`: a page at a time, as they may be a million."""
    before = only.before
    while page := store.problems(replace(only, before=before, most=_PAGE_SIZE)):
        yield from (problem for problem in page if has_acknowledgement(problem, now) is acknowledged)
        if len(page) < _PAGE_SIZE:
            break
        before = page[-1].id


def find_problem(store: Store, number: int) -> tuple[ProblemRecord, list[ProblemNote]]:
    """A problem and its notes; NotFound if there is none with this id."""
    problem = store.find_problem(number)
    if problem is None:
        raise NotFound(f"there is no problem {number}")
    return problem, store.problem_notes(number)


def has_acknowledgement(problem: ProblemRecord, now: Instant) -> bool:
    """Does an acknowledgement of the problem count now, or did it when the problem closed?"""
    return is_acknowledged(problem.acknowledgement, now if problem.closed is None else problem.closed)


def problem_document(problem: ProblemRecord, now: Instant) -> dict[str, Any]:
    """A problem, with its acknowledgement if that counts."""
    ack = problem.acknowledgement if has_acknowledgement(problem, now) else None
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
        "output": first_line(problem.output),
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
    }


def note_document(note: ProblemNote) -> dict[str, Any]:
    """What somebody wrote about a problem, or did with it."""
    return {"at": iso_time(note.at), "who": note.who, "action": note.action, "text": note.text}


def problem_sentence(problem: ProblemRecord, now: Instant, where: Zone) -> str:
    """ "open problem 12: CRITICAL since Mon 2026-11-16 09:00:37+01:00, acknowledged by ana until ...: on it"."""
    state = "failing" if problem.cause == Cause.FAILED else problem.state.name
    flapping = ", flapping" if problem.flapping else ""
    opened = "" if problem.opened == problem.since else f", opened {spoken_instant(problem.opened, where)}"
    since = f"{state}{flapping} since {spoken_instant(problem.since, where)}{opened}"
    return f"open problem {problem.id}: {since}, {acknowledged_words(problem, now, where)}"


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
