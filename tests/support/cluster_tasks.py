"""The tasks of the cluster tests: many kinds, all of them short, and every run of them leaves its traces."""

import json
import sys
from pathlib import Path
from typing import Final

from budget import IS_FULL

SLOTS: Final = 8
"""Runs at the same time, in the whole cluster."""
BOUNDARY: Final = 5
"""Seconds: some tasks are due exactly at each multiple."""
LONGEST: Final = "longest"
"""A task that nearly always runs, and whose runs outlast every fault."""
STOPPED: Final = "stopped"
"""A task that a person stops now and then."""
_WITNESS: Final = Path(__file__).parent / "recording_command.py"
_IDLE: Final = "noop"
_PLAIN: Final = 6 if IS_FULL else 2
"""Tasks without anything special, which are most of the load."""
_PUNCTUAL: Final = 4 if IS_FULL else 2
"""Of each kind that is due exactly at a boundary."""


def mixed(folder: Path) -> str:
    """A file of tasks for a cluster that is to be broken."""
    parts = [f"[node]\nmax_concurrent = {SLOTS}\n[limits]\ntwo = 2\n"]

    def add(name: str, when: str, lasts: float, *more: str, status: int | str = 0, section: str = "tasks") -> None:
        watched = ["fork"] if "fork" in more else []
        watched += ["two=2"] if 'limit = "two"' in more else []
        words = [sys.executable, "-I", "-S", str(_WITNESS), str(folder), str(lasts), str(status)]
        command = json.dumps([*words, *watched, f"slot={SLOTS}"])
        keys = [when, 'timebox = "30s"', f"command = {command}", *(word for word in more if "=" in word)]
        parts.append("\n".join([f"[{section}.{name}]", *keys, ""]))

    for i in range(_PLAIN):
        add(f"plain{i}", 'every = "2s"', 0.02)
    add("slow", 'every = "2s"', 1.3)
    add("long", 'every = "6s"', 4.0)
    add(LONGEST, 'every = "18s"', 17.0)
    add("forks", 'every = "4s"', 0.8, "fork")
    add("each", 'every = "2s"', 0.3, 'backlog = "each"')
    add("skips", 'every = "2s"', 0.1, 'missed = "skip"')
    add("all", 'every = "3s"', 0.1, 'missed = "all"')
    add("tries", 'every = "4s"', 0.02, "retries = 1", 'backoff = "500ms"', status="tries")
    add("gives-up", 'every = "4s"', 0.02, "retries = 1", 'backoff = "500ms"', status=1)
    add(STOPPED, 'every = "4s"', 2.5)
    add("follows", 'after = ["tries"]', 0.1)
    add("both", 'after = ["plain0", "tries"]', 0.02)
    add("mourns", 'after_failure = ["gives-up"]', 0.1)
    # More than the limit lets pass, so that there is always somebody who waits for it.
    for i in range(5):
        add(f"limited{i}", 'every = "2s"', 1.1, 'limit = "two"')
    add("fails", 'every = "3s"', 0.02, 'retry = "1s"', status=2, section="checks")
    add("sick", 'every = "4s"', 0.02, 'retry = "1s"', status="sick", section="checks")
    for i in range(_PUNCTUAL):
        add(f"boundary{i}", f'calendar = "*-*-* *:*:0/{BOUNDARY}"', 0.1)
        add(f"minute{i}", 'cron = "* * * * *"\nsecond = 0', 0.1)
    return "\n".join(parts)


def idle(tasks: int) -> str:
    """Many tasks that do nothing, once a second each: whoever claims them is seen at once when it stops."""
    return "\n".join(f'[tasks.idle{i}]\nevery = "1s"\ncommand = ["{_IDLE}"]\n' for i in range(tasks))
