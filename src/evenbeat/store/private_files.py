"""Files that only their owner can read: created so whatever the umask says, and made so if they are not.

Neither function reads the file, so the POSIX locks of SQLite connections of this process stay: see `sqlite_open`.
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
"""Of a file system without `mknod`, such as FAT."""
_log: Final = logging.getLogger("evenbeat.store")


def create_private(path: Path) -> None:
    """Create an empty file; raise FileExistsError if there is one, OSError if there cannot be one."""
    try:
        os.mknod(path, stat.S_IFREG | PRIVATE)
    except OSError as e:
        if e.errno not in _CANNOT_MAKE_NODES:
            raise
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE))
    if stat.S_IMODE(path.lstat().st_mode) != PRIVATE:  # a umask may take from the owner too
        path.chmod(PRIVATE)


def make_private(path: Path) -> None:
    """Take from group and others what they may do with a file, if there is one; a file of another user is named."""
    try:
        # Not opened: a descriptor of this kind only names the file, which nobody can replace by another meanwhile.
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        about = os.fstat(file)
        mode = stat.S_IMODE(about.st_mode)
        if not mode & _OTHERS or not stat.S_ISREG(about.st_mode):
            return
        told = {"action": "file_mode", "file": path, "mode": f"{mode:04o}"}
        if about.st_uid == os.geteuid():
            with suppress(OSError):
                os.chmod(f"/proc/self/fd/{file}", mode & ~_OTHERS)  # noqa: PTH101 - a Path would be longer
                _log.warning("other users could open %s (mode %04o); from now on they cannot", path, mode, extra=told)
                return
        _log.error(
            "other users can open %s (mode %04o), and it is not ours to change: its owner should type "
            "`chmod go-rwx %s`",
            *(path, mode, path),
            extra=told,
        )
    finally:
        os.close(file)
