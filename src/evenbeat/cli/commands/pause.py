"""`evenbeat pause` and `evenbeat resume`: disable tasks by hand, whatever their files say, and enable them again."""

import argparse

from evenbeat.cli.task_commands import changing, chosen_on_purpose, tell


def answer(args: argparse.Namespace) -> int:
    """Do it; exit 0, or 1 if no task is meant."""
    only = chosen_on_purpose(args)
    with changing(args) as door:
        changed = door.pause(only, paused=args.command == "pause")
    tell(args, changed)
    return 0 if changed.changed or changed.unchanged else 1
