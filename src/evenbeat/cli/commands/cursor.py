"""`evenbeat cursor`: show where the next run of a task goes on, set it, or reset it."""

import argparse
import json
import math
import sys

from evenbeat.cli.output.common import print_json
from evenbeat.cli.task_selection import require_task
from evenbeat.cli.typed_values import parse_value
from evenbeat.cli.which_database import open_client
from evenbeat.model import ArgumentValue, Task
from evenbeat.store.contract import Conflict


def run_command(args: argparse.Namespace) -> int:
    """Show or change the cursor; exit 0, or 1 if a run of the task is under way."""
    with open_client(args) as client:
        entry = require_task(client, args.name)
        if not args.reset and args.set is None:
            _show(args, entry.task.name, client.cursor(entry))
            return 0
        try:
            changed = client.set_cursor(entry.id, None if args.reset else _typed(entry.task, args.set))
        except Conflict as e:
            print(f"evenbeat cursor: {e}", file=sys.stderr)
            return 1
    if args.json:
        print_json({"task": changed.task, "before": changed.before, "cursor": changed.cursor})
    elif changed.before is None:
        print(_words(changed.task, changed.cursor))
    else:
        print(f"{_words(changed.task, changed.cursor)}; the cursor was {_literal(changed.before)}")
    return 0


def _typed(task: Task, text: str) -> ArgumentValue:
    """A value as a file would type it for a function, as it stands for a command. What is no single value is a text."""
    value = text if task.job.function is None else parse_value(text)
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return text


def _show(args: argparse.Namespace, name: str, cursor: ArgumentValue) -> None:
    if args.json:
        print_json({"task": name, "cursor": cursor})
    else:
        print(_words(name, cursor))


def _words(name: str, cursor: ArgumentValue) -> str:
    if cursor is None:
        return f"{name} has no cursor: its next run begins anew"
    return f"{name} goes on from {_literal(cursor)}"


def _literal(cursor: ArgumentValue) -> str:
    """A text in quotes, on one line: it is another cursor than the number."""
    return json.dumps(cursor, ensure_ascii=False)
