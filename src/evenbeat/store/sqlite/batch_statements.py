"""Records a batch in SQLite: many rows per statement.

One statement per row takes half as long again, and longer beside a busy scheduler: Python's global lock changes hands
for each statement.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter, pos

from evenbeat.store.common.batch_rows import with_distinct_tasks
from evenbeat.store.common.run_log import EndedRuns, log_records
from evenbeat.store.contract import (
    NEVER,
    NONE_WITHDRAWN,
    PLAIN_OUTPUT_LENGTH,
    Batch,
    Claim,
    ContradictoryBatch,
    Finish,
    ProgressRecord,
    SubmittedResult,
    WithdrawnTasks,
)
from evenbeat.store.problem_records import ProblemChange, ProblemHold
from evenbeat.store.sqlite.many_rows import execute_returning, execute_rows
from evenbeat.store.sqlite.statements import as_list, query

Row = tuple[object, ...]


def record(connection: sqlite3.Connection, batch: Batch) -> WithdrawnTasks:
    """Record a batch in the order of the contract; raise ContradictoryBatch if it contradicts the database."""
    withdrawn = NONE_WITHDRAWN
    if batch.starts:
        execute_rows(connection, "start", batch.starts)
    if batch.finishes or batch.cursors:
        _finish_all(connection, batch)
    if batch.told:
        _submit_all(connection, batch.told)
    for records in with_distinct_tasks(batch.standings):
        _update_known(connection, "record_progress", [row[:6] for row in records])
        _update_progress_of_claims(connection, records)
        _update_pauses(connection, records)
    for skips in with_distinct_tasks(batch.skips):
        rows = [row[:7] for row in skips]
        execute_rows(connection, "skip", rows)
        execute_rows(connection, "extend_skip", rows)
        _update_progress(connection, [(s.task, s.accounted, s.extra, s.extra_kind) for s in skips])
    for refusals in with_distinct_tasks(batch.refusals):
        execute_rows(connection, "refuse", [row[:5] for row in refusals])
        _update_progress(connection, [(r.task, r.accounted, r.extra, r.extra_kind) for r in refusals])
    if batch.claims:
        withdrawn = _claim(connection, batch.claims)
    if batch.settled:
        connection.executemany(query("settle_definitions"), batch.settled)
    if batch.outputs:
        connection.executemany(query("add_output"), batch.outputs)
    if batch.problems:
        _record_problems(connection, batch.problems)
    if batch.holds:
        _record_holds(connection, batch.holds)
    if batch.stops:
        connection.executemany(query("stop_runs"), [(stop.by, stop.task) for stop in batch.stops])
    _record_chains(connection, batch)
    return withdrawn


def _finish_all(connection: sqlite3.Connection, batch: Batch) -> None:
    if batch.finishes:
        _finish(connection, batch.finishes)
        connection.executemany(query("keep_returned"), batch.returned)
    if batch.cursors:
        execute_rows(connection, "save_cursors", list(dict(batch.cursors).items()))


def _record_chains(connection: sqlite3.Connection, batch: Batch) -> None:
    if batch.chain_ends:
        connection.executemany(query("keep_chain_end"), batch.chain_ends)
    if batch.chain_uses:
        connection.executemany(query("keep_chain_use"), [use for use in batch.chain_uses if use.used])
        connection.executemany(query("forget_chain_use"), [use[:1] for use in batch.chain_uses if not use.used])


def _update_known(connection: sqlite3.Connection, name: str, rows: Sequence[Row]) -> None:
    """Execute a many-row statement that must find the task of each row."""
    if execute_rows(connection, name, rows) != len(rows):
        _, known = _open_and_known(connection, rows)
        raise ContradictoryBatch(f"there is no task {next(row[0] for row in rows if row[0] not in known)}")


def _update_progress(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    _update_known(connection, "update_accounted", rows)
    _update_progress_of_claims(connection, rows)


def _update_pauses(connection: sqlite3.Connection, records: Sequence[ProgressRecord]) -> None:
    """Store the pauses of tasks that owe earlier runs. There is nearly always none."""
    if connection.execute(query("any_pause")).fetchone() is not None:
        tasks = as_list([record.task for record in records])
        connection.execute(query("forget_pauses"), (tasks,))
    paused = [(s.task, s.pause_from, s.pause_until) for s in records if s.pause_until > NEVER]
    connection.executemany(query("pause"), paused)


def _update_progress_of_claims(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Update the progress that open claims hold. A node that starts places all its tasks, when no claim may be open."""
    if connection.execute(query("any_claim")).fetchone() is not None:
        execute_rows(connection, "update_accounted_of_claims", [row[:4] for row in rows])


def _claim(connection: sqlite3.Connection, claims: Sequence[Claim]) -> WithdrawnTasks:
    """Record claims, except those of tasks that were removed meanwhile; return these tasks."""
    try:
        # Sorted, so that neighbours share a page while it is in the cache. A single node needs no tokens.
        kept = execute_rows(connection, "claim", [claim[:8] for claim in sorted(claims)])
    except sqlite3.IntegrityError as e:
        opened, known = _open_and_known(connection, claims)
        tasks = Counter(claim.task for claim in claims)
        unknown = [task for task in tasks if task not in known]
        again = [task for task, times in tasks.items() if task in opened or times > 1]
        if unknown:
            raise ContradictoryBatch(f"there is no task {unknown[0]}") from e
        if again:
            raise ContradictoryBatch(f"task {again[0]} has an open claim: it must end before the next") from e
        raise
    if kept == len(claims):
        return NONE_WITHDRAWN
    numbers = as_list([claim.task for claim in claims])
    return frozenset(task for (task,) in connection.execute(query("removed_of"), (numbers,)))


