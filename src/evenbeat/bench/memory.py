"""Memory, measured: what a task costs in the columns, and in everything the core keeps of it.

A process of its own builds a core of many tasks and tells how much it has grown: what is left in this one from other
measures would count otherwise.
"""

import subprocess
import sys
from pathlib import Path
from resource import getpagesize
from typing import Final

import numpy as np

from evenbeat.bench.measure import Observation
from evenbeat.bench.segment import DENSE
from evenbeat.bench.segment_loops import EvenbeatWalker
from evenbeat.core.name_index import NameIndex
from evenbeat.core.task import TaskColumns

_TASKS: Final = 1_000_000
_SEGMENTS: Final = 30
"""Until the timetable has built all it builds."""
_AT_ONCE: Final = 10_000


def bytes_per_task() -> Observation:
    """Of the columns, as declared; of all the core, names of 21 characters included, as measured."""
    command = [sys.executable, "-m", "evenbeat.bench.memory", str(_TASKS)]
    grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - ourselves
    columns, core = TaskColumns().bytes_per_row, int(grown) / _TASKS
    text = f"[bold]Memory per task[/bold], of {_TASKS:,}\n  columns {columns} bytes, all of core {core:.0f} bytes"
    return Observation({"columns": columns, "core": core}, text)


def _memory_growth(tasks: int) -> int:
    """By how many bytes this process grows when it gets a core at work."""
    EvenbeatWalker(10, DENSE.intervals).walk(1)  # what is loaded or built once is not a task's
    before = _resident()
    ours, index = EvenbeatWalker(tasks, DENSE.intervals), NameIndex()
    for start in range(0, tasks, _AT_ONCE):
        rows = np.arange(start, min(start + _AT_ONCE, tasks))
        index.add_many([f"host-{row:08}/check-1" for row in rows.tolist()], rows)
    ours.walk(_SEGMENTS)
    return _resident() - before


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


if __name__ == "__main__":
    print(_memory_growth(int(sys.argv[1])))
