"""Prints what a run writes, part by part, until it has ended."""

import sys
import time
from collections.abc import Callable
from typing import Final

from evenbeat.cli.output.terminal import raw_stream
from evenbeat.client.contract import Client
from evenbeat.core.output_excerpt import left_out_mark
from evenbeat.model import Entry, Instant, Invalid, RunKind
from evenbeat.store.contract import SkipRecord
from evenbeat.wire.live_runs import OutputPart
from evenbeat.wire.requests import MAX_OUTPUT_WAIT

_PAUSE: Final = 0.05
"""Seconds between two questions at least."""
_START_WAIT: Final = 2.0
"""Seconds between two looks whether a run that waits will never begin."""
_SKIPS_LOOKED_AT: Final = 20
_SHORT_WAIT: Final = 0.5
"""Seconds for a run to start before people are told what it waits for."""


class OutputPrinter:
    """Writes parts to the standard output: as they are into a file or pipe, with control characters escaped else."""

    def __init__(self) -> None:
        self._out = sys.stdout if sys.stdout.isatty() else raw_stream(sys.stdout)
        self._is_line_open = False

    def print(self, part: OutputPart) -> None:
        """Write the text of a part, with a mark for what is missing in front of it."""
        text = part.text
        if part.left_out:
            end_of_line = "\n" if self._is_line_open else ""
            text = f"{end_of_line}{left_out_mark(part.left_out)}{text}"
        if text:
            self._out.write(text)
            self._out.flush()
            self._is_line_open = not text.endswith("\n")

    def end_line(self) -> None:
        """Write the newline that the last text is missing, on a terminal."""
        if self._is_line_open and sys.stdout.isatty():
            self._out.write("\n")
            self._out.flush()


def print_output(first: OutputPart, read: Callable[[int, float], OutputPart], *, is_followed: bool) -> OutputPart:
    """Print an output from its first part on: all that there is, or until the run has ended; returns the last part.

    `read` returns the next part, from a position on, and waits so many seconds for it.
    """
    printer, part = OutputPrinter(), first
    while True:
        printer.print(part)
        if part.ended is not None or not (is_followed or part.text):
            printer.end_line()
            return part
        if is_followed and not part.text:
            time.sleep(_PAUSE)
        part = read(part.position, MAX_OUTPUT_WAIT if is_followed else 0.0)


def wait_for_run(
    client: Client, entry: Entry, since: Instant, on_waiting: Callable[[OutputPart], None], *, forced: bool
) -> OutputPart:
    """The first part of the first run, or forced run, from a time on. `on_waiting` is called if there is none yet."""
    part = client.read_output(entry, since=since, forced=forced, wait=_SHORT_WAIT)
    if part.claimed is None:
        on_waiting(part)
    while part.claimed is None:
        if client.find(entry.id) is None:
            raise Invalid("the task was removed before it ran")
        if forced and (why := _why_withdrawn(client, entry, since)):
            raise Invalid(why)
        time.sleep(_PAUSE)
        part = client.read_output(entry, since=since, forced=forced, wait=_START_WAIT)
    return part


def _why_withdrawn(client: Client, entry: Entry, since: Instant) -> str:
    """Why a forced run that was asked for since then will never begin, such as "stopped by ana"; empty if it will."""
    skips = client.records(entry.id, _SKIPS_LOOKED_AT, skips=True)
    refused = (skip for skip in skips if isinstance(skip, SkipRecord) and skip.kind is RunKind.FORCED)
    return next((skip.reason for skip in refused if skip.at >= since), "")
