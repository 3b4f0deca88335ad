"""Who owns a database: the one node that lives on it. Others reach it through its control socket."""

import fcntl
import os
import stat
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from evenbeat.model import Invalid

_PATIENCE: Final = 0.5
"""Seconds: somebody who changes a task, or only asks whether a node lives, is gone by then."""
_LONGEST_NAME: Final = 80
"""Bytes: an address has room for 107, and some of it is for the directory."""


class Owned(Invalid):
    """Somebody else owns the database."""


def socket_path(database: Path) -> Path:
    """Where the node of a database listens; by another name where the database's is too long for a socket's."""
    path = _beside(database, ".sock")
    name = os.fsencode(path.name)
    if len(name) <= _LONGEST_NAME:
        return path
    return path.with_name(blake2b(name, digest_size=16).hexdigest() + ".sock")


def cluster_socket(boot: str) -> Path:
    """Where a node of a cluster listens, for those of its own user on its machine."""
    return runtime_folder() / f"{boot}.sock"


def runtime_folder() -> Path:
    """A folder of this user alone that is the same until the machine is booted again."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime or tempfile.gettempdir()) / ("evenbeat" if runtime else f"evenbeat-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
    except OSError as e:
        raise Invalid(f"{folder} cannot be used for sockets and records: {e.strerror}") from None
    if about.st_uid != os.getuid() or about.st_mode & 0o077 or not stat.S_ISDIR(about.st_mode):
        raise Invalid(f"{folder} is not ours alone: remove it, or set XDG_RUNTIME_DIR to a folder of yours")
    return folder


def _beside(database: Path, suffix: str) -> Path:
    whole = database.resolve()  # all links to a database lead to the same lock and socket
    return whole.with_name(whole.name + suffix)


class Ownership:
    """Held as long as the node lives; the system lets go of it when the process ends, however it ends."""

    def __init__(self, database: Path) -> None:
        self._path = _beside(database, ".lock")
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as e:
            raise Invalid(f"{self._path} cannot be written: {e.strerror}") from None
        deadline = time.monotonic() + _PATIENCE
        while not self._lock():
            if time.monotonic() > deadline:
                pid = os.pread(self._file, 32, 0).decode(errors="replace").strip()
                os.close(self._file)
                raise Owned(f"a node lives on {database} already (process {pid}); stop it, or use another --db")
            time.sleep(0.01)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Somebody else may own it."""
        os.close(self._file)


def is_owned(database: Path | str) -> bool:
    """Does a node live on it? Of a database that several share nobody is the owner: ask the store for leases."""
    if isinstance(database, str):
        return False
    path = _beside(database, ".lock")
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(file)
