"""`evenbeat apply` and `evenbeat reload`: make the tasks of files be what the files say, all of it or nothing."""

import argparse
from pathlib import Path

from evenbeat.cli.task_commands import open_client, print_changes, show_progress


def run_command(args: argparse.Namespace) -> int:
    """Apply them; exit 0. Without files those of the live node are read again."""
    files = [Path(file) for file in args.files]
    with (
        show_progress(f"applying {', '.join(args.files)}" if files else "reloading"),
        open_client(args, new=bool(files)) as client,
    ):
        changed = client.apply(files)
    print_changes(args, changed)
    return 0
