"""What a supervisor that is gone has left behind: workers that hang, and runs whose worker was killed with it.

They end before anything new begins: a run that is taken for lost must not go on beside the one that makes up for it.
"""

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from evenbeat.child_processes.records import read_records
from evenbeat.child_processes.table import Leader, Process, end_sessions, processes

_MARK: Final = b"EVENBEAT_WORKER="
"""In the environment of every run: the process of its worker and whom it belongs to, see `work.spawn`."""
_PATIENCE: Final = 30.0
"""Seconds for what was killed to end. The kernel waits for a disk or a file server that does not answer."""
_log: Final = logging.getLogger("evenbeat.node")


def end_leftovers(records: Iterable[Path], owner: str) -> None:
    """End what the workers recorded in these files have left, unless their supervisor lives; then forget the files.

    And what workers of this owner have left that are not recorded, as the disk was full.
    """
    abandoned: dict[Path, list[Leader]] = {}
    for path in records:
        recorded = read_records(path)
        if recorded is None or not recorded.is_supervised:
            abandoned[path] = recorded.workers if recorded is not None else []
    recorded_workers = [worker for workers in abandoned.values() for worker in workers]
    ended, left = end_sessions([*recorded_workers, *_unrecorded(os.fsencode(owner))], patience=_PATIENCE)
    if ended:
        _log.warning("%d processes were left behind and are ended", len(ended), extra={"action": "leftovers"})
    if left:
        _log.error("these processes do not end: %s", sorted(left), extra={"action": "leftovers"})
    for path in abandoned:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _unrecorded(owner: bytes) -> set[Leader]:
    """Sessions of dead workers, by what their runs say of themselves.

    An environment is only words. It is believed of processes of our own user, about the session they are in, and if
    who led that session is gone.
    """
    table = processes()
    found = set()
    for one in table.values():
        if one.session in table or not one.is_alive:
            continue
        if _mark_of(one) == b"%d %b" % (one.session, owner):
            found.add(Leader(one.session, 0))
    return found


def _mark_of(one: Process) -> bytes:
    try:
        if Path(f"/proc/{one.pid}").stat().st_uid != os.geteuid():
            return b""
        variables = Path(f"/proc/{one.pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return b""
    return next((variable.removeprefix(_MARK) for variable in variables if variable.startswith(_MARK)), b"")
