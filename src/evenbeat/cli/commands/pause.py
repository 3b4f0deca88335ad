"""`evenbeat pause` and `evenbeat resume`: pause tasks by hand, regardless of their files, and resume them."""

import argparse

from evenbeat.cli.task_commands import open_client, print_changes, require_selection, required_task_filter


def run_command(args: argparse.Namespace) -> int:
    """Pause or resume; exit 0, or 1 if no task is selected."""
    require_selection(args)
    with open_client(args) as client:
        only = required_task_filter(args, client)
        changed = client.pause(only, paused=args.command == "pause")
    print_changes(args, changed)
    return 0 if changed.changed or changed.unchanged else 1
