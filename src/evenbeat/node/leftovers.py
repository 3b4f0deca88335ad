"""What the last node of a database may have left behind: a worker that hangs, and runs whose worker died with the node.

They end before anything of the new node begins: a run that is taken for lost must not go on beside the one that makes
up for it. What a run has put into a session of its own wanted to stay, and stays.
"""

import logging
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_WORKER: Final = b"evenbeat.work.runner"
_MARK: Final = b"EVENBEAT_WORKER="
"""In the environment of every run: the process and the database of its worker, see `work.spawn`."""
_log: Final = logging.getLogger("evenbeat.node")


def end_leftovers(database: Path) -> None:
    """Only for the owner of the database, before it has workers: then all that are its workers' are leftovers."""
    ended: set[int] = set()
    while left := _members(_sessions(os.fsencode(database.resolve()))):
        for process in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if left <= ended:
            time.sleep(0.005)
        ended |= left
    if ended:
        _log.warning("%d processes of the last node were still there", len(ended), extra={"action": "leftovers"})


def _sessions(database: bytes) -> set[int]:
    """Each worker leads a session; it is known by the worker itself, or by a run that is still in it."""
    found = set()
    for process in _processes():
        with suppress(OSError):
            command = _read(process, "cmdline").split(b"\0")
            if _WORKER in command and database in command:
                found.add(process)
            for variable in _read(process, "environ").split(b"\0"):
                worker, _, of = variable.removeprefix(_MARK).partition(b" ")
                if variable.startswith(_MARK) and of == database and worker.isdigit():
                    found.add(int(worker))
    return found - {os.getsid(0)}


def _members(sessions: set[int]) -> set[int]:
    """Processes of these sessions that have not ended; one that nobody has reaped yet has."""
    found = set()
    for process in _processes() if sessions else []:
        with suppress(OSError):
            if os.getsid(process) in sessions and not _read(process, "stat").rpartition(b")")[2].startswith(b" Z"):
                found.add(process)
    return found


def _processes() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _read(process: int, what: str) -> bytes:
    return Path(f"/proc/{process}/{what}").read_bytes()
