"""Tasks and periods that a file owns: when the file is next applied, what it says replaces every other change."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from evenbeat.model import Entry

OVERWRITTEN: Final = "your change is overwritten when that file is next applied"
_FILE: Final = "file:"


def owner_of(path: Path) -> str:
    """How tasks say that this file created them."""
    return f"{_FILE}{path.resolve()}"


def file_of(owner: str) -> str | None:
    """The file, if the owner is one."""
    return owner.removeprefix(_FILE) if owner.startswith(_FILE) else None


def files_of(entries: Iterable[Entry]) -> list[str]:
    """The files that own some of these tasks."""
    return sorted({file for owner in {entry.owner for entry in entries} if (file := file_of(owner)) is not None})
