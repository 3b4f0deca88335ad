"""`evenbeat rm`: delete tasks. A run that is under way finishes; history stays for as long as it is kept."""

import argparse
import sys

from evenbeat.admin.file_owner import owning_files
from evenbeat.cli.task_commands import open_client, print_changes, require_selection, required_task_filter
from evenbeat.wire.replies import Names


def run_command(args: argparse.Namespace) -> int:
    """Delete them; exit 0, or 1 if there is nothing to delete."""
    require_selection(args)
    with open_client(args) as client:
        only = required_task_filter(args, client)
        changed = client.remove(only)
    print_changes(args, changed)
    for file in changed.files if isinstance(changed, Names) else owning_files(changed.removed):
        print(f"evenbeat rm: {file} creates its tasks again when it is next applied", file=sys.stderr)
    return 0 if changed.removed else 1
