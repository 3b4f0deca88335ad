"""`evenbeat rm`: delete tasks. A run under way still finishes; the history is kept for its usual time."""

import argparse
import sys

from evenbeat.admin.tasks_of_files import owning_files
from evenbeat.cli.task_selection import print_changes, require_selection, required_task_filter, say_if_nothing_matches
from evenbeat.cli.which_database import open_client
from evenbeat.wire.replies import Names


def run_command(args: argparse.Namespace) -> int:
    """Delete tasks; exit 0, or 1 if there is nothing to delete."""
    require_selection(args)
    with open_client(args) as client:
        only = required_task_filter(args, client)
        changed = client.remove(only)
        if not changed.removed:
            say_if_nothing_matches(args, client)
    print_changes(args, changed)
    for file in changed.files if isinstance(changed, Names) else owning_files(changed.removed):
        print(f"evenbeat rm: {file} creates its tasks again the next time it is applied", file=sys.stderr)
    return 0 if changed.removed else 1
