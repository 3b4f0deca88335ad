"""Owners that are files: the next time the file is applied, it replaces other changes of its tasks and periods."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from evenbeat.model import Entry

OVERWRITTEN_NOTICE: Final = "your change is overwritten when that file is next applied"
_FILE_PREFIX: Final = "file:"
_UPLOAD_PREFIX: Final = "upload:"


def file_owner_of(path: Path) -> str:
    """The owner of tasks that this file created."""
    return f"{_FILE_PREFIX}{path.resolve()}"


def upload_owner_of(path: Path) -> str:
    """The owner of tasks from a file that was read elsewhere and sent over HTTP: no node can read it again."""
    return f"{_UPLOAD_PREFIX}{path.resolve()}"


def is_file_owner(owner: str) -> bool:
    """Is the owner a file that a node reads itself?"""
    return owner.startswith(_FILE_PREFIX)


def file_of_owner(owner: str) -> str | None:
    """The file, if the owner is one, on this machine or where it was sent from."""
    return next((owner.removeprefix(of) for of in (_FILE_PREFIX, _UPLOAD_PREFIX) if owner.startswith(of)), None)


def owning_files(entries: Iterable[Entry]) -> list[str]:
    """The files that own some of these tasks."""
    return sorted({file for owner in {entry.owner for entry in entries} if (file := file_of_owner(owner)) is not None})
