"""Reads the .sql files of the PostgreSQL store: statements by their names, and numbered migrations."""

import re
from functools import cache
from importlib.resources import files
from typing import Final

from evenbeat.store.contract import PLAIN_OUTPUT_LENGTH

_FOLDER: Final = files(__package__) / "sql"
_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^--.*$", re.MULTILINE)


@cache
def _queries() -> dict[str, str]:
    _, *parts = _NAME.split((_FOLDER / "queries.sql").read_text())
    return {
        name: _COMMENT.sub("", text).strip().removesuffix(";").replace(":plain_output", str(PLAIN_OUTPUT_LENGTH))
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def query(name: str) -> str:
    """The text of a statement."""
    return _queries()[name]


def fill_in(name: str, hole: str, text: str) -> str:
    """The same with a part filled in that is ours as well: a condition, the name of a table."""
    return _queries()[name].replace(hole, text)


@cache
def migrations() -> list[str]:
    """All scripts in order, numbered from 1 without a gap."""
    names = sorted(file.name for file in _FOLDER.iterdir() if re.match(r"\d{3}_", file.name))
    assert [int(name[:3]) for name in names] == list(range(1, len(names) + 1)), "migrations are numbered without a gap"
    return [(_FOLDER / name).read_text() for name in names]
