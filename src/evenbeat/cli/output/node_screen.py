"""A running node on a terminal: status lines, refreshed once a second, and notable log lines above them."""

import asyncio
import logging
import time
from collections import deque
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Group
from rich.live import Live
from rich.text import Text

from evenbeat.cli.output.common import SafeConsole
from evenbeat.cli.output.status_lines import status_lines
from evenbeat.core.task import Flag
from evenbeat.node.process.log_format import indent_continuation
from evenbeat.node.scheduler import Scheduler
from evenbeat.when.duration import spoken_duration
from evenbeat.when.windows import FOREVER

_RATE_WINDOW: Final = 10
"""Refreshes over which the current rate is averaged: about as many seconds."""
_REFRESH_COST_FACTOR: Final = 50
"""A refresh takes at most one part in this many of the node's time: a million tasks are not counted every second."""
_MAX_NAMES: Final = 5
_log: Final = logging.getLogger("evenbeat.node")


class StatusScreen:
    """The status lines of a node."""

    def __init__(self, node: Scheduler, database: Path | str) -> None:
        self._node = node
        self._database = database
        self._console = SafeConsole()
        self._runs: deque[tuple[float, int]] = deque(maxlen=_RATE_WINDOW)

    def say(self, text: str) -> None:
        """Print above the status lines; the terminal may wrap it, and it can be copied whole."""
        self._console.print(text, markup=False, soft_wrap=True)

    async def show(self) -> None:
        """Refresh until cancelled; the last refresh stays on the screen."""
        logger, handler = logging.getLogger("evenbeat"), _LogAboveScreen(self._console)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        with Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as screen:
            try:
                while True:
                    begun = time.monotonic()
                    screen.update(self._render(), refresh=True)
                    await asyncio.sleep(max(1.0, _REFRESH_COST_FACTOR * (time.monotonic() - begun)))
            finally:
                screen.update(self._render(), refresh=True)

    def _render(self) -> Group:
        status = self._node.status()
        self._runs.append((time.monotonic(), status.runs))
        (begun, before), (now, runs) = self._runs[0], self._runs[-1]
        rate = (runs - before) / (now - begun) if now > begun else 0.0
        lines = [Text.from_markup(line) for line in status_lines(status)]
        if self._node.reason:
            lines.append(Text(_stop_progress(self._node), "yellow"))
        else:
            lines.append(Text(f"now {rate:.2f} runs/s, {_next_due(self._node)}"))
            if self._node.page:
                lines.append(Text(f"page {self._node.page}"))
            lines.append(Text(f"ask: evenbeat status|ls|history|why NAME --db {self._database}; Ctrl-C stops", "dim"))
        return Group(Text(""), *lines)


class _LogAboveScreen(logging.Handler):
    """Prints log records above the status lines."""

    def __init__(self, console: SafeConsole) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        style = "red" if record.levelno >= logging.ERROR else "yellow" if record.levelno >= logging.WARNING else ""
        when = time.strftime("%H:%M:%S", time.localtime(record.created))
        self._console.print(Text.assemble((when, "dim"), "  ", (indent_continuation(record.getMessage()), style)))
        if record.exc_info:
            self._console.print(Text(indent_continuation(logging.Formatter().formatException(record.exc_info))))


async def log_stop_progress(node: Scheduler) -> None:
    """Without a terminal: log what a stop waits for. Runs until cancelled."""
    logged = ""
    while True:
        await asyncio.sleep(1)
        if node.reason and node.turns.pending_runs and logged != (logged := _stop_progress(node)):
            _log.info(logged, extra={"action": "waiting"})


def _stop_progress(node: Scheduler) -> str:
    """What a stop waits for."""
    rows = [run.row for run in node.turns.pending_runs.values()]
    names = ", ".join(node.tasks.names.name(row) for row in rows[:_MAX_NAMES])
    more = f" and {len(rows) - _MAX_NAMES:,} more" if len(rows) > _MAX_NAMES else ""
    return f"stopping: waiting for {names}{more}; Ctrl-C again stops at once" if rows else "stopping"


def _next_due(node: Scheduler) -> str:
    """The task that is due next, in words."""
    c, rows = node.tasks.columns, node.tasks.all_rows()
    rows = rows[(c.flags[rows] & int(Flag.ENABLED) != 0) & (c.flags[rows] & int(Flag.WAITING) == 0)]
    due = np.minimum(c.nominal[rows], c.off_grid_due[rows])
    if not len(rows) or (first := int(due.min())) == FOREVER:
        return "nothing is due; add tasks with `evenbeat add` or `evenbeat apply`"
    name = node.tasks.names.name(int(rows[due.argmin()]))
    return f"next {name} in {spoken_duration(max(first - node.clock.now(), 0))}"
