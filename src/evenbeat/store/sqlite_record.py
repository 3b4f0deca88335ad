"""A batch in SQL: many rows per statement.

A statement per row takes half as long again, and longer beside a busy scheduler: Python's lock changes hands for each.
"""

import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, TypeVar

import msgspec

from evenbeat.store.contract import PLAIN_OUTPUT, Batch, Claim, Contradiction, Finish, Refusal, Skip, Standing, Told
from evenbeat.store.statements import query, query_of_rows, width

_SIZES: Final = (8, 16, 32, 64, 128, 256, 512)
"""Rows per statement. Each size is prepared once."""

Row = tuple[object, ...]
T = TypeVar("T", Skip, Standing, Told)


def record(connection: sqlite3.Connection, batch: Batch) -> None:
    """Everything in a batch, in the order of the contract; raise Contradiction if it cannot be true."""
    if batch.starts:
        _execute(connection, "start", batch.starts)
    if batch.finishes:
        _finish(connection, batch.finishes)
    for told in _waves(batch.told):
        _tell(connection, told)
    for standings in _waves(batch.standings):
        _expect(connection, "stand", standings)
        _execute(connection, "place_claimed", [row[:4] for row in standings])
    for skips in _waves(batch.skips):
        rows = [row[:7] for row in skips]
        _execute(connection, "skip", rows)
        _execute(connection, "extend_skip", rows)
        places = [(s.task, s.next_nominal, s.extra, s.extra_kind) for s in skips]
        _expect(connection, "place", places)
        _execute(connection, "place_claimed", places)
    if batch.refusals:
        _refuse(connection, batch.refusals)
    if batch.claims:
        _claim(connection, batch.claims)


def _execute(connection: sqlite3.Connection, name: str, rows: Sequence[Row]) -> int:
    """Run a many-row statement; how many rows of the database it changed."""
    before = connection.total_changes
    done = 0
    while done < len(rows):
        size = _size(len(rows) - done)
        some = rows[done : done + size]
        values = list(chain.from_iterable(some))
        values += [0] * ((size - len(some)) * width(name))
        connection.execute(query_of_rows(name, size), values)
        done += len(some)
    return connection.total_changes - before


def _size(rows: int) -> int:
    """Of the next statement for so many rows: all of them, if not many must be filled up; else as many as fill one."""
    i = bisect_left(_SIZES, rows)
    if i == len(_SIZES):
        return _SIZES[-1]
    return _SIZES[i] if i == 0 or _SIZES[i] - rows <= _SIZES[i] // 8 else _SIZES[i - 1]


def _expect(connection: sqlite3.Connection, name: str, rows: Sequence[Row]) -> None:
    if _execute(connection, name, rows) != len(rows):
        _, known = _open_and_known(connection, rows)
        raise Contradiction(f"there is no task {next(row[0] for row in rows if row[0] not in known)}")


