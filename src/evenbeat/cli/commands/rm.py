"""`evenbeat rm`: delete tasks. A run that is under way finishes; history stays for as long as it is kept."""

import argparse
import sys

from evenbeat.admin.file_owner import files_of
from evenbeat.cli.task_commands import changing, chosen_on_purpose, tell
from evenbeat.wire.requests import Names


def answer(args: argparse.Namespace) -> int:
    """Delete them; exit 0, or 1 if there is nothing to delete."""
    only = chosen_on_purpose(args)
    with changing(args) as door:
        changed = door.remove(only)
    tell(args, changed)
    for file in changed.files if isinstance(changed, Names) else files_of(changed.removed):
        print(f"evenbeat rm: {file} creates its tasks again when it is next applied", file=sys.stderr)
    return 0 if changed.removed else 1
