"""End what a killed supervisor has left: workers that hang, and runs whose worker was killed with it.

They end before anything new starts: a run that counts as lost must not go on beside the run that repeats it.
Every user of the machine can choose the command line and the environment of a process. So a process is ended only
because of what the supervisor recorded in a file that only its user can write: process id and start time of its
workers, whose sessions no other process can join, and a secret that they pass on.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from evenbeat.child_processes.process_table import (
    ProcessInfo,
    all_processes,
    children_by_parent,
    descendants,
    process_info,
)
from evenbeat.child_processes.worker_records import WORKER_VARIABLE, WorkerRecord, read_worker_record

_WORKER_VARIABLE_PREFIX: Final = WORKER_VARIABLE.encode() + b"="
_KILL_TIMEOUT: Final = 30.0
"""Seconds for killed processes to end. The kernel waits for a disk or a file server that does not answer."""
_MAX_TIMEOUT: Final = 45.0
"""Seconds for everything: the kernel may also be slow to list processes."""
_POLL_INTERVAL: Final = 0.005
_MAX_NAMED: Final = 10
"""Processes that a message names."""
_MAX_ENVIRONMENT_SIZE: Final = 1 << 20
"""Bytes of an environment that are read."""
_log: Final = logging.getLogger("evenbeat.node")
_LOG_FIELDS: Final = {"action": "leftovers"}


def end_leftovers(records: Iterable[Path]) -> None:
    """End what the workers recorded in these files have left, unless their supervisor lives, and delete the files.

    It takes 45 s at most, whatever the other processes of the machine do.
    """
    found = {path: read_worker_record(path) for path in records}
    abandoned = {path: record for path, record in found.items() if record is None or not record.is_supervised}
    trusted = [record for record in abandoned.values() if record is not None]
    if trusted:
        search = threading.Thread(target=_end_abandoned, args=(trusted,), name="leftovers", daemon=True)
        search.start()
        search.join(_MAX_TIMEOUT)
        if search.is_alive():
            message = "looking for processes that were left behind takes longer than %d s: starting without the result"
            _log.error(message, _MAX_TIMEOUT, extra=_LOG_FIELDS)
            return
    for path in abandoned:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _end_abandoned(abandoned: Sequence[WorkerRecord]) -> None:
    try:
        _end_all(abandoned)
    except OSError as e:
        _log.error("cannot look for processes that were left behind: %s", e.strerror, extra=_LOG_FIELDS)


def _end_all(abandoned: Sequence[WorkerRecord]) -> None:
    """Kill them until none is left, and log what is going on."""
    ended: set[int] = set()
    begun = time.monotonic()
    logged_at = begun
    while left := _leftovers(abandoned):
        new = [one for one in left if one.pid not in ended]
        if new:
            message = "ending %d processes that were left behind: %s"
            _log.warning(message, len(new), _names(new), extra=_LOG_FIELDS)
        for one in left:
            _kill_if_same_process(one)
        ended.update(one.pid for one in new)
        now = time.monotonic()
        if now > begun + _KILL_TIMEOUT:
            _log.error("these processes do not end: %s", _names(left), extra=_LOG_FIELDS)
            return
        if now > logged_at + (1 if sys.stderr.isatty() else 10):
            logged_at = now
            message = "waiting for processes that were left behind to end, %d s more at most: %s"
            _log.warning(message, begun + _KILL_TIMEOUT - now, _names(left), extra=_LOG_FIELDS)
        time.sleep(_POLL_INTERVAL)
    if ended:
        _log.warning("%d processes were left behind and are ended", len(ended), extra=_LOG_FIELDS)


def _names(some: Sequence[ProcessInfo]) -> str:
    numbers = ", ".join(str(one.pid) for one in some[:_MAX_NAMED])
    return numbers if len(some) <= _MAX_NAMED else f"{numbers} and {len(some) - _MAX_NAMED} more"


def _leftovers(abandoned: Sequence[WorkerRecord]) -> list[ProcessInfo]:
    """Living processes that the records attribute to dead supervisors, and what these have started."""
    table = all_processes()
    found: set[int] = set()
    for record in abandoned:
        leaders = {worker.pid: worker for worker in record.workers}
        for one in table.values():
            worker, leader = leaders.get(one.session), table.get(one.session)
            if worker is not None and leader is not None:
                # The worker lives: it started everything in its session. Or another process has its number by now.
                if leader.started == worker.started:
                    found.add(one.pid)
            elif worker is not None:
                # Another leader may have had this number since, and ended too. So check whose process it is.
                if one.started >= worker.started and (_is_ours(one.pid) or _has_secret(record.secret, one.pid)):
                    found.add(one.pid)
            elif leader is None and one.is_alive and _is_ours(one.pid) and _has_secret(record.secret, one.pid):
                found.add(one.pid)  # its worker was not recorded, as the disk was full
    everything = descendants(found, children_by_parent(table.values())) - {os.getpid()}
    return [table[pid] for pid in sorted(everything) if table[pid].is_alive]


def _is_ours(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False


def _has_secret(secret: bytes, pid: int) -> bool:
    """Is the secret in its environment? Then a worker of that supervisor has started it."""
    try:
        with Path(f"/proc/{pid}/environ").open("rb", buffering=0) as file:
            environment = b""
            while len(environment) < _MAX_ENVIRONMENT_SIZE and (part := file.read(_MAX_ENVIRONMENT_SIZE)):
                environment += part
    except OSError:
        return False
    return _WORKER_VARIABLE_PREFIX + secret in environment.split(b"\0")


def _kill_if_same_process(one: ProcessInfo) -> None:
    """Kill this process, but no other that has its number by now."""
    try:
        file = os.pidfd_open(one.pid)
    except OSError:
        return
    with suppress(OSError):
        now = process_info(one.pid)
        if now is not None and now.started == one.started:
            signal.pidfd_send_signal(file, signal.SIGKILL)
    os.close(file)
