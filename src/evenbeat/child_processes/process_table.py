"""Read the processes of this machine from /proc (parents, sessions, start times), and end whole sessions.

Every worker process leads a session, and its runs are in that session unless they have made one of their own. While a
member of a session lives, the kernel gives the number of the session to no other process. This module imports almost
nothing, because workers use it, and needs one descriptor at a time.
"""

import os
import signal
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

_ENDED_STATES: Final = "ZX"
_STAT_READ_SIZE: Final = 4_096
_POLL_INTERVAL: Final = 0.005


class ProcessInfo(NamedTuple):
    """One process."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int
    """Clock ticks from boot to its start. Together with the process id this identifies a process."""

    @property
    def is_alive(self) -> bool:
        """Is it running? A zombie, which its parent has not reaped yet, is not."""
        return self.state not in _ENDED_STATES


class SessionLeader(NamedTuple):
    """A worker process, which leads a session, as recorded when it was started."""

    pid: int
    started: int


def process_info(pid: int) -> ProcessInfo | None:
    """The process with this id, or None; raise OSError if that cannot be found out."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        data = os.read(file, _STAT_READ_SIZE)
    except ProcessLookupError:
        return None
    finally:
        os.close(file)
    fields = data.rpartition(b")")[2].split()
    return ProcessInfo(pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def all_processes() -> dict[int, ProcessInfo]:
    """All processes by their ids; raise OSError if they cannot be listed."""
    found = (process_info(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - imports little
    return {one.pid: one for one in found if one is not None}


def children_by_parent(table: Iterable[ProcessInfo]) -> dict[int, list[int]]:
    """The ids of the children of each process."""
    children: dict[int, list[int]] = {}
    for one in table:
        children.setdefault(one.parent, []).append(one.pid)
    return children


def descendants(roots: Collection[int], children: dict[int, list[int]]) -> set[int]:
    """These processes and their descendants, as far as no process in between has ended."""
    found, left = set(roots), list(roots)
    while left:
        new = [pid for pid in children.get(left.pop(), ()) if pid not in found]
        found.update(new)
        left += new
    return found


def session_members(leaders: Collection[SessionLeader]) -> set[int]:
    """Living processes in the sessions of these leaders, and their descendants in other sessions."""
    table = all_processes()
    sessions = {leader.pid for leader in leaders if _is_same_process(leader, table)}
    inside = [one.pid for one in table.values() if one.session in sessions]
    found = descendants(inside, children_by_parent(table.values())) - {os.getpid()}
    return {pid for pid in found if table[pid].is_alive}


def _is_same_process(leader: SessionLeader, table: dict[int, ProcessInfo]) -> bool:
    now = table.get(leader.pid)
    return now is None or now.started == leader.started


def kill_permitted(pids: Iterable[int]) -> None:
    """Kill those of them that we are allowed to."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_sessions(leaders: Collection[SessionLeader], *, patience: float) -> tuple[set[int], set[int]]:
    """Kill all members until none is left, for at most `patience` seconds; the ids of all that were there, and of those
    that still are.
    """
    deadline = time.monotonic() + patience
    ended: set[int] = set()
    while leaders and (left := session_members(leaders)):
        kill_permitted(left)
        ended |= left
        if time.monotonic() > deadline:
            return ended, left
        time.sleep(_POLL_INTERVAL)
    return ended, set()
