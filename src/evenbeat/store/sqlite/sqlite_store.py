"""The store in an SQLite file: one thread writes, any thread reads; a commit survives `kill -9`."""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Final, Literal

from evenbeat.model import Acknowledgement, Entry, Instant, Period, Task
from evenbeat.store.alert_records import DOCUMENT_KEPT
from evenbeat.store.chain_records import ChainParent, chain_parents
from evenbeat.store.common import audit, rows
from evenbeat.store.common.filters import check_filter, check_problem_filter
from evenbeat.store.common.packed_history import newest_first
from evenbeat.store.common.problem_ids import before_id, in_parts, possible_ids
from evenbeat.store.contract import (
    ALL_TASKS,
    AUDIT_MIN_AGE,
    AUDIT_MIN_ROWS,
    FOREVER,
    OPEN_PROBLEMS,
    AuditFilter,
    Batch,
    Change,
    Condition,
    DatabaseDamaged,
    Filter,
    NumberedChange,
    PastDefinition,
    ProblemFilter,
    RunRecord,
    SkipRecord,
    StoreError,
    TaskProgress,
    TaskSnapshot,
    WithdrawnTasks,
)
from evenbeat.store.private_files import create_private
from evenbeat.store.problem_records import MAX_PROBLEM_NOTES, OpenProblem, ProblemNote, ProblemRecord
from evenbeat.store.sqlite import problem_changes, task_changes
from evenbeat.store.sqlite.batch_statements import record
from evenbeat.store.sqlite.connect import DAMAGED_ADVICE, explained
from evenbeat.store.sqlite.filters import problem_conditions, problems_source, sql_conditions
from evenbeat.store.sqlite.first_load import LEAST_TASKS
from evenbeat.store.sqlite.inspection import problem_in
from evenbeat.store.sqlite.layers import SqliteLayers
from evenbeat.store.sqlite.log_pruning import prune_log
from evenbeat.store.sqlite.replaced_files import sync
from evenbeat.store.sqlite.rows import problem_record, progress
from evenbeat.store.sqlite.statements import as_list, fill_in, query

PLAIN_RUNS: Final = 1_000_000
"""Plain successes that history keeps, of all tasks together: about 130 MB."""
_PRUNED_AT_ONCE: Final = 5_000
"""Rows of each table that one call of `prune` deletes: some tens of milliseconds."""
_NUMBERS_AT_ONCE: Final = 10_000
_CLAIMED_OR_PAUSED: Final = "p.task IN (SELECT task FROM claims UNION SELECT task FROM pauses)"
_PRUNED: Final = (
    *("prune_plain", "prune_notable", "prune_outputs", "prune_skips", "prune_changes"),
    *("prune_problems", "prune_decisions", "prune_messages", "prune_documents", "prune_returned"),
)
_FORGOTTEN_TOO: Final = (
    *("forget_pause", "forget_definitions", "forget_chain_ends", "forget_chain_use", "forget_outputs"),
)


