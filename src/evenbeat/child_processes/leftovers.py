"""What a supervisor that is gone has left behind: workers that hang, and runs whose worker was killed with it.

They end before anything new begins: a run that is taken for lost must not go on beside the one that makes up for it.
Every user of the machine can choose the words and the environment of a process. So a process is ended because of what
the supervisor recorded in a file that only its user can write: number and start time of its workers, whose sessions the
kernel lets nobody join, and a secret that they pass on.
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
"""Seconds for what was killed to end. The kernel waits for a disk or a file server that does not answer."""
_MAX_TIMEOUT: Final = 45.0
"""Seconds for all of it: the kernel may also be slow to answer what is asked about a process."""
_POLL_INTERVAL: Final = 0.005
_MAX_NAMED: Final = 10
"""Processes that a message names."""
_MAX_ENVIRONMENT_SIZE: Final = 1 << 20
"""Bytes of an environment that are looked at."""
_log: Final = logging.getLogger("evenbeat.node")
_LOG_FIELDS: Final = {"action": "leftovers"}


def end_leftovers(records: Iterable[Path]) -> None:
    """End what the workers recorded in these files have left, unless their supervisor lives; then forget the files.

    It takes 45 s at most, whatever the processes of this machine do.
    """
    found = {path: read_worker_record(path) for path in records}
    abandoned = {path: record for path, record in found.items() if record is None or not record.is_supervised}
    believed = [record for record in abandoned.values() if record is not None]
    if believed:
        search = threading.Thread(target=_end_abandoned, args=(believed,), name="leftovers", daemon=True)
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
    """Kill them until nothing is left, and say what is going on."""
    ended: set[int] = set()
    begun = time.monotonic()
    said = begun
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
        if now > said + (1 if sys.stderr.isatty() else 10):
            said = now
            message = "waiting for processes that were left behind to end, %d s more at most: %s"
            _log.warning(message, begun + _KILL_TIMEOUT - now, _names(left), extra=_LOG_FIELDS)
        time.sleep(_POLL_INTERVAL)
    if ended:
        _log.warning("%d processes were left behind and are ended", len(ended), extra=_LOG_FIELDS)


def _names(some: Sequence[ProcessInfo]) -> str:
    numbers = ", ".join(str(one.pid) for one in some[:_MAX_NAMED])
    return numbers if len(some) <= _MAX_NAMED else f"{numbers} and {len(some) - _MAX_NAMED} more"


def _leftovers(abandoned: Sequence[WorkerRecord]) -> list[ProcessInfo]:
    """Processes of dead supervisors that live, by all that was recorded, and what these have started."""
    table = all_processes()
    found: set[int] = set()
    for record in abandoned:
        leaders = {worker.pid: worker for worker in record.workers}
        for one in table.values():
            worker, leader = leaders.get(one.session), table.get(one.session)
            if worker is not None and leader is not None:
                # A worker that lives: all in its session was started by it. Or its number is another process's by now.
                if leader.started == worker.started:
                    found.add(one.pid)
            elif worker is not None:
                # The number may have been given to another leader, which is gone too: whose process is it?
                if one.started >= worker.started and (_is_ours(one.pid) or _has_secret(record.secret, one.pid)):
                    found.add(one.pid)
            elif leader is None and one.is_alive and _is_ours(one.pid) and _has_secret(record.secret, one.pid):
                found.add(one.pid)  # of a worker that was not recorded, as the disk was full
    everything = descendants(found, children_by_parent(table.values())) - {os.getpid()}
    return [table[pid] for pid in sorted(everything) if table[pid].is_alive]


def _is_ours(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False


def _has_secret(secret: bytes, pid: int) -> bool:
    """Did it get the secret from a worker?"""
    try:
        with Path(f"/proc/{pid}/environ").open("rb", buffering=0) as file:
            environment = b""
            while len(environment) < _MAX_ENVIRONMENT_SIZE and (part := file.read(_MAX_ENVIRONMENT_SIZE)):
                environment += part
    except OSError:
        return False
    return _WORKER_VARIABLE_PREFIX + secret in environment.split(b"\0")


def _kill_if_same_process(one: ProcessInfo) -> None:
    """This process, and not another that has its number by now."""
    try:
        file = os.pidfd_open(one.pid)
    except OSError:
        return
    with suppress(OSError):
        now = process_info(one.pid)
        if now is not None and now.started == one.started:
            signal.pidfd_send_signal(file, signal.SIGKILL)
    os.close(file)
