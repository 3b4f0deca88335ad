"""A live node on a terminal: a few lines, once a second, and above them only what is worth reading."""

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

from evenbeat.cli.commands.status import status_lines
from evenbeat.cli.output.common import SafeConsole
from evenbeat.core.task import Flag
from evenbeat.node.process.log_format import indent_continuation
from evenbeat.node.scheduler import Scheduler
from evenbeat.when.duration import spoken_duration
from evenbeat.when.windows import FOREVER

_RATE_WINDOW: Final = 10
"""Looks over which the present rate is taken: about as many seconds."""
_REFRESH_COST_FACTOR: Final = 50
"""Looking takes at most this part of the node's time: a million tasks are not counted every second."""
_MAX_NAMES: Final = 5
_log: Final = logging.getLogger("evenbeat.node")


class StatusScreen:
    """Shows a node."""

    def __init__(self, node: Scheduler, database: Path | str) -> None:
        self._node = node
        self._database = database
        self._console = SafeConsole()
        self._runs: deque[tuple[float, int]] = deque(maxlen=_RATE_WINDOW)

    def say(self, text: str) -> None:
        """Above what is shown, in lines that a terminal may wrap and people can copy whole."""
        self._console.print(text, markup=False, soft_wrap=True)

    async def show(self) -> None:
        """Until cancelled; the last look stays on the screen."""
        logger, handler = logging.getLogger("evenbeat"), _LogAboveScreen(self._console)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        with Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as screen:
            try:
                while True:
                    begun = time.monotonic()
                    screen.update(self._look(), refresh=True)
                    await asyncio.sleep(max(1.0, _REFRESH_COST_FACTOR * (time.monotonic() - begun)))
            finally:
                screen.update(self._look(), refresh=True)

    def _look(self) -> Group:
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
    """Log records as lines above what is shown."""

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
    """Without a terminal: say what a stop waits for, if it has to wait. Until cancelled."""
    told = ""
    while True:
        await asyncio.sleep(1)
        if node.reason and node.turns.pending_runs and told != (told := _stop_progress(node)):
            _log.info(told, extra={"action": "waiting"})


def _stop_progress(node: Scheduler) -> str:
    """What keeps a stop from being done."""
    rows = [run.row for run in node.turns.pending_runs.values()]
    names = ", ".join(node.tasks.names.name(row) for row in rows[:_MAX_NAMES])
    more = f" and {len(rows) - _MAX_NAMES:,} more" if len(rows) > _MAX_NAMES else ""
    return f"stopping: waiting for {names}{more}; Ctrl-C again stops at once" if rows else "stopping"


def _next_due(node: Scheduler) -> str:
    """Which task is due next."""
    c, rows = node.tasks.columns, node.tasks.all_rows()
    rows = rows[(c.flags[rows] & int(Flag.ENABLED) != 0) & (c.flags[rows] & int(Flag.WAITING) == 0)]
    due = np.minimum(c.nominal[rows], c.off_grid_due[rows])
    if not len(rows) or (first := int(due.min())) == FOREVER:
        return "nothing is due; `evenbeat add` and `evenbeat apply` bring tasks"
    name = node.tasks.names.name(int(rows[due.argmin()]))
    return f"next {name} in {spoken_duration(max(first - node.clock.now(), 0))}"
