"""`evenbeat comment`: write something to the open problem of a task, or to any problem by its id."""

import argparse

from evenbeat.cli.commands.ack import check_ids, print_problems_changed, refused
from evenbeat.cli.task_selection import require_task
from evenbeat.cli.which_database import open_client
from evenbeat.model import Invalid
from evenbeat.name_patterns import is_pattern
from evenbeat.store.contract import ALL_TASKS, Conflict, Filter


def run_command(args: argparse.Namespace) -> int:
    """Add the comment; exit 0, or 1 if there is no open problem."""
    check_ids(args)
    if (args.name is None) is not bool(args.ids):
        raise Invalid("which problem? Give either NAME or --id")
    if not args.text.strip():
        raise Invalid("an empty comment", place="TEXT")
    with open_client(args) as client:
        if args.name is not None and not is_pattern(args.name):
            require_task(client, args.name)
        only = ALL_TASKS if args.name is None else Filter(names=(args.name,))
        try:
            changed = client.comment(only, args.text, args.ids)
        except Conflict as e:
            return refused(args, e)
    print_problems_changed(args, "commented", changed)
    return 0
