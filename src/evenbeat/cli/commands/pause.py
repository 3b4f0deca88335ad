"""`evenbeat pause` and `evenbeat resume`: pause tasks by hand, regardless of their files, and resume them."""

import argparse

from evenbeat.cli.output.common import end_option
from evenbeat.cli.task_selection import print_changes, require_selection, required_task_filter, say_if_nothing_matches
from evenbeat.cli.which_database import open_client


def run_command(args: argparse.Namespace) -> int:
    """Pause or resume; exit 0, or 1 if no task is selected."""
    require_selection(args)
    is_pause = args.command == "pause"
    until, reason = (end_option(args.for_, args.until), args.reason) if is_pause else (None, "")
    with open_client(args) as client:
        only = required_task_filter(args, client)
        changed = client.pause(only, paused=is_pause, until=until, reason=reason)
        is_any = bool(changed.changed or changed.unchanged)
        if not is_any:
            say_if_nothing_matches(args, client)
    print_changes(args, changed)
    return 0 if is_any else 1