def _finish(connection: sqlite3.Connection, finishes: Sequence[Finish]) -> None:
    """Log runs that ended, and give their results to their tasks.

    Works by columns: making rows one by one holds Python's global lock for longer than it takes to bind them. The
    driver takes three times as long for a bool as for an int, hence `pos`: +True is 1.
    """
    finishes = sorted(finishes, key=itemgetter(0))
    (
        task, started, ended, outcome, status, output, cursor, last_start, state, hard, attempt, changes, flapping,
        result_at, extra, extra_kind, notable,
    ) = zip(*finishes, strict=True)  # fmt: skip
    claims = sorted(execute_returning(connection, "settle", zip(task, strict=True)))
    if len(claims) != len(finishes):
        ended_claims = {claim[0] for claim in claims}
        without = [number for number in task if number not in ended_claims]
        twice = [number for number, times in Counter(task).items() if times > 1]
        raise ContradictoryBatch(f"a run of task {(without + twice)[0]} ended that has no open claim")
    _, nominal, generation, kind, claimed, accounted = zip(*claims, strict=True)
    given = [state if at == since else -1 for state, at, since in zip(state, result_at, started, strict=True)]
    kept = output
    if any(output):
        kept = tuple(o if n else o[:PLAIN_OUTPUT_LENGTH] for o, n in zip(output, notable, strict=True))
    results = zip(
        task, accounted, started, ended, outcome, output, last_start, state, map(pos, hard), attempt, changes,
        map(pos, flapping), result_at, extra, extra_kind, strict=True,
    )  # fmt: skip
    execute_rows(connection, "update_results", results)
    _log(
        connection,
        EndedRuns(
            task, claimed, ended, nominal, generation, kind, started, outcome, status, given, hard, attempt, kept,
            notable,
        ),
    )  # fmt: skip
    cursors = [(number, new) for number, new in zip(task, cursor, strict=True) if new is not None]
    if cursors:
        execute_rows(connection, "save_cursors", cursors)


def _log(connection: sqlite3.Connection, ended: EndedRuns) -> None:
    for logged in log_records(ended):
        connection.execute(query("log_runs"), logged)


def _submit_all(connection: sqlite3.Connection, submitted: Sequence[SubmittedResult]) -> None:
    _check_known(connection, submitted)
    _log(connection, EndedRuns._make(zip(*map(_ended_run, submitted), strict=True)))
    for some in with_distinct_tasks(submitted):
        connection.executemany(query("update_submitted_results"), map(_result_row, some))
        _update_progress_of_claims(connection, [(s.task, s.accounted, s.extra, s.extra_kind) for s in some])


def _ended_run(s: SubmittedResult) -> Row:
    """The columns of a submitted result in the log of runs."""
    return (
        s.task, s.at, s.ended, s.nominal, s.generation, s.kind, s.started, s.outcome, s.status,
        -1 if s.made is None else s.made, s.hard, s.attempt, s.output if s.notable else s.output[:PLAIN_OUTPUT_LENGTH],
        s.notable,
    )  # fmt: skip


def _result_row(t: SubmittedResult) -> Row:
    """The columns of a submitted result as the latest result of its task."""
    return (
        t.task, t.made is not None, t.started, t.ended, t.outcome, t.output, t.state, +t.hard, t.attempt, t.changes,
        +t.flapping, t.result_at, t.accounted, t.extra, t.extra_kind,
    )  # fmt: skip


def _record_problems(connection: sqlite3.Connection, changes: Sequence[ProblemChange]) -> None:
    present = _present(connection, changes)
    for group in with_distinct_tasks([change for change in changes if change.task in present]):
        rows = [(*change[:6], +change.is_open, change.reason) for change in group]
        for name in ("supersede_problems", "change_problems", "add_problems"):
            execute_rows(connection, name, rows)


def _record_holds(connection: sqlite3.Connection, holds: Sequence[ProblemHold]) -> None:
    present = _present(connection, holds)
    for group in with_distinct_tasks([hold for hold in holds if hold.task in present]):
        execute_rows(connection, "hold_problems", group)


def _present(connection: sqlite3.Connection, changes: Sequence[ProblemChange | ProblemHold]) -> set[int]:
    """Those of the tasks that exist."""
    tasks = as_list([change.task for change in changes])
    return {task for (task,) in connection.execute(query("present_tasks"), (tasks,))}


def _check_known(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    _, known = _open_and_known(connection, rows)
    unknown = [row[0] for row in rows if row[0] not in known]
    if unknown:
        raise ContradictoryBatch(f"there is no task {unknown[0]}")


def _open_and_known(connection: sqlite3.Connection, rows: Iterable[Row]) -> tuple[set[int], set[int]]:
    """Those of the tasks that have an open claim, and those that exist."""
    tasks = as_list([row[0] for row in rows])
    found = connection.execute(query("open_claims"), (tasks,)).fetchall()
    return {task for task, is_open in found if is_open}, {task for task, is_open in found if not is_open}
