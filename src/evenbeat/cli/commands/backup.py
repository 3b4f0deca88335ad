"""`evenbeat backup`: a consistent copy of the database, while the node keeps running."""

import argparse
from pathlib import Path

from evenbeat.cli.output.common import print_json
from evenbeat.cli.task_selection import show_progress
from evenbeat.cli.which_database import database_option, open_store_read_only
from evenbeat.model import Invalid


def run_command(args: argparse.Namespace) -> int:
    """Copy the database; exit 0."""
    path = Path(args.file)
    if path.exists():
        raise Invalid(f"{path} already exists; a backup never overwrites a file")
    if not path.parent.is_dir():
        raise Invalid(f"there is no directory {path.parent}")
    # Reading needs no cooperation of the node, so the node is not asked and not delayed.
    with show_progress(f"copying {database_option(args)}"), open_store_read_only(args) as store:
        store.backup(path)
    size = path.stat().st_size
    if args.json:
        print_json({"file": str(path), "bytes": size})
    else:
        print(f"{path}: {size:,} bytes")
    return 0
