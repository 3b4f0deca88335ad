"""Records a batch in SQLite: many rows per statement.

One statement per row takes half as long again, and longer beside a busy scheduler: Python's global lock changes hands
for each statement.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import itemgetter, pos
from typing import Literal

from evenbeat.store.common.batch_rows import with_distinct_tasks
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
from evenbeat.store.sqlite.many_rows import execute_rows
from evenbeat.store.sqlite.statements import as_list, query

Row = tuple[object, ...]


def record(connection: sqlite3.Connection, batch: Batch) -> WithdrawnTasks:
    """Record a batch in the order of the contract; raise ContradictoryBatch if it contradicts the database."""
    withdrawn = NONE_WITHDRAWN
    if batch.starts:
        execute_rows(connection, "start", batch.starts)
    if batch.finishes or batch.cursors:
        _finish_all(connection, batch)
    for submitted in with_distinct_tasks(batch.told):
        _submit(connection, submitted)
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
    finishes = sorted(finishes, key=itemgetter(0))
    notable = [finish for finish in finishes if finish.notable]
    plain = [finish for finish in finishes if not finish.notable] if notable else finishes
    history = _add_runs(connection, plain, "plain") + _add_runs(connection, notable, "notable")
    cursors = [(f.task, f.cursor) for f in finishes if f.cursor is not None]
    if cursors:
        execute_rows(connection, "save_cursors", cursors)
    settled = 0
    if history == len(finishes):
        settled = execute_rows(connection, "settle", [finish[:1] for finish in finishes])
    if settled != len(finishes):
        opened, _ = _open_and_known(connection, finishes)
        without = [finish.task for finish in finishes if finish.task not in opened]
        raise ContradictoryBatch(f"a run of task {without[0]} ended that has no open claim")


def _add_runs(connection: sqlite3.Connection, finishes: Sequence[Finish], kind: Literal["plain", "notable"]) -> int:
    """Add runs that ended to their history, and their results to the tasks; return how many had a claim.

    Works by columns: making rows one by one holds Python's global lock for longer than it takes to bind them. The
    driver takes three times as long for a bool as for an int, hence `pos`: +True is 1. It is slow with None too:
    state -1 means no state.
    """
    if not finishes:
        return 0
    (
        task, started, ended, outcome, status, output, _, last_start, state, hard, attempt, changes, flapping,
        result_at, extra, extra_kind, _,
    ) = zip(*finishes, strict=True)  # fmt: skip
    first = _next_id(connection, f"{kind}_runs")
    ids = range(first, first + len(finishes))
    hard = tuple(map(pos, hard))
    given = [state if at == since else -1 for state, at, since in zip(state, result_at, started, strict=True)]
    kept = [text[:PLAIN_OUTPUT_LENGTH] for text in output] if kind == "plain" else output
    runs = zip(task, ids, started, ended, outcome, status, given, hard, attempt, kept, strict=True)
    history = execute_rows(connection, f"finish_{kind}", runs)
    newest = (ids, repeat(0)) if kind == "plain" else (repeat(0), ids)
    results = zip(
        task, *newest, started, ended, outcome, output, last_start, state, hard, attempt, changes, map(pos, flapping),
        result_at, extra, extra_kind, strict=False,
    )  # fmt: skip
    execute_rows(connection, "update_results", results)
    return history


def _submit(connection: sqlite3.Connection, submitted: Sequence[SubmittedResult]) -> None:
    _check_known(connection, submitted)
    plain = [s for s in submitted if not s.notable]
    notable = [s for s in submitted if s.notable]
    first_plain = _next_id(connection, "plain_runs") if plain else 0
    first_notable = _next_id(connection, "notable_runs") if notable else 0
    execute_rows(
        connection, "submit_plain", [_run_row(s, i, PLAIN_OUTPUT_LENGTH) for i, s in enumerate(plain, first_plain)]
    )
    execute_rows(
        connection, "submit_notable", [_run_row(s, i, len(s.output)) for i, s in enumerate(notable, first_notable)]
    )
    results = [_result_row(s, i, 0) for i, s in enumerate(plain, first_plain)]
    results += [_result_row(s, 0, i) for i, s in enumerate(notable, first_notable)]
    connection.executemany(query("update_submitted_results"), results)
    _update_progress_of_claims(connection, [(s.task, s.accounted, s.extra, s.extra_kind) for s in submitted])


def _run_row(t: SubmittedResult, number: int, most: int) -> Row:
    """The columns of a submitted result in the history of runs."""
    return (
        t.task, number, t.nominal, t.generation, t.kind, t.at, t.started, t.ended, t.outcome, t.status, t.made, +t.hard,
        t.attempt, t.output[:most],
    )  # fmt: skip


def _result_row(t: SubmittedResult, plain: int, notable: int) -> Row:
    """The columns of a submitted result as the latest result of its task."""
    return (
        t.task, plain, notable, t.made is not None, t.started, t.ended, t.outcome, t.output, t.state, +t.hard,
        t.attempt, t.changes, +t.flapping, t.result_at, t.accounted, t.extra, t.extra_kind,
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


def _next_id(connection: sqlite3.Connection, table: str) -> int:
    (last,) = connection.execute(query("last_number"), (table,)).fetchone()
    return int(last) + 1


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
