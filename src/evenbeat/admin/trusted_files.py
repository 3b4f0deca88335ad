"""Can another user change a file? The file, and every folder and link on the way to it, must belong to us or root, and
no other user may have write permission.
"""

import os
import pwd
import shlex
import stat
from pathlib import Path

from evenbeat.model import Invalid
from evenbeat.path_trust import others_may_write, path_steps


def check_trusted_file(path: Path) -> None:
    """Raise Invalid, with the command to fix it, if a user other than root and our own could change the file."""
    for found, status in path_steps(path):
        if problem := _why_untrusted(found, status):
            raise Invalid(f'{path}: with commands = "files" nobody else may be able to change the file, but {problem}')


def _why_untrusted(found: Path, status: os.stat_result) -> str:
    quoted = shlex.quote(str(found))
    if status.st_uid not in (0, os.geteuid()):
        chown = f"`chown {'-h ' if stat.S_ISLNK(status.st_mode) else ''}{_user_name(os.geteuid())} {quoted}`"
        return f"{found} belongs to {_user_name(status.st_uid)}; type {chown}, or use another place"
    if not others_may_write(status):
        return ""
    return f"others may write to {found}; type `chmod go-w {quoted}`"


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
