"""Who controls what a path leads to: everybody who can change the file, or a folder or link on the way to it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MAX_LINKS: Final = 40
"""As many as the kernel follows."""


def only_we_decide(path: Path) -> bool:
    """Do only root and the user of this process control what the path leads to?"""
    trusted = (0, os.geteuid())
    return all(status.st_uid in trusted and not others_may_write(status) for _, status in path_steps(path))


def others_may_write(status: os.stat_result) -> bool:
    """May the group or others change a step of a path?"""
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & _OTHERS_WRITE:
        return False
    # With the sticky bit nobody renames or deletes what is not theirs, and what comes next on the way is looked at.
    return not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)


def path_steps(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every step on the way to a file, including links and what they lead to."""
    at, links = Path("/"), 0
    yield at, at.lstat()
    # A link is a step, so nothing is resolved before; and `..` after a link leads to where the link does.
    left = list(reversed((Path.cwd() / path).parts[1:]))
    while left:
        part = left.pop()
        if part == "..":
            at = at.parent
            continue
        try:
            status = (at / part).lstat()
        except OSError:
            return  # reading the file gives a better message
        yield at / part, status
        if not stat.S_ISLNK(status.st_mode):
            at = at / part
            continue
        links += 1
        if links > _MAX_LINKS:
            return
        target = (at / part).readlink()
        if target.is_absolute():
            at = Path("/")
        left += reversed([step for step in target.parts if step != "/"])
