"""`evenbeat ls`: tasks with their state, next and last run."""

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from shutil import get_terminal_size
from typing import Final

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from evenbeat.cli.output.common import console, now
from evenbeat.cli.output.task_words import condition_words, no_node_notice, relative_time
from evenbeat.cli.output.terminal import raw_stream
from evenbeat.cli.task_selection import nothing_matches, task_filter
from evenbeat.cli.which_database import open_client
from evenbeat.load.safe_text import escaped_line, safe_json
from evenbeat.model import Instant
from evenbeat.report.chains import waiting_words
from evenbeat.report.documents import task_document
from evenbeat.report.words import condition_summary, short_schedule
from evenbeat.store.contract import Condition

_HEADINGS: Final = ("name", "state", "next", "expected by", "last", "schedule", "output")
_GAP: Final = 3
_WITHOUT_NODE: Final = {"next": "would run"}
_LEAST_OUTPUT: Final = 20
"""Columns that an output has at least on a narrow terminal."""
_ROWS_PER_BLOCK: Final = 1_000
"""Rows aligned with each other. A longer list is printed in such blocks, so that output begins at once."""


def run_command(args: argparse.Namespace) -> int:
    """List tasks; exit 0, or 1 if no task matches a given name."""
    with open_client(args) as client:
        live = client.has_node()
        conditions = client.conditions(task_filter(args))
        count = _print_json(conditions, live=live) if args.json else _show(conditions, now(), live=live)
        if args.names and not count:
            print(f"evenbeat ls: {nothing_matches(client, args.names)}", file=sys.stderr)
    if note := no_node_notice(live=live):
        print(note, file=sys.stderr)
    return 1 if args.names and not count else 0


def _print_json(conditions: Iterator[Condition], *, live: bool) -> int:
    """Print one JSON document as it is read from the store: there may be a million tasks."""
    count, out = 0, raw_stream(sys.stdout)
    out.write('{"tasks": [')
    for condition in conditions:
        document = msgspec.json.encode(task_document(condition, secrets=True)).decode()
        out.write((", " if count else "") + safe_json(document))
        count += 1
    out.write(f'], "live": {"true" if live else "false"}}}\n')
    return count


def _show(conditions: Iterator[Condition], at: Instant, *, live: bool) -> int:
    out, count = console(), 0
    headings = _HEADINGS if live else [_WITHOUT_NODE.get(heading, heading) for heading in _HEADINGS]
    while block := list(islice(conditions, _ROWS_PER_BLOCK)):
        rows = [_row(condition, at) for condition in block]
        rows[:0] = [] if count else [tuple((heading, "dim") for heading in headings)]
        widths = [max(cell_len(row[i][0]) for row in rows) for i in range(len(_HEADINGS) - 1)]
        room = (
            max(get_terminal_size().columns - sum(widths) - _GAP * len(widths), _LEAST_OUTPUT)
            if out.is_terminal
            else None
        )
        lines = (cell for row in rows for cell in _line(row, widths, room))
        out.print(Text.assemble(*lines), end="")
        count += len(block)
    if not count:
        out.print("no tasks")
    return count


def _row(condition: Condition, at: Instant) -> tuple[tuple[str, str], ...]:
    """The cells of a task: texts and their colours."""
    task = condition.entry.task
    return (
        (escaped_line(task.name), ""),
        condition_words(condition),
        (_next(condition, at), ""),
        (relative_time(condition.expected_by, at), ""),
        (relative_time(condition.last_end, at), ""),
        (short_schedule(task), "dim"),
        (escaped_line(_output(condition)), ""),
    )


def _output(condition: Condition) -> str:
    """What its last run said, on one line; for a check without its performance data."""
    line = condition_summary(condition)
    return line.partition("|")[0].rstrip() if condition.entry.task.check else line


def _next(condition: Condition, at: Instant) -> str:
    due = condition.next_run
    if due is None and condition.waits_for and not condition.entry.task.paused:
        return waiting_words(condition.entry.task, condition.waits_for)
    return f"due {relative_time(due, at)}" if due is not None and due <= at else relative_time(due, at)


def _line(row: tuple[tuple[str, str], ...], widths: list[int], room: int | None) -> Iterator[tuple[str, str]]:
    """The cells of a row, each as wide as its column; the output, the last one, fills the room that is left."""
    output, colour = row[-1]
    is_padded = [True] * (len(widths) - 1) + [bool(output)]
    for (words, its_colour), width, padded in zip(row, widths, is_padded, strict=False):
        yield words + " " * (width - cell_len(words) + _GAP if padded else 0), its_colour
    yield (output if room is None else set_cell_size(output, room).rstrip()) + "\n", colour
