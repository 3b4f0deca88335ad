"""Notices that files of a node have changed, for a node that reads them again then, as cron does with a crontab."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class FileState(NamedTuple):
    """What shows that a file has changed; a file that is not there has zeros."""

    changed_at: int = 0
    size: int = 0
    inode: int = 0


def file_states(files: Iterable[Path]) -> tuple[FileState, ...]:
    """The states of files."""
    found = []
    for file in files:
        try:
            status = os.stat(file)  # noqa: PTH116 - also of a path that is none
        except (OSError, ValueError):
            found.append(FileState())
        else:
            found.append(FileState(status.st_ctime_ns, status.st_size, status.st_ino))
    return tuple(found)


class FollowedFiles:
    """Files that are looked at every second."""

    def __init__(self, files: tuple[Path, ...], states: tuple[FileState, ...]) -> None:
        self._files = files
        self._read = states
        self._seen = states

    def have_changed(self) -> bool:
        """Have they changed since they were read, and are at rest since the last look?"""
        before, self._seen = self._seen, file_states(self._files)
        if self._seen == self._read or self._seen != before:
            return False
        self._read = self._seen
        return True
