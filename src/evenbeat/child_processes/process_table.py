"""The processes of this machine as /proc lists them: parents, sessions, start times; and how a whole session is ended.

Every worker process leads a session, and all that it runs is in there, unless it has made a session of its own. The
kernel gives the number of a session to no other process while one of its members lives. It imports almost nothing, and
needs one descriptor at a time.
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
    """Clock ticks since the machine was booted. Together with its number it names one process and no other."""

    @property
    def is_alive(self) -> bool:
        """Has it not ended? One that its parent has not reaped yet has."""
        return self.state not in _ENDED_STATES


class SessionLeader(NamedTuple):
    """A worker process, which leads a session, as it was recorded when it was started."""

    pid: int
    started: int


def process_info(pid: int) -> ProcessInfo | None:
    """This one, or None if there is none; raise OSError if that cannot be found out."""
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
    """All of them by their numbers; raise OSError if they cannot be listed."""
    found = (process_info(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - imports little
    return {one.pid: one for one in found if one is not None}


def children_by_parent(table: Iterable[ProcessInfo]) -> dict[int, list[int]]:
    """Who has started whom."""
    children: dict[int, list[int]] = {}
    for one in table:
        children.setdefault(one.parent, []).append(one.pid)
    return children


def descendants(roots: Collection[int], children: dict[int, list[int]]) -> set[int]:
    """These processes, and all that they have started, as far as who started it still lives."""
    found, left = set(roots), list(roots)
    while left:
        new = [pid for pid in children.get(left.pop(), ()) if pid not in found]
        found.update(new)
        left += new
    return found


def session_members(leaders: Collection[SessionLeader]) -> set[int]:
    """Processes that live in the sessions of these leaders, and what they have started in sessions of its own."""
    table = all_processes()
    sessions = {leader.pid for leader in leaders if _is_same_process(leader, table)}
    inside = [one.pid for one in table.values() if one.session in sessions]
    found = descendants(inside, children_by_parent(table.values())) - {os.getpid()}
    return {pid for pid in found if table[pid].is_alive}


def _is_same_process(leader: SessionLeader, table: dict[int, ProcessInfo]) -> bool:
    now = table.get(leader.pid)
    return now is None or now.started == leader.started


def kill_permitted(pids: Iterable[int]) -> None:
    """Those that we may."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_sessions(leaders: Collection[SessionLeader], *, patience: float) -> tuple[set[int], set[int]]:
    """Kill them until nothing is left, at most so many seconds; what was there, and what of it is there still."""
    deadline = time.monotonic() + patience
    ended: set[int] = set()
    while leaders and (left := session_members(leaders)):
        kill_permitted(left)
        ended |= left
        if time.monotonic() > deadline:
            return ended, left
        time.sleep(_POLL_INTERVAL)
    return ended, set()
