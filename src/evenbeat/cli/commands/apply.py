"""`evenbeat apply` and `evenbeat reload`: make the tasks of files be what the files say, all of it or nothing."""

import argparse
from pathlib import Path

from evenbeat.cli.task_commands import changing, patience, tell


def answer(args: argparse.Namespace) -> int:
    """Apply them; exit 0. Without files those of the live node are read again."""
    files = [Path(file) for file in args.files]
    with (
        patience(f"applying {', '.join(args.files)}" if files else "reloading"),
        changing(args, new=bool(files)) as door,
    ):
        changed = door.apply(files)
    tell(args, changed)
    return 0
