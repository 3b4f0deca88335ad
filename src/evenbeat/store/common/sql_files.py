"""Reads the .sql files of a store: statements by their names, and numbered migrations."""

import re
from collections.abc import Mapping
from functools import cached_property
from importlib.resources.abc import Traversable
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^--.*$", re.MULTILINE)
_MIGRATION: Final = re.compile(r"\d{3}_")


class SqlFiles:
    """The statements of `queries.sql` in a folder, and the migrations beside it."""

    def __init__(self, folder: Traversable, constants: Mapping[str, object] | None = None) -> None:
        """`constants` are placeholders of statements, and the values that replace them everywhere."""
        self._folder = folder
        self._constants = constants or {}

    @cached_property
    def _queries(self) -> dict[str, str]:
        _, *parts = _NAME.split((self._folder / "queries.sql").read_text())
        return {name: self._statement(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}

    def _statement(self, text: str) -> str:
        text = _COMMENT.sub("", text).strip().removesuffix(";")
        for placeholder, value in self._constants.items():
            text = text.replace(placeholder, str(value))
        return text

    def query(self, name: str) -> str:
        """The text of a statement."""
        return self._queries[name]

    def fill_in(self, name: str, placeholder: str, text: str) -> str:
        """The text of a statement with a part of our own filled in: a condition, or the name of a table."""
        return self._queries[name].replace(placeholder, text)


def migration_scripts(folder: Traversable) -> list[str]:
    """All migrations of a folder in order; they are numbered from 1 without a gap."""
    names = sorted(file.name for file in folder.iterdir() if _MIGRATION.match(file.name))
    assert [int(name[:3]) for name in names] == list(range(1, len(names) + 1)), "migrations are numbered without a gap"
    return [(folder / name).read_text() for name in names]
