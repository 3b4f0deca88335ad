"""Creates files that only their owner can read, whatever the umask is, and makes existing files private.

Neither function opens the file to read it, so the POSIX locks of this process's SQLite connections stay: see
`sqlite.connect`.
"""

import errno
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_CANNOT_MAKE_NODES: Final = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of a file system without `mknod`, such as FAT."""
_log: Final = logging.getLogger("evenbeat.store")


def create_private(path: Path) -> None:
    """Create an empty file; raise FileExistsError if it exists, OSError if it cannot be created."""
    try:
        os.mknod(path, stat.S_IFREG | PRIVATE)
    except OSError as e:
        if e.errno not in _CANNOT_MAKE_NODES:
            raise
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE))
    if stat.S_IMODE(path.lstat().st_mode) != PRIVATE:  # a umask may take from the owner too
        path.chmod(PRIVATE)


def make_private(path: Path) -> None:
    """Remove the permissions of group and others from a file, if it exists; log an error if it is another user's."""
    try:
        # O_PATH does not open the file: the descriptor only names it, and no other file can take its place meanwhile.
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        about = os.fstat(file)
        mode = stat.S_IMODE(about.st_mode)
        if not mode & _OTHERS or not stat.S_ISREG(about.st_mode):
            return
        fields = {"action": "file_mode", "file": path, "mode": f"{mode:04o}"}
        if about.st_uid == os.geteuid():
            with suppress(OSError):
                os.chmod(f"/proc/self/fd/{file}", mode & ~_OTHERS)  # noqa: PTH101 - a Path would be longer
                _log.warning(
                    "other users could open %s (mode %04o); their permissions were removed", path, mode, extra=fields
                )
                return
        _log.error(
            "other users can open %s (mode %04o), and only its owner can change that: the owner should run "
            "`chmod go-rwx %s`",
            *(path, mode, path),
            extra=fields,
        )
    finally:
        os.close(file)
