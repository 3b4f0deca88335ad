"""Reads the log of runs in a database, for oracles: shares no code with evenbeat."""

import sqlite3
import zlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec

_ROWS, _COLUMNS, _COMPRESSED_ROWS = 10, 11, 12
_HEADER: Final = 5
_COLUMNS_OF_RUNS: Final = (
    "task, claimed, ended, nominal, generation, kind, started, outcome, status, state, hard, attempt, output"
)


def show_logged_runs(connection: sqlite3.Connection) -> None:
    """From now on `plain_runs` and `notable_runs` have the runs in the log too, for this connection.

    Runs that are packed are not in them.
    """
    runs = [run for (body,) in connection.execute("SELECT body FROM run_log ORDER BY id") for run in _runs(body)]
    for table, is_notable in (("plain_runs", False), ("notable_runs", True)):
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT {_COLUMNS_OF_RUNS} FROM main.{table}")
        rows = [run[:-1] for run in runs if run[-1] == is_notable]
        connection.executemany(f"INSERT INTO temp.{table} VALUES ({', '.join('?' * 13)})", rows)


def _runs(body: bytes) -> Iterator[tuple[Any, ...]]:
    data = body[_HEADER:]
    assert zlib.crc32(data) == int.from_bytes(body[1:_HEADER], "little")
    assert body[0] in (_ROWS, _COLUMNS, _COMPRESSED_ROWS)
    decoded = msgspec.msgpack.decode(data if body[0] == _ROWS else zlib.decompress(data))
    for run in _rows_of_columns(*decoded) if body[0] == _COLUMNS else decoded:
        task, nominal, claimed, started, ended, generation, kind, outcome, status, state, *rest = run
        claimed += nominal
        started += claimed
        times = claimed, started + ended, nominal, generation, kind, started
        yield task, *times, outcome, status, None if state == -1 else state, *rest


def _rows_of_columns(
    runs: int,
    first_task: int,
    described: list[tuple[int, int]],
    endings: list[list[Any]],
    masks: list[bytes],
    texts: list[str],
    planes: bytes,
) -> Iterator[list[Any]]:
    columns, at = [], 0
    for i, (low, width) in enumerate(described):
        count = runs - 1 if i == 0 else runs
        values = [low] * count
        for byte in range(width):
            for row in range(count):
                values[row] += planes[at + row] << 8 * byte
            at += count
        columns.append(values)
    steps, nominal, claimed, started, ended, ending, which = columns
    digits = []
    for i, mask in enumerate(masks):
        count, length = which.count(i), mask.count(b"0")
        digits.append([planes[at + text : at + count * length : count] for text in range(count)])
        at += count * length
    task = first_task
    for row in range(runs):
        task += steps[row - 1] if row else 0
        outcome, status, state, hard, kind, notable, generation, attempt = endings[ending[row]]
        output = texts[row] if texts else ""
        if masks:
            of_text = iter(digits[which[row]].pop(0))
            output = bytes(next(of_text) if c == ord("0") else c for c in masks[which[row]]).decode()
        yield [
            *(task, nominal[row], claimed[row], started[row], ended[row], generation, kind, outcome, status, state),
            *(hard, attempt, output, notable),
        ]  # fmt: skip
