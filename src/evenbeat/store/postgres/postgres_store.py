"""The store in PostgreSQL: one thread records, any thread reads and changes; any number of processes share it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final

from evenbeat.model import Acknowledgement, Entry, Instant, Period, Task
from evenbeat.store.chain_records import ChainParent, chain_parents
from evenbeat.store.common import audit
from evenbeat.store.common.filters import check_filter, check_problem_filter
from evenbeat.store.common.packed_history import newest_first
from evenbeat.store.common.problem_ids import before_id, in_parts, possible_ids
from evenbeat.store.common.rows import Row, past_definition, period
from evenbeat.store.contract import (
    ALL_TASKS,
    FOREVER,
    OPEN_PROBLEMS,
    AuditFilter,
    Batch,
    Change,
    Condition,
    Filter,
    NumberedChange,
    PastDefinition,
    ProblemFilter,
    RunRecord,
    SkipRecord,
    StoreError,
    TaskProgress,
    WithdrawnTasks,
)
from evenbeat.store.postgres import problem_changes, rows, task_changes
from evenbeat.store.postgres.batch_recorder import LeasedBatches
from evenbeat.store.postgres.filters import problem_conditions, sql_conditions
from evenbeat.store.postgres.history_pruning import prune_history
from evenbeat.store.postgres.layers import PostgresLayers
from evenbeat.store.postgres.statements import fill_in, query
from evenbeat.store.postgres.text import from_text
from evenbeat.store.problem_records import MAX_PROBLEM_NOTES, OpenProblem, ProblemNote, ProblemRecord

PLAIN_RUNS: Final = 10_000_000
"""Plain successes that history keeps, of all tasks together: about 2.5 GB."""
_AT_ONCE: Final = 2_000
"""Up to this many rows are fetched at once; of more, the server keeps the rest."""


class PostgresStore(PostgresLayers):
    """Opens the database at an address, and migrates it."""

    def __init__(self, dsn: str, *, read_only: bool = False, plain_runs: int = PLAIN_RUNS) -> None:
        super().__init__(dsn, read_only=read_only)
        self._plain_runs = plain_runs

    # Tasks

    def create(self, tasks: Sequence[Task], owner: str, now: Instant, who: str = "") -> list[Entry]:
        return self._writers.transaction(lambda connection: task_changes.create(connection, tasks, owner, now, who))

    def update(
        self,
        changes: Sequence[tuple[int, Task]],
        now: Instant,
        who: str = "",
        version: int | None = None,
        owner: str | None = None,
    ) -> list[Entry]:
        return self._writers.transaction(
            lambda connection: task_changes.update(connection, changes, now, who, version, owner)
        )

    def remove(self, numbers: Sequence[int], now: Instant, who: str = "") -> None:
        self._writers.transaction(lambda connection: task_changes.remove(connection, numbers, now, who))

    def find(self, name_or_id: str) -> Entry | None:
        return next(map(rows.entry, self._readers.all(query("find_task"), {"asked": name_or_id})), None)

    def find_removed(self, name_or_id: str) -> Entry | None:
        return next(map(rows.entry, self._readers.all(query("find_removed"), {"asked": name_or_id})), None)

    def removed_running(self) -> list[Entry]:
        return list(map(rows.entry, self._readers.all(query("removed_running"))))

    def entries(self, only: Filter = ALL_TASKS) -> Iterator[Entry]:
        return map(rows.entry, self._filtered("entries", only))

    def conditions(self, only: Filter = ALL_TASKS) -> Iterator[Condition]:
        return map(rows.condition, self._filtered("conditions", only))

    def count(self, only: Filter = ALL_TASKS) -> int:
        check_filter(only)
        condition, values = sql_conditions(only)
        ((count,),) = self._readers.all(fill_in("count", ":filter", condition), values)
        return int(count)

    def dependents(self, names: Sequence[str]) -> list[Entry]:
        return [rows.entry(row) for row in self._readers.all(query("dependents"), {"names": list(names)})]

    def followers(self, names: Sequence[str]) -> list[Entry]:
        return [rows.entry(row) for row in self._readers.all(query("followers"), {"names": list(names)})]

    def _filtered(self, name: str, only: Filter) -> Iterator[Row]:
        check_filter(only)
        condition, values = sql_conditions(only)
        statement, values = fill_in(name, ":filter", condition), [*values, only.after, only.most]
        return (
            iter(self._readers.all(statement, values))
            if only.most <= _AT_ONCE
            else self._readers.many(statement, values)
        )

    # Periods, settings, audit

    def periods(self) -> dict[str, tuple[str, Period]]:
        found = self._readers.all(query("periods"))
        return {from_text(name): (from_text(owner), period(text)) for name, owner, text in found}

    def set_periods(
        self,
        periods: Mapping[str, Period | None],
        owner: str,
        now: Instant,
        who: str = "",
        past: Sequence[PastDefinition] = (),
    ) -> None:
        self._writers.transaction(
            lambda connection: task_changes.set_periods(connection, periods, owner, now, who, past)
        )

    def setting(self, key: str) -> str | None:
        return next((from_text(value) for (value,) in self._readers.all(query("setting"), (key,))), None)

    def settings(self, prefix: str) -> dict[str, str]:
        return {from_text(key): from_text(value) for key, value in self._readers.all(query("settings"), (prefix,))}

    def set_settings(self, settings: Mapping[str, str | None]) -> None:
        self._writers.transaction(lambda connection: task_changes.set_settings(connection, settings))

    def changes(self, name: str | None = None, most: int = 100) -> list[Change]:
        if name is None:
            return [rows.change(row) for row in self._readers.all(query("changes"), (most,))]
        return [rows.change(row) for row in self._readers.all(query("changes_of"), (name, most))]

    def audit(self, only: AuditFilter) -> list[NumberedChange]:
        found = self._readers.all(query("audit" if only.name is None else "audit_of"), audit.filter_values(only))
        return [NumberedChange(number, rows.change(row)) for number, *row in found]

    def note(self, changes: Iterable[Change]) -> None:
        noted = list(changes)
        self._writers.transaction(lambda connection: task_changes.note(connection, noted))

    # Progress of tasks, and their runs

    def progress(self) -> Iterator[TaskProgress]:
        return map(rows.progress, self._readers.many(fill_in("progress", ":filter", "true")))

    def past_definitions(self) -> Iterator[PastDefinition]:
        return map(past_definition, self._readers.many(fill_in("past_definitions", ":filter", "true")))

    def record(self, *batches: Batch) -> Future[WithdrawnTasks]:
        return self._record().changes.submit(LeasedBatches(batches, self._held))

    def cursors(self, numbers: Sequence[int]) -> dict[int, bytes]:
        return {task: bytes(cursor) for task, cursor in self._readers.all(query("cursors"), (list(numbers),))}

    def returned(self, task: int, claimed: Instant) -> str | None:
        found: str | None = next((value for (value,) in self._readers.all(query("returned"), (task, claimed))), None)
        return found

    def chain_parents(self, names: Sequence[str]) -> list[ChainParent]:
        return chain_parents(
            (from_text(name), *end) for name, *end in self._readers.all(query("chain_parents"), (list(names),))
        )

    def chain_uses(self, numbers: Sequence[int]) -> dict[int, bytes]:
        return {task: bytes(used) for task, used in self._readers.all(query("chain_uses"), (list(numbers),))}

    def runs(
        self, task: int | None = None, before: Instant | None = None, most: int = 100, *, notable: bool = False
    ) -> list[RunRecord]:
        kinds = ["notable_runs"] if notable else ["notable_runs", "plain_runs", "running"]
        until = FOREVER if before is None else before
        asked = {"task": task, "before": until, "most": most}
        names = [kind if task is None else f"{kind}_of" for kind in kinds]
        with self._readers.one_moment(*[(query(name), asked) for name in names]) as moment:
            found = [rows.run_record(row) for answer in moment.answers for row in answer]
            found = self._packed_history(moment).newest(found, task, until, most, notable=notable)
        return sorted(found, key=newest_first)[:most]

    def whole_output(self, task: int, claimed: int) -> bytes | None:
        return next((bytes(data) for (data,) in self._readers.all(query("whole_output"), (task, claimed))), None)

    def starts(self, since: Instant, until: Instant) -> dict[int, int]:
        with self._readers.one_moment((query("starts"), {"since": since, "until": until})) as moment:
            counted: Counter[int] = Counter(dict(moment.answers[0]))
            return dict(counted + self._packed_history(moment).starts(since, until))

    def skips(self, task: int | None = None, before: Instant | None = None, most: int = 100) -> list[SkipRecord]:
        asked = {"task": task, "before": FOREVER if before is None else before, "most": most}
        found = self._readers.all(query("skips" if task is None else "skips_of"), asked)
        return [rows.skip_record(row) for row in found]

    # Problems

    def open_problems(self) -> Iterator[OpenProblem]:
        return map(OpenProblem._make, self._readers.many(fill_in("open_problems", ":filter", "true")))

    def problems(self, only: ProblemFilter = OPEN_PROBLEMS) -> list[ProblemRecord]:
        check_problem_filter(only)
        condition, values = problem_conditions(only)
        asked = [*values, before_id(only), only.most]
        return list(map(rows.problem_record, self._readers.all(fill_in("problems", ":filter", condition), asked)))

    def count_problems(self, only: ProblemFilter = OPEN_PROBLEMS) -> int:
        check_problem_filter(only)
        condition, values = problem_conditions(only)
        ((count,),) = self._readers.all(fill_in("count_problems", ":filter", condition), values)
        return int(count)

    def find_problem(self, number: int) -> ProblemRecord | None:
        return next(iter(self.problems(ProblemFilter(ids=(number,), is_open=None))), None)

    def problem_notes(self, number: int) -> list[ProblemNote]:
        found = self._readers.all(query("problem_notes"), (possible_ids([number]), MAX_PROBLEM_NOTES))
        return list(map(rows.problem_note, found))

    def acknowledge(self, ids: Sequence[int], ack: Acknowledgement | None, now: Instant, who: str) -> list[int]:
        return [
            number
            for some in in_parts(ids)
            for number in self._writers.transaction(
                partial(problem_changes.acknowledge, ids=some, ack=ack, now=now, who=who)
            )
        ]

    def comment(self, ids: Sequence[int], text: str, now: Instant, who: str) -> list[int]:
        return [
            number
            for some in in_parts(ids)
            for number in self._writers.transaction(
                partial(problem_changes.comment, ids=some, text=text, now=now, who=who)
            )
        ]

    # Maintenance

    def prune(self, now: Instant, keep: int) -> int:
        with self._writers.one() as session:
            return prune_history(session, now, now - keep, self._plain_runs)

    def backup(self, path: Path) -> None:
        """Refused: PostgreSQL has its own backups."""
        raise StoreError(
            f"{self._address}: use PostgreSQL's own backup: "
            f"pg_dump --schema=evenbeat --format=custom --file={path} '{self._address}'"
        )
