"""Executes statements that take many rows at once."""

import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from evenbeat.store.sqlite.statements import query_of_rows, row_width

_SIZES: Final = (8, 16, 32, 64, 128, 256, 512, 1024)
"""Rows per statement. The statement of each size is prepared once."""


def execute_rows(connection: sqlite3.Connection, name: str, rows: Iterable[tuple[object, ...]]) -> int:
    """Execute a many-row statement; return how many rows of the database it changed."""
    before = connection.total_changes
    for _ in _executed(connection, name, rows):
        pass
    return connection.total_changes - before


def execute_returning(
    connection: sqlite3.Connection, name: str, rows: Iterable[tuple[object, ...]]
) -> list[tuple[Any, ...]]:
    """Execute a many-row statement; return all the rows that it returns."""
    return [row for cursor in _executed(connection, name, rows) for row in cursor.fetchall()]


def _executed(
    connection: sqlite3.Connection, name: str, rows: Iterable[tuple[object, ...]]
) -> Iterator[sqlite3.Cursor]:
    values = list(chain.from_iterable(rows))
    per_row = row_width(name)
    done = 0
    while done < len(values):
        size = _size((len(values) - done) // per_row)
        some = values[done : done + size * per_row]
        done += len(some)
        some += [0] * (size * per_row - len(some))
        yield connection.execute(query_of_rows(name, size), some)


def _size(rows: int) -> int:
    """The size of the next statement: room for all rows if few places stay empty, else a size that the rows fill."""
    i = bisect_left(_SIZES, rows)
    if i == len(_SIZES):
        return _SIZES[-1]
    return _SIZES[i] if i == 0 or _SIZES[i] - rows <= _SIZES[i] // 8 else _SIZES[i - 1]
