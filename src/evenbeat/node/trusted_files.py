"""Can somebody else change what a file says? It, and every folder and link on the way to it, is ours or root's, and
nobody else may write there.
"""

import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from evenbeat.model import Invalid

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS: Final = 40
"""As many as the kernel follows."""


def must_be_trusted(path: Path) -> None:
    """Raise Invalid with what to type if anybody but root and the user of this process could change the file."""
    for found, status in _steps(path):
        if said := _danger(found, status):
            raise Invalid(f'{path}: with commands = "files" nobody else may be able to change the file, but {said}')


def _danger(found: Path, status: os.stat_result) -> str:
    quoted = shlex.quote(str(found))
    if status.st_uid not in (0, os.geteuid()):
        chown = f"`chown {'-h ' if stat.S_ISLNK(status.st_mode) else ''}{_name(os.geteuid())} {quoted}`"
        return f"{found} belongs to {_name(status.st_uid)}; type {chown}, or use another place"
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & _OTHERS_WRITE:
        return ""
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return ""  # there nobody renames or deletes what is not theirs, and what comes next on the way is looked at
    return f"others may write to {found}; type `chmod go-w {quoted}`"


def _steps(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything on the way to a file, links and what they lead to included."""
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
            return  # reading it tells better what is wrong
        yield at / part, status
        if not stat.S_ISLNK(status.st_mode):
            at = at / part
            continue
        links += 1
        if links > _MOST_LINKS:
            return
        target = (at / part).readlink()
        if target.is_absolute():
            at = Path("/")
        left += reversed([step for step in target.parts if step != "/"])


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
