"""`evenbeat apply` and `evenbeat reload`: create, change and remove tasks to match files, all or nothing."""

import argparse
from pathlib import Path

from evenbeat.cli.task_selection import print_changes, show_progress
from evenbeat.cli.which_database import open_client


def run_command(args: argparse.Namespace) -> int:
    """Apply the files; exit 0. Without files, the running node applies its own again."""
    files = [Path(file) for file in args.files]
    with (
        show_progress(f"applying {', '.join(args.files)}" if files else "reloading"),
        open_client(args, new=bool(files)) as client,
    ):
        changed = client.apply(files)
    print_changes(args, changed)
    return 0
