"""Tasks and periods that a file owns: when the file is next applied, what it says replaces every other change."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from evenbeat.model import Entry

OVERWRITTEN: Final = "your change is overwritten when that file is next applied"
_FILE: Final = "file:"
_UPLOAD: Final = "upload:"


def owner_of(path: Path) -> str:
    """How tasks say that this file created them."""
    return f"{_FILE}{path.resolve()}"


def uploader_of(path: Path) -> str:
    """How tasks say that this file, read elsewhere and sent over HTTP, created them: no node can read it again."""
    return f"{_UPLOAD}{path.resolve()}"


def is_file(owner: str) -> bool:
    """Does the owner stand for a file that a node reads itself?"""
    return owner.startswith(_FILE)


def file_of(owner: str) -> str | None:
    """The file, if the owner is one, on this machine or where it was sent from."""
    return next((owner.removeprefix(of) for of in (_FILE, _UPLOAD) if owner.startswith(of)), None)


def files_of(entries: Iterable[Entry]) -> list[str]:
    """The files that own some of these tasks."""
    return sorted({file for owner in {entry.owner for entry in entries} if (file := file_of(owner)) is not None})
