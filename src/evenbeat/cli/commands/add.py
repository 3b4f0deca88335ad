"""`evenbeat add`: add one task, with the same rules and messages as in a file."""

import argparse
from typing import Any

from evenbeat.cli.arguments import KEY_OPTIONS
from evenbeat.cli.output.common import now
from evenbeat.cli.task_selection import key_value_options, print_changes
from evenbeat.cli.typed_values import parse_value
from evenbeat.cli.which_database import open_client, user_name
from evenbeat.load.one_off import resolve_relative_at
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import Invalid

_TEXT_OPTIONS = ("function", "cwd", "user", "limit", "period", "zone", "cron", "calendar", "at", "start_at")
"""Keys whose values are always texts, whatever they look like."""
_PARENT_OPTIONS = ("depends", "depends_any", "after", "after_failure")
"""Keys whose values are names of other tasks."""


def run_command(args: argparse.Namespace) -> int:
    """Add the task; exit 0."""
    task = task_from_table(args.name, resolve_relative_at(_task_table(args), now()), check=args.check)
    with open_client(args, new=True) as client:
        changed = client.add([task], args.owner or user_name())
    print_changes(args, changed)
    return 0


def _task_table(args: argparse.Namespace) -> dict[str, Any]:
    """The table of the task, as a file would have it."""
    if args.work and args.function is not None:
        raise Invalid("a task has a command or a function, found both")
    table: dict[str, Any] = {}
    for key, _, _ in KEY_OPTIONS:
        text = getattr(args, key)
        if text is not None:
            table[key] = text if key in _TEXT_OPTIONS else parse_value(text)
    if args.work:
        table["command"] = " ".join(args.work) if args.shell else args.work
    if args.passive:
        table["passive"] = True
    if args.shell:
        table["shell"] = True
    if args.arg:
        table["args"] = [parse_value(text) for text in args.arg]
    if args.kwarg:
        table["kwargs"] = {key: parse_value(text) for key, text in key_value_options(args.kwarg, "--kwarg").items()}
    if args.env:
        table["env"] = key_value_options(args.env, "--env")
    if args.label:
        table["labels"] = key_value_options(args.label, "--label")
    if args.notify:
        table["notify"] = [parse_value(text) if text.startswith("{") else text for text in args.notify]
    table |= {key: parents for key in _PARENT_OPTIONS if (parents := getattr(args, key))}
    if args.disabled:
        table["enabled"] = False
    return table
