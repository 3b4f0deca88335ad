"""The store in memory: for tests, for trying things out, and as the simplest implementation of the contract."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import count, islice
from pathlib import Path
from typing import Final

from msgspec import structs

from evenbeat.model import Acknowledgement, Cause, Entry, Instant, Period, RunKind, Task
from evenbeat.store.alert_records import (
    ALL_DECISIONS,
    ALL_MESSAGES,
    AlertBatch,
    AlertDecisionFilter,
    AlertProblem,
    AlertRecord,
    AlertRefusals,
    MessageFilter,
    MessageRecord,
    NumberedDecision,
    ProblemKey,
)
from evenbeat.store.chain_records import ChainParent
from evenbeat.store.common import audit
from evenbeat.store.common.conflicts import check_names, check_versions
from evenbeat.store.common.entries import in_task_order, new_entries, new_ids, redefined
from evenbeat.store.common.filters import check_filter, matches, matches_state
from evenbeat.store.contract import (
    ALL_TASKS,
    AUDIT_MIN_AGE,
    AUDIT_MIN_ROWS,
    ENVIRONMENT_TOLD,
    FOREVER,
    NEVER,
    OPEN_PROBLEMS,
    AuditFilter,
    Batch,
    Change,
    Condition,
    Filter,
    NumberedChange,
    PastDefinition,
    ProblemFilter,
    SkipRecord,
    StoreError,
    TaskProgress,
    WithdrawnTasks,
)
from evenbeat.store.memory_alerts import MemoryAlerts
from evenbeat.store.memory_layers import LayeredMemory
from evenbeat.store.memory_problems import MemoryProblems
from evenbeat.store.memory_tasks import BatchDraft, HistorySkip, TaskRecord, with_past
from evenbeat.store.problem_records import OpenProblem, ProblemNote, ProblemRecord

PLAIN_RUNS: Final = 100_000
"""Plain successes that history keeps, of all tasks together."""


def _new_id() -> str:
    return new_ids(1)[0]


class MemoryStore(LayeredMemory):
    """Keeps everything in dicts and lists, under one lock."""

    def __init__(self, plain_runs: int = PLAIN_RUNS, new_id: Callable[[], str] = _new_id) -> None:
        super().__init__()
        self._plain_runs = plain_runs
        self._new_id = new_id
        self._numbers = 0
        self._names: dict[str, int] = {}
        self._periods: dict[str, tuple[str, Period]] = {}
        self._settings = {ENVIRONMENT_TOLD: "1"}
        self._returned: dict[tuple[int, int], tuple[int, str]] = {}
        """By task and time of the claim: the end of the run, and what it returned."""
        self._skips: dict[int, HistorySkip] = {}
        """Numbered in the order in which they were first recorded: 1, 2, 3 ..."""
        self._newest_skip: dict[int, int] = {}
        self._last_skip = 0
        self._problems = MemoryProblems()
        self._alerts = MemoryAlerts()
        self._changes: list[Change] = []
        self._changes_forgotten = 0

    # Tasks

    def create(self, tasks: Sequence[Task], owner: str, now: Instant, who: str = "") -> list[Entry]:
        with self._lock:
            names = [task.name for task in tasks]
            check_names(names, taken=[name for name in names if name in self._names])
            running = {entry.task.name: entry for entry in self.removed_running()}
            back = [redefined(running[task.name], task, now, owner) for task in tasks if task.name in running]
            new = [task for task in tasks if task.name not in running]
            entries = new_entries(new, self._numbers + 1, [self._new_id() for _ in new], owner, now)
            self._numbers += len(new)
            self._rows |= {entry.number: TaskRecord(entry) for entry in entries}
            for entry in back:
                row = self._rows[entry.number]
                row.entry, row.removed, row.past = entry, None, ()
                row.accounted, row.extra, row.pause_from, row.pause_until = now, FOREVER, NEVER, NEVER
                row.used = b""
            self._problems.restore({entry.number for entry in back})
            self._names |= {entry.task.name: entry.number for entry in (*entries, *back)}
            self._changes += audit.created(entries, now, who) + audit.restored(back, now, who)
            return in_task_order(tasks, entries, back)

    def update(
        self,
        changes: Sequence[tuple[int, Task]],
        now: Instant,
        who: str = "",
        version: int | None = None,
        owner: str | None = None,
    ) -> list[Entry]:
        with self._lock:
            before = {number: self._rows[number].entry for number, _ in changes if self._is_there(number)}
            check_versions([number for number, _ in changes], before, version)
            names = [task.name for _, task in changes]
            check_names(names, taken=[n for n in names if self._names.get(n, 0) not in (0, *before)])
            after = []
            for number, task in changes:
                old = before[number]
                row = self._rows[number]
                entry = redefined(old, task, now, owner)
                row.entry, row.past = entry, with_past(row.past, PastDefinition(number, now, old.task, None))
                self._changes.append(audit.changed(old, task, now, who, owner))
                after.append(entry)
            for entry in before.values():
                del self._names[entry.task.name]
            self._names |= {entry.task.name: entry.number for entry in after}
            return after

    def remove(self, numbers: Sequence[int], now: Instant, who: str = "") -> None:
        with self._lock:
            gone = [self._rows[number] for number in dict.fromkeys(numbers) if self._is_there(number)]
            for row in gone:
                row.removed = now
                del self._names[row.entry.task.name]
            self._problems.remove({row.entry.number for row in gone}, now)
            self._changes += audit.removed((row.entry for row in gone), now, who)

    def _is_there(self, number: int) -> bool:
        return number in self._rows and self._rows[number].removed is None

    def find(self, name_or_id: str) -> Entry | None:
        with self._lock:
            if name_or_id in self._names:
                return self._rows[self._names[name_or_id]].entry
            return next((row.entry for row in self._found(ALL_TASKS) if row.entry.id == name_or_id), None)

    def find_removed(self, name_or_id: str) -> Entry | None:
        with self._lock:
            removed = [(row.removed, row.entry) for row in self._rows.values() if row.removed is not None]
            named = [some for some in removed if some[1].task.name == name_or_id]
            found = named or [some for some in removed if some[1].id == name_or_id]
            return max(found, key=lambda some: (some[0], some[1].number))[1] if found else None

    def removed_running(self) -> list[Entry]:
        with self._lock:
            return [row.entry for row in self._rows.values() if row.removed is not None and row.claim is not None]

    def entries(self, only: Filter = ALL_TASKS) -> Iterator[Entry]:
        return (row.entry for row in self._page(only))

    def conditions(self, only: Filter = ALL_TASKS) -> Iterator[Condition]:
        return (row.condition() for row in self._page(only))

    def count(self, only: Filter = ALL_TASKS) -> int:
        with self._lock:
            return sum(1 for _ in self._found(only))

    def dependents(self, names: Sequence[str]) -> list[Entry]:
        wanted = set(names)
        entries = (row.entry for row in self._page(ALL_TASKS))
        return [entry for entry in entries if not wanted.isdisjoint((*entry.task.depends, *entry.task.depends_any))]

    def followers(self, names: Sequence[str]) -> list[Entry]:
        wanted = set(names)
        entries = (row.entry for row in self._page(ALL_TASKS))
        return [entry for entry in entries if not wanted.isdisjoint(entry.task.schedule.parents)]

    def _page(self, only: Filter) -> list[TaskRecord]:
        with self._lock:
            found = (row for row in self._found(only) if row.entry.task.name > only.after)
            return [structs.replace(row) for row in islice(found, only.most)]

    def _found(self, only: Filter) -> Iterator[TaskRecord]:
        check_filter(only)
        for name in sorted(self._names):
            row = self._rows[self._names[name]]
            if matches(only, row.entry) and matches_state(
                *(only.state, row.entry, row.check_state(), row.outcome),
                hard=row.hard,
                running=row.claim is not None,
                has_failed=self._problems.is_open(row.entry.number, Cause.FAILED),
            ):
                yield row

    # Periods, settings, audit

    def periods(self) -> dict[str, tuple[str, Period]]:
        with self._lock:
            return dict(self._periods)

    def set_periods(
        self,
        periods: Mapping[str, Period | None],
        owner: str,
        now: Instant,
        who: str = "",
        past: Sequence[PastDefinition] = (),
    ) -> None:
        with self._lock:
            for some in past:
                row = self._rows[some.task]
                row.past = with_past(row.past, some)
            self._changes += audit.periods(self._periods, periods, now, who)
            for name, period in periods.items():
                if period is None:
                    self._periods.pop(name, None)
                else:
                    self._periods[name] = (owner, period)

    def setting(self, key: str) -> str | None:
        return self._settings.get(key)

    def settings(self, prefix: str) -> dict[str, str]:
        with self._lock:
            return {key: value for key, value in self._settings.items() if key.startswith(prefix)}

    def set_settings(self, settings: Mapping[str, str | None]) -> None:
        with self._lock:
            for key, value in settings.items():
                if value is None:
                    self._settings.pop(key, None)
                else:
                    self._settings[key] = value

    def changes(self, name: str | None = None, most: int = 100) -> list[Change]:
        with self._lock:
            found = (change for change in reversed(self._changes) if name in (None, change.name))
            return list(islice(found, most))

    def audit(self, only: AuditFilter) -> list[NumberedChange]:
        asked = audit.filter_values(only)
        with self._lock:
            numbered = zip(count(self._changes_forgotten + len(self._changes), -1), reversed(self._changes))
            found = (
                NumberedChange(number, change)
                for number, change in numbered
                if number < asked["before"]
                and change.at >= asked["since"]
                and only.name in (None, change.name)
                and only.who in (None, change.who)
            )
            return list(islice(found, only.most))

    def note(self, changes: Iterable[Change]) -> None:
        with self._lock:
            self._changes += changes

    # Progress of tasks, and their runs

    def progress(self) -> Iterator[TaskProgress]:
        with self._lock:
            known = [row for row in self._rows.values() if row.removed is None or row.claim is not None]
            return iter([row.progress() for row in known if row.accounted is not None])

    def past_definitions(self) -> Iterator[PastDefinition]:
        with self._lock:
            known = [row for row in self._rows.values() if row.removed is None]
            return iter([past for row in known for past in row.past])

    def record(self, *batches: Batch) -> Future[WithdrawnTasks]:
        future: Future[WithdrawnTasks] = Future()
        try:
            with self._lock:
                draft = BatchDraft(self._rows, self._skips, self._newest_skip, self._last_skip)
                for batch in batches:
                    draft.apply(batch)
                    draft.apply_chains(batch)
                self._rows |= draft.rows
                self._add_history(draft.runs)
                self._skips |= draft.skips
                self._newest_skip |= draft.newest_skip
                self._last_skip = draft.last_skip
                for batch in batches:
                    self._returned |= {(r.task, r.claimed): (r.ended, r.value) for r in batch.returned}
                    self._problems.record(batch.problems, batch.holds, self._is_there)
                    for task, claimed, data in batch.outputs:
                        self._outputs.setdefault((task, claimed), data)
        except StoreError as e:
            future.set_exception(e)
        else:
            future.set_result(frozenset(draft.withdrawn))
        return future

    def returned(self, task: int, claimed: Instant) -> str | None:
        with self._lock:
            found = self._returned.get((task, claimed))
            return None if found is None else found[1]

    def cursors(self, numbers: Sequence[int]) -> dict[int, bytes]:
        with self._lock:
            found = {number: self._rows[number].cursor for number in numbers if number in self._rows}
            return {number: cursor for number, cursor in found.items() if cursor is not None}

    def chain_parents(self, names: Sequence[str]) -> list[ChainParent]:
        with self._lock:
            found = [(name, self._rows[self._names[name]]) for name in sorted(set(names) & self._names.keys())]
            return [ChainParent(name, row.entry.number, row.success, row.failure) for name, row in found]

    def chain_uses(self, numbers: Sequence[int]) -> dict[int, bytes]:
        with self._lock:
            found = {number: self._rows[number].used for number in numbers if number in self._rows}
            return {number: used for number, used in found.items() if used}

    def skips(self, task: int | None = None, before: Instant | None = None, most: int = 100) -> list[SkipRecord]:
        until = FOREVER if before is None else before
        with self._lock:
            found = [s for s in reversed(self._skips.values()) if task in (None, s.task) and s.at < until]
            return [
                SkipRecord(
                    self._rows[s.task].entry.task.name,
                    Instant(s.first),
                    Instant(s.last),
                    s.times,
                    s.reason,
                    Instant(s.at),
                    RunKind(s.kind),
                    s.task,
                )
                for s in sorted(found, key=lambda s: s.at, reverse=True)[:most]
            ]

    # Problems

    def open_problems(self) -> Iterator[OpenProblem]:
        with self._lock:
            return iter(self._problems.open_problems())

    def problems(self, only: ProblemFilter = OPEN_PROBLEMS) -> list[ProblemRecord]:
        with self._lock:
            return self._problems.find(only, self._rows)

    def count_problems(self, only: ProblemFilter = OPEN_PROBLEMS) -> int:
        with self._lock:
            return self._problems.count(only, self._rows)

    def find_problem(self, number: int) -> ProblemRecord | None:
        with self._lock:
            return self._problems.find_one(number, self._rows)

    def problem_notes(self, number: int) -> list[ProblemNote]:
        with self._lock:
            return self._problems.notes(number)

    def acknowledge(self, ids: Sequence[int], ack: Acknowledgement | None, now: Instant, who: str) -> list[int]:
        with self._lock:
            return self._problems.acknowledge(ids, ack, now, who)

    def comment(self, ids: Sequence[int], text: str, now: Instant, who: str) -> list[int]:
        with self._lock:
            return self._problems.comment(ids, text, now, who)

    def problem_ids(self, keys: Sequence[ProblemKey]) -> list[int | None]:
        with self._lock:
            return self._problems.ids(keys)

    # Alerts

    def open_alert_problems(self) -> Iterator[tuple[AlertProblem, list[AlertRecord]]]:
        with self._lock:
            return iter(self.alert_problems([*self._problems.open_ids(), *self._alerts.not_over()]))

    def alert_problems(self, ids: Sequence[int]) -> list[tuple[AlertProblem, list[AlertRecord]]]:
        with self._lock:
            found = self._problems.for_alerts(ids, self._rows)
            return [(problem, self._alerts.of_problem(problem.id)) for problem in found]

    def record_alerts(self, batch: AlertBatch) -> Future[AlertRefusals]:
        future: Future[AlertRefusals] = Future()
        try:
            with self._lock:
                future.set_result(self._alerts.record(batch, self._problems))
        except StoreError as e:
            future.set_exception(e)
        return future

    def reserve_messages(self, count: int) -> int:
        with self._lock:
            return self._alerts.reserve_messages(count)

    def alerts(self, problem: int) -> list[AlertRecord]:
        with self._lock:
            return self._alerts.of_problem(problem)

    def alert_decisions(self, only: AlertDecisionFilter = ALL_DECISIONS) -> list[NumberedDecision]:
        with self._lock:
            return self._alerts.decisions(only, self._problems.names(self._rows))

    def messages(self, only: MessageFilter = ALL_MESSAGES) -> list[MessageRecord]:
        with self._lock:
            return self._alerts.messages(only)

    def unfinished_messages(self) -> list[MessageRecord]:
        with self._lock:
            return self._alerts.unfinished_messages()

    def message_document(self, id_: int) -> bytes | None:
        with self._lock:
            return self._alerts.document(id_)

    # Maintenance

    def prune(self, now: Instant, keep: int) -> int:
        with self._lock:
            cutoff = now - keep
            plain = [run for run in self._runs if not run.notable]
            oldest = {id(run) for run in plain[: max(len(plain) - self._plain_runs, 0)]}
            alerted = self._problems.tasks_of(self._alerts.not_over())
            rows = {n: row for n, row in self._rows.items() if n in alerted or not row.is_forgotten(cutoff)}
            runs = [run for run in self._runs if run.ended >= cutoff and id(run) not in oldest and run.task in rows]
            skips = {key: skip for key, skip in self._skips.items() if skip.at >= cutoff and skip.task in rows}
            latest = len(self._changes) - AUDIT_MIN_ROWS
            until = now - max(keep, AUDIT_MIN_AGE)
            changes = [c for i, c in enumerate(self._changes) if c.at >= (cutoff if i < latest else until)]
            self._changes_forgotten += len(self._changes) - len(changes)
            with_run = {(run.task, run.claim.at) for run in runs}
            with_run |= {(run.task, run.claimed) for run in self._packed() if run.task in rows}
            outputs = {run: data for run, data in self._outputs.items() if run in with_run}
            before = sum(map(len, (self._runs, self._skips, self._changes, self._rows, self._outputs)))
            self._runs, self._skips, self._changes, self._rows, self._outputs = runs, skips, changes, rows, outputs
            kept = {key: found for key, found in self._returned.items() if found[0] >= cutoff}
            before += len(self._returned) - len(kept)
            self._returned = kept
            gone = self._problems.prune(cutoff, rows, self._alerts.is_over)
            forgotten = len(gone) + self._alerts.forget(gone) + self._alerts.prune(now, cutoff)
            return forgotten + before - sum(map(len, (runs, skips, changes, rows, outputs)))

    def backup(self, path: Path) -> None:
        raise StoreError(f"a store in memory cannot be backed up to {path}: use a database to have backups")

    def close(self) -> None:
        pass
