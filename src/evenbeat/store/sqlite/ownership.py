"""Ownership of a database: one node at most runs on it, and other processes change it through its control socket.

Two files are locked: one beside the database, which holds the process id of the owner, and the database itself. If the
first is deleted while the owner runs, the owner creates it again; a node that is started meanwhile finds the database
locked.
"""

import errno
import fcntl
import logging
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from evenbeat.model import Invalid
from evenbeat.store.private_files import PRIVATE

_LOCK_WAIT: Final = 0.5
"""Seconds: a process that changes a task, or only asks whether a node is running, has finished by then."""
_MAX_SOCKET_NAME: Final = 80
"""Bytes: a socket address has room for 107, and part of that is for the folder."""


_PROBE_BYTE: Final = 1 << 40
"""A byte of the file that SQLite never locks."""
_locked_files: Final[set[tuple[int, int]]] = set()
"""Databases that this process has locked. Opening such a file here and closing it again would release the locks that
SQLite has on it: they belong to the process."""
_log: Final = logging.getLogger("evenbeat.node")


class DatabaseInUse(Invalid):
    """Another process owns the database."""


def socket_path(database: Path) -> Path:
    """The control socket of the node of a database; its name is short if that of the database is too long."""
    path = _path_beside(database, ".sock")
    name = os.fsencode(path.name)
    if len(name) <= _MAX_SOCKET_NAME:
        return path
    return path.with_name(blake2b(name, digest_size=16).hexdigest() + ".sock")


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """An address for a socket at this path. Addresses are limited to 107 bytes: a long one is reached through the
    descriptor of its folder.
    """
    if len(os.fsencode(path)) <= 100:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def token_path(database: Path) -> Path:
    """The file in which the node of a database keeps the token that it made."""
    return _path_beside(database, ".token")


def cluster_socket_path(boot: str) -> Path:
    """The control socket of a node of a cluster, for processes of the same user on its machine."""
    return runtime_folder() / f"{boot}.sock"


def runtime_folder() -> Path:
    """A folder that only this user can read, and that stays the same until the machine is booted again."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime or tempfile.gettempdir()) / ("evenbeat" if runtime else f"evenbeat-{os.getuid()}")
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)  # a umask may take from the owner too
        about = folder.lstat()
    except OSError as e:
        raise Invalid(f"{folder} cannot be used for sockets and records: {e.strerror}") from None
    if about.st_uid != os.getuid() or about.st_mode & 0o077 or not stat.S_ISDIR(about.st_mode):
        raise Invalid(f"{folder} is not private: remove it, or set XDG_RUNTIME_DIR to a folder that only you can read")
    return folder


def _path_beside(database: Path, suffix: str) -> Path:
    whole = database.resolve()  # all links to a database lead to the same lock and socket
    return whole.with_name(whole.name + suffix)


class DatabaseOwnership:
    """Held as long as the node runs; the system releases it when the process ends, even if the process is killed."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = _path_beside(database, ".lock")
        self._held: tuple[int, tuple[int, int]] | None = None
        """A descriptor of the database, and the identity of that file."""
        self._file = self._open()
        try:
            deadline = time.monotonic() + _LOCK_WAIT
            while not (_try_lock(self._file) and self._is_there()):
                if time.monotonic() > deadline:
                    pid = os.pread(self._file, 32, 0).decode(errors="replace").strip()
                    raise DatabaseInUse(
                        f"a node is already running on {database} (process {pid}); stop it, or use another --db"
                    )
                time.sleep(0.01)
                if not self._is_there():  # the last owner has deleted it
                    os.close(self._file)
                    self._file = self._open()
            self.hold_file(deadline)
        except BaseException:
            os.close(self._file)
            raise
        self._sign()

    def _open(self) -> int:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, PRIVATE)
        except OSError as e:
            if e.errno == errno.ELOOP:
                raise Invalid(f"{self._path} is the lock file of the node, and it is a link: remove it") from None
            raise Invalid(f"{self._path} cannot be written: {e.strerror}") from None
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
            # The file is overwritten: it may be a hard link to another file of this user.
            os.close(file)
            raise Invalid(
                f"{self._path} is the lock file of the node, and it is no regular file, or has other names: remove it"
            )
        with suppress(OSError):  # another user who can open the file can lock it, and no node would start
            os.fchmod(file, PRIVATE)
        return file

    def _is_there(self) -> bool:
        """Whether the locked file is the one at its path, which other processes find."""
        try:
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        except OSError:
            return False

    def _sign(self) -> None:
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def hold_file(self, deadline: float = 0.0) -> None:
        """Lock the database itself too, if it exists; to be called again when it was created."""
        if self._held is not None:
            return
        problem = DatabaseInUse(
            f"a node is already running on {self._database}, though its lock file {self._path} was deleted; "
            "stop it, or use another --db"
        )
        try:
            about = self._database.stat()
            which = about.st_dev, about.st_ino
            if which in _locked_files:
                raise problem
            file = os.open(self._database, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return  # it does not exist, or is not writable, which the store explains better
        while not _try_lock(file):
            if time.monotonic() > deadline:
                os.close(file)
                raise problem
            time.sleep(0.01)
        if _is_emulated_lock(file):
            os.close(file)
            return
        _locked_files.add(which)
        self._held = file, which

    def look(self) -> None:
        """Create the lock file again if it was deleted. The owner calls this about once a second."""
        if self._is_there():
            return
        try:
            new = self._open()
        except Invalid as e:
            _log.error("the lock file is gone: %s", e, extra={"action": "lock_gone"})
            return
        if not _try_lock(new):
            os.close(new)  # locked by a node that will find the database locked, and end
            return
        os.close(self._file)
        self._file = new
        self._sign()
        _log.warning("%s was deleted; the node has created it again", self._path, extra={"action": "lock_made_anew"})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the database: another process may own it. This process must not use it any more."""
        if self._held is not None:
            file, which = self._held
            self._held = None
            _locked_files.discard(which)
            os.close(file)
        os.close(self._file)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_emulated_lock(file: int) -> bool:
    """Whether a lock of the whole file uses the kind of locks that SQLite needs, as on network file systems."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _PROBE_BYTE)
    except OSError:
        return True
    fcntl.lockf(file, fcntl.LOCK_UN, 1, _PROBE_BYTE)
    return False


def is_node_running(database: Path | str) -> bool:
    """Whether a node is running on a database file. A shared database has no owner: ask the store for leases."""
    if isinstance(database, str):
        return False
    path = _path_beside(database, ".lock")
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
