"""`evenbeat rm`: delete tasks. A run that is under way finishes; history stays for as long as it is kept."""

import argparse

from evenbeat.cli.tasks import changing, chosen_on_purpose, tell


def answer(args: argparse.Namespace) -> int:
    """Delete them; exit 0, or 1 if there is nothing to delete."""
    only = chosen_on_purpose(args)
    with changing(args) as door:
        changed = door.remove(only)
    tell(args, changed)
    return 0 if changed.removed else 1