class SqliteStore(SqliteLayers):
    """Opens the file, or creates it. With `durability="full"` a commit also survives a power loss."""

    def __init__(
        self,
        path: Path,
        durability: Literal["normal", "full"] = "normal",
        *,
        read_only: bool = False,
        is_checked: bool = True,
        plain_runs: int = PLAIN_RUNS,
    ) -> None:
        """With `is_checked=False` a file that cannot be read is refused at the first read, not now."""
        super().__init__(path, durability, read_only=read_only, is_checked=is_checked)
        self._plain_runs = plain_runs

    # Tasks

    def create(self, tasks: Sequence[Task], owner: str, now: Instant, who: str = "") -> list[Entry]:
        def work(connection: sqlite3.Connection) -> list[Entry]:
            return task_changes.create(connection, tasks, owner, now, who)

        is_load = self._is_used_alone and len(tasks) >= LEAST_TASKS
        return self._load_first(work) if is_load else self._do(work)

    def update(
        self,
        changes: Sequence[tuple[int, Task]],
        now: Instant,
        who: str = "",
        version: int | None = None,
        owner: str | None = None,
    ) -> list[Entry]:
        return self._do(lambda connection: task_changes.update(connection, changes, now, who, version, owner))

    def remove(self, numbers: Sequence[int], now: Instant, who: str = "") -> None:
        self._do(lambda connection: task_changes.remove(connection, numbers, now, who))

    def find(self, name_or_id: str) -> Entry | None:
        return next(self._converted(rows.entry, self._select(query("find_task"), (name_or_id,))), None)

    def find_removed(self, name_or_id: str) -> Entry | None:
        return next(self._converted(rows.entry, self._select(query("find_removed"), (name_or_id,))), None)

    def removed_running(self) -> list[Entry]:
        return list(self._converted(rows.entry, self._select(query("removed_running"))))

    def entries(self, only: Filter = ALL_TASKS) -> Iterator[Entry]:
        return self._converted_in_parts(rows.entries, self._select_parts(*_filtered("entries", only)))

    def task_versions(self) -> Iterator[Sequence[tuple[int, int, int]]]:
        """Number, version and time of the last change of every task, some at a time, by number."""
        return self._select_parts(query("task_versions"))

    def numbered_entries(self, numbers: Sequence[int]) -> Iterator[Entry]:
        """The tasks with these numbers, of those that exist."""
        for at in range(0, len(numbers), _NUMBERS_AT_ONCE):
            asked = (as_list(numbers[at : at + _NUMBERS_AT_ONCE]),)
            yield from self._converted_in_parts(rows.entries, self._select_parts(query("tasks_by_number"), asked))

    def conditions(self, only: Filter = ALL_TASKS) -> Iterator[Condition]:
        return self._converted(rows.condition, self._select(*_filtered("conditions", only)))

    def count(self, only: Filter = ALL_TASKS) -> int:
        check_filter(only)
        condition, values = sql_conditions(only)
        ((count,),) = self._select(fill_in("count", ":filter", condition), values)
        return int(count)

    def dependents(self, names: Sequence[str]) -> list[Entry]:
        return list(self._converted(rows.entry, self._select(query("dependents"), (as_list(names),))))

    def followers(self, names: Sequence[str]) -> list[Entry]:
        return list(self._converted(rows.entry, self._select(query("followers"), (as_list(names),))))

    # Periods, settings, audit

    def periods(self) -> dict[str, tuple[str, Period]]:
        return dict(self._converted(rows.named_period, self._select(query("periods"))))

    def set_periods(
        self,
        periods: Mapping[str, Period | None],
        owner: str,
        now: Instant,
        who: str = "",
        past: Sequence[PastDefinition] = (),
    ) -> None:
        self._do(lambda connection: task_changes.set_periods(connection, periods, owner, now, who, past))

    def setting(self, key: str) -> str | None:
        return next((value for (value,) in self._select(query("setting"), (key,))), None)

    def settings(self, prefix: str) -> dict[str, str]:
        return dict(self._select(query("settings"), (prefix,)))

    def set_settings(self, settings: Mapping[str, str | None]) -> None:
        given = [(key, value) for key, value in settings.items() if value is not None]
        deleted = [(key,) for key, value in settings.items() if value is None]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(query("set_setting"), given)
            connection.executemany(query("delete_setting"), deleted)

        self._do(work)

    def changes(self, name: str | None = None, most: int = 100) -> list[Change]:
        found = self._select(query("changes" if name is None else "changes_of"), {"name": name, "most": most})
        return [rows.change(row) for row in found]

    def audit(self, only: AuditFilter) -> list[NumberedChange]:
        found = self._select(query("audit" if only.name is None else "audit_of"), audit.filter_values(only))
        return [NumberedChange(number, rows.change(row)) for number, *row in found]

    def note(self, changes: Iterable[Change]) -> None:
        noted = list(changes)
        self._do(lambda connection: task_changes.note(connection, noted))

    # Progress of tasks, and their runs

    def progress(self) -> Iterator[TaskProgress]:
        return self._progress("true")

    def plain_progress(self) -> Iterator[Sequence[Sequence[int]]]:
        return self._select_parts(query("plain_progress"))

    def other_progress(self) -> Iterator[TaskProgress]:
        return self._progress(_CLAIMED_OR_PAUSED)

    def _progress(self, condition: str) -> Iterator[TaskProgress]:
        return self._converted_in_parts(progress, self._select_parts(fill_in("progress", ":filter", condition)))

    def past_definitions(self) -> Iterator[PastDefinition]:
        return map(rows.past_definition, self._select(query("past_definitions")))

    def record(self, *batches: Batch) -> Future[WithdrawnTasks]:
        def work(connection: sqlite3.Connection) -> WithdrawnTasks:
            return frozenset().union(*[record(connection, batch) for batch in batches])

        return self.writer.changes.submit(work)

    def cursors(self, numbers: Sequence[int]) -> dict[int, bytes]:
        return dict(self._select(query("cursors"), (as_list(numbers),)))

    def returned(self, task: int, claimed: Instant) -> str | None:
        found: str | None = next((value for (value,) in self._select(query("returned"), (task, claimed))), None)
        return found

    def chain_parents(self, names: Sequence[str]) -> list[ChainParent]:
        return chain_parents(self._select(query("chain_parents"), (as_list(names),)))

    def chain_uses(self, numbers: Sequence[int]) -> dict[int, bytes]:
        return dict(self._select(query("chain_uses"), (as_list(numbers),)))

    def runs(
        self, task: int | None = None, before: Instant | None = None, most: int = 100, *, notable: bool = False
    ) -> list[RunRecord]:
        kinds = ["notable_runs"] if notable else ["notable_runs", "plain_runs"]
        names = [kind if task is None else f"{kind}_of" for kind in kinds] + ([] if notable else ["running"])
        until = FOREVER if before is None else before
        asked = {"task": task, "before": until, "most": most}
        with self._one_moment():
            rows_ = [
                run for name in names for run in self._converted(rows.run_record, self._select(query(name), asked))
            ]
            with self._damage_explained():
                found = self._packed_history().newest(rows_, task, until, most, notable=notable)
        return sorted(found, key=newest_first)[:most]

    def whole_output(self, task: int, claimed: int) -> bytes | None:
        return next((data for (data,) in self._select(query("whole_output"), (task, claimed))), None)

    def starts(self, since: Instant, until: Instant) -> dict[int, int]:
        with self._one_moment():
            counted: Counter[int] = Counter(dict(self._select(query("starts"), {"since": since, "until": until})))
            return dict(counted + self._packed_history().starts(since, until))

    def skips(self, task: int | None = None, before: Instant | None = None, most: int = 100) -> list[SkipRecord]:
        asked = {"task": task, "before": FOREVER if before is None else before, "most": most}
        found = self._select(query("skips" if task is None else "skips_of"), asked)
        return list(self._converted(rows.skip_record, found))

    def task_snapshot(self, name_or_id: str, most: int) -> TaskSnapshot | None:
        with self._one_moment():
            entry = self.find(name_or_id)
            for condition in () if entry is None else list(self.conditions(Filter(names=(entry.id,)))):
                number = condition.entry.number
                return TaskSnapshot(condition, self.runs(number, most=most), self.skips(number, most=most))
        return None

    # Problems

    def open_problems(self) -> Iterator[OpenProblem]:
        return map(OpenProblem._make, self._select(query("open_problems")))

    def problems(self, only: ProblemFilter = OPEN_PROBLEMS) -> list[ProblemRecord]:
        statement, values = self._about_problems("problems", only)
        return list(self._converted(problem_record, self._select(statement, [*values, before_id(only), only.most])))

    def count_problems(self, only: ProblemFilter = OPEN_PROBLEMS) -> int:
        ((count,),) = self._select(*self._about_problems("count_problems", only))
        return int(count)

    def _about_problems(self, name: str, only: ProblemFilter) -> tuple[str, list[str | int]]:
        check_problem_filter(only)
        condition, values = problem_conditions(only)
        return fill_in(name, ":filter", condition).replace(":problems", problems_source(only)), values

    def find_problem(self, number: int) -> ProblemRecord | None:
        return next(iter(self.problems(ProblemFilter(ids=(number,), is_open=None))), None)

    def problem_notes(self, number: int) -> list[ProblemNote]:
        found = self._select(query("problem_notes"), (as_list(possible_ids([number])), MAX_PROBLEM_NOTES))
        return list(self._converted(rows.problem_note, found))

    def acknowledge(self, ids: Sequence[int], ack: Acknowledgement | None, now: Instant, who: str) -> list[int]:
        return [
            number
            for some in in_parts(ids)
            for number in self._do(partial(problem_changes.acknowledge, ids=some, ack=ack, now=now, who=who))
        ]

    def comment(self, ids: Sequence[int], text: str, now: Instant, who: str) -> list[int]:
        return [
            number
            for some in in_parts(ids)
            for number in self._do(partial(problem_changes.comment, ids=some, text=text, now=now, who=who))
        ]

    # Maintenance

    def prune(self, now: Instant, keep: int) -> int:
        asked = {"cutoff": now - keep, "bound": self._plain_runs, "part": _PRUNED_AT_ONCE}
        asked |= {"documents_cutoff": now - DOCUMENT_KEPT}
        asked |= {"audit_cutoff": now - max(keep, AUDIT_MIN_AGE), "audit_rows": AUDIT_MIN_ROWS}

        def work(connection: sqlite3.Connection) -> int:
            logged = prune_log(connection, now - keep, self._plain_runs, _PRUNED_AT_ONCE, self._damaged_blocks)
            before = connection.total_changes
            for name in _PRUNED:
                connection.execute(query(name), asked)
            forgotten = connection.execute(query("forgotten"), asked).fetchall()
            for name in ("forget_claim", "forget_problems", "forget_progress", "forget_task"):
                connection.executemany(query(name), forgotten)
            gone = logged + connection.total_changes - before
            for name in _FORGOTTEN_TOO:
                connection.executemany(query(name), forgotten)
            return gone

        return self._do(work)

    def backup(self, path: Path) -> None:
        """Made in one step: a copy in many steps starts again whenever the database was written meanwhile."""
        # A name that no other user can have created before, to read the backup.
        part = path.with_name(f"{path.name}.{token_hex(8)}.part")
        if path.exists():
            raise StoreError(f"{path}: there is a file already, and a backup overwrites nothing: choose another name")
        try:
            create_private(part)
            with self._read() as connection, explained(path), closing(sqlite3.connect(part)) as copy:
                connection.backup(copy)
                try:
                    problem = problem_in(copy)
                except sqlite3.DatabaseError as e:
                    problem = str(e)
            if problem:
                # A backup may replace an older one, so it must be undamaged.
                raise DatabaseDamaged(f"{self._path}: no backup was made: {DAMAGED_ADVICE} ({problem})")
            sync(part)
            # Unlike a rename, a link never replaces a file that was created there meanwhile.
            os.link(part, path)
            sync(path.parent)  # the name of the backup must survive a power loss too
        except OSError as e:
            raise StoreError(f"{path}: the backup cannot be written: {e.strerror}") from e
        finally:
            part.unlink(missing_ok=True)


def _filtered(name: str, only: Filter) -> tuple[str, list[str | int]]:
    """A statement that takes a filter, and its parameters."""
    check_filter(only)
    condition, values = sql_conditions(only)
    return fill_in(name, ":filter", condition), [*values, only.after, only.most]
