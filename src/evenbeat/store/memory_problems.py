"""The problems of the store in memory, and what people wrote about them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice

from msgspec import Struct, structs

from evenbeat.model import Acknowledgement, Cause, Instant, State
from evenbeat.store.alert_records import AlertProblem, ProblemKey
from evenbeat.store.common.batch_rows import with_distinct_tasks
from evenbeat.store.common.filters import check_problem_filter, matches
from evenbeat.store.contract import FOREVER, ProblemFilter
from evenbeat.store.memory_tasks import TaskRecord
from evenbeat.store.problem_records import (
    MAX_PROBLEM_NOTES,
    OpenProblem,
    ProblemChange,
    ProblemHold,
    ProblemNote,
    ProblemRecord,
)


class HeldProblem(Struct):
    """A problem as the store holds it; name, output and labels are those of its task."""

    id: int
    task: int
    cause: str
    opened: int
    since: int
    state: int
    severity: int
    worst: int
    worst_severity: int
    closed: int | None = None
    reason: str = ""
    acknowledgement: Acknowledgement | None = None
    hold: str = ""
    held_since: int = 0

    def shown_state(self) -> int:
        """The present state; of a closed problem, the most severe that it has had."""
        return self.state if self.closed is None else self.worst

    def is_acknowledged(self, now: Instant) -> bool:
        """Does its acknowledgement count, or did it when the problem closed? As in `core.acknowledgement`."""
        ack, at = self.acknowledgement, now if self.closed is None else self.closed
        if ack is None or (ack.until is not None and ack.until <= at):
            return False
        return ack.sticky or ack.worst_since <= ack.severity

    def record(self, row: TaskRecord) -> ProblemRecord:
        """The problem with what is known of its task."""
        is_open = self.closed is None
        return ProblemRecord(
            self.id,
            self.task,
            row.entry.task.name,
            self.cause,
            Instant(self.opened),
            Instant(self.since),
            State(self.shown_state()),
            State(self.worst),
            None if self.closed is None else Instant(self.closed),
            self.reason,
            row.flapping and is_open,
            row.output if is_open else "",
            row.entry.owner,
            row.entry.task.labels,
            self.acknowledgement,
            self.hold if is_open else "",
            Instant(self.held_since) if is_open and self.hold else None,
        )

    def for_alerts(self, row: TaskRecord) -> AlertProblem:
        """The problem with what its alerts depend on."""
        is_open = self.closed is None
        return AlertProblem(
            self.id,
            self.task,
            row.entry.task.name,
            self.cause,
            self.opened,
            self.since,
            self.shown_state(),
            (self.severity if is_open else 0) or self.worst_severity,
            self.closed,
            self.reason,
            row.flapping and is_open,
            self.hold if is_open else "",
            self.held_since if is_open and self.hold else None,
            self.acknowledgement,
        )


class MemoryProblems:
    """Problems by their ids, and their notes. The caller holds the lock of the store."""

    def __init__(self) -> None:
        self._last = 0
        self._problems: dict[int, HeldProblem] = {}
        self._ids: dict[tuple[int, str, int], int] = {}
        """By task, cause and the time when the problem opened."""
        self._open: dict[tuple[int, str], int] = {}
        """By task and cause."""
        self._notes: dict[int, list[ProblemNote]] = {}

    def __contains__(self, number: object) -> bool:
        return number in self._problems

    def is_open(self, task: int, cause: Cause) -> bool:
        """Has the task an open problem of this cause?"""
        return (task, cause.value) in self._open

    def record(
        self, changes: Sequence[ProblemChange], holds: Sequence[ProblemHold], is_there: Callable[[int], bool]
    ) -> None:
        """Apply the changes of a batch, except those of tasks that were removed."""
        for group in with_distinct_tasks(changes):
            for change in group:
                if is_there(change.task):
                    self._apply(change)
        for hold in holds:
            known = self._problems.get(self._open.get((hold.task, hold.cause), 0))
            if known is not None and known.opened == hold.opened and known.hold != hold.hold:
                known.hold, known.held_since = hold.hold, hold.at if hold.hold else 0

    def _apply(self, change: ProblemChange) -> None:
        task, cause, opened, at, state, severity, is_open, reason = change
        other = self._open.get((task, cause))
        if is_open and other is not None and self._problems[other].opened != opened:
            self._end(self._problems[other], at, "superseded")
        known = self._problems.get(self._ids.get((task, cause, opened), 0))
        if known is None:
            self._last += 1
            known = HeldProblem(self._last, task, cause, opened, at, state, severity, state, severity)
            self._problems[known.id] = known
            self._ids[task, cause, opened] = known.id
        elif known.closed is not None and not is_open:
            return
        if severity > known.worst_severity:
            known.worst, known.worst_severity = state, severity
        if not is_open:
            self._end(known, at, reason)
            return
        if known.state != state:
            known.since = at
        known.state, known.severity = state, severity
        if (ack := known.acknowledgement) is not None and severity > ack.worst_since:
            known.acknowledgement = structs.replace(ack, worst_since=severity)
        self._reopen(known)

    def _end(self, problem: HeldProblem, at: int, reason: str) -> None:
        """Close a problem for good: what it was held for does not count if it opens again."""
        problem.hold, problem.held_since = "", 0
        self._close(problem, at, reason)

    def _close(self, problem: HeldProblem, at: int, reason: str) -> None:
        problem.closed, problem.reason = at, reason
        if self._open.get((problem.task, problem.cause)) == problem.id:
            del self._open[problem.task, problem.cause]

    def _reopen(self, problem: HeldProblem) -> None:
        problem.closed, problem.reason = None, ""
        self._open[problem.task, problem.cause] = problem.id

    def remove(self, tasks: Set[int], now: Instant) -> None:
        """Close the problems of tasks that are removed."""
        for problem in [self._problems[id_] for (task, _), id_ in self._open.items() if task in tasks]:
            self._close(problem, now, "removed")

    def restore(self, tasks: Set[int]) -> None:
        """Open the problems again that the removal of these tasks closed."""
        for problem in self._problems.values() if tasks else ():
            if problem.task in tasks and problem.reason == "removed":
                self._reopen(problem)

    def open_problems(self) -> list[OpenProblem]:
        """All open problems, by task and cause."""
        found = (self._problems[number] for _, number in sorted(self._open.items()))
        return [OpenProblem(p.task, p.cause, p.opened, p.state, p.worst, p.hold, p.held_since) for p in found]

    def ids(self, keys: Sequence[ProblemKey]) -> list[int | None]:
        """The ids of problems by their keys."""
        return [self._ids.get((key.task, key.cause, key.opened)) for key in keys]

    def open_ids(self) -> list[int]:
        """The ids of open problems."""
        return list(self._open.values())

    def for_alerts(self, ids: Iterable[int], rows: Mapping[int, TaskRecord]) -> list[AlertProblem]:
        """These problems, by id."""
        found = (self._problems[number] for number in sorted({*ids}) if number in self._problems)
        return [problem.for_alerts(rows[problem.task]) for problem in found]

    def names(self, rows: Mapping[int, TaskRecord]) -> dict[int, str]:
        """The names of the tasks of all problems."""
        return {problem.id: rows[problem.task].entry.task.name for problem in self._problems.values()}

    def tasks_of(self, ids: Iterable[int]) -> set[int]:
        """The tasks of these problems."""
        return {self._problems[number].task for number in ids}

    def find(self, only: ProblemFilter, rows: Mapping[int, TaskRecord]) -> list[ProblemRecord]:
        """The problems that a filter selects, newest first."""
        before = FOREVER if only.before is None else only.before
        found = (problem for problem in self._newest_first(only, rows) if problem.id < before)
        return [problem.record(rows[problem.task]) for problem in islice(found, only.most)]

    def count(self, only: ProblemFilter, rows: Mapping[int, TaskRecord]) -> int:
        """How many problems a filter selects."""
        return sum(1 for _ in self._newest_first(only, rows))

    def _newest_first(self, only: ProblemFilter, rows: Mapping[int, TaskRecord]) -> Iterator[HeldProblem]:
        check_problem_filter(only)
        for number in sorted(self._open.values() if only.is_open else self._problems, reverse=True):
            problem = self._problems[number]
            if (
                only.is_open in (None, problem.closed is None)
                and only.cause in (None, problem.cause)
                and only.state in (None, problem.shown_state())
                and (not only.ids or number in only.ids)
                and only.acknowledged in (None, problem.is_acknowledged(only.now))
                and matches(only.tasks, rows[problem.task].entry)
            ):
                yield problem

    def find_one(self, number: int, rows: Mapping[int, TaskRecord]) -> ProblemRecord | None:
        """A problem by its id."""
        found = self._problems.get(number)
        return None if found is None else found.record(rows[found.task])

    def notes(self, number: int) -> list[ProblemNote]:
        """The latest of what people wrote about a problem, oldest first."""
        return list(self._notes.get(number, ()))[-MAX_PROBLEM_NOTES:]

    def acknowledge(self, ids: Iterable[int], ack: Acknowledgement | None, now: Instant, who: str) -> list[int]:
        """Acknowledge open problems, or take the acknowledgement back."""
        changed = []
        for number in dict.fromkeys(ids):
            problem = self._problems.get(number)
            if problem is None or problem.closed is not None or (ack is None and problem.acknowledgement is None):
                continue
            severity = problem.severity or problem.worst_severity
            problem.acknowledgement = ack and structs.replace(ack, severity=severity, worst_since=severity)
            self._note(number, ProblemNote(now, who, "acknowledged" if ack else "unacknowledged", _text(ack)))
            changed.append(number)
        return changed

    def comment(self, ids: Iterable[int], text: str, now: Instant, who: str) -> list[int]:
        """Add a comment to problems."""
        known = [number for number in dict.fromkeys(ids) if number in self._problems]
        for number in known:
            self._note(number, ProblemNote(now, who, "commented", text))
        return known

    def _note(self, number: int, note: ProblemNote) -> None:
        self._notes.setdefault(number, []).append(note)

    def prune(self, cutoff: int, rows: Mapping[int, TaskRecord], is_over: Callable[[int], bool]) -> list[int]:
        """Forget problems that closed before this and are over, and those of forgotten tasks; return their ids."""
        gone = [
            problem
            for problem in self._problems.values()
            if (problem.closed is not None and problem.closed < cutoff and is_over(problem.id))
            or problem.task not in rows
        ]
        for problem in gone:
            del self._problems[problem.id], self._ids[problem.task, problem.cause, problem.opened]
            self._notes.pop(problem.id, None)
        return [problem.id for problem in gone]


def _text(ack: Acknowledgement | None) -> str:
    return "" if ack is None else ack.comment