def _waves(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    """A statement sees each task once; what there is more of a task comes after it, in a statement of its own."""
    while rows:
        firsts = {row.task: i for i, row in reversed(list(enumerate(rows)))}
        if len(firsts) == len(rows):
            yield rows
            return
        yield [rows[i] for i in sorted(firsts.values())]
        rows = [row for i, row in enumerate(rows) if firsts[row.task] != i]


def _claim(connection: sqlite3.Connection, claims: Sequence[Claim]) -> None:
    try:
        _execute(connection, "claim", [claim[:8] for claim in claims])  # one node alone needs no tokens
    except sqlite3.IntegrityError as e:
        opened, known = _open_and_known(connection, claims)
        tasks = Counter(claim.task for claim in claims)
        unknown = [task for task in tasks if task not in known]
        again = [task for task, times in tasks.items() if task in opened or times > 1]
        if unknown:
            raise Contradiction(f"there is no task {unknown[0]}") from e
        if again:
            raise Contradiction(f"task {again[0]} has an open claim: it must end before the next") from e
        raise


def _refuse(connection: sqlite3.Connection, refusals: Sequence[Refusal]) -> None:
    _must_be_known(connection, refusals)
    _execute(connection, "refuse", refusals)


def _finish(connection: sqlite3.Connection, finishes: Sequence[Finish]) -> None:
    plain = [finish for finish in finishes if not finish.notable]
    notable = [finish for finish in finishes if finish.notable]
    first_plain = _next_id(connection, "plain_runs") if plain else 0
    first_notable = _next_id(connection, "notable_runs") if notable else 0
    history = _execute(connection, "finish_plain", [_run(f, i, PLAIN_OUTPUT) for i, f in enumerate(plain, first_plain)])
    history += _execute(
        connection, "finish_notable", [_run(f, i, len(f.output)) for i, f in enumerate(notable, first_notable)]
    )
    learned = [_lesson(f, i, 0) for i, f in enumerate(plain, first_plain)]
    learned += [_lesson(f, 0, i) for i, f in enumerate(notable, first_notable)]
    _execute(connection, "learn", learned)
    cursors = [(f.task, f.cursor) for f in finishes if f.cursor is not None]
    if cursors:
        _execute(connection, "save_cursor", cursors)
    settled = 0
    if history == len(finishes):
        settled = _execute(connection, "settle", [finish[:1] for finish in finishes])
    if settled != len(finishes):
        opened, _ = _open_and_known(connection, finishes)
        without = [finish.task for finish in finishes if finish.task not in opened]
        raise Contradiction(f"a run of task {without[0]} ended that has no open claim")


def _tell(connection: sqlite3.Connection, told: Sequence[Told]) -> None:
    _must_be_known(connection, told)
    plain = [t for t in told if not t.notable]
    notable = [t for t in told if t.notable]
    first_plain = _next_id(connection, "plain_runs") if plain else 0
    first_notable = _next_id(connection, "notable_runs") if notable else 0
    _execute(connection, "tell_plain", [_told(t, i, PLAIN_OUTPUT) for i, t in enumerate(plain, first_plain)])
    _execute(connection, "tell_notable", [_told(t, i, len(t.output)) for i, t in enumerate(notable, first_notable)])
    lessons = [_lesson_of_told(t, i, 0) for i, t in enumerate(plain, first_plain)]
    lessons += [_lesson_of_told(t, 0, i) for i, t in enumerate(notable, first_notable)]
    connection.executemany(query("learn_told"), lessons)
    _execute(connection, "place_claimed", [(t.task, t.next_nominal, t.extra, t.extra_kind) for t in told])


def _told(t: Told, number: int, most: int) -> Row:
    return (
        t.task, number, t.nominal, t.generation, t.kind, t.at, t.started, t.ended, t.outcome, t.status, t.made, +t.hard,
        t.attempt, t.output[:most],
    )  # fmt: skip


def _lesson_of_told(t: Told, plain: int, notable: int) -> Row:
    return (
        t.task, plain, notable, t.made is not None, t.started, t.ended, t.outcome, t.output, t.state, +t.hard,
        t.attempt, t.changes, +t.flapping, t.result_at, t.next_nominal, t.extra, t.extra_kind,
    )  # fmt: skip


def _run(f: Finish, number: int, most: int) -> Row:
    # The driver takes three times as long for a bool as for an int: +True is 1.
    # Nor does it like None: -1 is nothing.
    state = f.state if f.result_at == f.started else -1
    return (
        f.task, number, f.started, f.ended, f.outcome, f.status, state, +f.hard, f.attempt, f.output[:most],
    )  # fmt: skip


def _lesson(f: Finish, plain: int, notable: int) -> Row:
    return (
        f.task, plain, notable, f.started, f.ended, f.outcome, f.output, f.last_start, f.state, +f.hard, f.attempt,
        f.changes, +f.flapping, f.result_at, f.extra, f.extra_kind,
    )  # fmt: skip


def _next_id(connection: sqlite3.Connection, table: str) -> int:
    (last,) = connection.execute(query("last_number"), (table,)).fetchone()
    return int(last) + 1


def _must_be_known(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    _, known = _open_and_known(connection, rows)
    unknown = [row[0] for row in rows if row[0] not in known]
    if unknown:
        raise Contradiction(f"there is no task {unknown[0]}")


def _open_and_known(connection: sqlite3.Connection, rows: Iterable[Row]) -> tuple[set[int], set[int]]:
    """Which tasks of these have an open claim, and which are known at all."""
    tasks = msgspec.json.encode([row[0] for row in rows]).decode()
    found = connection.execute(query("open_claims"), (tasks,)).fetchall()
    return {task for task, is_open in found if is_open}, {task for task, is_open in found if not is_open}
