"""`evenbeat set`: change keys of a task, with the same rules and messages as in a file."""

import argparse
import sys
from typing import Any

from evenbeat.admin.tasks_of_files import OVERWRITTEN_NOTICE, file_of_owner
from evenbeat.cli.output.common import now
from evenbeat.cli.task_selection import print_changes, require_task
from evenbeat.cli.typed_values import parse_value
from evenbeat.cli.which_database import open_client
from evenbeat.load.one_off import resolve_relative_at
from evenbeat.load.task_tables import change_table as changed_table
from evenbeat.load.task_tables import task_from_table, task_to_table
from evenbeat.model import Invalid


def run_command(args: argparse.Namespace) -> int:
    """Change the task; exit 0."""
    changes = resolve_relative_at(_changes(args.changes), now())
    with open_client(args) as client:
        entry = require_task(client, args.name)
        before = entry.task
        task = task_from_table(before.name, changed_table(task_to_table(before), changes), check=before.check)
        changed = client.set(entry.id, task, entry.version)
    print_changes(args, changed)
    if (file := file_of_owner(entry.owner)) is not None:
        print(f"evenbeat set: {before.name} comes from {file}: {OVERWRITTEN_NOTICE}", file=sys.stderr)
    return 0


def _changes(texts: list[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Invalid(f"{text!r} is not KEY=VALUE, such as every=10m; KEY= restores the default")
        changes[key] = parse_value(value) if value else None
    return changes
