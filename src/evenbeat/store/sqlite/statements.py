"""The SQL of the SQLite store: statements by their names, statements for many rows, and migrations."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

import msgspec

from evenbeat.store.common.sql_files import SqlFiles, migration_scripts

FOLDER: Final = files(__package__) / "sql"
_ROWS: Final = re.compile(r"\(([^()]*)\)\s+AS\s+\(VALUES :rows\)")
"""The columns of the rows that a many-row statement takes as parameters."""

_sql: Final = SqlFiles(FOLDER)
query: Final = _sql.query
fill_in: Final = _sql.fill_in


class Migration(NamedTuple):
    """One step from a schema to the next."""

    number: int
    statements: list[str]


@cache
def row_width(name: str) -> int:
    """How many parameters a row of a many-row statement has."""
    columns = _ROWS.search(query(name))
    assert columns is not None
    return columns[1].count(",") + 1


@cache
def query_of_rows(name: str, rows: int) -> str:
    """The text of a many-row statement for this number of rows."""
    row = "(" + ", ".join("?" * row_width(name)) + ")"
    return fill_in(name, ":rows", ", ".join([row] * rows))


def as_list(values: Sequence[object]) -> str:
    """Many values as one parameter: a JSON array, which statements read with `json_each`."""
    return msgspec.json.encode(list(values)).decode()


def migrations(folder: Traversable = FOLDER) -> list[Migration]:
    """All of them in order."""
    return [Migration(number, list(_split(script))) for number, script in enumerate(migration_scripts(folder), 1)]


def _split(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    assert not statement.strip() or statement.lstrip().startswith("--"), "every statement ends with a semicolon"
