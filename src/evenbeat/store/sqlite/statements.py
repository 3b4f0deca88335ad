"""Reads the .sql files: statements by their names, and numbered migrations."""

import re
import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

FOLDER: Final = files(__package__) / "sql"
_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^--.*$", re.MULTILINE)
_ROWS: Final = re.compile(r"\(([^()]*)\)\s+AS\s+\(VALUES :rows\)")
"""The columns that rows of parameters are given for."""


class Migration(NamedTuple):
    """One step from a schema to the next."""

    number: int
    statements: list[str]


@cache
def _queries() -> dict[str, str]:
    _, *parts = _NAME.split((FOLDER / "queries.sql").read_text())
    return {name: _COMMENT.sub("", text).strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def query(name: str) -> str:
    """The text of a statement."""
    return _queries()[name]


@cache
def row_width(name: str) -> int:
    """How many parameters a row of a many-row statement has."""
    columns = _ROWS.search(query(name))
    assert columns is not None
    return columns[1].count(",") + 1


@cache
def query_of_rows(name: str, rows: int) -> str:
    """The text of a many-row statement for so many rows."""
    row = "(" + ", ".join("?" * row_width(name)) + ")"
    return query(name).replace(":rows", ", ".join([row] * rows))


def migrations(folder: Traversable = FOLDER) -> list[Migration]:
    """All of them in order, numbered from 1 without a gap."""
    names = sorted(file.name for file in folder.iterdir() if re.match(r"\d{3}_", file.name))
    assert [int(name[:3]) for name in names] == list(range(1, len(names) + 1)), "migrations are numbered without a gap"
    return [Migration(int(name[:3]), list(_split((folder / name).read_text()))) for name in names]


def _split(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    assert not statement.strip() or statement.lstrip().startswith("--"), "every statement ends with a semicolon"
