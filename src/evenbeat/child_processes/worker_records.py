"""A file with the worker processes of a supervisor: its successor ends what they have left.

Workers and their runs end with their supervisor, unless all of them are killed at once. A successor trusts only what
was recorded: process id and start time of each worker process, the boot they belong to, and a secret that they pass on
to all processes that they start.
"""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from evenbeat.child_processes.process_table import SessionLeader, process_info

_BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
WORKER_VARIABLE: Final = "EVENBEAT_WORKER"
"""Environment variable of every worker and all of its runs: the secret of its supervisor."""
_MAX_FILE_SIZE: Final = 1 << 20
"""Bytes of a file that are read."""


class WorkerRecord(NamedTuple):
    """The content of a file."""

    secret: bytes
    supervisor: SessionLeader
    workers: list[SessionLeader]

    @property
    def is_supervised(self) -> bool:
        """Does the supervisor live? Then it takes care of its workers itself."""
        now = process_info(self.supervisor.pid)
        return now is not None and now.is_alive and now.started == self.supervisor.started


class WorkerRecordFile:
    """The file of this supervisor. It exists from before its first worker until nothing of its workers is left."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.secret: Final = secrets.token_hex(16)
        me = process_info(os.getpid())
        assert me is not None
        self.supervisor = SessionLeader(me.pid, me.started)
        self._workers: dict[int, SessionLeader] = {}

    def begin(self) -> None:
        """Call it before there is any worker: should the disk be full later, the secret is recorded."""
        self._write()

    def end(self) -> None:
        """The supervisor ends. The file stays if a worker was not removed, as that may have left something."""
        if not self._workers:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def add(self, worker: SessionLeader) -> None:
        """Call it before the worker is given anything to run."""
        self._workers[worker.pid] = worker
        self._write()

    def remove(self, worker: SessionLeader) -> None:
        """The worker has ended, and nothing that it started is left."""
        if self._workers.pop(worker.pid, None) is not None:
            self._write()

    def _write(self) -> None:
        """Nothing needs it to run: on a full disk, `processes_left_behind` finds unrecorded workers by the secret."""
        part = self._path.with_name(f"{self._path.name}.part")
        leaders = (self.supervisor, *self._workers.values())
        lines = [_boot_id(), self.secret, *(f"{leader.pid} {leader.started}" for leader in leaders)]
        with suppress(OSError):
            part.unlink(missing_ok=True)
            file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as records:
                os.fchmod(file, 0o600)  # a umask may take from the owner too
                records.write("\n".join([*lines, ""]))
            part.replace(self._path)


def read_worker_record(path: Path) -> WorkerRecord | None:
    """What another supervisor has recorded; None if it is of another boot, or if another user could have written it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(file)
        if about.st_uid != os.geteuid() or about.st_mode & 0o022 or not stat.S_ISREG(about.st_mode):
            return None
        boot, secret, *lines = os.read(file, _MAX_FILE_SIZE).decode().splitlines()
        supervisor, *workers = [SessionLeader(*map(int, line.split())) for line in lines]
    except (OSError, ValueError, TypeError):
        return None
    finally:
        os.close(file)
    return WorkerRecord(secret.encode(), supervisor, workers) if boot == _boot_id() and secret else None


def _boot_id() -> str:
    with suppress(OSError):
        return _BOOT_ID_FILE.read_text().strip()
    return ""
