"""Find and end processes that a run has started outside its process group, for example by `setsid`.

They end with a run that must end. A worker is the subreaper of its runs, so it also finds those whose parent has ended.
A daemon that is left by a run which ends by itself stays.
"""

import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

from evenbeat.child_processes.process_table import (
    ProcessInfo,
    all_processes,
    children_by_parent,
    descendants,
    kill_permitted,
    process_info,
)

_SET_CHILD_SUBREAPER: Final = 36
"""Of prctl(2), on Linux."""


def adopt_orphans() -> None:
    """From now on, orphaned descendants become our children, not those of the first process of the machine."""
    from ctypes import CDLL, c_ulong  # noqa: PLC0415 - not needed to look for processes

    CDLL(None).prctl(_SET_CHILD_SUBREAPER, c_ulong(1), c_ulong(0), c_ulong(0), c_ulong(0))


class StrayProcesses:
    """Scans the processes of the machine once for all runs that must end at the same time."""

    def __init__(self) -> None:
        self._looked = -1
        self._table: dict[int, ProcessInfo] = {}
        self._children: dict[int, list[int]] = {}
        self._adopted: list[tuple[int, set[bytes]]] = []
        """Process ids and environments of orphans that have become our children."""

    def scan(self, runs: Collection[int], now: int) -> None:
        """Read all processes, unless that was just done. `runs` are the processes that the worker has started."""
        if now == self._looked:
            return
        self._looked, self._table, me = now, {}, os.getpid()
        with suppress(OSError):  # no descriptor is left: the process group ends all the same
            self._table = all_processes()
        self._children = children_by_parent(self._table.values())
        adopted = [pid for pid in self._children.get(me, ()) if pid not in runs]
        self._adopted = [(pid, _environment(pid)) for pid in adopted]

    def strays_of(self, leader: int, marks: Collection[bytes]) -> tuple[ProcessInfo, ...]:
        """The processes that this run has started outside its own group.

        Orphans of this run have its marks in their environment.
        """
        adopted = [pid for pid, environment in self._adopted if environment.issuperset(marks)]
        found = descendants({leader, *adopted}, self._children)
        return tuple(self._table[pid] for pid in found if pid in self._table and self._table[pid].group != leader)


def signal_strays(strays: Iterable[ProcessInfo], number: signal.Signals) -> None:
    """Send it to those that still exist."""
    for one in strays:
        with suppress(OSError):
            if _exists(one):
                os.kill(one.pid, number)


def kill_strays(strays: Iterable[ProcessInfo]) -> None:
    """Kill those that still exist, and what they have started since."""
    with suppress(OSError):
        left = {one.pid for one in strays if _exists(one)}
        if left:
            kill_permitted(descendants(left, children_by_parent(all_processes().values())))


def _exists(one: ProcessInfo) -> bool:
    now = process_info(one.pid)
    return now is not None and now.started == one.started


def _environment(pid: int) -> set[bytes]:
    try:
        file = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return set()
    try:
        return set(_all_of(file).split(b"\0"))
    except OSError:
        return set()
    finally:
        os.close(file)


def _all_of(file: int) -> bytes:
    data = b""
    while part := os.read(file, 1 << 16):
        data += part
    return data
